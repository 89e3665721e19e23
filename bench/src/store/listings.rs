//! Listings of a store with a million events: the time of each filter, and the memory of whole listings.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_bench::site::{self, Site};
use mcpmon_model::{
    Action, CallOutcome, Direction, Event, EventKind, IpProtocol, Layer, ProcessRef, RequestId, ServerId,
    SessionId, Severity, Timestamp,
};
use mcpmon_store::{Access, Store, StoredEvent};

use super::seconds;

/// The number of events in the store.
const EVENTS: u32 = 1_000_000;
/// The number of events of one transaction.
const BATCH: u32 = 10_000;
/// The time from one event to the next, in nanoseconds: three days altogether.
const APART: i64 = 250_000_000;
const START: i64 = 1_790_000_000_000_000_000;
/// The interval at which the memory of a listing is sampled.
const INTERVAL: Duration = Duration::from_millis(10);

/// Each filter of a listing, with values that many events have, few, or none. A server with many connections has few
/// calls.
const FILTERS: [(&str, &[&str]); 2] = [
    (
        "events",
        &[
            "--tool tool-3",
            "--tool rare",
            "--tool none",
            "--severity low",
            "--severity high",
            "--severity critical",
            "--action block",
            "--action audit",
            "--action would_block",
            "--action allow",
            "--pid 4242",
            "--pid 7",
            "--pid 1",
            "--server server-3",
            "--server chatty",
            "--server none",
            "--session session-7",
            "--session none",
            "--type mcp_server_exited --server server-3",
            "--since 1h",
        ],
    ),
    (
        "calls",
        &[
            "--tool tool-3",
            "--tool rare",
            "--tool none",
            "--severity low",
            "--severity high",
            "--severity critical",
            "--action block",
            "--action audit",
            "--action would_block",
            "--action allow",
            "--trace call-499999",
            "--trace none",
            "--server server-3",
            "--server chatty",
            "--server none",
            "--session session-7",
            "--session none",
        ],
    ),
];

/// The store, and the program that lists its content.
pub(crate) struct Listings {
    mcpmon: PathBuf,
    store: PathBuf,
}

/// The time of the slowest filter of each listing, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slowest {
    pub(crate) events: f64,
    pub(crate) calls: f64,
}

impl Listings {
    /// Writes the store.
    pub(crate) fn make(site: &Site, mcpmon: &Path) -> Result<Self> {
        let path = site.path("listed.db");
        let mut store = Store::open(&path, Access::default())?;
        for first in (0..EVENTS).step_by(BATCH as usize) {
            let batch: Result<Vec<StoredEvent>> = (first..first + BATCH).map(stored).collect();
            store.append(&batch?)?;
        }
        Ok(Self {
            mcpmon: site::absolute(mcpmon)?,
            store: path,
        })
    }

    /// Lists with each filter, and returns the slowest times.
    pub(crate) fn by_filters(&self) -> Result<Slowest> {
        let [events, calls] = FILTERS.map(|(listing, filters)| -> Result<f64> {
            let mut slowest = 0.0_f64;
            for filter in filters {
                let mut command = self.list(listing, "200");
                command.args(filter.split(' '));
                let took = seconds(|| {
                    let status = command.stdout(Stdio::null()).status()?;
                    ensure!(status.success(), "mcpmon {listing} {filter}: {status}");
                    Ok(())
                })?;
                slowest = slowest.max(took);
                if took > 0.1 {
                    say(&format!("mcpmon {listing} {filter}: {took:.3} s"));
                }
            }
            Ok(slowest)
        });
        Ok(Slowest {
            events: events?,
            calls: calls?,
        })
    }

    /// Returns the peak memory of a whole listing, in megabytes.
    pub(crate) fn memory(&self, listing: &str) -> Result<f64> {
        let mut child = self
            .list(listing, "1000000")
            .arg("--json")
            .stdout(Stdio::null())
            .spawn()?;
        let mut largest = 0.0_f64;
        while child.try_wait()?.is_none() {
            largest = largest.max(high_water(&child).unwrap_or_default());
            thread::sleep(INTERVAL);
        }
        ensure!(child.wait()?.success(), "mcpmon {listing}");
        ensure!(largest > 0.0, "the memory of mcpmon {listing} was looked at");
        Ok(largest)
    }

    fn list(&self, listing: &str, limit: &str) -> Command {
        let mut command = Command::new(&self.mcpmon);
        command.args([listing, "--limit", limit, "--db"]).arg(&self.store);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// Returns the peak memory of a process so far, in megabytes.
fn high_water(child: &Child) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_ascii_whitespace().next());
    Ok(number.context("VmHWM")?.parse::<f64>()? * 1024.0 / 1e6)
}

#[expect(
    clippy::print_stderr,
    reason = "a measurement that stands out is worth a line"
)]
fn say(line: &str) {
    eprintln!("{line}");
}

fn stored(number: u32) -> Result<StoredEvent> {
    let at = Timestamp(START + i64::from(number) * APART);
    let milliseconds = u64::try_from(at.0 / 1_000_000)?;
    let id = uuid::Builder::from_unix_timestamp_millis(
        milliseconds,
        &u128::from(number).to_le_bytes()[..10].try_into()?,
    );
    Ok(StoredEvent::new(id.into_uuid(), "bench", event(number, at)?))
}

/// Returns an event: a call, an answer, some of them judged, or a connection. One eighth of all events are of a server
/// that is rarely called.
fn event(number: u32, at: Timestamp) -> Result<Event> {
    let call = number / 2;
    let request = RequestId::Number((call % 1000).to_string().into());
    let tool_name = match call % 200_000 {
        77 => "rare".to_owned(),
        _ => format!("tool-{}", call % 50),
    };
    let id = Some(format!("call-{call}"));
    let input = Some(r#"{"path":"/home/me/notes/2026/november.md","limit":200}"#.to_owned());
    let (kind, layer) = match (number % 16, number % 2) {
        (15, _) => (
            EventKind::NetworkConnection {
                remote_addr: "192.0.2.1:443".parse()?,
                remote_name: Some("api.example".into()),
                direction: Direction::ServerEgress,
                protocol: IpProtocol::Tcp,
                server_type: None,
                given_addr: None,
                proxied: false,
                socket: None,
                count: 1,
            },
            Layer::Kernel,
        ),
        (_, 0) if call % 25 == 1 => (
            EventKind::ToolCallIntercepted {
                tool_name,
                visible_name: None,
                dialect: None,
                request_id: None,
                jsonrpc_id: Some(request),
                tool_call_id: id,
                trace_parent: None,
                server_type: None,
                server_addr: None,
                tool_hash: None,
                input,
                client_uid: None,
            },
            Layer::Stdio,
        ),
        (_, 0) => (
            EventKind::ToolCalled {
                tool_name,
                jsonrpc_id: request,
                tool_call_id: id,
                trace_parent: None,
                origin: None,
                input,
                client_uid: None,
            },
            Layer::Stdio,
        ),
        _ => (
            EventKind::ToolReturned {
                tool_name,
                jsonrpc_id: request,
                duration_us: 10_000,
                outcome: CallOutcome::Ok,
                bytes: 300,
                client_uid: None,
            },
            Layer::Stdio,
        ),
    };
    let is_connection = matches!(kind, EventKind::NetworkConnection { .. });
    let is_judged = matches!(kind, EventKind::ToolCallIntercepted { .. });
    let mut event = Event::new(at, layer, kind);
    event.session_id = Some(SessionId::new(format!("session-{}", call % 2000)));
    let server = match is_connection || call % 100_000 == 5 {
        true => "chatty".to_owned(),
        false => format!("server-{}", call % 10),
    };
    event.server_id = Some(ServerId::new(&server)?);
    if is_connection {
        event.process = Some(ProcessRef {
            pid: if number % 300_000 == 15 { 4242 } else { 7 },
            exe: Some("/usr/bin/node".into()),
            comm: Some("node".to_owned()),
            uid: Some(1000),
        });
        (event.severity, event.action) = (Severity::Low, Action::Audit);
    }
    if is_judged {
        (event.severity, event.action) = match call % 100 {
            1 => (Severity::High, Action::Block),
            _ => (Severity::Low, Action::Audit),
        };
        event.reason = Some("its definition changed".to_owned());
    }
    Ok(event)
}
