//! A conversation over a server's standard streams: bytes of one side go in, bytes for both sides and an outcome come out.

use mcpmon_model::{Side, Timestamp};
use mcpmon_protocol::filter::stdio::{self, StdioFilter};

use crate::{Guard, GuardHost, JudgementOutcome, arbiter::GuardArbiter};

/// The output of a guard for the bytes of one side.
#[derive(Debug, Default)]
pub struct GuardOutput {
    /// The bytes to write. Its incidents have been judged and removed.
    pub wire: stdio::StdioOutput,
    /// The events and effects, which come before the bytes.
    pub outcome: JudgementOutcome,
}

impl Guard {
    /// Takes the bytes that `side` wrote, cut anywhere.
    pub fn push(
        &mut self,
        now: Timestamp,
        filter: &mut StdioFilter,
        side: Side,
        bytes: &[u8],
        host: &mut dyn GuardHost,
        out: &mut GuardOutput,
    ) {
        let mut arbiter = GuardArbiter {
            guard: self,
            now,
            host,
            outcome: &mut out.outcome,
        };
        filter.push(now, side, bytes, &mut arbiter, &mut out.wire);
        self.judge_incidents(now, out);
    }

    /// Handles the end of the bytes of `side`.
    pub fn close(
        &mut self,
        now: Timestamp,
        filter: &mut StdioFilter,
        side: Side,
        host: &mut dyn GuardHost,
        out: &mut GuardOutput,
    ) {
        filter.close(side, &mut out.wire);
        if side == Side::Client {
            for held_call in filter.take_held() {
                self.withdraw(now, &held_call, &mut out.outcome);
            }
        }
        self.resume(now, filter, host, out);
    }

    /// Answers requests that have waited for too long, and resumes the lines that waited for a list.
    pub fn expire(
        &mut self,
        now: Timestamp,
        filter: &mut StdioFilter,
        host: &mut dyn GuardHost,
        out: &mut GuardOutput,
    ) {
        filter.expire(now, &mut out.wire);
        self.resume(now, filter, host, out);
    }

    fn resume(
        &mut self,
        now: Timestamp,
        filter: &mut StdioFilter,
        host: &mut dyn GuardHost,
        out: &mut GuardOutput,
    ) {
        let mut arbiter = GuardArbiter {
            guard: self,
            now,
            host,
            outcome: &mut out.outcome,
        };
        filter.go_on(now, &mut arbiter, &mut out.wire);
        self.judge_incidents(now, out);
    }

    pub(crate) fn judge_incidents(&mut self, now: Timestamp, out: &mut GuardOutput) {
        for incident in out.wire.incidents.drain(..) {
            self.incident(now, &incident, &mut out.outcome);
        }
    }
}
