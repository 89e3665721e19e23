//! Sessions and their servers in the store.

use mcpmon_model::{PinKey, ProcessId, ServerId, SessionId, Timestamp};
use rusqlite::{Connection, Row, params};

use super::row;

/// Most sessions that are remembered; other programs choose their ids.
const MAX_SESSIONS: u32 = 10_000;

/// One server in a session, for as long as the process that joined it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionMember {
    /// The session.
    pub session: SessionId,
    /// The agent's command name, if known.
    pub agent: Option<String>,
    /// The server.
    pub identity: PinKey,
    /// The process that represents it: the wrapper or proxy.
    pub process: ProcessId,
}

/// A session as listings show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    /// Its id.
    pub id: String,
    /// The agent's command name, if known.
    pub agent: Option<String>,
    /// The time its first server joined.
    pub started: Timestamp,
    /// The time its last server left; `None` while one is a member, or if that was not seen.
    pub ended: Option<Timestamp>,
    /// Ids of its servers, each once.
    pub servers: Vec<String>,
}

/// Most members that are returned for all sessions together: the latest.
const MAX_EVERYBODY: u32 = 4096;

/// Adds a server to its session, and creates the session if needed.
pub(super) fn join(connection: &Connection, now: Timestamp, member: &SessionMember) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO sessions (id, agent, started) VALUES (?1, ?2, ?3) \
             ON CONFLICT (id) DO UPDATE SET agent = coalesce(agent, excluded.agent), ended = NULL",
        )?
        .execute(params![member.session.as_str(), member.agent, now.0])?;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO session_servers (session_id, server_id, name, uid, pid, start, joined_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            member.session.as_str(),
            member.identity.server.as_str(),
            member.identity.name,
            member.identity.uid,
            member.process.pid,
            start(member.process),
            now.0,
        ])
        .map(drop)
}

/// Removes a server from its session; the session ends with its last server.
pub(super) fn leave(connection: &Connection, now: Timestamp, member: &SessionMember) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE session_servers SET left_at = ?5 \
             WHERE session_id = ?1 AND server_id = ?2 AND pid = ?3 AND start = ?4 AND left_at IS NULL",
        )?
        .execute(params![
            member.session.as_str(),
            member.identity.server.as_str(),
            member.process.pid,
            start(member.process),
            now.0,
        ])?;
    connection
        .prepare_cached(
            "UPDATE sessions SET ended = ?2 WHERE id = ?1 AND NOT EXISTS \
                 (SELECT 1 FROM session_servers WHERE session_id = ?1 AND left_at IS NULL)",
        )?
        .execute(params![member.session.as_str(), now.0])
        .map(drop)
}

/// Returns the members of a session, under any of its names, that have not left. A killed process never reports that it
/// leaves: the caller checks which are alive.
pub(super) fn members(connection: &Connection, session: &SessionId) -> rusqlite::Result<Vec<SessionMember>> {
    // The ending that the ids of one session have in common.
    let root = format!("-{}", session.key().as_str());
    connection
        .prepare_cached(
            "SELECT session_id, agent, server_id, name, uid, pid, start \
             FROM session_servers JOIN sessions ON sessions.id = session_id \
             WHERE left_at IS NULL AND (session_id = ?1 OR substr(session_id, -length(?2)) = ?2) \
             ORDER BY joined_at, server_id, pid",
        )?
        .query_map([session.as_str(), &root], member)?
        .filter(|found| {
            found
                .as_ref()
                .map_or(true, |member| member.session.is_of_same_root(session))
        })
        .collect()
}

/// Returns the members of all sessions that have not left, as [`members`] does for one.
pub(super) fn everybody(connection: &Connection) -> rusqlite::Result<Vec<SessionMember>> {
    connection
        .prepare_cached(
            "SELECT session_id, agent, server_id, name, uid, pid, start \
             FROM session_servers JOIN sessions ON sessions.id = session_id \
             WHERE left_at IS NULL ORDER BY joined_at DESC, server_id, pid LIMIT ?1",
        )?
        .query_map([MAX_EVERYBODY], member)?
        .collect()
}

/// Returns whether a session is recorded.
pub(super) fn is_known(connection: &Connection, session: &SessionId) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM sessions WHERE id = ?1")?
        .exists([session.as_str()])
}

/// Returns the id of every session that is remembered, or that an event names, ordered by their latest events.
pub(super) fn ids(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    // Step from each id in the index to the next: there are few sessions with many events each.
    connection
        .prepare_cached(
            "WITH RECURSIVE named (name) AS ( \
                 SELECT min(session_id) FROM events WHERE session_id IS NOT NULL \
                 UNION ALL \
                 SELECT (SELECT min(session_id) FROM events WHERE session_id > named.name) \
                 FROM named WHERE named.name IS NOT NULL), \
             every (name) AS (SELECT name FROM named WHERE name IS NOT NULL UNION SELECT id FROM sessions) \
             SELECT every.name FROM every LEFT JOIN sessions ON sessions.id = every.name \
             ORDER BY coalesce((SELECT max(seq) FROM events WHERE session_id = every.name), 0), \
                 sessions.started, every.name",
        )?
        .query_map([], |row| row.get(0))?
        .collect()
}

/// Returns the newest `limit` sessions, oldest first.
pub(super) fn load(connection: &Connection, limit: u32) -> rusqlite::Result<Vec<SessionSummary>> {
    let mut sessions: Vec<SessionSummary> = connection
        .prepare_cached("SELECT id, agent, started, ended FROM sessions ORDER BY started DESC LIMIT ?1")?
        .query_map([limit], |row| {
            Ok(SessionSummary {
                id: row.get(0)?,
                agent: row.get(1)?,
                started: Timestamp(row.get(2)?),
                ended: row.get::<_, Option<i64>>(3)?.map(Timestamp),
                servers: Vec::new(),
            })
        })?
        .collect::<Result<_, _>>()?;
    sessions.reverse();
    let mut servers = connection.prepare_cached(
        "SELECT DISTINCT server_id FROM session_servers WHERE session_id = ?1 ORDER BY server_id",
    )?;
    for session in &mut sessions {
        session.servers = servers
            .query_map([&session.id], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
    }
    Ok(sessions)
}

/// Removes the oldest sessions beyond the limit.
pub(super) fn prune(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions ORDER BY started DESC LIMIT -1 OFFSET ?1)",
        )?
        .execute([MAX_SESSIONS])?;
    connection
        .prepare_cached(
            "DELETE FROM session_servers WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE id = session_id)",
        )?
        .execute([])
        .map(drop)
}

/// Converts a start time, which fits into 63 bits for 292 years of uptime.
fn start(process: ProcessId) -> i64 {
    i64::try_from(process.start).unwrap_or(i64::MAX)
}

fn member(row: &Row<'_>) -> rusqlite::Result<SessionMember> {
    Ok(SessionMember {
        session: SessionId::new(row.get::<_, String>(0)?),
        agent: row.get(1)?,
        identity: PinKey {
            server: ServerId::new(row.get::<_, String>(2)?).map_err(row::malformed(2))?,
            name: row.get(3)?,
            uid: row.get(4)?,
        },
        process: ProcessId {
            pid: row.get(5)?,
            start: u64::try_from(row.get::<_, i64>(6)?).unwrap_or_default(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn seconds(seconds: i64) -> Timestamp {
        Timestamp(sample::NOON + seconds * sample::SECOND)
    }

    #[test]
    fn a_session_lasts_from_its_first_server_to_its_last() {
        let (_directory, store) = sample::store();
        let connection = store.connection();
        let (files, weather) = (
            sample::member("s1", "files", 10),
            sample::member("s1", "weather", 20),
        );
        join(connection, seconds(0), &files).unwrap();
        join(connection, seconds(1), &weather).unwrap();
        join(connection, seconds(2), &sample::member("s2", "files", 30)).unwrap();
        assert_eq!(
            members(connection, &files.session).unwrap(),
            [files.clone(), weather.clone()]
        );

        leave(connection, seconds(3), &files).unwrap();
        assert_eq!(load(connection, 1).unwrap()[0].id, "s2");
        assert_eq!(load(connection, 9).unwrap()[0].ended, None);
        leave(connection, seconds(4), &weather).unwrap();
        assert_eq!(
            load(connection, 9).unwrap()[0],
            SessionSummary {
                id: "s1".to_owned(),
                agent: Some("claude".to_owned()),
                started: seconds(0),
                ended: Some(seconds(4)),
                servers: vec!["files".to_owned(), "weather".to_owned()],
            }
        );
        assert_eq!(members(connection, &files.session).unwrap(), []);

        join(connection, seconds(5), &files).unwrap();
        assert_eq!(load(connection, 9).unwrap()[0].ended, None, "it goes on");
    }

    #[test]
    fn a_session_is_one_whatever_it_is_called() {
        let (_directory, store) = sample::store();
        let connection = store.connection();
        let sessions = [
            "claude-0123456789ab",
            "other-0123456789ab",
            "claude-ba9876543210",
            "0123456789ab",
        ];
        for (session, pid) in sessions.into_iter().zip(10..) {
            join(connection, seconds(0), &sample::member(session, "files", pid)).unwrap();
        }
        let of = |session: &str| {
            let members = members(connection, &SessionId::new(session)).unwrap();
            let pids = members.iter().map(|member| member.process.pid);
            pids.collect::<Vec<_>>()
        };
        assert_eq!(of(sessions[0]), [10, 11]);
        assert_eq!(of("new-0123456789ab"), [10, 11]);
        assert_eq!((of(sessions[2]), of(sessions[3])), (vec![12], vec![13]));
    }

    #[test]
    fn ids_are_those_of_events_too_the_newest_last() {
        let (_directory, mut store) = sample::store();
        join(store.connection(), seconds(0), &sample::member("s9", "files", 10)).unwrap();
        let event = |session: &str| {
            let mut event = sample::called("read_file", 1);
            event.session_id = Some(SessionId::new(session));
            event
        };
        sample::fill(&mut store, ["b", "a", "c", "a"].map(event));
        sample::fill(&mut store, [sample::started("files", 2)]);
        assert_eq!(ids(store.connection()).unwrap(), ["s9", "b", "c", "a"]);
    }

    #[test]
    fn who_leaves_is_told_by_its_process() {
        let (_directory, store) = sample::store();
        let connection = store.connection();
        let (first, second) = (
            sample::member("s1", "files", 10),
            sample::member("s1", "files", 11),
        );
        for member in [&first, &second] {
            join(connection, seconds(0), member).unwrap();
        }
        let mut reused = first.clone();
        reused.process.start += 1;
        leave(connection, seconds(1), &reused).unwrap();
        assert_eq!(members(connection, &first.session).unwrap().len(), 2);
        assert_eq!(everybody(connection).unwrap().len(), 2);
        leave(connection, seconds(1), &first).unwrap();
        assert_eq!(members(connection, &first.session).unwrap(), [second]);
    }
}
