//! Starts of servers, each joined with its end and with its mismatches.

use mcpmon_model::{EventKind, EventType};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    Filter, StoredEvent,
    query::{self, EventRange},
    row, schema,
};

/// Most mismatches that are shown with one start: a server has three parts.
const MISMATCHES: u32 = 8;

const STARTED: &str = EventType::ServerStarted.as_str();
const EXITED: &str = EventType::ServerExited.as_str();
const ORPHANED: &str = EventType::ServerOrphaned.as_str();
const MISMATCH: &str = EventType::BinaryMismatch.as_str();

/// One start of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Its `mcp_server_started`.
    pub started: StoredEvent,
    /// The end of the launch.
    pub ending: LaunchEnding,
    /// The `mcp_server_binary_mismatch` events of its process.
    pub mismatches: Vec<StoredEvent>,
}

/// The end of a launch.
#[derive(Clone, Debug, PartialEq)]
pub enum LaunchEnding {
    /// The server runs.
    Running,
    /// The server ended with this `mcp_server_exited`.
    Exited(Box<StoredEvent>),
    /// The server ended while no daemon watched.
    Unseen,
}

impl LaunchEnding {
    /// Returns the exit status, signal and duration in milliseconds, if the end was seen.
    pub fn seen(&self) -> Option<(Option<i32>, Option<i32>, u64)> {
        let Self::Exited(event) = self else {
            return None;
        };
        if let EventKind::ServerExited {
            exit_status,
            signal,
            duration_ms,
        } = event.parse_kind()?
        {
            Some((exit_status, signal, duration_ms))
        } else {
            None
        }
    }
}

/// Returns the newest matching starts, oldest first.
pub(super) fn load(connection: &Connection, filter: &Filter, limit: u32) -> rusqlite::Result<Vec<Launch>> {
    let filter = Filter {
        types: vec![STARTED.to_owned()],
        ..filter.clone()
    };
    query::events(connection, &filter, EventRange::Newest { limit })?
        .into_iter()
        .map(|started| join(connection, started))
        .collect()
}

/// The start of a running server.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningStart {
    /// Its `mcp_server_started`.
    pub started: StoredEvent,
    /// Its `mcp_server_orphaned`, if it still runs after its client or session has ended.
    pub orphaned: Option<StoredEvent>,
}

/// Returns the starts of running servers, as far as they are stored: the newest `limit`, oldest first.
pub(super) fn running(connection: &Connection, limit: u32) -> rusqlite::Result<Vec<RunningStart>> {
    let mut positions: Vec<i64> = connection
        .prepare_cached("SELECT started_seq FROM running_servers ORDER BY started_seq DESC LIMIT ?1")?
        .query_map([limit], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    positions.reverse();
    let mut running = Vec::with_capacity(positions.len());
    for seq in positions {
        if let Some(started) = query::event_at(connection, seq)? {
            let orphaned = orphaned(connection, &started)?;
            running.push(RunningStart { started, orphaned });
        }
    }
    Ok(running)
}

/// Returns the event that the server of a start was orphaned.
fn orphaned(connection: &Connection, started: &StoredEvent) -> rusqlite::Result<Option<StoredEvent>> {
    let (Some(server), Some(process)) = (&started.server_id, &started.process) else {
        return Ok(None);
    };
    let seq = connection
        .prepare_cached(&of_launches(
            "max(seq)",
            "pid = ?1 AND type = ?2 AND server_id = ?3 AND seq > ?4",
        ))?
        .query_row(params![process.pid, ORPHANED, server, started.seq], |row| {
            row.get::<_, Option<i64>>(0)
        })?;
    seq.map_or(Ok(None), |seq| query::event_at(connection, seq))
}

fn join(connection: &Connection, started: StoredEvent) -> rusqlite::Result<Launch> {
    let (Some(server), Some(process)) = (&started.server_id, &started.process) else {
        return Ok(Launch {
            started,
            ending: LaunchEnding::Unseen,
            mismatches: Vec::new(),
        });
    };
    let pid = process.pid;
    // Process ids are reused: the events of this start are between the neighbouring starts and ends with the same
    // server and id.
    let previous = before(connection, server, pid, started.seq)?.unwrap_or(0);
    let next = after(connection, server, pid, started.seq)?.unwrap_or(i64::MAX);
    let between = |kind, after, limit| between(connection, kind, server, pid, after..next, limit);
    let exited = between(EXITED, started.seq, 1)?.pop();
    let mismatches = between(MISMATCH, previous, MISMATCHES)?;
    let ending = match exited {
        Some(event) => LaunchEnding::Exited(Box::new(event)),
        None if is_running(connection, server, pid, started.seq)? => LaunchEnding::Running,
        None => LaunchEnding::Unseen,
    };
    Ok(Launch {
        started,
        ending,
        mismatches,
    })
}

/// Returns the statement that reads `what` of events in the index of launches.
fn of_launches(what: &str, condition: &str) -> String {
    format!(
        "SELECT {what} FROM events INDEXED BY events_of_launches WHERE {} AND {condition}",
        schema::OF_LAUNCHES
    )
}

/// Returns the position of the latest start or end of that process id before `seq`.
fn before(connection: &Connection, server: &str, pid: u32, seq: i64) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached(&of_launches(
            "max(seq)",
            "server_id = ?1 AND type IN (?2, ?3) AND pid = ?4 AND seq < ?5",
        ))?
        .query_row(params![server, STARTED, EXITED, pid, seq], |row| row.get(0))
}

/// Returns the position of the first start of that process id after `seq`.
fn after(connection: &Connection, server: &str, pid: u32, seq: i64) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached(&of_launches(
            "min(seq)",
            "server_id = ?1 AND type = ?2 AND pid = ?3 AND seq > ?4",
        ))?
        .query_row(params![server, STARTED, pid, seq], |row| row.get(0))
}

fn between(
    connection: &Connection,
    kind: &str,
    server: &str,
    pid: u32,
    range: std::ops::Range<i64>,
    limit: u32,
) -> rusqlite::Result<Vec<StoredEvent>> {
    connection
        .prepare_cached(&of_launches(
            row::COLUMNS,
            "server_id = ?1 AND type = ?2 AND pid = ?3 AND seq > ?4 AND seq < ?5 ORDER BY seq LIMIT ?6",
        ))?
        .query_map(
            params![server, kind, pid, range.start, range.end, limit],
            row::read,
        )?
        .collect()
}

fn is_running(connection: &Connection, server: &str, pid: u32, seq: i64) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM running_servers WHERE server_id = ?1 AND pid = ?2 AND started_seq = ?3",
        )?
        .query_row(params![server, pid, seq], |_| Ok(()))
        .optional()
        .map(|found| found.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{sample, servers};

    fn endings(launches: &[Launch]) -> Vec<String> {
        launches
            .iter()
            .map(|launch| match &launch.ending {
                LaunchEnding::Running => "running".to_owned(),
                LaunchEnding::Exited(_) => format!("{:?}", launch.ending.seen().unwrap().0),
                LaunchEnding::Unseen => "unseen".to_owned(),
            })
            .collect()
    }

    #[test]
    fn a_start_has_its_own_end_when_process_ids_come_again() {
        let (_directory, mut store) = sample::store();
        sample::fill(
            &mut store,
            [
                sample::started("files", 100),
                sample::exited("weather", 100, 7),
                sample::exited("files", 100, 3),
                sample::started("files", 100),
                sample::exited("files", 100, 4),
                sample::started("files", 100),
                sample::started("files", 200),
            ],
        );
        let launches = load(store.connection(), &Filter::default(), 10).unwrap();
        assert_eq!(endings(&launches), ["Some(3)", "Some(4)", "running", "running"]);
        servers::forget_running(store.connection()).unwrap();
        let launches = load(store.connection(), &Filter::default(), 2).unwrap();
        assert_eq!(endings(&launches), ["unseen", "unseen"]);
    }

    #[test]
    fn the_newest_starts_that_run_come_oldest_first() {
        let (_directory, mut store) = sample::store();
        sample::fill(
            &mut store,
            [
                sample::started("files", 100),
                sample::started("files", 200),
                sample::exited("files", 200, 0),
                sample::started("weather", 300),
                sample::started("mail", 400),
            ],
        );
        let pids = |limit| -> Vec<u32> {
            let running = running(store.connection(), limit).unwrap().into_iter();
            let running: Vec<StoredEvent> = running.map(|start| start.started).collect();
            running
                .iter()
                .map(|event| event.process.as_ref().unwrap().pid)
                .collect()
        };
        assert_eq!(pids(10), [100, 300, 400]);
        assert_eq!(pids(2), [300, 400]);
    }

    #[test]
    fn a_start_is_an_orphan_by_an_event_after_it() {
        let (_directory, mut store) = sample::store();
        sample::fill(
            &mut store,
            [
                sample::started("files", 100),
                sample::orphaned("files", 100),
                sample::exited("files", 100, 0),
                sample::started("files", 100),
                sample::started("weather", 200),
                sample::orphaned("other", 200),
                sample::orphaned("weather", 200),
            ],
        );
        let running = running(store.connection(), 10).unwrap();
        let orphans: Vec<_> = running
            .iter()
            .map(|start| start.orphaned.as_ref().map(|event| event.seq))
            .collect();
        assert_eq!(orphans, [None, Some(7)]);
    }

    #[test]
    fn mismatches_belong_to_the_start_of_their_process() {
        let (_directory, mut store) = sample::store();
        sample::fill(
            &mut store,
            [
                sample::mismatch("files", 100),
                sample::started("files", 100),
                sample::mismatch("files", 300),
                sample::started("weather", 100),
                sample::exited("files", 100, 0),
                sample::started("files", 100),
            ],
        );
        let found: Vec<usize> = load(store.connection(), &Filter::default(), 10)
            .unwrap()
            .iter()
            .map(|launch| launch.mismatches.len())
            .collect();
        assert_eq!(found, [1, 0, 0]);
    }
}
