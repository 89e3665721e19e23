//! Meaning of messages: MCP of both eras, with answers matched to their requests.

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

/// Longest method, tool name, prompt name or URI of a request, bytes; it is kept until the request is answered.
const MAX_NAME: usize = 8 << 10;

/// Longest id of a request, bytes.
const MAX_ID: usize = 1 << 10;

/// The requests of both sides so far.
#[derive(Debug)]
pub struct Dialogue {
    limits: DecodeLimits,
    requests: Pending<PendingClientRequest>,
    answered: AnsweredRequests,
    asks: Pending<ServerRequestKind>,
    tasks: Tasks,
    changes: Changes,
    /// The era of the client's latest request; it applies to unrequested messages of the server.
    era: Era,
}

/// A decoded message.
#[derive(Debug)]
pub struct DecodedMessage<'a> {
    /// The message.
    pub message: Message<'a>,
    /// The shape that the result must have, whatever the verdict on the message.
    pub shape: ResultShape,
    /// The state change when the message is forwarded.
    pub sequel: ForwardEffect,
}

/// The kind of result that an answer must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultShape {
    /// The result of a call, which can report a failure itself.
    Call,
    /// Any other, or no result at all.
    Other,
}

/// A state change when a message is forwarded: [`Dialogue::went_on`] applies it.
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
    /// The server has announced of which lists it will report changes.
    Announced(BTreeSet<ListKind>),
    /// The client's request has opened a stream on which changes of these lists are reported.
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

/// The purpose of a request, as far as decoding its answer needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// `initialize`, `server/discover`.
    Introduction,
    /// A page of a list.
    List(ListPage),
    /// One entry of a list, or one directory of it.
    Part,
    /// `tools/call`; as a task of 2025-11-25 if the client requested one.
    Call(Manner),
    /// `tasks/result`: the answer is that of the call.
    TaskResult,
    /// `tasks/get`: the status of a finished task can contain the call's result.
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
    /// The message is not what its method, or its request, requires.
    Invalid(&'static str),
    /// A request that cannot wait for its answer.
    Refused(&'static str),
    /// An answer to a request that was not made, or was answered already.
    Unasked,
}

impl Dialogue {
    /// Returns a dialogue without messages.
    pub const fn new(limits: DecodeLimits) -> Self {
        Self::with(limits, AnsweredRequests::NONE)
    }

    /// Returns a dialogue over channels that come and go: an answer on one of them can be repeated on another.
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

    /// Decodes a message of one side, sent under a revision of `era`, or under one that the message itself names. The
    /// request that it answers no longer waits.
    ///
    /// # Errors
    ///
    /// Returns an error if the message has no meaning, or may not be sent now.
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

    /// Notes that a message of one side was forwarded; `id` is its own id.
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

    /// Stops waiting for the answer to a request that `side` would have answered, because none can come any more.
    /// Returns whether the request was waiting; the caller then has to tell its sender.
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

    /// Returns whether a request of the client has waited too long, and stops waiting for its answer if so.
    pub fn expires(&mut self, now: Timestamp, id: &RequestId) -> bool {
        let timeout = self.limits.request_timeout;
        !timeout.is_zero() && self.requests.expires(now, timeout, id)
    }

    /// Notes that a request of the client no longer waits on its channel; its answer can come on another one.
    pub fn leave(&mut self, id: &RequestId) {
        if let Some((at, request)) = self.requests.take(id) {
            self.answered.remember(id, at, &request);
        }
    }

    /// Returns whether the client expects an answer to any of its requests.
    pub fn is_answer_awaited(&self) -> bool {
        self.requests.is_any_awaited()
    }

    /// Returns all waiting requests of `side`, and stops waiting for them.
    pub fn abandon(&mut self, side: Side) -> Vec<RequestId> {
        match side {
            Side::Client => self.requests.drain(),
            Side::Server => self.asks.drain(),
        }
    }

    /// Returns the requests of `side` that have waited too long, and stops waiting for them.
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
    /// Returns whether an answer to this request would be read like an answer to the other.
    fn asks_like(&self, other: &Self) -> bool {
        self.question == other.question && self.purpose == other.purpose && self.era == other.era
    }
}

/// Returns whether a method of MCP is a request; some servers run requests even without an id.
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
        RequestId::Number(text) | RequestId::Text(text) => text.len() > MAX_ID,
    }
}
