//! MCP over HTTP: requests when they are complete, responses as they arrive.
//!
//! A post that cannot be parsed strictly, or contradicts its headers, never reaches the server. The server's response
//! is judged message by message, wherever the message is: in a JSON body, in an event of a stream, or in the text of an
//! error that clients pass to the model. Comments, `retry:` and empty events pass unchanged.

mod annotations;
mod fault;
pub(super) mod head;
mod joined;
mod learned;
mod legacy;
mod post;
mod question;
mod response;
mod rewritten;
#[cfg(test)]
mod tests;
pub mod value;

use mcpmon_model::{Incident, Side, Timestamp};

use self::post::BodyExit;
pub use self::{
    fault::{ResponseFault, error_body},
    head::Head,
    learned::ServerKnowledge,
    legacy::{AnnouncedEndpoint, endpoint},
    post::{Forward, PendingRequests, Post, PostDecision, ProxyResponse, UnlistedTools},
    question::Question,
    response::{HttpResponse, ReadState, WholeResponseHead},
};
pub use super::own::ListOutcome;
use super::{
    called::called,
    message::{Arbiter, ReceivedText, TextReader},
    own::OwnRequests,
};
pub use crate::{
    decode::DecodeLimits,
    rewrite::{event, oauth::Resource},
};
use crate::{
    decode::{json::Doubt, lines, mcp::Dialogue},
    rewrite::{self, refusal},
};

/// Bytes to send, messages to post, and incidents: the output of the filter, which its driver drains.
#[derive(Debug, Default)]
pub struct HttpOutput {
    /// Bytes that continue the response to the client.
    pub to_client: Vec<u8>,
    /// Messages that still have to be posted to the server: the refusals of its requests.
    pub to_server: Vec<String>,
    /// Incidents that are not part of a message.
    pub incidents: Vec<Incident>,
}

/// The requests and answers of one session with one server: of one `Mcp-Session-Id`, of one stream of the earlier
/// transport, or of one request if there are no sessions.
#[derive(Debug)]
pub struct HttpSession {
    limits: DecodeLimits,
    reader: TextReader,
    learned: ServerKnowledge,
    own: OwnRequests,
    /// True if all answers come on one stream.
    is_legacy: bool,
}

impl HttpSession {
    /// Returns a session without messages. Sessions of one client with one server share what they have `learned`.
    pub fn new(limits: DecodeLimits, learned: ServerKnowledge) -> Self {
        Self {
            limits,
            reader: TextReader::new(limits, Dialogue::with_repetitions(limits)),
            learned,
            own: OwnRequests::default(),
            is_legacy: false,
        }
    }

    /// Returns a session of the transport of 2024-11-05, in which all answers come on its first stream.
    pub fn legacy(limits: DecodeLimits, learned: ServerKnowledge) -> Self {
        Self {
            is_legacy: true,
            ..Self::new(limits, learned)
        }
    }

    /// Handles a client's post as [`Self::post`] does, unless it needs lists and calls unlisted tools.
    ///
    /// # Errors
    /// Returns these tools. Nothing of the post was judged then.
    pub fn post_listed(
        &mut self,
        now: Timestamp,
        post: &Post<'_>,
        arbiter: &mut dyn Arbiter,
        out: &mut HttpOutput,
    ) -> Result<PostDecision, UnlistedTools> {
        if post.needs_lists {
            let mut tools = called(self.limits, post.body);
            tools.retain(|tool| !arbiter.is_listed(tool));
            if !tools.is_empty() {
                return Err(UnlistedTools(tools));
            }
        }
        Ok(self.post(now, post.head, post.body, arbiter, out))
    }

    /// Handles a client's post: its headers and its complete body. In a session of the transport of 2024-11-05, `out`
    /// can afterwards have bytes for the client's stream.
    pub fn post(
        &mut self,
        now: Timestamp,
        head: &Head<'_>,
        body: &[u8],
        arbiter: &mut dyn Arbiter,
        out: &mut HttpOutput,
    ) -> PostDecision {
        if body.len() > self.limits.max_line {
            let limit = self.limits.max_line;
            let side = Side::Client;
            out.incidents.push(Incident::TooLong { side, limit });
            return PostDecision::Answer(ProxyResponse::too_long(limit));
        }
        if lines::is_blank(body) {
            let cause = "the body is empty";
            out.incidents.push(Incident::Unparsable {
                cause: cause.to_owned(),
            });
            return PostDecision::Answer(ProxyResponse::refused(400, rewrite::RefusalReason::Parse, cause));
        }
        if let Some(cause) = head.objection_to_charset() {
            let answer = ProxyResponse::refused(415, rewrite::RefusalReason::Request, &cause);
            out.incidents.push(Incident::Unparsable { cause });
            return PostDecision::Answer(answer);
        }
        let mut exit = BodyExit::new(head, &self.learned, &self.own.waiting, &mut out.incidents);
        let spoken = ReceivedText {
            side: Side::Client,
            text: body,
            borne: Doubt::LineEnd,
            era: head.era(),
        };
        self.reader.read(now, spoken, arbiter, &mut exit);
        let posted = exit.posted(body);
        if self.is_legacy {
            return on_the_stream(posted, out);
        }
        posted
    }

    /// Returns whether a call is held; one that its client cancelled is not.
    pub fn holds(&self, held_call: &str) -> bool {
        self.reader.held.holds(held_call)
    }

    /// Stops holding a call: it is posted again, or its client has disconnected.
    pub fn release(&mut self, held_call: &str) {
        self.reader.held.release(held_call);
    }

    /// Returns the progress notification for the client of a held call, if one is due.
    pub fn progress(&mut self, now: Timestamp, held_call: &str) -> Option<String> {
        self.reader.held.progress_of(now, held_call)
    }

    /// Refuses the requests of the server that have waited longer than allowed, if there is such a limit.
    pub fn expire(&mut self, now: Timestamp, out: &mut HttpOutput) {
        for id in self.reader.dialogue.expire(now, Side::Server) {
            let cause = "no answer came in time";
            out.to_server
                .push(refusal(Some(&id), rewrite::RefusalReason::Timeout, cause));
        }
    }
}

/// Moves mcpmon's own answers to the stream if all answers are sent there: clients do not expect one in the response to
/// a post.
fn on_the_stream(posted: PostDecision, out: &mut HttpOutput) -> PostDecision {
    match posted {
        PostDecision::Forward(mut forward) => {
            forward.waiting.elsewhere = true;
            for answer in forward.waiting.answers.drain(..) {
                event(&answer, &mut out.to_client);
            }
            PostDecision::Forward(forward)
        }
        PostDecision::Answer(answer) if answer.status == 200 => {
            event(&String::from_utf8_lossy(&answer.body), &mut out.to_client);
            PostDecision::Answer(ProxyResponse {
                status: 202,
                body: Vec::new(),
            })
        }
        posted @ (PostDecision::Answer(_) | PostDecision::Held(_)) => posted,
    }
}
