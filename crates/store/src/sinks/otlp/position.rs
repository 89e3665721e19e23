//! The position in the store up to which everything was exported, and the lock of the exporting process.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use mcpmon_model::Timestamp;
use nix::fcntl::{Flock, FlockArg, OFlag};
use rusqlite::{Connection, OptionalExtension as _, params};

const SINK: &str = "otlp";

/// Takes the lock next to the store at `path`. Returns `None` if another process has it.
pub(super) fn lock(path: &Path) -> io::Result<Option<Flock<File>>> {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".otlp");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(name)?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(errno.into()),
    }
}

/// Returns the position. If there is none yet, events before `since` count as exported.
pub(super) fn read(connection: &Connection, since: Timestamp) -> rusqlite::Result<i64> {
    let known = connection
        .prepare_cached("SELECT seq FROM exports WHERE outlet = ?1")?
        .query_row([SINK], |row| row.get(0))
        .optional()?;
    if let Some(position) = known {
        return Ok(position);
    }
    connection.execute(
        "INSERT INTO exports (outlet, seq) SELECT ?1, coalesce(max(seq), 0) FROM events WHERE timestamp < ?2",
        params![SINK, since.0],
    )?;
    connection.query_row("SELECT seq FROM exports WHERE outlet = ?1", [SINK], |row| {
        row.get(0)
    })
}

/// Advances the position. If it is no longer `from`, the store was replaced, and the position is left unchanged.
pub(super) fn advance(connection: &Connection, from: i64, to: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE exports SET seq = ?3 WHERE outlet = ?1 AND seq = ?2")?
        .execute(params![SINK, from, to])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn what_was_there_before_is_not_exported_and_a_position_is_moved_by_who_knows_it() {
        let (_directory, mut store) = sample::store();
        sample::fill(&mut store, [sample::started("a", 1), sample::started("a", 2)]);
        let before = Timestamp(sample::NOON - 1);
        let connection = store.connection();
        let read_at = |since| read(connection, since).unwrap();
        assert_eq!(read_at(Timestamp(i64::MAX)), 2);
        advance(connection, 2, 7).unwrap();
        assert_eq!(read_at(before), 7, "it is known");
        advance(connection, 2, 3).unwrap();
        assert_eq!(read_at(before), 7);
        connection.execute("DELETE FROM exports", []).unwrap();
        assert_eq!(read_at(before), 0, "all are younger");
    }

    #[test]
    fn one_process_at_a_time_exports_a_store() {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("mcpmon.db");
        let first = lock(&store).unwrap();
        assert!(first.is_some());
        assert!(lock(&store).unwrap().is_none());
        drop(first);
        assert!(lock(&store).unwrap().is_some());
    }
}
