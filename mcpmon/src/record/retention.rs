//! Keeps a store within its age and size by removing the oldest events; pins and servers stay.

use std::time::Duration;

use mcpmon_core::model::Timestamp;
use rusqlite::{Connection, params};

use super::{Store, StoreError, bodies::table as bodies, entry::Progress, recent, servers, sessions};

/// Events removed in one transaction at most, so that nobody waits long for the lock.
const CHUNK: i64 = 1000;

/// Transactions in one run at most, so that the queue is served in between.
const CHUNKS: usize = 8;

/// Servers remembered at most, and processes taken for running: names and process ids are made by others.
const MOST_SERVERS: u32 = 10_000;

/// What a store may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Age at which events are removed.
    pub retention: Duration,
    /// Size in bytes at which the oldest events are removed.
    pub max_size: u64,
}

/// Removes what is older than the limits allow, then the oldest until the size fits, and gives the space back.
pub(super) fn enforce(store: &mut Store, limits: Limits, now: Timestamp) -> Result<Progress, StoreError> {
    let age = i64::try_from(limits.retention.as_nanos()).unwrap_or(i64::MAX);
    let oldest = now.0.saturating_sub(age);
    let mut removed_any = false;
    let mut progress = Progress::More;
    for _ in 0..CHUNKS {
        let removed = store.write(|transaction| {
            let removed = remove_older(transaction, oldest)? + bodies::remove_expired(transaction, now)?;
            if removed == 0 && used_bytes(transaction)? > limits.max_size {
                // What was said is worth less than what happened.
                return match bodies::remove_oldest(transaction)? {
                    0 => remove_oldest(transaction),
                    removed => Ok(removed),
                };
            }
            Ok(removed)
        })?;
        if removed == 0 {
            progress = Progress::Done;
            break;
        }
        removed_any = true;
    }
    store.write(|transaction| {
        servers::prune(transaction, MOST_SERVERS)?;
        recent::prune(transaction, now)?;
        sessions::prune(transaction)
    })?;
    if removed_any {
        store.write_outside(give_back)?;
    }
    Ok(progress)
}

fn remove_older(connection: &Connection, oldest: i64) -> rusqlite::Result<usize> {
    connection
        .prepare_cached(
            "DELETE FROM events WHERE seq IN \
                 (SELECT seq FROM events WHERE timestamp < ?1 ORDER BY timestamp LIMIT ?2)",
        )?
        .execute(params![oldest, CHUNK])
}

/// A tenth of the events, within one chunk.
fn remove_oldest(connection: &Connection) -> rusqlite::Result<usize> {
    connection
        .prepare_cached(
            "DELETE FROM events WHERE seq IN (SELECT seq FROM events ORDER BY seq LIMIT \
                 (SELECT max(1, min(?1, coalesce(max(seq) - min(seq), 0) / 10)) FROM events))",
        )?
        .execute([CHUNK])
}

/// Bytes in use, without pages that are free already.
fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, u32>(0).map(u64::from));
    Ok((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?)
}

/// Shortens the file by its free pages. A reader that is in the way delays it to the next time.
fn give_back(connection: &Connection) -> rusqlite::Result<()> {
    let mut vacuum = connection.prepare("PRAGMA incremental_vacuum")?;
    // Each row is one page moved.
    let mut pages = vacuum.query([])?;
    while pages.next()?.is_some() {}
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use mcpmon_core::model::{Digest, Direction, PinKey, PinPart, ServerId};

    use super::*;
    use crate::record::{BinaryPin, pins, sample};

    const DAY: Duration = Duration::from_hours(24);

    fn run_to_the_end(store: &mut Store, limits: Limits, now: i64) {
        while enforce(store, limits, Timestamp(now)).unwrap() == Progress::More {}
    }

    fn pids(store: &Store) -> Vec<u32> {
        let mut statement = store
            .connection
            .prepare("SELECT pid FROM events ORDER BY seq")
            .unwrap();
        let pids = statement.query_map([], |row| row.get(0)).unwrap();
        pids.map(Result::unwrap).collect()
    }

    fn size(path: &Path) -> u64 {
        fs::metadata(path).unwrap().len()
    }

    #[test]
    fn events_go_with_their_age_whatever_their_order() {
        let (_directory, mut store) = sample::store();
        sample::fill(
            &mut store,
            [
                sample::at(0, sample::started("a", 2)),
                sample::at(-10, sample::started("a", 3)),
                sample::at(-200_000, sample::started("a", 4)),
                sample::at(-86_400, sample::started("a", 5)),
            ],
        );
        let limits = Limits {
            retention: DAY,
            max_size: u64::MAX,
        };
        run_to_the_end(&mut store, limits, sample::NOON);
        assert_eq!(pids(&store), [2, 3, 5]);
        assert_eq!(servers::load(&store.connection).unwrap()[0].launches, 4);
    }

    #[test]
    fn the_file_shrinks_to_its_limit_and_keeps_the_newest_and_the_pins() {
        let (directory, mut store) = sample::store();
        let path = directory.path().join("mcpmon.db");
        let pin = BinaryPin {
            key: PinKey {
                server: ServerId::new("a").unwrap(),
                name: "a".into(),
                uid: 0,
            },
            number: 1,
            part: PinPart::Executable,
            path: "/usr/bin/node".into(),
            hash: Digest::of(b"node"),
            manifest: None,
            pinned_at: Timestamp(0),
            pinned_by: "first_use".into(),
        };
        pins::put(&store.connection, &pin).unwrap();
        let connection = |pid| sample::connection("a", pid, "192.0.2.1:443", Direction::ServerEgress);
        sample::fill(&mut store, (2..4002).map(connection));
        store.write_outside(give_back).unwrap();
        let before = size(&path);
        let limits = Limits {
            retention: DAY,
            max_size: 512 << 10,
        };
        assert!(before > 2 * limits.max_size, "{before}");

        run_to_the_end(&mut store, limits, sample::NOON);

        assert!(size(&path) <= limits.max_size, "{} bytes", size(&path));
        assert_eq!(size(&directory.path().join("mcpmon.db-wal")), 0);
        let left = pids(&store);
        assert_eq!(left.last(), Some(&4001));
        assert!(
            left.windows(2).all(|pair| pair[0] + 1 == pair[1]),
            "the oldest went"
        );
        assert_eq!(pins::load(&store.connection).unwrap(), [pin]);
    }

    #[test]
    fn a_limit_nothing_fits_into_ends_with_no_events() {
        let (_directory, mut store) = sample::store();
        sample::fill(&mut store, (2..50).map(|pid| sample::started("a", pid)));
        let limits = Limits {
            retention: DAY,
            max_size: 0,
        };
        run_to_the_end(&mut store, limits, sample::NOON);
        assert_eq!(pids(&store), [0; 0]);
    }

    #[test]
    fn positions_rise_even_after_everything_was_removed() {
        let (_directory, mut store) = sample::store();
        sample::fill(&mut store, (2..5).map(|pid| sample::started("a", pid)));
        let limits = Limits {
            retention: Duration::ZERO,
            max_size: 0,
        };
        run_to_the_end(&mut store, limits, sample::NOON + 1);
        sample::fill(&mut store, [sample::started("a", 9)]);
        let seq: i64 = store
            .connection
            .query_row("SELECT seq FROM events", [], |row| row.get(0))
            .unwrap();
        assert_eq!(seq, 4);
    }
}
