//! One JSON text of a conversation: read strictly, judged message by message, and what becomes of it. How texts come
//! and go is a transport's.

mod again;
mod apply;
mod held;
mod reader;
mod turn;

use mcpmon_model::{Denial, Incident, Message, RequestId, Verdict};

pub(super) use self::reader::{ReceivedText, TextReader};
use crate::decode::{json::Value, jsonrpc::Envelope};

/// Decides what becomes of the messages of a conversation. A function from a message to a verdict is an arbiter that takes
/// every tool for listed.
pub trait Arbiter {
    /// Returns the verdict on a message.
    fn decide(&mut self, message: &Message<'_>) -> Verdict;

    /// Returns whether a tool was on a list of the server. The filter asks the server for its list before it lets a call
    /// of another tool through.
    fn is_listed(&mut self, _tool: &str) -> bool {
        true
    }

    /// Returns the verdict on a call that the arbiter wants held and that cannot be, for this reason.
    fn cannot_hold(&mut self, _message: &Message<'_>, _held_call: &str, cause: &'static str) -> Verdict {
        Verdict::Block(Denial {
            rule: "internal".to_owned(),
            reason: cause.to_owned(),
            remedy: None,
            event: None,
        })
    }

    /// The client took a held call back.
    fn withdrawn(&mut self, _held_call: &str) {}
}

impl<F: FnMut(&Message<'_>) -> Verdict> Arbiter for F {
    fn decide(&mut self, message: &Message<'_>) -> Verdict {
        self(message)
    }
}

/// The destination of decided texts.
pub(super) trait Exit {
    /// The text goes on as it came.
    fn as_it_came(&mut self);

    /// This goes on: in place of the text, or of a message in it for whose answer its receiver waits.
    fn instead(&mut self, text: &str);

    /// This goes back to whoever sent the text.
    fn answer(&mut self, text: &str, why: AnswerReason);

    /// No answer to this request can come any more: what says so follows.
    fn gave_up(&mut self, _id: &RequestId) {}

    /// Returns whether only the ids in a text tell which requests it belongs to. A response that is one text
    /// belongs to what was posted, whatever stands in it.
    fn needs_ids(&self) -> bool {
        true
    }

    /// The text is no message, or a part of it is none.
    fn divert(&mut self, what: NonMessage<'_>);

    /// Something happened that no message tells.
    fn incident(&mut self, incident: Incident);

    /// Returns whether an array of messages may come here. If not, whoever sent it was told.
    fn admits_batch(&mut self, _batch: Value<'_>) -> bool {
        true
    }

    /// Returns where a call can be held that comes this way.
    fn hold_place(&self) -> HoldPlace {
        HoldPlace::Nowhere
    }

    /// A call is held that came this way, until a person answers the question with this id.
    fn held(&mut self, _held_call: &str) {}

    /// Decides what happens to a message before it is judged.
    fn admits(&mut self, _envelope: &Envelope<'_>) -> MessageHandling {
        MessageHandling::Goes
    }
}

/// The place at which a held call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoldPlace {
    /// Here, with its text.
    Filter,
    /// The transport keeps the whole text that it came in.
    Transport,
    /// A call cannot be held.
    Nowhere,
}

/// The reason for an answer of our own.
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

/// The treatment of a message, whatever the judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageHandling {
    /// The judgement decides.
    Goes,
    /// The message is judged, and goes no further.
    Ours,
    /// Nothing: whoever sent it was told.
    Refused,
}
