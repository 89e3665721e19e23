//! Rules about the conversation as a whole: the server policy and the kill switch.

use mcpmon_engine::{Judgement, admission_named};
use mcpmon_model::{Action, Denial, DerivedId, Event, EventKind, Severity, Timestamp, Verdict};
use mcpmon_policy::{Admission, Mode, ServerNames};

use crate::{Guard, JudgementOutcome};

impl Guard {
    /// Returns whether the server may run, independently of its files. `derived` is the id that follows from its program, its
    /// address or its declaration, whatever its client calls it.
    pub fn admit(&mut self, now: Timestamp, derived: &DerivedId, outcome: &mut JudgementOutcome) -> Verdict {
        let own = self.monitor.starts_as(now, &self.conversation.identity, derived);
        self.admit_as(now, own.with_given(&self.conversation.identity.server), outcome)
    }

    fn admit_as(&self, now: Timestamp, names: ServerNames<'_>, outcome: &mut JudgementOutcome) -> Verdict {
        let policy = self.policy();
        let admission = admission_named(policy, names);
        let Some(denial) = admission.denial_named(names) else {
            return Verdict::Allow;
        };
        let cause = match admission {
            Admission::Undeclared => "only declared servers may be used",
            Admission::Admitted | Admission::Denied => "the server policy refuses this server",
        };
        let cause = cause.to_owned();
        let mut event = Event::new(now, self.conversation.layer, EventKind::ServerDenied { cause });
        event.severity = Severity::High;
        event.rule = Some(denial.rule.clone());
        event.reason = Some(denial.reason.clone());
        event.remedy.clone_from(&denial.remedy);
        let (action, verdict) = match policy.mode {
            Mode::Enforce => (Action::Block, Verdict::Block(denial)),
            Mode::Observe => (Action::WouldBlock, Verdict::Allow),
        };
        event.action = action;
        let judgement = Judgement::of(verdict, event);
        self.conclude(judgement, outcome)
    }

    /// Judges whether the server may be used, and blocks every message of the client until it may.
    pub fn admit_messages(&mut self, now: Timestamp, outcome: &mut JudgementOutcome) {
        let declared = DerivedId {
            id: self.conversation.identity.server.clone(),
            is_declared: true,
        };
        self.barred = match self.admit(now, &declared, outcome) {
            Verdict::Block(denial) => Some(denial),
            Verdict::Allow
            | Verdict::Hide(_)
            | Verdict::StripInstructions
            | Verdict::Redact(_)
            | Verdict::Ask(_) => None,
        };
    }

    /// Returns the denial of every request while the server may not be used, or a person has stopped the session or the
    /// host. The first one for a stop is recorded, and the denial of each request names that event.
    pub fn halted(&mut self, now: Timestamp, outcome: &mut JudgementOutcome) -> Option<Denial> {
        if let Some(denial) = &self.barred {
            return Some(denial.clone());
        }
        let Some(mut denial) = self.monitor.halted(self.conversation.session.as_ref()) else {
            self.halted = None;
            return None;
        };
        let known = self.halted.as_ref().filter(|known| known.reason == denial.reason);
        if let Some(known) = known {
            return Some(known.clone());
        }
        let id = (self.new_event_id)(now);
        let mut event = Event::new(
            now,
            self.conversation.layer,
            EventKind::RequestJudged {
                method: String::new(),
                summary: "requests that waited for an answer were ended".to_owned(),
                count: 1,
            },
        );
        event.id = Some(id);
        event.session_id.clone_from(&self.conversation.session);
        event.server_id = Some(self.conversation.identity.server.clone());
        event.action = Action::Block;
        event.severity = Severity::High;
        event.rule = Some(denial.rule.clone());
        event.reason = Some(denial.reason.clone());
        outcome.events.push(event);
        denial.event = Some(id);
        self.halted = Some(denial.clone());
        Some(denial)
    }
}
