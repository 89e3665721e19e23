//! Conversations in the core alone: filters and guards, without a process or a file.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, Result};
use mcpmon_config::{Source, Sources, load_sources};
use mcpmon_detect::protected_paths::{Lookup, RealPath};
use mcpmon_engine::{
    Monitor, SessionPeers, SharedOutcome, StoreEffect,
    cross_server::{CallWindow, read_result},
    pins::PinBook,
};
use mcpmon_guard::{Absence, Guard, GuardHost, GuardOutput, JudgementOutcome};
use mcpmon_model::{
    Conversation, DefinitionKind, DefinitionRecord, Event, EventId, Layer, PinKey, Recent, ServerId,
    ServerType, SessionId, SharedCall, Side, Timestamp,
};
use mcpmon_policy::{Policy, network::table::Tables};
use mcpmon_protocol::{decode::DecodeLimits, filter::stdio::StdioFilter};
use mcpmon_store::{StoredEvent, json::to_json};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    case::Case,
    play::{Heard, Stage},
};

/// The time at which a case begins, and the time that each line takes, in nanoseconds.
const BEGIN: i64 = 1_700_000_000_000_000_000;
const LINE: i64 = 1_000_000;

/// A session in the core alone.
#[derive(Debug)]
pub struct Core {
    policy: Arc<Policy>,
    now: Timestamp,
    seats: BTreeMap<String, Seat>,
    /// The calls of the session, as the daemon or the store would hold them.
    window: CallWindow,
    /// Every tool that a server of the session lists.
    tools: Vec<DefinitionRecord>,
    events: Vec<Value>,
}

/// A server's place in the session, with the state that its wrapper would hold.
#[derive(Debug)]
struct Seat {
    filter: StdioFilter,
    guard: Guard,
}

/// A host whose session calls are in memory, and in which no path is a link.
struct WindowHost<'w>(&'w mut CallWindow);

impl GuardHost for WindowHost<'_> {
    fn real_paths(&mut self, _lookups: Vec<Lookup>) -> Vec<RealPath> {
        Vec::new()
    }

    fn check(&mut self, _now: Timestamp, policy: &Policy, call: &SharedCall) -> SharedOutcome {
        let (checked, own) = self.0.check(policy, call);
        own.into_iter().for_each(|own| self.0.take(own));
        SharedOutcome::Checked(checked)
    }

    fn absence(&self) -> Option<Absence> {
        None
    }
}

impl Core {
    /// Makes a session under the policy of `case`.
    ///
    /// # Errors
    /// Returns an error if that policy is invalid.
    pub fn new(case: &Case) -> Result<Self> {
        let part = (Source::EmbeddedDefault, case.configuration()?);
        let sources = Sources::of_parts(vec![part]).context("a policy")?;
        let loaded = load_sources(&sources).with_context(|| format!("the policy of {}", case.id))?;
        Ok(Self {
            policy: loaded.policy,
            now: Timestamp(BEGIN),
            seats: BTreeMap::new(),
            window: CallWindow::default(),
            tools: Vec::new(),
            events: Vec::new(),
        })
    }

    fn push(&mut self, server: &str, side: Side, line: &str) -> Result<Heard> {
        self.now.0 += LINE;
        let (now, mut out) = (self.now, GuardOutput::default());
        let Seat { filter, guard } = self.seats.get_mut(server).context("a server that joined")?;
        let mut host = WindowHost(&mut self.window);
        guard.push(
            now,
            filter,
            side,
            format!("{line}\n").as_bytes(),
            &mut host,
            &mut out,
        );
        self.carry_out(server, out.outcome);
        Ok(Heard {
            by_server: lines(&out.wire.to_server),
            by_client: lines(&out.wire.to_client),
        })
    }

    fn keep(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            let stored = StoredEvent::new(Uuid::nil(), "host", event);
            self.events.push(Value::Object(to_json(&stored)));
        }
    }

    /// Keeps events, and registers listed tools with the Monitors of the other servers.
    fn carry_out(&mut self, server: &str, outcome: JudgementOutcome) {
        self.keep(outcome.events);
        for effect in outcome.effects {
            if let StoreEffect::Share(recent) = effect {
                self.window.take(*recent);
                continue;
            }
            if let StoreEffect::ShareResult { output, result } = effect {
                let read = read_result(*output, &result).map(Recent::Output);
                read.into_iter().for_each(|output| self.window.take(output));
                continue;
            }
            let StoreEffect::StoreDefinition(record) = effect else {
                continue;
            };
            if record.key.kind != DefinitionKind::Tool {
                continue;
            }
            for (_, seat) in self.seats.iter_mut().filter(|(name, _)| *name != server) {
                register(seat, &record);
            }
            self.tools.push(*record);
        }
    }
}

impl Stage for Core {
    fn join(&mut self, server: &str) -> Result<()> {
        let id = ServerId::new(server).context("a server's name")?;
        let conversation = Conversation {
            identity: PinKey {
                server: id,
                name: server.to_owned(),
                uid: 1000,
            },
            server_type: ServerType::Stdio,
            session: Some(SessionId::new("redteam")),
            layer: Layer::Stdio,
        };
        let monitor = Monitor::new(Arc::clone(&self.policy), &Tables::default(), PinBook::default());
        let mut seat = Seat {
            filter: StdioFilter::new(limits(&self.policy)),
            guard: Guard::new(conversation, monitor, |_| EventId([0; 16])),
        };
        self.tools.iter().for_each(|tool| register(&mut seat, tool));
        self.seats.insert(server.to_owned(), seat);
        let names: Vec<String> = self.seats.keys().cloned().collect();
        for name in &names {
            let others: Vec<ServerId> = names
                .iter()
                .filter(|other| *other != name)
                .filter_map(|other| ServerId::new(other).ok())
                .collect();
            let now = self.now;
            let Some(seat) = self.seats.get_mut(name) else {
                continue;
            };
            let mut outcome = JudgementOutcome::default();
            seat.guard.join(now, SessionPeers::of(&others), &mut outcome);
            self.carry_out(name, outcome);
        }
        Ok(())
    }

    fn client(&mut self, server: &str, line: &str) -> Result<Heard> {
        self.push(server, Side::Client, line)
    }

    fn server(&mut self, server: &str, line: &str) -> Result<Heard> {
        self.push(server, Side::Server, line)
    }

    fn wait(&mut self, milliseconds: u64) {
        let nanoseconds = milliseconds.saturating_mul(1_000_000);
        self.now.0 = self.now.0.saturating_add_unsigned(nanoseconds);
    }

    fn record(&mut self) -> Result<Vec<Value>> {
        Ok(std::mem::take(&mut self.events))
    }
}

/// Returns the decoding limits of a policy, in the same way as `mcpmon wrap`.
fn limits(policy: &Policy) -> DecodeLimits {
    let limits = policy.limits;
    DecodeLimits {
        max_line: limits.max_line,
        max_depth: limits.max_schema_depth,
        max_batch: limits.max_batch,
        max_pending: limits.max_pending,
        request_timeout: limits.request_timeout,
    }
}

/// Registers another server's tool with a seat, as it was first listed.
fn register(seat: &mut Seat, tool: &DefinitionRecord) {
    let (server, name) = (&tool.key.identity.server, &tool.key.name);
    let registry = seat.guard.monitor_mut().registry_mut();
    registry.register(tool.first_seen, server, ServerType::Stdio, name, tool.seen.hash);
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes)
        .lines()
        .map(str::to_owned)
        .collect()
}
