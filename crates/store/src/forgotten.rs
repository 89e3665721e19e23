//! What persons had forgotten of definitions, and when: writers and judges that have not heard of it still hold it.

use mcpmon_model::{DefinitionRecord, PinKey, Timestamp};
use rusqlite::{Connection, params};

use super::definitions::Selection;

/// How long it is remembered that a person had definitions forgotten, nanoseconds: writers that have not heard of it
/// still put what they hold.
pub(super) const REMEMBERED: i64 = 3_600_000_000_000;

/// Notes that a person has what is selected forgotten.
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

/// When a person had definitions of one server and user forgotten, and of which name, `None` for all of them.
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

/// Whether a person had it forgotten after it was listed. Only for a while: a clock may be set back.
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
