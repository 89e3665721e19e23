//! One tapped server: its lines, and the session that judges them without being able to change anything.

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
use mcpmon_protocol::{decode::DecodeLimits, filter::stdio::StdioFilter};
use mcpmon_session::{HostedParts, Policies, Session};

use super::stream::{Continuity, LineLimits, TapLines};
use crate::app::wrap;

/// The time after which opening a session is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// The time after a server's end at which all of its parts count as read, however much other servers write meanwhile.
const LAST_PARTS: Duration = Duration::from_secs(2);
/// Longest wait for an answer if the policy has no limit: the answer may have been lost.
const MAX_REQUEST: Duration = Duration::from_secs(3600);

/// A server that is to be tapped.
#[derive(Clone, Debug)]
pub(crate) struct TappedServer {
    pub(crate) instance: InstanceId,
    pub(crate) identity: PinKey,
    pub(crate) session: Option<SessionId>,
    pub(crate) agent: Option<String>,
    pub(crate) process: ProcessRef,
    /// True if it has neither read nor written anything yet.
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
    /// Bytes of lines that could not be judged.
    unjudged: u64,
    /// Losses that were reported.
    told: TapLosses,
    /// The time since which only the ring can contain further parts: the server has ended, or a wrapper has claimed it.
    over_since: Option<Instant>,
    /// True if a wrapper has claimed the server: later messages are in the wrapper's record.
    is_wrapped: bool,
}

/// The tap's losses for one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TapLosses {
    /// Bytes of messages.
    pub(super) bytes: u64,
    /// Processes of the server that are not tapped.
    pub(super) processes: u64,
}

#[derive(Debug)]
struct JudgedConversation {
    session: Session,
    filter: StdioFilter,
    out: GuardOutput,
    /// The policy that the observing one was made from.
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
            told: TapLosses {
                bytes: 0,
                processes: 0,
            },
            over_since: None,
            is_wrapped: false,
        }
    }

    pub(super) const fn server(&self) -> &TappedServer {
        &self.server
    }

    /// Notes the process that serves.
    pub(super) fn serves(&mut self, process: ProcessRef) {
        if let Some(judged) = &mut self.judged {
            judged.session.is_served_by(process.clone());
        }
        self.server.process = process;
    }

    /// Notes that the server has ended.
    pub(super) fn ends(&mut self, now: Instant) {
        self.over_since.get_or_insert(now);
    }

    /// Notes that a wrapper has claimed the server.
    pub(super) fn is_claimed(&mut self, now: Instant) {
        self.is_wrapped = true;
        self.ends(now);
    }

    /// Returns whether the last part has been read: the ring was empty after the end, or it had enough time to be read.
    pub(super) fn is_over(&self, is_all: bool, now: Instant) -> bool {
        self.over_since
            .is_some_and(|since| is_all || now.saturating_duration_since(since) >= LAST_PARTS)
    }

    /// Returns the bytes that wait for the rest of their lines.
    pub(super) fn held(&self) -> usize {
        self.input.held() + self.output.held()
    }

    /// Takes a part, and judges the lines that it completes, with the time at which it was read or written. At most
    /// `room` bytes may wait for the rest of their lines.
    pub(super) fn take(&mut self, now: Timestamp, part: &TapPart<'_>, room: usize, context: &TapContext) {
        if self.is_wrapped {
            return;
        }
        let mut whole = Vec::new();
        let max_line = self.max_line(context);
        let (lines, other, side) = match part.side {
            TapSide::Input => (&mut self.input, &self.output, Side::Client),
            TapSide::Output => (&mut self.output, &self.input, Side::Server),
        };
        let room = room.saturating_sub(other.held());
        let limits = LineLimits { max_line, room };
        let continuity = lines.push(part, limits, |line| whole.extend_from_slice(line));
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

    /// Applies a changed policy, and does what is due at this time.
    pub(super) fn tick(&mut self, now: Timestamp, context: &TapContext) {
        if let Some(judged) = &mut self.judged {
            judged.tick(now, self.server.identity.uid, context);
        }
    }

    /// Returns all bytes that are not recorded: the `lost` ones that the kernel did not copy, and those that could not
    /// be used.
    pub(super) const fn all_lost(&self, lost: u64) -> u64 {
        lost + self.input.unusable() + self.output.unusable() + self.unjudged
    }

    /// Returns the events about losses since the last call; `of_kernel` are the losses of the kernel programs.
    pub(super) fn tell_lost(&mut self, now: Timestamp, of_kernel: TapLosses) -> impl Iterator<Item = Event> {
        let all = TapLosses {
            bytes: self.all_lost(of_kernel.bytes),
            ..of_kernel
        };
        let told = std::mem::replace(&mut self.told, all);
        let lost = [
            (LostPart::Bytes, all.bytes.saturating_sub(told.bytes)),
            (LostPart::Processes, all.processes.saturating_sub(told.processes)),
        ];
        lost.into_iter()
            .filter(|(_, count)| *count > 0)
            .map(move |(part, count)| part.event(now, &self.server, count))
    }

    /// Returns the server, and whether a wrapper has claimed it.
    pub(super) fn into_departed(self) -> (TappedServer, bool) {
        (self.server, self.is_wrapped)
    }

    pub(super) fn leave(&mut self, now: Timestamp) {
        if let Some(mut judged) = self.judged.take() {
            judged.session.leave(now);
        }
    }
}

/// The kinds of what the tap can lose.
#[derive(Clone, Copy, Debug)]
pub(super) enum LostPart {
    /// Bytes of messages.
    Bytes,
    /// Processes that a tapped server started.
    Processes,
    /// A whole server.
    Server,
}

impl LostPart {
    /// Builds the event about a loss of `count` bytes, processes or servers.
    pub(super) fn event(self, now: Timestamp, server: &TappedServer, count: u64) -> Event {
        let (place, reason) = match self {
            Self::Bytes => (
                "tap: bytes of messages",
                "more was said than the tap could copy and judge, or it began in the middle: the record of this \
                 server has gaps",
            ),
            Self::Processes => (
                "tap: processes of servers",
                "the server started more processes than the tap has room for, or its user's share of it: what they \
                 read and write is in no record",
            ),
            Self::Server => (
                "tap: servers",
                "its user has as many tapped servers as one user may: what it says is in no record",
            ),
        };
        let place = place.to_owned();
        let mut event = Event::new(now, Layer::Tap, EventKind::EventsLost { place, count });
        event.server_id = Some(server.identity.server.clone());
        event.package = server.identity.package();
        event.session_id.clone_from(&server.session);
        event.process = Some(server.process.clone());
        event.severity = Severity::Medium;
        event.reason = Some(reason.to_owned());
        event
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
            filter: StdioFilter::new(limits(&source.policy)),
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

    /// Drops the output of the filter, because a tap writes to neither side.
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
        true => MAX_REQUEST,
        false => limits.request_timeout,
    };
    DecodeLimits {
        request_timeout,
        ..limits
    }
}

/// Returns the policy in observe mode, because the tap can stop nothing.
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

#[cfg(test)]
mod tests {
    use mcpmon_model::ServerId;

    use super::*;

    fn conversation() -> TapConversation {
        let server = ServerId::new("files").expect("an id");
        TapConversation::new(TappedServer {
            instance: InstanceId(1),
            identity: PinKey {
                name: server.to_string(),
                server,
                uid: 1000,
            },
            session: None,
            agent: None,
            process: ProcessRef::default(),
            is_new: true,
        })
    }

    #[test]
    fn a_server_that_is_gone_is_let_go_though_the_ring_never_empties() {
        let start = Instant::now();
        let mut conversation = conversation();
        assert!(!conversation.is_over(true, start), "it runs");
        conversation.ends(start);
        assert!(conversation.is_over(true, start), "its last part was read");
        assert!(
            !conversation.is_over(false, start),
            "the ring may hold parts of it"
        );
        conversation.ends(start + LAST_PARTS);
        assert!(conversation.is_over(false, start + LAST_PARTS));
    }

    #[test]
    fn losses_are_told_once_each() {
        let mut conversation = conversation();
        let mut told = |bytes, processes| {
            let events = conversation.tell_lost(Timestamp(1), TapLosses { bytes, processes });
            let counts = events.map(|event| {
                let EventKind::EventsLost { place, count } = event.kind else {
                    panic!("{:?}", event.kind)
                };
                (place, count)
            });
            counts.collect::<Vec<_>>()
        };
        let bytes = "tap: bytes of messages".to_owned();
        let processes = "tap: processes of servers".to_owned();
        assert_eq!(told(0, 0), []);
        assert_eq!(told(5, 2), [(bytes.clone(), 5), (processes, 2)]);
        assert_eq!(told(7, 2), [(bytes, 2)]);
        assert_eq!(told(0, 0), [], "the kernel has let go of it");
    }
}
