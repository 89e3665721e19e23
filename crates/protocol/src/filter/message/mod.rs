//! Judgement of one JSON text of a conversation: it is read strictly, judged message by message, and forwarded,
//! replaced or answered. Transports receive and send the texts.

mod again;
mod apply;
mod held;
mod reader;
mod turn;

use mcpmon_model::{Denial, Incident, Message, RequestId, Verdict};

pub(super) use self::reader::{ReceivedText, TextReader};
use crate::decode::{json::Value, jsonrpc::Envelope};

/// The judge of a conversation's messages. A function from a message to a verdict is an arbiter that considers every
/// tool listed.
pub trait Arbiter {
    /// Returns the verdict on a message.
    fn decide(&mut self, message: &Message<'_>) -> Verdict;

    /// Returns whether a tool was on a list of the server. The filter asks the server for its list before it lets a call
    /// of another tool through.
    fn is_listed(&mut self, _tool: &str) -> bool {
        true
    }

    /// Returns the verdict on a call that the arbiter wants held and that cannot be held, for this reason.
    fn cannot_hold(&mut self, _message: &Message<'_>, _held_call: &str, cause: &'static str) -> Verdict {
        Verdict::Block(Denial {
            rule: "internal".to_owned(),
            reason: cause.to_owned(),
            remedy: None,
            event: None,
        })
    }

    /// Notes that the client cancelled a held call.
    fn withdrawn(&mut self, _held_call: &str) {}
}

impl<F: FnMut(&Message<'_>) -> Verdict> Arbiter for F {
    fn decide(&mut self, message: &Message<'_>) -> Verdict {
        self(message)
    }
}

/// The destination of decided texts.
pub(super) trait Exit {
    /// Forwards the text unchanged.
    fn as_it_came(&mut self);

    /// Forwards this in place of the text, or in place of a message in it whose answer its receiver waits for.
    fn instead(&mut self, text: &str);

    /// Sends this back to the side that sent the text.
    fn answer(&mut self, text: &str, why: AnswerReason);

    /// Notes that no answer to this request can come any more; the error for its sender follows.
    fn gave_up(&mut self, _id: &RequestId) {}

    /// Returns whether only the ids in a text show which requests it belongs to. A response of one text belongs to the
    /// post, whatever ids are in it.
    fn needs_ids(&self) -> bool {
        true
    }

    /// Handles a text, or a part of a text, that is no message.
    fn divert(&mut self, what: NonMessage<'_>);

    /// Records an incident that is not part of a message.
    fn incident(&mut self, incident: Incident);

    /// Returns whether an array of messages may come here. If not, the implementation has answered its sender.
    fn admits_batch(&mut self, _batch: Value<'_>) -> bool {
        true
    }

    /// Returns where a call of this text can be held.
    fn hold_place(&self) -> HoldPlace {
        HoldPlace::Nowhere
    }

    /// Notes that a call of this text is held until a person answers the question with this id.
    fn held(&mut self, _held_call: &str) {}

    /// Decides what happens to a message before it is judged.
    fn admits(&mut self, _envelope: &Envelope<'_>) -> MessageHandling {
        MessageHandling::Goes
    }
}

/// The place where a held call is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoldPlace {
    /// The filter keeps the text of the call.
    Filter,
    /// The transport keeps the whole text with the call.
    Transport,
    /// A call cannot be held.
    Nowhere,
}

/// The reason for an answer of mcpmon itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerReason {
    /// The message was judged and stopped.
    Stopped,
    /// The message cannot pass, whatever the judgement.
    Refused,
}

/// Text that is not a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum NonMessage<'t> {
    /// The whole text, as it came.
    All,
    /// This part of it.
    Part(&'t str),
}

/// The treatment of a message, whatever the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageHandling {
    /// The judgement decides.
    Goes,
    /// The message answers a request of mcpmon itself: it is judged, and not forwarded.
    Ours,
    /// The message is dropped; its sender was told.
    Refused,
}
