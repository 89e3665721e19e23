//! Conversations over HTTP: the transport passes in posts and responses with their session, and gets the bytes to
//! forward and an outcome.

use std::fmt;

use mcpmon_model::{Message, Timestamp, Verdict};
use mcpmon_protocol::filter::{
    Arbiter,
    mcp_http::{
        HttpOutput, HttpResponse, HttpSession, Post, PostDecision, ReadState, ResponseFault, UnlistedTools,
        WholeResponseHead,
    },
};

use crate::{Guard, GuardHost, JudgementOutcome, arbiter::GuardArbiter};

/// The guard for one post, or for one piece of a response.
pub struct HttpGuard<'g>(GuardArbiter<'g>);

// Debug output must not show messages.
impl fmt::Debug for HttpGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpGuard").finish_non_exhaustive()
    }
}

impl Guard {
    /// Returns the guard for one post, or for one piece of a response. It adds events and effects to `outcome`; handle
    /// these before forwarding bytes.
    pub fn http<'g>(
        &'g mut self,
        now: Timestamp,
        host: &'g mut dyn GuardHost,
        outcome: &'g mut JudgementOutcome,
    ) -> HttpGuard<'g> {
        HttpGuard(GuardArbiter {
            guard: self,
            now,
            host,
            outcome,
        })
    }
}

impl HttpGuard<'_> {
    /// Judges a post.
    ///
    /// # Errors
    /// Returns the tools that are on no list, if the post needs lists. Nothing of the post was judged then.
    pub fn post(
        &mut self,
        session: &mut HttpSession,
        post: &Post<'_>,
        out: &mut HttpOutput,
    ) -> Result<PostDecision, UnlistedTools> {
        let posted = session.post_listed(self.0.now, post, &mut self.0, out);
        self.judge_incidents(out);
        posted
    }

    /// Reads a piece of a response, cut at any byte.
    pub fn push(
        &mut self,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        bytes: &[u8],
        out: &mut HttpOutput,
    ) -> ReadState {
        let flow = response.push(self.0.now, session, bytes, &mut self.0, out);
        self.judge_incidents(out);
        flow
    }

    /// Handles the end of a response.
    pub fn end(
        &mut self,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        out: &mut HttpOutput,
    ) -> WholeResponseHead {
        let ended = response.end(self.0.now, session, &mut self.0, out);
        self.judge_incidents(out);
        ended
    }

    /// Handles a response that does not come, or not completely. The requests that waited for it are answered with the
    /// fault, and these answers are recorded as if the server had sent them.
    pub fn fail(
        &mut self,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        fault: &ResponseFault,
        out: &mut HttpOutput,
    ) -> WholeResponseHead {
        let messages = self.0.guard.server_messages;
        response.note_failure(self.0.now, session, fault, &mut RecordArbiter(&mut self.0));
        // These answers do not count as messages of the server.
        self.0.guard.server_messages = messages;
        let ended = response.fail(session, fault, out);
        self.judge_incidents(out);
        ended
    }

    fn judge_incidents(&mut self, out: &mut HttpOutput) {
        let GuardArbiter {
            guard, now, outcome, ..
        } = &mut self.0;
        for incident in out.incidents.drain(..) {
            guard.incident(*now, &incident, outcome);
        }
    }
}

/// An arbiter that has messages judged for the record only, and lets all of them pass.
struct RecordArbiter<'r, 'g>(&'r mut GuardArbiter<'g>);

impl Arbiter for RecordArbiter<'_, '_> {
    fn decide(&mut self, message: &Message<'_>) -> Verdict {
        drop(self.0.decide(message));
        Verdict::Allow
    }
}
