//! Forget orders: which definitions a person reset, and when. Writers and sessions that do not know of an order may
//! still have the definitions.

use mcpmon_model::{DefinitionRecord, PinKey, Timestamp};
use rusqlite::{Connection, params};

use super::definitions::Selection;

/// The time, in nanoseconds, for which a forget order is remembered: until then, writers that do not know of it may
/// store the old definitions.
pub(super) const REMEMBERED: i64 = 3_600_000_000_000;

/// Records a forget order for the selected definitions.
pub(super) fn note(connection: &Connection, now: Timestamp, selection: &Selection) -> rusqlite::Result<()> {
    connection.execute(
        "DELETE FROM forgotten WHERE at <= ?1",
        [now.0.saturating_sub(REMEMBERED)],
    )?;
    connection.execute(
        "INSERT INTO forgotten (server_id, uid, item, at) VALUES (?1, ?2, ?3, ?4)",
        params![selection.server, selection.uid, selection.item, now.0],
    )?;
    Ok(())
}

/// Returns the forget orders for definitions of one server and user: the time and the name, `None` for all names.
pub(super) fn of(
    connection: &Connection,
    identity: &PinKey,
) -> rusqlite::Result<Vec<(Option<String>, Timestamp)>> {
    connection
        .prepare_cached(
            "SELECT item, max(at) FROM forgotten WHERE (server_id IS NULL OR server_id = ?1) \
                 AND (uid IS NULL OR uid = ?2) GROUP BY item",
        )?
        .query_map(params![identity.server.as_str(), identity.uid], |row| {
            Ok((row.get(0)?, Timestamp(row.get(1)?)))
        })?
        .collect()
}

/// Returns whether a person reset the definition after it was listed. Orders are valid for a limited time only, because
/// a clock may be set back.
pub(super) fn is_over(connection: &Connection, record: &DefinitionRecord) -> rusqlite::Result<bool> {
    let seen = record.last_seen.0;
    connection
        .prepare_cached(
            "SELECT 1 FROM forgotten WHERE (server_id IS NULL OR server_id = ?1) AND (uid IS NULL OR uid = ?2) \
                 AND (item IS NULL OR item = ?3) AND at > ?4 AND at < ?5",
        )?
        .exists(params![
            record.key.identity.server.as_str(),
            record.key.identity.uid,
            record.key.name,
            seen,
            seen.saturating_add(REMEMBERED),
        ])
}
