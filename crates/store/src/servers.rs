//! Summaries of servers, kept up to date as their events are written.

use std::collections::BTreeMap;

use mcpmon_model::{Digest, EventKind, EventType, Layer, PinState, ServerId, ServerType, Timestamp};
use rusqlite::{Connection, Row, named_params, params};
use serde_json::Value;

use super::{StoredEvent, names, row};

/// A server as listings show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSummary {
    /// Its id.
    pub server_id: String,
    /// The package of its latest start, if known.
    pub package: Option<String>,
    /// The way it is reached, if known.
    pub server_type: Option<ServerType>,
    /// The state of the server, according to the events.
    pub status: ServerStatus,
    /// The relation of its latest start to its pins.
    pub pin: Option<PinState>,
    /// Digest of the executable of its latest start.
    pub exe_sha256: Option<Digest>,
    /// Digest of the package of its latest start.
    pub package_sha256: Option<Digest>,
    /// Number of starts.
    pub launches: u32,
    /// The process of its latest start.
    pub last_pid: Option<u32>,
    /// Time of its first event.
    pub first_seen: Option<Timestamp>,
    /// Time of its latest event.
    pub last_seen: Option<Timestamp>,
    /// The command line of its latest start, or the declared one.
    pub command: Option<String>,
}

/// The state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerStatus {
    /// This many of its processes run.
    Running(u32),
    /// The server was started before, and no process of it runs.
    Stopped,
    /// The server was refused at its latest start.
    Denied,
    /// The server was never started here, but there were connections to it.
    Seen,
    /// The server is configured, and was never seen.
    Declared,
}

/// A server that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredServer {
    /// Its id.
    pub server_id: ServerId,
    /// The way it is reached.
    pub server_type: ServerType,
    /// Command line or URL.
    pub command: String,
}

/// Returns a command and its arguments in one line; words with white space are quoted.
pub fn command_line(command: &str, arguments: &[String]) -> String {
    std::iter::once(command)
        .chain(arguments.iter().map(String::as_str))
        .map(
            |word| match word.is_empty() || word.contains(char::is_whitespace) {
                true => format!("'{word}'"),
                false => word.to_owned(),
            },
        )
        .collect::<Vec<_>>()
        .join(" ")
}

/// Servers with connections in one batch: each is written once, however many connections there were.
#[derive(Debug, Default)]
pub(super) struct TouchedServers(BTreeMap<String, (Timestamp, Option<String>)>);

impl TouchedServers {
    fn note(&mut self, server: &str, event: &StoredEvent, server_type: Option<&str>) {
        self.0
            .entry(server.to_owned())
            .and_modify(|(seen, known)| {
                *seen = (*seen).max(event.timestamp);
                if known.is_none() {
                    *known = server_type.map(str::to_owned);
                }
            })
            .or_insert_with(|| (event.timestamp, server_type.map(str::to_owned)));
    }

    /// Writes the collected servers.
    pub(super) fn write(self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(
            "INSERT INTO servers (server_id, server_type, first_seen, last_seen) VALUES (?1, ?2, ?3, ?3)
             ON CONFLICT (server_id) DO UPDATE SET
                 server_type = iif(excluded.server_type = 'sse' AND server_type = 'http', 'sse',
                     coalesce(server_type, excluded.server_type)),
                 first_seen = coalesce(first_seen, excluded.first_seen),
                 last_seen = max(coalesce(last_seen, excluded.last_seen), excluded.last_seen)",
        )?;
        for (server, (seen, server_type)) in self.0 {
            statement.execute(params![server, server_type, seen.0])?;
        }
        Ok(())
    }
}

/// The type of a server with the transport of 2024-11-05: its events have it, its start does not.
const SSE: &str = "sse";

/// The types of events from which a server's summary is made; parsing the others would cost more than writing them.
const ABOUT_SERVERS: [EventType; 4] = [
    EventType::ServerStarted,
    EventType::ServerExited,
    EventType::BinaryMismatch,
    EventType::ServerDenied,
];

/// Updates the summary of the event's server.
pub(super) fn apply(
    connection: &Connection,
    event: &StoredEvent,
    seq: i64,
    touched: &mut TouchedServers,
) -> rusqlite::Result<()> {
    let Some(server) = &event.server_id else {
        return Ok(());
    };
    // A remote server has no process here; messages to it show that it is used.
    if event.layer == Layer::McpHttp {
        let server_type = event.data.get("server_type").and_then(Value::as_str);
        touched.note(
            server,
            event,
            server_type.filter(|server_type| *server_type == SSE),
        );
    }
    let is_of = |kind: &EventType| event.kind == kind.as_str();
    // This type is frequent, and two of its fields are enough.
    if is_of(&EventType::NetworkConnection) {
        touch(server, event, touched);
    }
    if !ABOUT_SERVERS.iter().any(is_of) {
        return Ok(());
    }
    match event.parse_kind() {
        Some(kind) => take_in(connection, server, event, kind, seq),
        None => Ok(()),
    }
}

/// Updates the summary of a server with an event.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "called for the types in ABOUT_SERVERS alone"
)]
fn take_in(
    connection: &Connection,
    server: &str,
    event: &StoredEvent,
    kind: EventKind,
    seq: i64,
) -> rusqlite::Result<()> {
    let pid = event.process.as_ref().map(|process| process.pid);
    match kind {
        EventKind::ServerStarted {
            command,
            args,
            exe_sha256,
            package_sha256,
            pin,
            ..
        } => {
            connection
                .prepare_cached(
                    "INSERT INTO servers (server_id, server_type, command, first_seen, last_seen, launches, last_pid, \
                         package, exe_sha256, package_sha256, pin) \
                     VALUES (:server, :type, :command, :seen, :seen, 1, :pid, :name, :exe, :package, :pin)
                     ON CONFLICT (server_id) DO UPDATE SET
                         server_type = iif(excluded.server_type = 'http' AND server_type = 'sse', 'sse', excluded.server_type),
                         command = excluded.command, first_seen = coalesce(first_seen, excluded.first_seen),
                         last_seen = max(coalesce(last_seen, excluded.last_seen), excluded.last_seen),
                         launches = launches + 1, last_pid = excluded.last_pid, exe_sha256 = excluded.exe_sha256,
                         package = coalesce(excluded.package, package), package_sha256 = excluded.package_sha256, pin = excluded.pin, denied = 0",
                )?
                .execute(named_params! {
                    ":server": server,
                    ":type": match event.layer {
                        Layer::McpHttp => "http",
                        Layer::Kernel | Layer::Stdio | Layer::Tap | Layer::Llm | Layer::Hook | Layer::Agent => "stdio",
                    },
                    ":command": command_line(&command, &args),
                    ":seen": event.timestamp.0,
                    ":pid": pid,
                    ":name": event.data.get("package").and_then(Value::as_str),
                    ":exe": exe_sha256.map(|digest| digest.to_string()),
                    ":package": package_sha256.map(|digest| digest.to_string()),
                    ":pin": names::name(&pin),
                })?;
            connection
                .prepare_cached("INSERT OR REPLACE INTO running_servers (server_id, pid, started_seq) VALUES (?1, ?2, ?3)")?
                .execute(params![server, pid.unwrap_or_default(), seq])
                .map(drop)
        }
        EventKind::ServerExited { .. } => {
            connection
                .prepare_cached("DELETE FROM running_servers WHERE server_id = ?1 AND pid = ?2")?
                .execute(params![server, pid])?;
            mark(connection, server, event, ServerMark::Seen)
        }
        EventKind::BinaryMismatch { .. } => mark(connection, server, event, ServerMark::Mismatch),
        EventKind::ServerDenied { .. } => mark(connection, server, event, ServerMark::Denied),
        _ => Ok(()),
    }
}

/// Replaces the servers that the configuration declares.
pub(super) fn declare(connection: &Connection, declared: &[DeclaredServer]) -> rusqlite::Result<()> {
    connection.execute(
        "DELETE FROM servers WHERE declared = 1 AND first_seen IS NULL",
        [],
    )?;
    connection.execute("UPDATE servers SET declared = 0", [])?;
    let mut statement = connection.prepare_cached(
        "INSERT INTO servers (server_id, server_type, command, declared) VALUES (?1, ?2, ?3, 1)
         ON CONFLICT (server_id) DO UPDATE SET declared = 1, server_type = excluded.server_type,
             command = coalesce(command, excluded.command)",
    )?;
    for server in declared {
        statement.execute(params![
            server.server_id.as_str(),
            names::name(&server.server_type),
            server.command
        ])?;
    }
    Ok(())
}

/// Forgets which processes run: the program that watched them was not running when they ended.
pub(super) fn forget_running(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM running_servers", []).map(drop)
}

/// Removes the servers that were not seen for longest, and the processes that have been running for longest, beyond
/// `most`.
pub(super) fn prune(connection: &Connection, most: u32) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "DELETE FROM servers WHERE server_id IN \
                 (SELECT server_id FROM servers WHERE declared = 0 ORDER BY last_seen DESC LIMIT -1 OFFSET ?1)",
        )?
        .execute([most])?;
    connection
        .prepare_cached(
            "DELETE FROM running_servers WHERE started_seq IN \
                 (SELECT started_seq FROM running_servers ORDER BY started_seq DESC LIMIT -1 OFFSET ?1)",
        )?
        .execute([most])
        .map(drop)
}

/// Returns all servers by id.
pub(super) fn load(connection: &Connection) -> rusqlite::Result<Vec<ServerSummary>> {
    connection
        .prepare(
            "SELECT server_id, package, server_type, pin, exe_sha256, package_sha256, launches, last_pid, first_seen, \
                 last_seen, command, denied, \
                 (SELECT count(*) FROM running_servers WHERE running_servers.server_id = servers.server_id)
             FROM servers ORDER BY server_id",
        )?
        .query_map([], read)?
        .collect()
}

fn touch(server: &str, event: &StoredEvent, touched: &mut TouchedServers) {
    let field = |name| event.data.get(name).and_then(Value::as_str);
    if field("direction") != Some("agent_to_server") {
        return;
    }
    touched.note(server, event, field("server_type"));
}

#[derive(Clone, Copy)]
enum ServerMark {
    Seen,
    Mismatch,
    Denied,
}

fn mark(
    connection: &Connection,
    server: &str,
    event: &StoredEvent,
    mark: ServerMark,
) -> rusqlite::Result<()> {
    let (pin, denied) = match mark {
        ServerMark::Seen => (None, None),
        ServerMark::Mismatch => (Some(names::name(&PinState::Mismatch)), None),
        ServerMark::Denied => (None, Some(1)),
    };
    connection
        .prepare_cached(
            "INSERT INTO servers (server_id, first_seen, last_seen, pin, denied)
                 VALUES (:server, :seen, :seen, :pin, coalesce(:denied, 0))
             ON CONFLICT (server_id) DO UPDATE SET first_seen = coalesce(first_seen, excluded.first_seen),
                 last_seen = max(coalesce(last_seen, excluded.last_seen), excluded.last_seen),
                 pin = coalesce(excluded.pin, pin), denied = coalesce(:denied, denied)",
        )?
        .execute(named_params! {
            ":server": server,
            ":seen": event.timestamp.0,
            ":pin": pin,
            ":denied": denied,
        })
        .map(drop)
}

fn read(row: &Row<'_>) -> rusqlite::Result<ServerSummary> {
    let digest = |column| -> rusqlite::Result<Option<Digest>> {
        row.get::<_, Option<String>>(column)?
            .map(|text| text.parse().map_err(row::malformed(column)))
            .transpose()
    };
    let seen = |column| -> rusqlite::Result<Option<Timestamp>> {
        Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp))
    };
    let launches = row.get(6)?;
    let first_seen = seen(8)?;
    let status = match (row.get(12)?, row.get(11)?) {
        (1.., _) => ServerStatus::Running(row.get(12)?),
        (_, true) => ServerStatus::Denied,
        (_, false) if launches > 0 => ServerStatus::Stopped,
        (_, false) if first_seen.is_some() => ServerStatus::Seen,
        (_, false) => ServerStatus::Declared,
    };
    Ok(ServerSummary {
        server_id: row.get(0)?,
        package: row.get(1)?,
        server_type: row::named_or_null(row, 2)?,
        status,
        pin: row::named_or_null(row, 3)?,
        exe_sha256: digest(4)?,
        package_sha256: digest(5)?,
        launches,
        last_pid: row.get(7)?,
        first_seen,
        last_seen: seen(9)?,
        command: row.get(10)?,
    })
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{Direction, Event};

    use super::*;
    use crate::{Filter, StoreReader, sample};

    #[test]
    fn every_kind_that_changes_a_summary_is_parsed() {
        for event in sample::every_kind() {
            let (_directory, store) = sample::store();
            let event_type = event.kind.event_type();
            let stored = StoredEvent::new(uuid::Uuid::nil(), "host", event);
            let kind = stored.parse_kind().unwrap();
            take_in(store.connection(), "a", &stored, kind, 1).unwrap();
            let rows: u32 = store
                .connection()
                .query_row(
                    "SELECT (SELECT count(*) FROM servers) + (SELECT count(*) FROM running_servers)",
                    [],
                    |row| row.get(0),
                )
                .unwrap();
            assert!(rows == 0 || ABOUT_SERVERS.contains(&event_type), "{event_type:?}");
        }
    }

    fn summaries(events: Vec<Event>) -> Vec<ServerSummary> {
        let (_directory, mut store) = sample::store();
        sample::fill(&mut store, events);
        load(store.connection()).unwrap()
    }

    fn only(events: Vec<Event>) -> ServerSummary {
        let [summary] = summaries(events).try_into().unwrap();
        summary
    }

    #[test]
    fn a_server_runs_once_for_each_process() {
        let server = only(vec![
            sample::at(1, sample::started("files", 100)),
            sample::at(2, sample::started("files", 200)),
        ]);
        assert_eq!(server.status, ServerStatus::Running(2));
        assert_eq!((server.launches, server.last_pid), (2, Some(200)));
        assert_eq!(server.server_type, Some(ServerType::Stdio));
        assert_eq!(server.pin, Some(PinState::Match));
        assert_eq!(
            server.command.as_deref(),
            Some("npx -y @modelcontextprotocol/server-filesystem /home/me")
        );
        assert_eq!(server.first_seen, Some(Timestamp(sample::NOON + sample::SECOND)));
        assert_eq!(
            server.last_seen,
            Some(Timestamp(sample::NOON + 2 * sample::SECOND))
        );
    }

    #[test]
    fn an_end_counts_once_and_only_for_a_process_that_ran() {
        let ends = |pids: &[u32]| {
            let mut events = vec![sample::started("files", 100), sample::started("files", 200)];
            events.extend(pids.iter().map(|&pid| sample::exited("files", pid, 0)));
            only(events).status
        };
        assert_eq!(ends(&[100, 100, 300]), ServerStatus::Running(1));
        assert_eq!(ends(&[100, 200]), ServerStatus::Stopped);
    }

    #[test]
    fn a_mismatch_shows_until_a_start_matches_again() {
        let mut events = vec![sample::started("files", 100), sample::mismatch("files", 100)];
        assert_eq!(only(events.clone()).pin, Some(PinState::Mismatch));
        events.push(sample::started("files", 200));
        assert_eq!(only(events).pin, Some(PinState::Match));
    }

    #[test]
    fn a_denial_shows_until_the_server_starts() {
        let mut events = vec![sample::denied("files")];
        assert_eq!(only(events.clone()).status, ServerStatus::Denied);
        events.push(sample::started("files", 100));
        events.push(sample::exited("files", 100, 0));
        assert_eq!(only(events).status, ServerStatus::Stopped);
    }

    #[test]
    fn a_remote_server_is_seen_through_its_connections_and_egress_says_nothing() {
        let servers = summaries(vec![
            sample::at(
                1,
                sample::connection("weather", 7, "192.0.2.1:443", Direction::AgentToServer),
            ),
            sample::at(
                3,
                sample::connection("weather", 7, "192.0.2.1:443", Direction::AgentToServer),
            ),
            sample::at(
                2,
                sample::connection("weather", 7, "192.0.2.1:443", Direction::AgentToServer),
            ),
            sample::connection("unknown", 7, "192.0.2.1:443", Direction::ServerEgress),
        ]);
        let [weather] = servers.try_into().unwrap();
        assert_eq!(weather.status, ServerStatus::Seen);
        assert_eq!(weather.server_type, Some(ServerType::Http));
        assert_eq!(
            weather.last_seen,
            Some(Timestamp(sample::NOON + 3 * sample::SECOND))
        );
    }

    #[test]
    fn declarations_replace_each_other_and_keep_what_was_seen() {
        let (_directory, mut store) = sample::store();
        let declared = |id: &str| DeclaredServer {
            server_id: ServerId::new(id).unwrap(),
            server_type: ServerType::Http,
            command: format!("https://{id}.example/mcp"),
        };
        declare(store.connection(), &[declared("a"), declared("b")]).unwrap();
        sample::fill(
            &mut store,
            [sample::connection(
                "b",
                7,
                "192.0.2.1:443",
                Direction::AgentToServer,
            )],
        );
        declare(store.connection(), &[declared("c")]).unwrap();
        let statuses: Vec<_> = load(store.connection())
            .unwrap()
            .into_iter()
            .map(|server| (server.server_id, server.status))
            .collect();
        assert_eq!(
            statuses,
            [
                ("b".into(), ServerStatus::Seen),
                ("c".into(), ServerStatus::Declared)
            ]
        );
    }

    #[test]
    fn nothing_runs_after_forgetting() {
        let (_directory, mut store) = sample::store();
        sample::fill(&mut store, [sample::started("files", 100)]);
        forget_running(store.connection()).unwrap();
        assert_eq!(load(store.connection()).unwrap()[0].status, ServerStatus::Stopped);
    }

    #[test]
    fn beyond_the_cap_the_longest_unseen_are_forgotten_and_declared_ones_stay() {
        let (_directory, mut store) = sample::store();
        let declared = DeclaredServer {
            server_id: ServerId::new("declared").unwrap(),
            server_type: ServerType::Stdio,
            command: "node server.js".into(),
        };
        declare(store.connection(), &[declared]).unwrap();
        let start = |number: i64| sample::at(number, sample::started(&format!("server-{number}"), 100));
        sample::fill(&mut store, [3, 1, 2].map(start));
        prune(store.connection(), 2).unwrap();
        let left: Vec<_> = load(store.connection()).unwrap();
        let left: Vec<_> = left
            .iter()
            .map(|server| (server.server_id.as_str(), server.status))
            .collect();
        assert_eq!(
            left,
            [
                ("declared", ServerStatus::Declared),
                ("server-2", ServerStatus::Running(1)),
                ("server-3", ServerStatus::Stopped),
            ]
        );
    }

    #[test]
    fn summaries_can_be_rebuilt_from_the_events() {
        let (directory, mut store) = sample::store();
        let mut events = sample::every_kind();
        events.push(sample::started("weather", 300));
        sample::fill(&mut store, events);
        let recorded = StoreReader::open(&directory.path().join("mcpmon.db"))
            .unwrap()
            .events(&Filter::default(), 1000)
            .unwrap();
        let (_other, mut rebuilt) = sample::store();
        rebuilt.append(&recorded).unwrap();
        assert_eq!(
            load(rebuilt.connection()).unwrap(),
            load(store.connection()).unwrap()
        );
    }

    #[test]
    fn arguments_with_white_space_are_quoted() {
        let arguments = ["-c".to_owned(), "npx server".to_owned(), String::new()];
        assert_eq!(command_line("sh", &arguments), "sh -c 'npx server' ''");
    }
}
