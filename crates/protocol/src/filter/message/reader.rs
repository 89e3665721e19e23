//! Reading of texts: parsing, judgement, and forwarding.

use mcpmon_model::{Content, Era, FromServer, Incident, Message, Side, Timestamp, Verdict};

use super::{
    AnswerReason, Arbiter, Exit, NonMessage,
    again::LastList,
    apply::{AppliedVerdict, apply},
    held::HeldMessages,
    turn::Turn,
};
use crate::{
    decode::{
        DecodeLimits,
        json::{Doubt, LoneSurrogate, Scanner, canonical},
        jsonrpc::Envelope,
        mcp::{Dialogue, ResultShape},
        outline::MessageOutline,
    },
    rewrite::{RefusalReason, StoppedMessage, refusal},
};

/// Reads the texts of both sides of a conversation.
#[derive(Debug)]
pub(in crate::filter) struct TextReader {
    limits: DecodeLimits,
    scanner: Scanner,
    /// Scanner for texts that were rewritten.
    second: Scanner,
    pub(in crate::filter) dialogue: Dialogue,
    last_list: LastList,
    pub(in crate::filter) held: HeldMessages,
}

/// A text that one side sent.
#[derive(Clone, Copy, Debug)]
pub(in crate::filter) struct ReceivedText<'t> {
    pub(in crate::filter) side: Side,
    pub(in crate::filter) text: &'t [u8],
    /// The worst doubt with which it may still be forwarded unchanged.
    pub(in crate::filter) borne: Doubt,
    /// The era of the protocol according to the transport; a message can name a later one itself.
    pub(in crate::filter) era: Era,
}

impl TextReader {
    pub(in crate::filter) fn new(limits: DecodeLimits, dialogue: Dialogue) -> Self {
        Self {
            limits,
            scanner: Scanner::new(limits.max_depth),
            second: Scanner::new(limits.max_depth),
            dialogue,
            last_list: LastList::default(),
            held: HeldMessages::default(),
        }
    }

    /// Enables [`Self::read_again`], which recognises lists that come again.
    pub(in crate::filter) fn recognising_lists(self) -> Self {
        Self {
            last_list: LastList::recognised(),
            ..self
        }
    }

    /// Judges a whole text that repeats the server's last list, without parsing it again. Returns whether it was one.
    pub(in crate::filter) fn read_again(
        &mut self,
        text: &[u8],
        arbiter: &mut dyn Arbiter,
        exit: &mut dyn Exit,
    ) -> bool {
        let Some((id, kept)) = self.last_list.find(text) else {
            return false;
        };
        let Some((era, trace)) = self.dialogue.lists(&id, kept.kind) else {
            return false;
        };
        let message = Message {
            era,
            id: Some(&id),
            trace,
            size: text.len(),
            content: Content::Server(FromServer::Listing(kept.listing())),
        };
        let verdict = arbiter.decide(&message);
        if verdict == Verdict::Allow {
            exit.as_it_came();
            return true;
        }
        let scan = self.scanner.scan(text, LoneSurrogate::Refuse);
        let envelope = scan.ok().map(|scan| Envelope::read(scan.document.root()));
        let Some(Ok(envelope)) = envelope else {
            exit.divert(NonMessage::All);
            return true;
        };
        match apply(&envelope, &message, ResultShape::Other, &verdict) {
            AppliedVerdict::AsIs => exit.as_it_came(),
            AppliedVerdict::Less(text) | AppliedVerdict::Stopped(StoppedMessage::ToReceiver(text)) => {
                exit.instead(&text)
            }
            AppliedVerdict::Stopped(StoppedMessage::ToSender(text)) => {
                exit.answer(&text, AnswerReason::Stopped)
            }
            AppliedVerdict::Stopped(StoppedMessage::Dropped) => {}
        }
        true
    }

    /// Reads and judges a whole text that is not blank.
    pub(in crate::filter) fn read(
        &mut self,
        now: Timestamp,
        spoken: ReceivedText<'_>,
        arbiter: &mut dyn Arbiter,
        exit: &mut dyn Exit,
    ) {
        let lone = match spoken.side {
            Side::Client => LoneSurrogate::Refuse,
            Side::Server => LoneSurrogate::Replace,
        };
        let mut turn = Turn {
            limits: self.limits,
            dialogue: &mut self.dialogue,
            last_list: &mut self.last_list,
            held: &mut self.held,
            is_in_batch: false,
            now,
            side: spoken.side,
            era: spoken.era,
            arbiter,
            exit,
        };
        let scan = match self.scanner.scan(spoken.text, lone) {
            Ok(scan) => scan,
            Err(malformed) => return turn.malformed(spoken.text, malformed),
        };
        if scan.doubt <= spoken.borne {
            return turn.packet(scan.document, None);
        }
        let anew = canonical(scan.document);
        match self.second.scan(anew.as_bytes(), LoneSurrogate::Refuse) {
            Ok(scan) => turn.packet(scan.document, Some(&anew)),
            Err(malformed) => turn.malformed(spoken.text, malformed),
        }
    }

    /// Handles a text over the limit, which was not kept.
    pub(in crate::filter) fn too_long(&mut self, side: Side, text: &MessageOutline, exit: &mut dyn Exit) {
        let limit = self.limits.max_line;
        exit.incident(Incident::TooLong { side, limit });
        let cause = format!("the message is longer than {limit} bytes");
        let unread = UnreadMessage {
            side,
            outline: text,
            fault: RefusalReason::Request,
            cause: &cause,
        };
        unread.tell_who_waits(&mut self.dialogue, exit);
    }
}

/// A text that is not read any further.
pub(super) struct UnreadMessage<'u> {
    pub(super) side: Side,
    pub(super) outline: &'u MessageOutline,
    /// The JSON-RPC error with which a request is refused.
    pub(super) fault: RefusalReason,
    pub(super) cause: &'u str,
}

impl UnreadMessage<'_> {
    /// Tells the side that waits for an answer that none comes. If the text does not show for which request, it tells
    /// neither side: an answer to another request is worse than none.
    pub(super) fn tell_who_waits(&self, dialogue: &mut Dialogue, exit: &mut dyn Exit) {
        if let Some(id) = self.outline.answered()
            && dialogue.give_up(self.side, id)
        {
            exit.gave_up(id);
            return exit.instead(&refusal(Some(id), RefusalReason::Answer, self.cause));
        }
        let asked = self.outline.asked();
        if asked.is_some() || self.side == Side::Client {
            exit.answer(&refusal(asked, self.fault, self.cause), AnswerReason::Refused);
        }
    }
}
