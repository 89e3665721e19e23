//! Snapshots: everything that is shown, as it was read at one moment.

use std::path::PathBuf;

use mcpmon_model::{ApprovalState, Timestamp};
use mcpmon_store::{ServerSummary, SessionSummary, StoredEvent, ToolCall, json};
use serde_json::{Map, Value, json};

use super::{
    pane::{Listed, Pane, PaneEntry, PaneQuestion, PaneSubject, SortKey},
    rates::{Rates, SPARKLINE_SECONDS},
};
use crate::{
    app::{
        resources::Usage,
        status::{SandboxStatus, Status},
    },
    cli::{
        commands::{
            approve, calls, connections, detections,
            running::{SeenBy, bytes, milliseconds},
            servers,
        },
        table::{Column, Row, Table, Tone},
        time,
    },
};

const SESSIONS: Table = Table::new(&[
    Column::cut("SESSION", 22),
    Column::cut("AGENT", 10),
    Column::whole("STATE", 7),
    Column::whole("STARTED (UTC)", 14),
    Column::whole("CALLS/S", 7),
    Column::cut("SERVERS", 12),
]);

const SERVERS: Table = Table::new(&[
    Column::cut("SERVER", 13),
    Column::whole("STATE", 9),
    Column::whole("SEEN BY", 7),
    Column::whole("MEMORY", 6),
    Column::whole("CPU%", 4),
    Column::whole("CPU-TIME", 8),
    Column::whole("CALLS/S", 7),
    Column::cut_start("LAST 15 S", SPARKLINE_SECONDS as u16),
]);

/// Everything that is shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    /// The time at which it was read.
    pub(super) at: Timestamp,
    /// The path of the store.
    pub(super) store: PathBuf,
    /// The daemon's state; `None` if there is no daemon, or this user may not ask it.
    pub(super) status: Option<Box<Status>>,
    /// Notes on what cannot be seen, and how to change that.
    pub(super) notes: Vec<String>,
    pub(super) sessions: Vec<SessionSummary>,
    pub(super) servers: Vec<Server>,
    pub(super) calls: Vec<ToolCall>,
    pub(super) connections: Vec<StoredEvent>,
    pub(super) detections: Vec<StoredEvent>,
    pub(super) approvals: Vec<Approval>,
    /// Rates of calls of servers.
    pub(super) of_servers: Rates,
    /// Rates of calls of sessions.
    pub(super) of_sessions: Rates,
}

/// A question to a person, and its state.
#[derive(Clone, Debug)]
pub(super) struct Approval {
    pub(super) state: ApprovalState,
    pub(super) event: StoredEvent,
    /// The hash of the definition in question, as it is listed.
    pub(super) hash: Option<String>,
}

/// A server, and the resources of its processes.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) summary: ServerSummary,
    pub(super) seen_by: SeenBy,
    pub(super) usage: Option<Usage>,
    pub(super) orphaned_since: Option<Timestamp>,
    pub(super) sandbox: Option<SandboxStatus>,
    /// Share of one processor since the last look, in tenths of a percent; `None` at the first look.
    pub(super) load: Option<u64>,
}

impl Snapshot {
    /// Returns the list of a pane.
    pub(super) fn list(&self, pane: Pane) -> Listed {
        let events = |table: Table, events: &[StoredEvent], row: fn(&StoredEvent) -> Row| Listed {
            table,
            entries: events
                .iter()
                .map(|event| entry(event, row(event), Vec::new()))
                .collect(),
        };
        match pane {
            Pane::Sessions => Listed {
                table: SESSIONS,
                entries: self
                    .sessions
                    .iter()
                    .map(|session| self.session(session))
                    .collect(),
            },
            Pane::Servers => Listed {
                table: SERVERS,
                entries: self.servers.iter().map(|server| self.server(server)).collect(),
            },
            Pane::Calls => Listed {
                table: calls::TABLE,
                entries: self
                    .calls
                    .iter()
                    .filter_map(|call| Some(entry(call.main()?, calls::row(call)?, Vec::new())))
                    .collect(),
            },
            Pane::Connections => events(
                connections::LISTING.table,
                &self.connections,
                connections::LISTING.row,
            ),
            Pane::Detections => events(
                detections::LISTING.table,
                &self.detections,
                detections::LISTING.row,
            ),
            Pane::Approvals => Listed {
                table: approve::TABLE,
                entries: self.approvals.iter().map(Approval::entry).collect(),
            },
        }
    }

    /// Returns the number of questions that wait for a person.
    pub(super) fn waiting(&self) -> usize {
        let approvals = self.approvals.iter();
        approvals.filter(|approval| approval.is_waiting()).count()
    }

    fn session(&self, session: &SessionSummary) -> PaneEntry {
        let calls = self.of_sessions.tenths(&session.id, self.at);
        let state = match session.ended {
            Some(_) => "ended",
            None => "running",
        };
        PaneEntry {
            subject: PaneSubject::Session(session.id.clone()),
            row: Row::new(
                Tone::Ordinary,
                [
                    session.id.clone(),
                    session.agent.clone().unwrap_or_default(),
                    state.to_owned(),
                    time::short(session.started),
                    tenths(calls),
                    session.servers.join(", "),
                ],
            ),
            keys: vec![
                SortKey::time(session.started),
                SortKey::Number(calls),
                SortKey::name(&session.id),
            ],
            question: None,
        }
    }

    fn server(&self, server: &Server) -> PaneEntry {
        let Server {
            summary,
            seen_by,
            usage,
            orphaned_since,
            sandbox: _,
            load,
        } = server;
        let calls = self.of_servers.tenths(&summary.server_id, self.at);
        let used = |value: &dyn Fn(&Usage) -> String| usage.as_ref().map_or_else(String::new, value);
        let memory = usage.map_or(0, |usage| usage.memory);
        PaneEntry {
            subject: PaneSubject::Server(summary.server_id.clone()),
            row: Row::new(
                orphaned_since.map_or_else(|| servers::tone(summary), |_| Tone::Notable),
                [
                    summary.server_id.clone(),
                    orphaned_since.map_or_else(|| servers::state(summary), |_| "orphaned".to_owned()),
                    seen_by.as_str().to_owned(),
                    used(&|usage| bytes(usage.memory)),
                    load.map_or_else(String::new, tenths),
                    used(&|usage| time::span(milliseconds(usage))),
                    tenths(calls),
                    self.of_servers.sparkline(&summary.server_id, self.at),
                ],
            ),
            keys: vec![
                SortKey::Number(
                    u64::from(*seen_by != SeenBy::Nobody) + 2 * u64::from(orphaned_since.is_some()),
                ),
                SortKey::name(&summary.server_id),
                SortKey::Number(memory),
                SortKey::Number(load.unwrap_or_default()),
                SortKey::Number(calls),
            ],
            question: None,
        }
    }

    /// Returns everything as a JSON object.
    pub(super) fn object(&self) -> Map<String, Value> {
        let events = |events: &[StoredEvent]| -> Vec<Value> {
            events.iter().map(|event| json::to_json(event).into()).collect()
        };
        let calls: Vec<Value> = self.calls.iter().map(|call| calls::object(call).into()).collect();
        let approvals = self.approvals.iter().map(|approval| approval.event.clone());
        let approvals: Vec<StoredEvent> = approvals.collect();
        let mut object = Map::new();
        object.insert("at".to_owned(), json::rfc3339(self.at).into());
        object.insert("store".to_owned(), self.store.display().to_string().into());
        object.insert(
            "daemon".to_owned(),
            json!(self.status.as_ref().map(|status| status.state.as_str())),
        );
        object.insert("notes".to_owned(), json!(self.notes));
        object.insert(
            "sessions".to_owned(),
            self.sessions
                .iter()
                .map(|session| self.session_object(session))
                .collect(),
        );
        object.insert(
            "servers".to_owned(),
            self.servers
                .iter()
                .map(|server| self.server_object(server))
                .collect(),
        );
        object.insert("calls".to_owned(), calls.into());
        object.insert("connections".to_owned(), events(&self.connections).into());
        object.insert("detections".to_owned(), events(&self.detections).into());
        object.insert("approvals".to_owned(), events(&approvals).into());
        object
    }

    fn session_object(&self, session: &SessionSummary) -> Value {
        json!({
            "session_id": session.id,
            "agent": session.agent,
            "started": json::rfc3339(session.started),
            "ended": session.ended.map(json::rfc3339),
            "servers": session.servers,
            "calls_per_second": per_second(self.of_sessions.tenths(&session.id, self.at)),
        })
    }

    fn server_object(&self, server: &Server) -> Value {
        let mut object = servers::object(
            &server.summary,
            server.usage,
            server.orphaned_since,
            server.sandbox.as_ref(),
        );
        let seen_by = (server.seen_by != SeenBy::Nobody).then(|| server.seen_by.as_str());
        object.insert("seen_by".to_owned(), json!(seen_by));
        let calls = self.of_servers.tenths(&server.summary.server_id, self.at);
        object.insert("calls_per_second".to_owned(), per_second(calls));
        object.into()
    }
}

fn entry(event: &StoredEvent, row: Row, keys: Vec<SortKey>) -> PaneEntry {
    let usual = || {
        vec![
            SortKey::time(event.timestamp),
            SortKey::Number(event.severity as u64),
            SortKey::name(event.server_id.as_deref().unwrap_or_default()),
        ]
    };
    PaneEntry {
        subject: PaneSubject::Event(event.id),
        row,
        keys: if keys.is_empty() { usual() } else { keys },
        question: None,
    }
}

impl Approval {
    /// Returns the name of the definition or call in `mcpmon approvals`.
    pub(super) fn subject(&self) -> String {
        let names = ["held_call", "subject"].into_iter();
        let mut names = names.filter_map(|field| self.event.data.get(field).and_then(Value::as_str));
        names.next().unwrap_or_default().to_owned()
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.state == ApprovalState::Requested
    }

    fn entry(&self) -> PaneEntry {
        let subject = self.subject();
        let waiting = SortKey::Number(u64::from(self.is_waiting()));
        let keys = vec![
            waiting,
            SortKey::time(self.event.timestamp),
            SortKey::name(&subject),
        ];
        let row = approve::row(&(self.state, self.event.clone()));
        let question = self.is_waiting().then(|| PaneQuestion {
            subject,
            hash: self.hash.clone(),
        });
        PaneEntry {
            question,
            ..entry(&self.event, row, keys)
        }
    }
}

/// Formats tenths, such as `0.4`; `0` for nothing.
fn tenths(tenths: u64) -> String {
    match tenths {
        0 => "0".to_owned(),
        tenths => format!("{}.{}", tenths / 10, tenths % 10),
    }
}

fn per_second(tenths: u64) -> Value {
    // A rate has one decimal.
    format!("{}.{}", tenths / 10, tenths % 10)
        .parse::<f64>()
        .map_or(Value::Null, Value::from)
}
