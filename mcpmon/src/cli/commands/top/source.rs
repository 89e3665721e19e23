//! Reading of the store, the daemon's state and the servers' processes into snapshots.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use mcpmon_model::{EventType, Timestamp};
use mcpmon_store::{CallPlaces, Filter, Follow, StoreReader, StoredEvent};

use super::snapshot::{Approval, Server, Snapshot};
use crate::{
    app::{
        control::{self, AskError, DaemonAnswer, DaemonRequest},
        resources::Usage,
    },
    cli::{
        CliError, Globals,
        commands::{approve, connections, detections, running::RunningServers},
        daemon::Socket,
        store, time,
    },
};

/// Most entries of each list.
pub(super) const MAX_ENTRIES: u32 = 200;
/// Most events that rates are computed from at the start.
const MAX_EARLIER: u32 = 1_000;
/// Most reads of new events from the store before the rest is left for the next look.
const MAX_LOOKS: usize = 8;
/// Most questions whose definitions are read, newest first.
const MAX_WAITING: usize = 50;
/// The time after which the daemon is asked again.
const STATUS_INTERVAL: Duration = Duration::from_secs(2);

const CALLED: &str = EventType::ToolCalled.as_str();

/// Types of the events in the list of calls: a new one makes the list be read again.
const CALLS: [&str; 3] = [
    EventType::ToolCallIntercepted.as_str(),
    CALLED,
    EventType::ToolReturned.as_str(),
];

/// The open store, and what was read so far.
#[derive(Debug)]
pub(super) struct Source {
    reader: StoreReader,
    follow: Follow,
    socket: Socket,
    snapshot: Snapshot,
    asked: Option<Instant>,
    daemon_note: Option<String>,
    /// Processor time of each server at the last look.
    processor: BTreeMap<String, (Timestamp, Duration)>,
}

impl Source {
    /// Opens the store, and reads everything that is shown.
    pub(super) fn open(globals: &Globals, socket: Socket) -> Result<Self, CliError> {
        let reader = store::open(globals)?;
        let (follow, events) = Follow::start(store::open(globals)?, Filter::default(), MAX_EARLIER)?;
        let mut source = Self {
            snapshot: Snapshot {
                store: reader.path().to_owned(),
                ..Snapshot::default()
            },
            reader,
            follow,
            socket,
            asked: None,
            daemon_note: None,
            processor: BTreeMap::new(),
        };
        source.count(&events);
        source.read_calls()?;
        source.read_connections()?;
        source.read_detections()?;
        source.read_approvals()?;
        Ok(source)
    }

    /// Reads what is new, and returns everything.
    pub(super) fn look(&mut self) -> Result<Snapshot, CliError> {
        self.reader.thaw();
        let mut events = Vec::new();
        let mut looks = 0;
        loop {
            let more = self.follow.next_events()?;
            looks += 1;
            self.count(&more);
            events.extend(more.into_iter().map(|event| event.kind));
            if looks == MAX_LOOKS || events.len() < looks * MAX_EARLIER as usize {
                break;
            }
        }
        let is_new = |types: &[&str]| events.iter().any(|kind| types.contains(&&**kind));
        if is_new(&CALLS) {
            self.read_calls()?;
        }
        if is_new(&connections::TYPES) {
            self.read_connections()?;
        }
        if is_new(&[detections::TYPE]) {
            self.read_detections()?;
        }
        if is_new(&[approve::TYPE]) {
            self.read_approvals()?;
        }
        self.read_hashes()?;
        self.snapshot.at = time::now();
        self.ask_daemon();
        self.snapshot.sessions = self.reader.sessions(MAX_ENTRIES)?;
        self.snapshot.servers = self.servers()?;
        self.snapshot.notes = self.notes();
        Ok(self.snapshot.clone())
    }

    /// Returns the store that is read.
    pub(super) const fn reader(&self) -> &StoreReader {
        &self.reader
    }

    /// Returns what was read last.
    pub(super) const fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    fn count(&mut self, events: &[StoredEvent]) {
        let called = events.iter().filter(|event| event.kind == CALLED);
        for event in called {
            if let Some(server) = &event.server_id {
                self.snapshot.of_servers.count(server, event.timestamp);
            }
            if let Some(session) = &event.session_id {
                self.snapshot.of_sessions.count(session, event.timestamp);
            }
        }
    }

    fn read_calls(&mut self) -> Result<(), CliError> {
        let found: Vec<CallPlaces> = self.reader.calls(&Filter::default(), MAX_ENTRIES)?;
        let calls = found.iter().map(|places| self.reader.call(places));
        self.snapshot.calls = calls.collect::<Result<_, _>>()?;
        Ok(())
    }

    fn read_connections(&mut self) -> Result<(), CliError> {
        self.snapshot.connections = self.events(&connections::TYPES)?;
        Ok(())
    }

    fn read_detections(&mut self) -> Result<(), CliError> {
        self.snapshot.detections = self.events(&[detections::TYPE])?;
        Ok(())
    }

    fn read_approvals(&mut self) -> Result<(), CliError> {
        let approvals = approve::all(&self.reader)?.into_iter();
        self.snapshot.approvals = approvals
            .map(|(state, event)| Approval {
                state,
                event,
                hash: None,
            })
            .collect();
        Ok(())
    }

    /// Reads the hashes of the definitions in question, as they are listed now.
    fn read_hashes(&mut self) -> Result<(), CliError> {
        let waiting = self.snapshot.approvals.iter_mut().rev();
        let waiting = waiting.filter(|approval| approval.is_waiting());
        for approval in waiting.take(MAX_WAITING) {
            approval.hash = approve::listed_hash(&approval.subject(), &self.reader)?;
        }
        Ok(())
    }

    fn events(&self, types: &[&str]) -> Result<Vec<StoredEvent>, CliError> {
        let filter = Filter {
            types: types.iter().map(|name| (*name).to_owned()).collect(),
            ..Filter::default()
        };
        Ok(self.reader.events(&filter, MAX_ENTRIES)?)
    }

    fn ask_daemon(&mut self) {
        if self.asked.is_some_and(|asked| asked.elapsed() < STATUS_INTERVAL) {
            return;
        }
        self.asked = Some(Instant::now());
        (self.snapshot.status, self.daemon_note) =
            match control::request(&self.socket.path, &DaemonRequest::Status) {
                Ok(DaemonAnswer::Status(status)) => (Some(status), None),
                Ok(_) => (
                    None,
                    Some("the daemon is of another version: its state is unknown".to_owned()),
                ),
                Err(error) => (None, Some(note(&error))),
            };
    }

    fn servers(&mut self) -> Result<Vec<Server>, CliError> {
        let running = RunningServers::read(&self.reader)?;
        let now = self.snapshot.at;
        let mut processor = BTreeMap::new();
        let summaries = self.reader.servers()?;
        let servers = summaries.into_iter().map(|summary| {
            let id = &summary.server_id;
            let usage = running.usage(id);
            let load = usage.and_then(|usage| self.load(id, now, usage));
            if let Some(usage) = usage {
                processor.insert(id.clone(), (now, usage.processor));
            }
            Server {
                seen_by: running.seen_by(&summary),
                usage,
                orphaned_since: running.orphaned_since(id),
                sandbox: running.sandbox(id).cloned(),
                load,
                summary,
            }
        });
        let servers = servers.collect();
        self.processor = processor;
        Ok(servers)
    }

    /// Returns the share of one processor since the last look, in tenths of a percent.
    fn load(&self, server: &str, now: Timestamp, usage: Usage) -> Option<u64> {
        let (then, before) = self.processor.get(server)?;
        let passed = now.since(*then).as_nanos().max(1);
        let used = usage.processor.saturating_sub(*before).as_nanos();
        u64::try_from(used.saturating_mul(1000) / passed).ok()
    }

    fn notes(&self) -> Vec<String> {
        self.daemon_note.clone().into_iter().collect()
    }
}

/// Returns a note on what is not seen without the daemon's state, and how to change that, within 80 columns.
fn note(error: &AskError) -> String {
    let note = match error {
        AskError::NotRunning(_) => {
            "no daemon: connections are not seen nor enforced; start: sudo mcpmon daemon"
        }
        AskError::Permission(_) => {
            "the daemon's state and store are for root and the group mcpmon: use sudo, or join"
        }
        AskError::Silent => "the daemon does not answer: its state is unknown; see its log",
        AskError::Refused(_) | AskError::Io(_) | AskError::Answer(_) => {
            "the daemon could not be asked: its state is unknown"
        }
    };
    note.to_owned()
}
