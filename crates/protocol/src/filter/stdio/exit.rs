//! The destination of decided lines.

use mcpmon_model::{Incident, RequestId, Side};

use super::{
    super::message::{AnswerReason, Exit, HoldPlace, MessageHandling, NonMessage},
    StdioOutput,
};
use crate::{
    decode::jsonrpc::{Envelope, Payload},
    filter::own::OwnRequests,
};

/// A line that `side` wrote, and the output for it.
pub(super) struct LineExit<'o> {
    side: Side,
    /// The whole line, with its terminator.
    line: &'o [u8],
    /// Requests of mcpmon itself, whose answers are not forwarded.
    own: Option<&'o OwnRequests>,
    /// True if the next line is one of our own.
    is_own: bool,
    out: &'o mut StdioOutput,
}

impl<'o> LineExit<'o> {
    pub(super) const fn new(
        side: Side,
        line: &'o [u8],
        own: Option<&'o OwnRequests>,
        out: &'o mut StdioOutput,
    ) -> Self {
        Self {
            side,
            line,
            own,
            is_own: false,
            out,
        }
    }

    fn is_ours(&self, id: &RequestId) -> bool {
        self.side == Side::Server && self.own.is_some_and(|own| own.waiting.contains(id))
    }
}

impl Exit for LineExit<'_> {
    fn as_it_came(&mut self) {
        self.out.forward(self.side, self.line);
    }

    fn instead(&mut self, text: &str) {
        if std::mem::take(&mut self.is_own) {
            return;
        }
        self.out.forward_line(self.side, text);
    }

    fn answer(&mut self, text: &str, _why: AnswerReason) {
        self.out.answer(self.side, text);
    }

    fn hold_place(&self) -> HoldPlace {
        match self.side {
            Side::Client => HoldPlace::Filter,
            Side::Server => HoldPlace::Nowhere,
        }
    }

    fn gave_up(&mut self, id: &RequestId) {
        self.is_own = self.is_ours(id);
    }

    fn admits(&mut self, envelope: &Envelope<'_>) -> MessageHandling {
        match (&envelope.payload, &envelope.id) {
            (Payload::Result(_) | Payload::Error(_), Some(id)) if self.is_ours(id) => MessageHandling::Ours,
            _ => MessageHandling::Goes,
        }
    }

    fn divert(&mut self, what: NonMessage<'_>) {
        match what {
            NonMessage::All => self.out.divert(self.line),
            NonMessage::Part(text) => self.out.divert(text.as_bytes()),
        }
    }

    fn incident(&mut self, incident: Incident) {
        self.out.incidents.push(incident);
    }
}
