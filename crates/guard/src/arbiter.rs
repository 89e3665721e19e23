//! The guard in the role of a filter's arbiter.

use mcpmon_model::{Message, Timestamp, Verdict};
use mcpmon_protocol::filter::Arbiter;

use crate::{Guard, GuardHost, JudgementOutcome};

/// The guard in the role of the filter's arbiter, for one call of the filter.
pub(crate) struct GuardArbiter<'g> {
    pub(crate) guard: &'g mut Guard,
    pub(crate) now: Timestamp,
    pub(crate) host: &'g mut dyn GuardHost,
    pub(crate) outcome: &'g mut JudgementOutcome,
}

impl Arbiter for GuardArbiter<'_> {
    fn decide(&mut self, message: &Message<'_>) -> Verdict {
        self.guard.message(self.now, message, self.host, self.outcome)
    }

    fn is_listed(&mut self, tool: &str) -> bool {
        self.guard.is_listed(tool)
    }

    fn cannot_hold(&mut self, message: &Message<'_>, held_call: &str, cause: &'static str) -> Verdict {
        self.guard
            .refuse_to_hold(self.now, held_call, cause, self.outcome);
        self.decide(message)
    }

    fn withdrawn(&mut self, held_call: &str) {
        self.guard.withdraw(self.now, held_call, self.outcome);
    }
}
