//! Recent calls of sessions, for the rules over calls to several servers. A check reads the calls that other processes
//! added since, and adds its own, in one transaction.

use std::time::Duration;

use mcpmon_model::{Recent, SessionId, Timestamp};
use rusqlite::{Connection, params};

use super::{Store, StoreError};

/// The time for which calls are kept. A rate-limit bucket that takes longer to fill counts as full in a process that
/// starts later.
const CALLS_KEPT: Duration = Duration::from_hours(1);
/// The time for which results are kept: the longest window that a configuration can have.
const OUTPUTS_KEPT: Duration = Duration::from_mins(10);
/// Most results and calls that are kept for all sessions of a user, however young they are: unlike events, they have no
/// limit of size.
const MAX_OUTPUTS: u32 = 4096;
const MAX_CALLS: u32 = 1 << 16;
/// The same limits in a store of many users.
const MAX_OUTPUTS_OF_USER: u32 = 1024;
const MAX_CALLS_OF_USER: u32 = 1 << 13;
/// Most results and calls of all users together.
const MAX_OUTPUTS_OF_ALL: u32 = 1 << 11;
const MAX_CALLS_OF_ALL: u32 = 1 << 14;
/// Number of added rows between two checks for too many calls, and for old ones.
const BETWEEN_LOOKS: i64 = 4096;
/// Number of added rows between two checks for too many results, which are long.
const BETWEEN_LOOKS_AT_OUTPUTS: i64 = 256;
/// Most rows that are read at once; a window never contains more.
const MAX_ROWS: u32 = 8192;
/// Most rows that are read at once of all users.
const MAX_ROWS_OF_USERS: u32 = MAX_CALLS_OF_ALL + MAX_OUTPUTS_OF_ALL;

impl Store {
    /// Calls `work` with what was added to a session after the row `after`, and adds what `work` returns; no other
    /// process adds anything in between. Returns the number of the added row.
    ///
    /// # Errors
    /// Returns an error if SQLite fails; nothing is added then, although `work` may have run.
    pub fn among_recent<T>(
        &mut self,
        session: &SessionId,
        after: i64,
        work: impl FnOnce(Vec<(i64, Recent)>) -> (T, Option<Recent>),
    ) -> Result<(T, Option<i64>), StoreError> {
        self.write(|transaction| {
            let (value, added) = work(since(transaction, session, after)?);
            let row = added
                .map(|added| put(transaction, session, None, &added))
                .transpose()?;
            Ok((value, row))
        })
    }
}

/// Adds a call or result, and returns the number of its row. `uid` is the user, in a store of many users.
pub(super) fn put(
    connection: &Connection,
    session: &SessionId,
    uid: Option<u32>,
    recent: &Recent,
) -> rusqlite::Result<i64> {
    let what = serde_json::to_string(recent)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    let is_output = matches!(recent, Recent::Output(_));
    connection
        .prepare_cached(
            "INSERT INTO recent (session_id, uid, at, is_output, what) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            session.key().as_str(),
            uid,
            recent.at().0,
            is_output,
            what
        ])?;
    let row = connection.last_insert_rowid();
    if row % BETWEEN_LOOKS == 0 {
        prune_oldest(connection, recent.at())?;
        prune_excess(connection, uid)?;
    } else if row % BETWEEN_LOOKS_AT_OUTPUTS == 0 {
        prune_outputs(connection, uid)?;
    }
    Ok(row)
}

/// Returns the entries that were added to a session after a row, oldest first. Entries of a later version are left out.
fn since(connection: &Connection, session: &SessionId, after: i64) -> rusqlite::Result<Vec<(i64, Recent)>> {
    let rows: Vec<(i64, String)> = connection
        .prepare_cached(
            "SELECT seq, what FROM recent WHERE session_id = ?1 AND uid IS NULL AND seq > ?2 \
             ORDER BY seq DESC LIMIT ?3",
        )?
        .query_map(params![session.key().as_str(), after, MAX_ROWS], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?
        .collect::<Result<_, _>>()?;
    let mut happened = Vec::with_capacity(rows.len());
    for (row, what) in rows.into_iter().rev() {
        happened.extend(parse(&what).map(|recent| (row, recent)));
    }
    Ok(happened)
}

fn parse(what: &str) -> Option<Recent> {
    serde_json::from_str(what)
        .inspect_err(|error| tracing::warn!(%error, "what happened in a session cannot be read"))
        .ok()
}

/// Returns the newest calls and results of the sessions in a store of many users, oldest first: the user, the session's
/// key, and the call or result.
pub(super) fn of_users(connection: &Connection) -> rusqlite::Result<Vec<(u32, SessionId, Recent)>> {
    let mut statement = connection.prepare(
        "SELECT uid, session_id, what FROM recent WHERE uid IS NOT NULL ORDER BY seq DESC LIMIT ?1",
    )?;
    let rows = statement.query_map([MAX_ROWS_OF_USERS], |row| {
        let what: String = row.get(2)?;
        Ok((row.get(0)?, row.get::<_, String>(1)?, parse(&what)))
    })?;
    let mut happened = Vec::new();
    for row in rows {
        let (uid, session, recent) = row?;
        happened.extend(recent.map(|recent| (uid, SessionId::new(session), recent)));
    }
    happened.reverse();
    Ok(happened)
}

/// Removes entries that are too old for every rule, measured from the earlier of `now` and the latest entry. Reads all
/// rows.
pub(super) fn prune(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let latest: Option<i64> = connection
        .prepare_cached("SELECT max(at) FROM recent")?
        .query_row([], |row| row.get(0))?;
    let now = Timestamp(latest.map_or(now.0, |latest| latest.min(now.0)));
    connection
        .prepare_cached("DELETE FROM recent WHERE at < ?1 OR (is_output AND at < ?2)")?
        .execute([before(now, CALLS_KEPT), before(now, OUTPUTS_KEPT)])?;
    let users: Vec<Option<u32>> = connection
        .prepare_cached("SELECT DISTINCT uid FROM recent")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    users
        .into_iter()
        .try_for_each(|uid| prune_excess(connection, uid))
}

/// Removes old entries that were added before any younger one, which nearly all are. Reads rows only up to the first
/// that is kept, and counts by index, because a caller waits for this.
fn prune_oldest(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "DELETE FROM recent WHERE NOT is_output AND seq < \
                 (SELECT seq FROM recent WHERE NOT is_output AND at >= ?1 ORDER BY seq LIMIT 1)",
        )?
        .execute([before(now, CALLS_KEPT)])?;
    connection
        .prepare_cached(
            "DELETE FROM recent WHERE is_output AND seq < \
                 (SELECT seq FROM recent WHERE is_output AND at >= ?1 ORDER BY seq LIMIT 1)",
        )?
        .execute([before(now, OUTPUTS_KEPT)])?;
    Ok(())
}

fn before(now: Timestamp, kept: Duration) -> i64 {
    now.0
        .saturating_sub(i64::try_from(kept.as_nanos()).unwrap_or(i64::MAX))
}

/// Removes the oldest calls and results of a user beyond the limits.
fn prune_excess(connection: &Connection, uid: Option<u32>) -> rusqlite::Result<()> {
    let calls = uid.map_or(MAX_CALLS, |_| MAX_CALLS_OF_USER);
    prune_beyond(connection, uid, false, calls)?;
    if uid.is_some() {
        prune_beyond_of_all(connection, false, MAX_CALLS_OF_ALL)?;
    }
    prune_outputs(connection, uid)
}

/// Removes the oldest results of a user beyond the limit.
fn prune_outputs(connection: &Connection, uid: Option<u32>) -> rusqlite::Result<()> {
    let outputs = uid.map_or(MAX_OUTPUTS, |_| MAX_OUTPUTS_OF_USER);
    prune_beyond(connection, uid, true, outputs)?;
    match uid {
        Some(_) => prune_beyond_of_all(connection, true, MAX_OUTPUTS_OF_ALL),
        None => Ok(()),
    }
}

/// Removes the oldest entries of one kind beyond `most`, of all users together.
fn prune_beyond_of_all(connection: &Connection, is_output: bool, most: u32) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "DELETE FROM recent WHERE uid IS NOT NULL AND is_output = ?1 AND seq <= \
                 (SELECT seq FROM recent WHERE uid IS NOT NULL AND is_output = ?1 \
                  ORDER BY seq DESC LIMIT 1 OFFSET ?2)",
        )?
        .execute(params![is_output, most])?;
    Ok(())
}

/// Removes the oldest entries of one kind and user beyond `most`. They are found by an index, which is much smaller than
/// the table.
fn prune_beyond(
    connection: &Connection,
    uid: Option<u32>,
    is_output: bool,
    most: u32,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "DELETE FROM recent WHERE uid IS ?1 AND is_output = ?2 AND seq <= \
                 (SELECT seq FROM recent WHERE uid IS ?1 AND is_output = ?2 ORDER BY seq DESC LIMIT 1 OFFSET ?3)",
        )?
        .execute(params![uid, is_output, most])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{Action, Fingerprint, RecentCall, RecentOutput, ServerId, ToolCategory};

    use super::*;
    use crate::{StoreReader, sample};

    fn call(at: i64) -> Recent {
        Recent::Call(RecentCall {
            origin: None,
            at: Timestamp(at),
            server: ServerId::new("fs").unwrap(),
            tool: "read".to_owned(),
            category: ToolCategory::Read,
            request: None,
            turn: None,
            action: Action::Allow,
            labels: Vec::new(),
            left: Some(7),
        })
    }

    fn output(at: i64) -> Recent {
        Recent::Output(RecentOutput {
            at: Timestamp(at),
            server: ServerId::new("fs").unwrap(),
            tool: "read".to_owned(),
            labels: Vec::new(),
            print: Fingerprint::new(vec![1, 2, 3]),
        })
    }

    fn seen(store: &mut Store, session: &str, after: i64) -> Vec<Recent> {
        let look = |rows: Vec<(i64, Recent)>| (rows.into_iter().map(|(_, recent)| recent).collect(), None);
        store
            .among_recent(&SessionId::new(session), after, look)
            .unwrap()
            .0
    }

    #[test]
    fn what_others_added_is_seen_once_and_only_in_its_session() {
        let (_directory, mut store) = sample::store();
        let session = SessionId::new("s1");
        let (seen_first, first) = store
            .among_recent(&session, 0, |rows| (rows.len(), Some(call(1))))
            .unwrap();
        assert_eq!(seen_first, 0);
        let first = first.expect("it was added");
        store
            .write(|transaction| put(transaction, &session, None, &output(2)))
            .unwrap();
        assert_eq!(seen(&mut store, "s1", 0), [call(1), output(2)]);
        assert_eq!(seen(&mut store, "s1", first), [output(2)]);
        assert_eq!(seen(&mut store, "s2", 0), []);
    }

    #[test]
    fn what_is_too_old_is_removed() {
        let (_directory, mut store) = sample::store();
        let session = SessionId::new("s1");
        let minute = 60 * sample::SECOND;
        store
            .write(|transaction| {
                for recent in [call(0), output(0), call(60 * minute), output(60 * minute)] {
                    put(transaction, &session, None, &recent)?;
                }
                put(transaction, &session, None, &call(61 * minute))?;
                prune(transaction, Timestamp(i64::MAX))
            })
            .unwrap();
        let rest = [call(60 * minute), output(60 * minute), call(61 * minute)];
        assert_eq!(seen(&mut store, "s1", 0), rest);
        store
            .write(|transaction| {
                put(transaction, &session, None, &call(75 * minute))?;
                prune(transaction, Timestamp(75 * minute))
            })
            .unwrap();
        let rest = [call(60 * minute), call(61 * minute), call(75 * minute)];
        assert_eq!(seen(&mut store, "s1", 0), rest);
    }

    #[test]
    fn what_is_too_old_is_removed_while_more_is_added() {
        let (_directory, mut store) = sample::store();
        let session = SessionId::new("s1");
        let minute = 60 * sample::SECOND;
        let left = |store: &mut Store, now: i64| {
            store
                .write(|transaction| prune_oldest(transaction, Timestamp(now * minute)))
                .unwrap();
            seen(store, "s1", 0)
        };
        store
            .write(|transaction| {
                for recent in [call(0), output(0), call(55 * minute), output(55 * minute)] {
                    put(transaction, &session, None, &recent)?;
                }
                put(transaction, &session, None, &call(0)) // call(0) comes late
            })
            .unwrap();
        assert_eq!(left(&mut store, 9).len(), 5, "all of it is young");
        let rest = [call(0), call(55 * minute), output(55 * minute), call(0)];
        assert_eq!(left(&mut store, 60), rest);
        assert_eq!(
            left(&mut store, 61),
            rest[1..],
            "what is behind a younger one goes with that"
        );
        store
            .write(|transaction| prune(transaction, Timestamp(61 * minute)))
            .unwrap();
        assert_eq!(
            seen(&mut store, "s1", 0),
            rest[1..],
            "the latest is not an hour from it"
        );
    }

    #[test]
    fn the_oldest_of_too_many_calls_go() {
        let (_directory, mut store) = sample::store();
        let session = SessionId::new("s1");
        store
            .write(|transaction| {
                for at in 0..10 {
                    put(transaction, &session, None, &call(at))?;
                    put(transaction, &session, None, &output(at))?;
                }
                prune_beyond(transaction, None, false, 10)?;
                prune_beyond(transaction, None, false, 3)
            })
            .unwrap();
        let calls: Vec<Recent> = seen(&mut store, "s1", 0)
            .into_iter()
            .filter(|recent| matches!(recent, Recent::Call(_)))
            .collect();
        assert_eq!(calls, [call(7), call(8), call(9)]);
        assert_eq!(seen(&mut store, "s1", 0).len(), 13, "results are not counted");
    }

    #[test]
    fn no_more_is_kept_than_its_share_of_the_disk() {
        let (_directory, mut store) = sample::store();
        let session = SessionId::new("s1");
        store
            .write(|transaction| {
                for _ in 0..MAX_OUTPUTS + 1000 {
                    put(transaction, &session, None, &output(7))?;
                }
                Ok(())
            })
            .unwrap();
        let kept = seen(&mut store, "s1", 0).len();
        let most = MAX_OUTPUTS as usize;
        let between = usize::try_from(BETWEEN_LOOKS_AT_OUTPUTS).unwrap();
        assert!(
            (most..most + between).contains(&kept),
            "{kept} with each that is added"
        );
        store
            .write(|transaction| {
                put(transaction, &session, None, &call(7))?;
                prune(transaction, Timestamp(7))
            })
            .unwrap();
        assert_eq!(seen(&mut store, "s1", 0).len(), most + 1);
    }

    #[test]
    fn too_many_entries_are_found_by_their_index() {
        let (_directory, mut store) = sample::store();
        let plan: Vec<String> = store
            .write(|transaction| {
                let mut plan = transaction.prepare(
                    "EXPLAIN QUERY PLAN \
                     SELECT seq FROM recent WHERE uid IS ?1 AND is_output = 1 ORDER BY seq DESC LIMIT 1 OFFSET 4096",
                )?;
                plan.query_map([None::<u32>], |row| row.get("detail"))?.collect()
            })
            .unwrap();
        assert_eq!(plan.len(), 1, "{plan:?}");
        assert!(plan[0].contains("COVERING INDEX recent_by_user"), "{plan:?}");
    }

    #[test]
    fn entries_of_users_are_read_together_and_pruned_apart() {
        let (_directory, mut store) = sample::store();
        let session = SessionId::new("claude-0123456789ab");
        let added = store.write(|transaction| {
            put(transaction, &session, Some(1), &output(1))?;
            for _ in 0..MAX_OUTPUTS_OF_USER + 9 {
                put(transaction, &session, Some(2), &output(2))?;
            }
            put(transaction, &session, None, &call(3))?;
            prune(transaction, Timestamp(4))
        });
        added.unwrap();
        let found = store.read(StoreReader::recent_of_users).unwrap();
        assert_eq!(found.len(), 1 + MAX_OUTPUTS_OF_USER as usize);
        assert_eq!(
            found[0],
            (1, session.key(), output(1)),
            "another user's flood removed nothing"
        );
        assert_eq!(seen(&mut store, session.as_str(), 0), [call(3)]);
    }
}
