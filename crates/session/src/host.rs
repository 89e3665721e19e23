//! The host of a session's guard: it resolves links, asks the holder of the shared state, and records.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use mcpmon_detect::protected_paths::{Lookup, RealPath};
use mcpmon_engine::SharedOutcome;
use mcpmon_guard::{Absence, GuardHost};
use mcpmon_model::{Event, EventKind, Layer, ProcessRef, Severity, SharedCall, Timestamp};
use mcpmon_policy::Policy;
use mcpmon_store::{PendingEvent, Recorder, SessionMember};

use super::{files, hosted::FLUSH, shared::StateHolder, tapped};

/// The time after joining in which a check of a call waits: members that were alone until then may still have records
/// to write.
pub(super) const JOIN_GRACE: Duration = Duration::from_millis(20);
/// The reason for refusals while this process is kept from the daemon.
const BESIDE_DAEMON: Absence = Absence {
    reason: "the daemon does not serve this wrapper, and mcp.fail_closed is set",
    remedy: "mcpmon status",
};
/// The time before an unreachable daemon is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// The reachability of the shared state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SharedStatePresence {
    /// It can be reached.
    Here,
    /// It cannot be reached; it was tried last at this time.
    Away(Timestamp),
}

impl SharedStatePresence {
    pub(super) const fn is_here(self) -> bool {
        match self {
            Self::Here => true,
            Self::Away(_) => false,
        }
    }

    /// Returns whether it may be tried now.
    pub(super) fn is_due(self, now: Timestamp) -> bool {
        match self {
            Self::Here => true,
            Self::Away(tried) => now.since(tried) >= RETRY,
        }
    }
}

/// The state of a session outside of its guard.
#[derive(Debug)]
pub(super) struct SessionHost {
    pub(super) member: SessionMember,
    pub(super) recorder: Recorder,
    pub(super) shared: Box<dyn StateHolder>,
    pub(super) presence: SharedStatePresence,
    /// True if a daemon may run, and this process is kept from it.
    pub(super) is_beside_daemon: bool,
    /// The serving process.
    pub(super) child: Option<Arc<ProcessRef>>,
    pub(super) lookups: files::Lookups,
    /// The time at which the session was joined.
    pub(super) joined: Instant,
    /// True if parts of the conversation were missed.
    pub(super) has_gaps: bool,
}

impl GuardHost for SessionHost {
    fn real_paths(&mut self, lookups: Vec<Lookup>) -> Vec<RealPath> {
        self.lookups.real(lookups)
    }

    fn check(&mut self, now: Timestamp, policy: &Policy, call: &SharedCall) -> SharedOutcome {
        // While the holder cannot be reached, not every call waits for it.
        if !self.presence.is_due(now) {
            return SharedOutcome::Unreachable;
        }
        thread::sleep(JOIN_GRACE.saturating_sub(self.joined.elapsed()));
        match self.shared.check(policy, call) {
            Ok(checked) => SharedOutcome::Checked(checked),
            Err(error) => {
                self.tell_away(now, policy, &error.to_string());
                SharedOutcome::Unreachable
            }
        }
    }

    fn absence(&self) -> Option<Absence> {
        if self.is_beside_daemon {
            return Some(BESIDE_DAEMON);
        }
        (!self.presence.is_here()).then(|| self.shared.absence())
    }
}

impl SessionHost {
    /// Waits until the records of all sessions of this process are written, so that this one finds what another session
    /// of the same server has just pinned.
    pub(super) fn settle(&self) {
        if let Err(unsettled) = self.recorder.flush(FLUSH) {
            tracing::warn!(%unsettled, "what a server offers may be compared with an older definition");
        }
    }

    /// Records once that the shared state cannot be reached. Judging continues with the state that this process has.
    pub(super) fn tell_away(&mut self, now: Timestamp, policy: &Policy, cause: &str) {
        let was_here = self.presence.is_here();
        self.presence = SharedStatePresence::Away(now);
        if !was_here {
            return;
        }
        let consequence = match policy.fail_closed {
            true => "uses of the server are blocked until it is back (mcp.fail_closed)",
            false => "what was known of pins, approvals and policy holds on",
        };
        let kind = EventKind::EnforcementDegraded {
            component: self.shared.name().to_owned(),
            cause: cause.to_owned(),
        };
        let mut event = Event::new(now, Layer::Agent, kind);
        event.severity = Severity::High;
        event.reason = Some(format!("{consequence}; see `mcpmon status`"));
        self.push(event);
    }

    /// Records that a daemon may run which does not serve this process, and which `policy` applies instead.
    pub(super) fn tell_beside(&mut self, now: Timestamp, rules: &Policy, cause: &str, policy: &str) {
        self.is_beside_daemon = true;
        let consequence = if rules.fail_closed {
            "uses of the server are blocked (mcp.fail_closed)".to_owned()
        } else {
            format!("{policy} applies, and records are in the user's own store")
        };
        let kind = EventKind::EnforcementDegraded {
            component: "daemon".to_owned(),
            cause: cause.to_owned(),
        };
        let mut event = Event::new(now, Layer::Agent, kind);
        event.severity = Severity::High;
        event.reason = Some(format!("{consequence}; see `mcpmon status`"));
        self.push(event);
    }

    /// Records that the shared state can be reached again.
    pub(super) fn tell_back(&mut self, now: Timestamp) {
        if self.presence.is_here() {
            return;
        }
        self.presence = SharedStatePresence::Here;
        let kind = EventKind::EnforcementRestored {
            component: self.shared.name().to_owned(),
            cause: "it answers again".to_owned(),
        };
        self.push(Event::new(now, Layer::Agent, kind));
    }

    /// Records an event, after adding the session, server and process.
    pub(super) fn push(&self, event: impl Into<PendingEvent>) {
        let mut pending = event.into();
        let event = &mut pending.event;
        if self.has_gaps && tapped::needs_all(event) {
            return;
        }
        tapped::stops_nothing(event);
        event
            .session_id
            .get_or_insert_with(|| self.member.session.clone());
        event
            .server_id
            .get_or_insert_with(|| self.member.identity.server.clone());
        if event.server_id.as_ref() == Some(&self.member.identity.server) && event.package.is_none() {
            event.package = self.member.identity.package();
        }
        self.recorder.push(pending.with_process(self.child.as_ref()));
    }
}
