//! One tapped server: its lines, and the session that judges them without a word in anything.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use mcpmon_config::LoadedConfiguration;
use mcpmon_guard::GuardOutput;
use mcpmon_kernel::tap::{TapPart, TapSide};
use mcpmon_model::{
    Conversation, Event, EventKind, InstanceId, Layer, PinKey, ProcessRef, ServerType, SessionId, Severity,
    Side, Timestamp,
};
use mcpmon_policy::{Mode, Policy};
use mcpmon_protocol::{decode::DecodeLimits, filter::stdio::Filter};
use mcpmon_session::{HostedParts, Policies, Session};

use super::stream::{Continuity, TapLines};
use crate::agent::wrap;

/// The time after which a session is opened again that could not be.
const RETRY: Duration = Duration::from_secs(5);
/// Requests are waited for no longer than this, where the policy has no limit: their answers may have been lost.
const LONGEST_REQUEST: Duration = Duration::from_secs(3600);

/// A server that is to be tapped.
#[derive(Clone, Debug)]
pub(crate) struct TappedServer {
    pub(crate) instance: InstanceId,
    pub(crate) identity: PinKey,
    pub(crate) session: Option<SessionId>,
    pub(crate) agent: Option<String>,
    pub(crate) process: ProcessRef,
    /// True if it has said and heard nothing yet.
    pub(crate) is_new: bool,
}

/// The parts that all tapped conversations share.
#[derive(Debug)]
pub(super) struct TapContext {
    pub(super) hosting: HostedParts,
    pub(super) policies: Policies,
}

#[derive(Debug)]
pub(super) struct TapConversation {
    server: TappedServer,
    input: TapLines,
    output: TapLines,
    judged: Option<JudgedConversation>,
    failed: Option<Instant>,
    /// Bytes of lines that nobody could judge.
    unjudged: u64,
    /// Lost bytes that were told.
    told: u64,
    /// True if the server is gone: nothing more will come than what the ring holds.
    pub(super) is_over: bool,
}

#[derive(Debug)]
struct JudgedConversation {
    session: Session,
    filter: Filter,
    out: GuardOutput,
    /// The policy from which the one in force was made.
    source: Arc<LoadedConfiguration>,
}

impl TapConversation {
    pub(super) const fn new(server: TappedServer) -> Self {
        Self {
            input: TapLines::new(server.is_new),
            output: TapLines::new(server.is_new),
            server,
            judged: None,
            failed: None,
            unjudged: 0,
            told: 0,
            is_over: false,
        }
    }

    pub(super) const fn server(&self) -> &TappedServer {
        &self.server
    }

    /// The process that serves is known.
    pub(super) fn serves(&mut self, process: ProcessRef) {
        if let Some(judged) = &mut self.judged {
            judged.session.is_served_by(process.clone());
        }
        self.server.process = process;
    }

    /// Judges what a part completes, as of when it was read or written.
    pub(super) fn take(&mut self, now: Timestamp, part: &TapPart<'_>, context: &TapContext) {
        let mut whole = Vec::new();
        let max_line = self.max_line(context);
        let (lines, side) = match part.side {
            TapSide::Input => (&mut self.input, Side::Client),
            TapSide::Output => (&mut self.output, Side::Server),
        };
        let continuity = lines.push(part, max_line, |line| whole.extend_from_slice(line));
        if continuity == Continuity::Gap {
            self.server.is_new = false;
            if let Some(judged) = &mut self.judged {
                judged.session.has_gaps();
            }
        }
        if whole.is_empty() {
            return;
        }
        match self.open(now, context) {
            Some(judged) => judged.push(now, side, &whole),
            None => self.unjudged += whole.len() as u64,
        }
    }

    fn max_line(&self, context: &TapContext) -> usize {
        let host = || context.policies.host().policy.limits.max_line;
        self.judged
            .as_ref()
            .map_or_else(host, |judged| judged.source.policy.limits.max_line)
    }

    fn open(&mut self, now: Timestamp, context: &TapContext) -> Option<&mut JudgedConversation> {
        if self.judged.is_none() && self.failed.is_none_or(|failed| failed.elapsed() >= RETRY) {
            match JudgedConversation::open(now, &self.server, context) {
                Ok(judged) => self.judged = Some(judged),
                Err(error) => {
                    let server = &self.server.identity.server;
                    tracing::error!(%server, %error, "what the tap hears of a server is not judged");
                    self.failed = Some(Instant::now());
                }
            }
        }
        self.judged.as_mut()
    }

    /// Time passes.
    pub(super) fn tick(&mut self, now: Timestamp, context: &TapContext) {
        if let Some(judged) = &mut self.judged {
            judged.tick(now, self.server.identity.uid, context);
        }
    }

    /// Returns the bytes that are in no record, of `lost` ones that the kernel did not copy and of those that came in vain.
    pub(super) const fn all_lost(&self, lost: u64) -> u64 {
        lost + self.input.unusable() + self.output.unusable() + self.unjudged
    }

    /// Returns the event that bytes were lost since the last one.
    pub(super) fn tell_lost(&mut self, now: Timestamp, lost: u64) -> Option<Event> {
        let all = self.all_lost(lost);
        let count = all.checked_sub(self.told).filter(|count| *count > 0)?;
        self.told = all;
        let place = "tap: bytes of messages".to_owned();
        let mut event = Event::new(now, Layer::Tap, EventKind::EventsLost { place, count });
        event.server_id = Some(self.server.identity.server.clone());
        event.session_id.clone_from(&self.server.session);
        event.process = Some(self.server.process.clone());
        event.severity = Severity::Medium;
        event.reason = Some(
            "more was said than the tap could copy and judge, or it began in the middle: the record of this server \
             has gaps"
                .to_owned(),
        );
        Some(event)
    }

    pub(super) fn leave(&mut self, now: Timestamp) {
        if let Some(mut judged) = self.judged.take() {
            judged.session.leave(now);
        }
    }
}

impl JudgedConversation {
    fn open(
        now: Timestamp,
        server: &TappedServer,
        context: &TapContext,
    ) -> Result<Self, mcpmon_session::JudgeError> {
        let source = context.policies.of(now, Some(server.identity.uid));
        let conversation = Conversation {
            identity: server.identity.clone(),
            server_type: ServerType::Stdio,
            session: server.session.clone(),
            layer: Layer::Tap,
        };
        let loaded = observing(&source);
        let agent = server.agent.clone();
        let mut session = Session::hosted(now, &context.hosting, &loaded, conversation, agent)?;
        session.is_served_by(server.process.clone());
        if !server.is_new {
            session.has_gaps();
        }
        Ok(Self {
            session,
            filter: Filter::new(limits(&source.policy)),
            out: GuardOutput::default(),
            source,
        })
    }

    fn push(&mut self, now: Timestamp, side: Side, lines: &[u8]) {
        self.session
            .push(now, &mut self.filter, side, lines, &mut self.out);
        self.discard();
    }

    fn tick(&mut self, now: Timestamp, uid: u32, context: &TapContext) {
        let source = context.policies.of(now, Some(uid));
        if !Arc::ptr_eq(&source, &self.source) {
            self.session.install(now, &observing(&source));
            self.source = source;
        }
        self.session.tick_stdio(now, &mut self.filter, &mut self.out);
        self.filter.shrink();
        self.discard();
    }

    /// Nothing is written to anybody.
    fn discard(&mut self) {
        let wire = &mut self.out.wire;
        for bytes in [&mut wire.to_server, &mut wire.to_client, &mut wire.noise] {
            bytes.clear();
            bytes.shrink_to(64 << 10);
        }
    }
}

fn limits(policy: &Policy) -> DecodeLimits {
    let limits = wrap::limits(policy.limits);
    let request_timeout = match limits.request_timeout.is_zero() {
        true => LONGEST_REQUEST,
        false => limits.request_timeout,
    };
    DecodeLimits {
        request_timeout,
        ..limits
    }
}

/// The policy under which nothing is stopped, whatever it says: nothing can be.
fn observing(loaded: &LoadedConfiguration) -> LoadedConfiguration {
    let policy = Policy {
        mode: Mode::Observe,
        fail_closed: false,
        ..Policy::clone(&loaded.policy)
    };
    LoadedConfiguration {
        policy: Arc::new(policy),
        ..loaded.clone()
    }
}
