//! Events that a webhook did not take before its process ended: they are in the store, and wait for the next process.

use mcpmon_core::model::Timestamp;
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::super::{StoredEvent, row};

/// Events that wait at most; the newest are kept.
const MOST: u32 = 10_000;

/// Keeps that these are to be posted.
pub(in crate::record) fn keep(connection: &Connection, events: &[(Uuid, Timestamp)]) -> rusqlite::Result<()> {
    let mut insert =
        connection.prepare_cached("INSERT OR IGNORE INTO unposted (event_id, timestamp) VALUES (?1, ?2)")?;
    for (id, at) in events {
        insert.execute(params![id.to_string(), at.0])?;
    }
    connection
        .prepare_cached(
            "DELETE FROM unposted WHERE event_id IN \
                 (SELECT event_id FROM unposted ORDER BY timestamp DESC LIMIT -1 OFFSET ?1)",
        )?
        .execute([MOST])
        .map(drop)
}

/// Takes the oldest of them out, at most `most`. One that retention removed is not posted any more.
pub(in crate::record) fn take(connection: &Connection, most: usize) -> rusqlite::Result<Vec<StoredEvent>> {
    let waiting: Vec<(String, i64)> = connection
        .prepare_cached("SELECT event_id, timestamp FROM unposted ORDER BY timestamp, event_id LIMIT ?1")?
        .query_map([i64::try_from(most).unwrap_or(i64::MAX)], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let mut events = Vec::with_capacity(waiting.len());
    for (id, at) in waiting {
        let select = format!(
            "SELECT {} FROM events WHERE timestamp = ?1 AND id = ?2",
            row::COLUMNS
        );
        let mut select = connection.prepare_cached(&select)?;
        events.extend(select.query_map(params![at, id], row::read)?.next().transpose()?);
        connection
            .prepare_cached("DELETE FROM unposted WHERE event_id = ?1")?
            .execute([id])?;
    }
    Ok(events)
}
