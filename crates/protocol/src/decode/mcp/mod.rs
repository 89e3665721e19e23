//! The meaning of messages: MCP of both eras, with answers matched to their requests.

mod answered;
mod changes;
mod client;
mod fields;
mod pending;
mod server;
mod tasks;

use std::collections::BTreeSet;

use mcpmon_model::{
    ClientRequestKind, Era, ListKind, Message, RequestId, ServerRequestKind, Side, Timestamp,
};

use self::{answered::AnsweredRequests, changes::Changes, pending::Pending};
pub use self::{
    fields::{VERSION, era_of},
    tasks::Tasks,
};
use super::{DecodeLimits, jsonrpc::Envelope};

/// Longest method, tool name, prompt name or URI of a request, bytes: they are kept while it waits.
const LONGEST_NAME: usize = 8 << 10;

/// Longest id of a request, bytes.
const LONGEST_ID: usize = 1 << 10;

/// The requests so far, of both sides.
#[derive(Debug)]
pub struct Dialogue {
    limits: DecodeLimits,
    requests: Pending<PendingClientRequest>,
    answered: AnsweredRequests,
    asks: Pending<ServerRequestKind>,
    tasks: Tasks,
    changes: Changes,
    /// Of the client's latest request: what a server says unasked is in the same.
    era: Era,
}

/// A message that was understood.
#[derive(Debug)]
pub struct DecodedMessage<'a> {
    /// The message.
    pub message: Message<'a>,
    /// The shape the result must have, whatever is decided about the message.
    pub shape: ResultShape,
    /// The state change that follows when the message is forwarded.
    pub sequel: ForwardEffect,
}

/// The kind of result that must stand in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultShape {
    /// The result of a call, which can report a failure itself.
    Call,
    /// Any other, or no result at all.
    Other,
}

/// The state change that follows when a message is forwarded: [`Dialogue::went_on`] applies it.
#[derive(Debug)]
pub enum ForwardEffect {
    /// Nothing.
    Nothing,
    /// The client's request waits for its answer.
    Answer(PendingClientRequest),
    /// The server's request waits for its reply.
    Reply(ServerRequestKind),
    /// A request of its sender is cancelled.
    Cancelled(RequestId),
    /// A call has become a task.
    Task {
        /// The task.
        id: Box<str>,
        /// The tool that was called.
        tool: Box<str>,
    },
    /// The server has said of which lists' changes it will tell.
    Announced(BTreeSet<ListKind>),
    /// The client's request has opened a stream on which changes of these lists are told.
    Opened(RequestId, BTreeSet<ListKind>),
}

/// A request of the client that waits for its answer.
#[derive(Clone, Debug)]
pub struct PendingClientRequest {
    question: ClientRequestKind,
    purpose: Purpose,
    era: Era,
    /// Ids of other layers, as in [`Trace`](mcpmon_model::Trace).
    tool_call: Option<Box<str>>,
    parent: Option<Box<str>>,
}

/// The purpose of a request, as far as its answer is read by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// `initialize`, `server/discover`.
    Introduction,
    /// A page of a list.
    List(ListPage),
    /// One entry of a list, or one directory of it.
    Part,
    /// `tools/call`; as a task of 2025-11-25 if that was asked for.
    Call(Manner),
    /// `tasks/result`: it is answered as the call would have been.
    TaskResult,
    /// `tasks/get`: a finished task can have the call's result in it.
    TaskStatus,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListPage {
    First,
    Later,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Direct,
    Task,
}

/// A message that cannot be understood, or may not be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidMessage {
    /// The message is not what its method or request demands.
    Invalid(&'static str),
    /// A request that cannot wait for its answer.
    Refused(&'static str),
    /// An answer to something that was not asked, or was answered.
    Unasked,
}

impl Dialogue {
    /// A dialogue in which nothing was said yet.
    pub const fn new(limits: DecodeLimits) -> Self {
        Self::with(limits, AnsweredRequests::NONE)
    }

    /// A dialogue over channels that come and go: what was said on one of them can be said again on another.
    pub const fn with_repetitions(limits: DecodeLimits) -> Self {
        Self::with(limits, AnsweredRequests::LATEST)
    }

    const fn with(limits: DecodeLimits, answered: AnsweredRequests) -> Self {
        Self {
            limits,
            requests: Pending::new(limits.max_pending),
            answered,
            asks: Pending::new(limits.max_pending),
            tasks: Tasks::new(limits.max_pending),
            changes: Changes::new(),
            era: Era::Handshake,
        }
    }

    /// Understands a message of one side, sent under a revision of `era` or one that it tells itself. What an answer
    /// answers waits no longer.
    ///
    /// # Errors
    ///
    /// Returns an error if it has no meaning, or may not be sent now.
    pub fn read<'a>(
        &mut self,
        side: Side,
        era: Era,
        envelope: &'a Envelope<'a>,
    ) -> Result<DecodedMessage<'a>, InvalidMessage> {
        match side {
            Side::Client => self.read_client(era, envelope),
            Side::Server => self.read_server(envelope),
        }
    }

    /// A message of one side went on; `id` is its own.
    pub fn went_on(&mut self, now: Timestamp, side: Side, id: Option<RequestId>, sequel: ForwardEffect) {
        match (sequel, id) {
            (ForwardEffect::Answer(request), Some(id)) => {
                self.era = request.era;
                self.requests.insert(id, now, request);
            }
            (ForwardEffect::Reply(ask), Some(id)) => self.asks.insert(id, now, ask),
            (ForwardEffect::Cancelled(id), _) => match side {
                Side::Client => self.requests.cancel(&id),
                Side::Server => self.asks.cancel(&id),
            },
            (ForwardEffect::Announced(lists), _) => self.changes.announce(lists),
            (ForwardEffect::Opened(stream, lists), _) => self.opened(stream, lists),
            (ForwardEffect::Task { id, tool }, _) => self.tasks.insert(&id, tool),
            (ForwardEffect::Nothing, _) | (ForwardEffect::Answer(_) | ForwardEffect::Reply(_), None) => {}
        }
    }

    /// Stops waiting for the answer to `side`'s request with this id, because no answer can come any more.
    /// Returns whether a request was waiting; its sender is then to be told.
    pub fn give_up(&mut self, side: Side, id: &RequestId) -> bool {
        match side {
            Side::Client => self.asks.take(id).is_some(),
            Side::Server => self.requests.take(id).is_some(),
        }
    }

    /// Returns whether a request of the client with this id waits for its answer.
    pub fn waits(&self, id: &RequestId) -> bool {
        self.requests.waits(id)
    }

    /// Returns whether a request of the client has waited too long.
    pub fn is_late(&self, now: Timestamp, id: &RequestId) -> bool {
        let timeout = self.limits.request_timeout;
        !timeout.is_zero() && self.requests.is_late(now, timeout, id)
    }

    /// Returns whether a request of the client has waited too long. If so, it waits no longer.
    pub fn expires(&mut self, now: Timestamp, id: &RequestId) -> bool {
        let timeout = self.limits.request_timeout;
        !timeout.is_zero() && self.requests.expires(now, timeout, id)
    }

    /// A request of the client is no longer waited for where it was made; its answer can come on another channel.
    pub fn leave(&mut self, id: &RequestId) {
        if let Some((at, request)) = self.requests.take(id) {
            self.answered.remember(id, at, &request);
        }
    }

    /// Returns whether the client expects an answer to any of its requests.
    pub fn is_answer_awaited(&self) -> bool {
        self.requests.is_any_awaited()
    }

    /// Every request of `side` that waits. They wait no longer.
    pub fn abandon(&mut self, side: Side) -> Vec<RequestId> {
        match side {
            Side::Client => self.requests.drain(),
            Side::Server => self.asks.drain(),
        }
    }

    /// Requests of `side` that have waited too long. They wait no longer.
    pub fn expire(&mut self, now: Timestamp, side: Side) -> Vec<RequestId> {
        let timeout = self.limits.request_timeout;
        if timeout.is_zero() {
            return Vec::new();
        }
        match side {
            Side::Client => self.requests.expire(now, timeout),
            Side::Server => self.asks.expire(now, timeout),
        }
    }
}

impl PendingClientRequest {
    /// Returns whether it asks the same as another, so that an answer to the one is read as an answer to the
    /// other.
    fn asks_like(&self, other: &Self) -> bool {
        self.question == other.question && self.purpose == other.purpose && self.era == other.era
    }
}

/// Methods of MCP that are requests; some servers run them although there is no id.
fn is_request(method: &str) -> bool {
    const NAMESPACES: [&str; 12] = [
        "completion/",
        "elicitation/",
        "logging/",
        "prompts/",
        "resources/",
        "roots/",
        "sampling/",
        "server/",
        "skills/",
        "subscriptions/",
        "tasks/",
        "tools/",
    ];
    matches!(method, "initialize" | "ping")
        || NAMESPACES.iter().any(|namespace| method.starts_with(namespace))
}

fn is_too_long(id: &RequestId) -> bool {
    match id {
        RequestId::Number(text) | RequestId::Text(text) => text.len() > LONGEST_ID,
    }
}
