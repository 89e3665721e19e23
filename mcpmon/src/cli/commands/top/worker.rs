//! The thread that reads and answers, so that keys are handled without delay.

use std::{
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use mcpmon_store::{Filter, StoredEvent};
use uuid::Uuid;

use super::{
    pane::PaneSubject,
    snapshot::Snapshot,
    source::Source,
    state::{Answer, Request},
};
use crate::{
    app::approval::ApprovalDecision,
    cli::{
        CliError, Globals,
        commands::{
            approve, explain, held_calls, registry,
            running::{bytes, milliseconds},
            servers,
        },
        daemon::Socket,
        summary, text, time,
    },
};

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Most events that are shown of a server or session.
const MAX_REPORTED: u32 = 50;

/// A result of the worker.
#[derive(Debug)]
pub(super) enum News {
    Snapshot(Box<Snapshot>),
    Page(Vec<String>),
    Message(String),
}

/// The thread, and the channels to and from it.
#[derive(Debug)]
pub(super) struct Worker {
    requests: Sender<Request>,
    news: Receiver<News>,
    thread: JoinHandle<()>,
}

impl Worker {
    pub(super) fn start(source: Source, globals: Globals, socket: Socket) -> Self {
        let (requests, asked) = mpsc::channel();
        let (told, news) = mpsc::channel();
        let work = Work {
            source,
            globals,
            socket,
            news: told,
        };
        Self {
            requests,
            news,
            thread: thread::spawn(move || work.run(&asked)),
        }
    }

    /// Sends a request; it is answered with news.
    pub(super) fn ask(&self, request: Request) {
        // The thread does not end before this handle.
        let _sent = self.requests.send(request);
    }

    /// Returns the next news, if there are any.
    pub(super) fn news(&self) -> Option<News> {
        self.news.try_recv().ok()
    }

    /// Waits until all requests are done.
    pub(super) fn finish(self) {
        drop(self.requests);
        // If the thread panicked, that was printed.
        let _ended = self.thread.join();
    }
}

struct Work {
    source: Source,
    globals: Globals,
    socket: Socket,
    news: Sender<News>,
}

impl Work {
    fn run(mut self, asked: &Receiver<Request>) {
        let mut is_frozen = false;
        let mut due = Instant::now() + INTERVAL;
        loop {
            let told = match asked.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Request::Quit) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Request::Freeze(freeze)) => {
                    is_frozen = freeze;
                    due = Instant::now();
                    continue;
                }
                Ok(Request::Open(subject)) => self.page(&subject).map(News::Page),
                Ok(Request::Answer(answer)) => {
                    due = Instant::now();
                    self.answer(&answer).map(News::Message)
                }
                Err(RecvTimeoutError::Timeout) => {
                    due = Instant::now() + INTERVAL;
                    if is_frozen {
                        continue;
                    }
                    self.source
                        .look()
                        .map(|snapshot| News::Snapshot(Box::new(snapshot)))
                }
            };
            let news = told.unwrap_or_else(|error| News::Message(message(&error)));
            if self.news.send(news).is_err() {
                return;
            }
        }
    }

    fn answer(&self, answer: &Answer) -> Result<String, CliError> {
        let word = match answer.is_allowed {
            true => ApprovalDecision::Approve {
                hash: answer.question.hash.clone(),
            },
            false => ApprovalDecision::Refuse,
        };
        let done = approve::decide(
            &answer.question.subject,
            word,
            &self.globals,
            &self.socket,
            time::now(),
        )?;
        let what = match answer.is_allowed {
            true => "allowed",
            false => "denied",
        };
        Ok(format!("{what}: {}", done.join(", ")))
    }

    fn page(&self, subject: &PaneSubject) -> Result<Vec<String>, CliError> {
        Ok(match subject {
            PaneSubject::Event(id) => self.event(*id)?,
            PaneSubject::Server(id) => escaped(&self.server(id)?),
            PaneSubject::Session(id) => escaped(&self.session(id)?),
        })
    }

    /// Returns all of an event, as lines that are safe to show.
    fn event(&self, id: Uuid) -> Result<Vec<String>, CliError> {
        let reader = self.source.reader();
        let mut lines = escaped(&explain::explained(id, reader, &self.globals, &self.socket)?);
        let mut approvals = self.source.snapshot().approvals.iter();
        if let Some(approval) = approvals.find(|approval| approval.event.id == id && approval.is_waiting()) {
            // The subject of a question is shown whole; it may have been forgotten meanwhile.
            let subject = approval.subject();
            let whole = match held_calls::id(&subject) {
                Some(id) => held_calls::shown(id, reader, time::now()),
                None => registry::shown(&subject, reader),
            };
            let whole = whole.unwrap_or_default();
            lines.splice(0..0, whole.into_iter().chain([String::new()]));
        }
        Ok(lines)
    }

    fn server(&self, id: &str) -> Result<Vec<String>, CliError> {
        let mut servers = self.source.snapshot().servers.iter();
        let Some(server) = servers.find(|server| server.summary.server_id == id) else {
            return Ok(vec![format!("there is no server `{id}` any more")]);
        };
        let summary = &server.summary;
        let mut lines = vec![format!("server: {id}")];
        let mut put = |name: &str, value: Option<String>| {
            lines.extend(value.map(|value| format!("  {name}: {value}")));
        };
        put("state", Some(servers::state(summary)));
        let now = self.source.snapshot().at;
        let orphaned = server.orphaned_since.map(|since| servers::age(now, since));
        put("orphaned for", orphaned);
        put(
            "seen by",
            Some(server.seen_by.as_str().to_owned()).filter(|by| !by.is_empty()),
        );
        if let Some(sandbox) = &server.sandbox {
            let gaps = sandbox.gaps.iter().map(|gap| format!("; {gap}"));
            put("sandbox", Some(sandbox.to_string() + &gaps.collect::<String>()));
        }
        put("command", summary.command.clone());
        put("starts", Some(summary.launches.to_string()));
        put("process", summary.last_pid.map(|pid| pid.to_string()));
        put("executable", summary.exe_sha256.map(|digest| digest.to_string()));
        put("package", summary.package_sha256.map(|digest| digest.to_string()));
        put("first seen", summary.first_seen.map(time::short));
        put("last seen", summary.last_seen.map(time::short));
        if let Some(usage) = &server.usage {
            put("processes", Some(usage.processes.to_string()));
            put("memory", Some(bytes(usage.memory)));
            put("processor time", Some(time::span(milliseconds(usage))));
        }
        let filter = Filter {
            server: Some(id.to_owned()),
            ..Filter::default()
        };
        lines.extend(self.latest(&filter)?);
        Ok(lines)
    }

    fn session(&self, id: &str) -> Result<Vec<String>, CliError> {
        let mut sessions = self.source.snapshot().sessions.iter();
        let Some(session) = sessions.find(|session| session.id == id) else {
            return Ok(vec![format!("there is no session `{id}` any more")]);
        };
        let ended = session.ended.map_or_else(|| "running".to_owned(), time::short);
        let mut lines = vec![
            format!("session: {id}"),
            format!("  agent: {}", session.agent.as_deref().unwrap_or("unknown")),
            format!("  started: {} UTC", time::short(session.started)),
            format!("  ended: {ended}"),
            format!("  servers: {}", session.servers.join(", ")),
            format!("  all of it: mcpmon report {id}"),
        ];
        let filter = Filter {
            sessions: vec![id.to_owned()],
            ..Filter::default()
        };
        lines.extend(self.latest(&filter)?);
        Ok(lines)
    }

    /// Returns the newest events, one in each line.
    fn latest(&self, filter: &Filter) -> Result<Vec<String>, CliError> {
        let mut events = self.source.reader().events(filter, MAX_REPORTED)?;
        events.sort_by_key(|event| std::cmp::Reverse((event.timestamp, event.seq)));
        let line = |event: &StoredEvent| {
            format!(
                "  {}  {:11} {}  {}",
                time::short(event.timestamp),
                event.action.as_str(),
                event.kind,
                summary::summary_without_server(event)
            )
        };
        let heading = [String::new(), "Latest events (UTC):".to_owned()];
        Ok(heading.into_iter().chain(events.iter().map(line)).collect())
    }
}

fn escaped(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| text::escape(line).into_owned()).collect()
}

/// Formats an error and its first remedy, in one line.
fn message(error: &CliError) -> String {
    let source = format!("{:#}", error.source);
    match error.hints.first() {
        Some(hint) => format!("{source}: {hint}"),
        None => source,
    }
}
