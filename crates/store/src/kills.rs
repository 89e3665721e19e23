//! The kill switches in the store, so that they survive a restart.

use mcpmon_model::{Kill, Kills, MAX_KILLED_SESSIONS, SessionId, Timestamp};
use rusqlite::{Connection, params};

/// The name that stands for the whole host; no session has it.
const HOST: &str = "";

/// Returns the kill switches in force.
pub(super) fn load(connection: &Connection) -> rusqlite::Result<Kills> {
    let mut kills = Kills::default();
    let mut statement = connection.prepare_cached("SELECT scope, set_by, set_at FROM kills LIMIT ?1")?;
    let rows = statement.query_map([MAX_KILLED_SESSIONS + 1], |row| {
        let kill = Kill {
            by: row.get(1)?,
            at: Timestamp(row.get(2)?),
        };
        Ok((row.get::<_, String>(0)?, kill))
    })?;
    for row in rows {
        match row? {
            (scope, kill) if scope == HOST => kills.host = Some(kill),
            (scope, kill) => drop(kills.sessions.insert(SessionId::new(scope), kill)),
        }
    }
    Ok(kills)
}

/// Stops a session, or the host if `scope` is `None`. Returns `false` if too many sessions are stopped already.
pub(super) fn set(connection: &Connection, scope: Option<&SessionId>, kill: &Kill) -> rusqlite::Result<bool> {
    let stopped: u32 = connection.query_row("SELECT count(*) FROM kills", [], |row| row.get(0))?;
    if scope.is_some() && stopped >= MAX_KILLED_SESSIONS {
        return Ok(false);
    }
    connection
        .prepare_cached("INSERT OR REPLACE INTO kills (scope, set_by, set_at) VALUES (?1, ?2, ?3)")?
        .execute(params![name(scope), kill.by, kill.at.0])?;
    Ok(true)
}

/// Lifts a kill switch. Returns `false` if there was none.
pub(super) fn lift(connection: &Connection, scope: Option<&SessionId>) -> rusqlite::Result<bool> {
    let lifted = connection
        .prepare_cached("DELETE FROM kills WHERE scope = ?1")?
        .execute([name(scope)])?;
    Ok(lifted > 0)
}

fn name(scope: Option<&SessionId>) -> &str {
    scope.map_or(HOST, SessionId::as_str)
}
