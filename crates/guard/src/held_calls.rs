//! Calls that are held until a person answers: the guard takes the answers in, and has the filter judge the calls again.

use mcpmon_model::{AnsweredCall, Timestamp};
use mcpmon_protocol::filter::stdio::StdioFilter;

use crate::{Guard, GuardHost, GuardOutput, JudgementOutcome, arbiter::GuardArbiter};

/// The state of a held call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldCallState {
    /// There is no answer yet.
    Waiting,
    /// There is an answer, or none will come: the call has to be judged again.
    Settled,
    /// The call is not held here.
    Gone,
}

impl Guard {
    /// Takes in the answers of persons to calls of this server, here or elsewhere in the session.
    pub fn answer_calls(&mut self, now: Timestamp, answers: &[AnsweredCall], outcome: &mut JudgementOutcome) {
        if answers.is_empty() {
            return;
        }
        let identity = self.conversation().identity.clone();
        let judgement = self.monitor_mut().answer_calls(now, &identity, answers);
        drop(self.conclude(judgement, outcome));
    }

    /// Has every held call judged again that has an answer, or for which none will come.
    pub fn release(
        &mut self,
        now: Timestamp,
        filter: &mut StdioFilter,
        host: &mut dyn GuardHost,
        out: &mut GuardOutput,
    ) {
        for held_call in self.monitor_mut().take_settled_calls() {
            let mut arbiter = GuardArbiter {
                guard: self,
                now,
                host,
                outcome: &mut out.outcome,
            };
            filter.release(now, &held_call, &mut arbiter, &mut out.wire);
        }
        self.judge_incidents(now, out);
    }

    /// Returns the state of a held call.
    pub fn held_call(&self, held_call: &str) -> HeldCallState {
        let monitor = self.monitor();
        match (
            monitor.is_settled_call(held_call),
            monitor.is_held_call(held_call),
        ) {
            (true, _) => HeldCallState::Settled,
            (false, true) => HeldCallState::Waiting,
            (false, false) => HeldCallState::Gone,
        }
    }

    /// Withdraws a held call whose client no longer waits for the answer.
    pub fn withdraw(&mut self, now: Timestamp, held_call: &str, outcome: &mut JudgementOutcome) {
        let judgement = self.monitor_mut().withdraw_call(now, held_call);
        drop(self.conclude(judgement, outcome));
    }

    /// Settles a held call that cannot be kept, because of `cause`: it is refused when it is judged again.
    pub(crate) fn refuse_to_hold(
        &mut self,
        now: Timestamp,
        held_call: &str,
        cause: &'static str,
        outcome: &mut JudgementOutcome,
    ) {
        let judgement = self.monitor_mut().refuse_to_hold(now, held_call, cause);
        drop(self.conclude(judgement, outcome));
    }
}
