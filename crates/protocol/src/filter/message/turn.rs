//! The decision about one text: a message, or a batch of them.

use mcpmon_model::{Era, Incident, RequestId, Side, Timestamp, Verdict};

use super::{
    AnswerReason, Arbiter, Exit, HoldPlace, MessageHandling, NonMessage,
    again::LastList,
    apply::{AppliedVerdict, apply},
    held::{HeldMessage, HeldMessages},
    reader::UnreadMessage,
};
use crate::{
    decode::{
        DecodeLimits,
        json::{Document, Malformed, Value, ValueKind},
        jsonrpc::{Envelope, InvalidEnvelope, Payload},
        mcp::{DecodedMessage, Dialogue, ForwardEffect, InvalidMessage},
        outline::MessageOutline,
    },
    rewrite::{RefusalReason, StoppedMessage, refusal},
};

/// The processing of one text.
pub(super) struct Turn<'r> {
    pub(super) limits: DecodeLimits,
    pub(super) dialogue: &'r mut Dialogue,
    pub(super) last_list: &'r mut LastList,
    pub(super) held: &'r mut HeldMessages,
    /// True if the message is one of several in an array.
    pub(super) is_in_batch: bool,
    pub(super) now: Timestamp,
    pub(super) side: Side,
    pub(super) era: Era,
    pub(super) arbiter: &'r mut dyn Arbiter,
    pub(super) exit: &'r mut dyn Exit,
}

/// The form in which a message, or an item of a batch, is forwarded.
enum ForwardedMessage<'t> {
    AsIs(Value<'t>),
    Instead(String),
    Nothing,
}

impl Turn<'_> {
    /// Judges a message or a batch. `anew` is the rewritten text, if the original may not be forwarded as it came.
    pub(super) fn packet(&mut self, document: Document<'_>, anew: Option<&str>) {
        let root = document.root();
        if root.kind() == ValueKind::Array {
            return self.batch(root, anew);
        }
        match self.message(root) {
            ForwardedMessage::AsIs(_) => self.unchanged(anew),
            ForwardedMessage::Instead(text) => self.exit.instead(&text),
            ForwardedMessage::Nothing => {}
        }
    }

    /// Handles a text that is no JSON.
    pub(super) fn malformed(&mut self, text: &[u8], malformed: Malformed) {
        let cause = malformed.to_string();
        if self.exit.needs_ids() {
            let outline = MessageOutline::of(text);
            let told = match outline.answered() {
                Some(_) => format!("the answer cannot be read: {cause}"),
                None => cause.clone(),
            };
            let unread = UnreadMessage {
                side: self.side,
                outline: &outline,
                fault: RefusalReason::Parse,
                cause: &told,
            };
            unread.tell_who_waits(self.dialogue, self.exit);
        }
        match self.side {
            Side::Client => self.exit.incident(Incident::Unparsable { cause }),
            Side::Server => self.exit.divert(NonMessage::All),
        }
    }

    fn unchanged(&mut self, anew: Option<&str>) {
        match anew {
            None => self.exit.as_it_came(),
            Some(text) => self.exit.instead(text),
        }
    }

    /// Judges the messages of an array one by one, and forwards the remaining ones as an array.
    fn batch(&mut self, batch: Value<'_>, anew: Option<&str>) {
        if !self.exit.admits_batch(batch) {
            return;
        }
        let mut items = batch.items();
        let first = items.by_ref().take(self.limits.max_batch).count();
        if first == 0 || items.next().is_some() {
            let cause = if first == 0 {
                "an empty batch"
            } else {
                "a batch of too many messages"
            };
            return self.no_batch(batch, cause);
        }
        self.is_in_batch = true;
        let mut unchanged = true;
        let mut pieces = String::new();
        for item in batch.items() {
            let passage = self.message(item);
            unchanged &= matches!(passage, ForwardedMessage::AsIs(_));
            let piece = match &passage {
                ForwardedMessage::AsIs(value) => value.text(),
                ForwardedMessage::Instead(text) => text,
                ForwardedMessage::Nothing => continue,
            };
            pieces.push(if pieces.is_empty() { '[' } else { ',' });
            pieces.push_str(piece);
        }
        if unchanged {
            self.unchanged(anew);
        } else if !pieces.is_empty() {
            pieces.push(']');
            self.exit.instead(&pieces);
        }
    }

    /// Refuses an array that is no valid batch. The senders of its requests and the receivers of its answers are told,
    /// as far as the items can be read, and at most as many as may wait.
    fn no_batch(&mut self, batch: Value<'_>, cause: &'static str) {
        let (mut answered, mut untold) = (0, batch.items().next().is_none());
        for item in batch.items() {
            let Ok(Envelope { id, payload, .. }) = Envelope::read(item) else {
                untold = true;
                continue;
            };
            match (payload, id) {
                (Payload::Method { .. }, Some(id)) if answered < self.limits.max_pending => {
                    answered += 1;
                    self.refuse(Some(&id), RefusalReason::Request, cause);
                }
                (Payload::Method { .. }, Some(_)) => untold = true,
                (Payload::Method { .. }, None) => {}
                (Payload::Result(_) | Payload::Error(_), id) => {
                    self.give_up(id.as_ref(), cause);
                }
            }
        }
        match self.side {
            Side::Client => {
                if untold {
                    self.refuse(None, RefusalReason::Request, cause);
                }
                let cause = cause.to_owned();
                self.exit.incident(Incident::Unparsable { cause });
            }
            Side::Server => self.exit.divert(NonMessage::All),
        }
    }

    /// Reads and judges one message, and handles it except for forwarding. Returns the form in which it is forwarded.
    fn message<'t>(&mut self, value: Value<'t>) -> ForwardedMessage<'t> {
        let envelope = match Envelope::read(value) {
            Ok(envelope) => envelope,
            Err(invalid) => {
                self.invalid(value, &invalid);
                return ForwardedMessage::Nothing;
            }
        };
        let admission = self.exit.admits(&envelope);
        if admission == MessageHandling::Refused {
            return ForwardedMessage::Nothing;
        }
        if let Some(cause) = self.held_twice(&envelope) {
            self.unfit(&envelope, InvalidMessage::Refused(cause), admission);
            return ForwardedMessage::Nothing;
        }
        let reading = match self.dialogue.read(self.side, self.era, &envelope) {
            Ok(reading) => reading,
            Err(unfit) => {
                self.unfit(&envelope, unfit, admission);
                return ForwardedMessage::Nothing;
            }
        };
        let DecodedMessage {
            message,
            shape,
            sequel,
        } = reading;
        if let ForwardEffect::Cancelled(id) = &sequel
            && self.side == Side::Client
            && let Some(held_call) = self.held.cancel(id)
        {
            // The server never received the call.
            self.arbiter.withdrawn(&held_call);
            return ForwardedMessage::Nothing;
        }
        let mut verdict = self.arbiter.decide(&message);
        if let Verdict::Ask(held_call) = &verdict {
            match self.hold(&envelope, held_call) {
                Ok(()) => return ForwardedMessage::Nothing,
                Err(cause) => verdict = self.arbiter.cannot_hold(&message, held_call, cause),
            }
        }
        let passage = match apply(&envelope, &message, shape, &verdict) {
            AppliedVerdict::AsIs => {
                self.last_list.note(&envelope, &message);
                ForwardedMessage::AsIs(value)
            }
            AppliedVerdict::Less(text) => ForwardedMessage::Instead(text),
            AppliedVerdict::Stopped(_) if admission == MessageHandling::Ours => {
                return ForwardedMessage::Nothing;
            }
            AppliedVerdict::Stopped(StoppedMessage::ToReceiver(text)) => {
                return ForwardedMessage::Instead(text);
            }
            AppliedVerdict::Stopped(StoppedMessage::ToSender(text)) => {
                self.exit.answer(&text, AnswerReason::Stopped);
                return ForwardedMessage::Nothing;
            }
            AppliedVerdict::Stopped(StoppedMessage::Dropped) => return ForwardedMessage::Nothing,
        };
        self.dialogue.went_on(self.now, self.side, envelope.id, sequel);
        match admission {
            MessageHandling::Ours => ForwardedMessage::Nothing,
            MessageHandling::Goes | MessageHandling::Refused => passage,
        }
    }

    /// Holds a call, if that is possible here.
    fn hold(&mut self, envelope: &Envelope<'_>, held_call: &str) -> Result<(), &'static str> {
        let place = self.exit.hold_place();
        let Some(id) = envelope.id.clone().filter(|_| place != HoldPlace::Nowhere) else {
            return Err("a call cannot wait here");
        };
        if self.is_in_batch {
            return Err("a call in an array of messages cannot wait: send it alone");
        }
        let text = match place {
            HoldPlace::Filter => envelope.whole.text().to_owned(),
            HoldPlace::Transport | HoldPlace::Nowhere => String::new(),
        };
        let held = HeldMessage::new(held_call.to_owned(), envelope, text);
        self.held.insert(id, held);
        self.exit.held(held_call);
        Ok(())
    }

    /// Returns the objection to a request with the id of a held call.
    fn held_twice(&self, envelope: &Envelope<'_>) -> Option<&'static str> {
        let id = envelope.id.as_ref().filter(|_| self.side == Side::Client)?;
        let asks = matches!(envelope.payload, Payload::Method { .. });
        (asks && self.held.contains(id)).then_some("another request with this id waits for its answer")
    }

    /// Handles a value that is no message.
    fn invalid(&mut self, value: Value<'_>, invalid: &InvalidEnvelope) {
        let answers = invalid.id.as_ref().filter(|_| !invalid.has_method);
        let awaited = self.give_up(answers, invalid.cause);
        match self.side {
            Side::Client if awaited => {
                let cause = invalid.cause.to_owned();
                self.exit.incident(Incident::Unparsable { cause });
            }
            Side::Client => {
                self.unparsable(
                    invalid.id.as_ref(),
                    RefusalReason::Request,
                    invalid.cause.to_owned(),
                );
            }
            Side::Server => self.exit.divert(NonMessage::Part(value.text())),
        }
    }

    /// Handles a message without a meaning, or at the wrong time.
    fn unfit(&mut self, envelope: &Envelope<'_>, unfit: InvalidMessage, admission: MessageHandling) {
        let id = envelope.id.as_ref();
        match (unfit, self.side, id) {
            (InvalidMessage::Refused(cause), side, Some(id)) => {
                self.refuse(Some(id), RefusalReason::Request, cause);
                let id = id.clone();
                self.exit.incident(Incident::Refused { side, id, cause });
            }
            (InvalidMessage::Unasked, side, Some(id)) => {
                let id = id.clone();
                self.exit.incident(Incident::Unasked { side, id });
            }
            (InvalidMessage::Invalid(cause) | InvalidMessage::Refused(cause), Side::Client, _) => {
                self.unparsable(id, RefusalReason::Request, cause.to_owned());
            }
            (InvalidMessage::Invalid(cause) | InvalidMessage::Refused(cause), Side::Server, _) => {
                // Its request no longer waits: the dialogue has taken it.
                let answers = !matches!(envelope.payload, Payload::Method { .. });
                if answers && admission != MessageHandling::Ours {
                    self.exit.instead(&refusal(id, RefusalReason::Answer, cause));
                }
                self.exit.divert(NonMessage::Part(envelope.whole.text()));
            }
            (InvalidMessage::Unasked, _, None) => {}
        }
    }

    /// Answers the client with an error, and records the incident.
    fn unparsable(&mut self, id: Option<&RequestId>, fault: RefusalReason, cause: String) {
        self.refuse(id, fault, &cause);
        self.exit.incident(Incident::Unparsable { cause });
    }

    /// Tells the sender that the message is not forwarded.
    fn refuse(&mut self, id: Option<&RequestId>, fault: RefusalReason, cause: &str) {
        self.exit
            .answer(&refusal(id, fault, cause), AnswerReason::Refused);
    }

    /// Tells the other side that an answer it waits for will not come. Returns whether it waited.
    fn give_up(&mut self, id: Option<&RequestId>, cause: &str) -> bool {
        let Some(id) = id.filter(|id| self.dialogue.give_up(self.side, id)) else {
            return false;
        };
        self.exit.gave_up(id);
        self.exit
            .instead(&refusal(Some(id), RefusalReason::Answer, cause));
        true
    }
}
