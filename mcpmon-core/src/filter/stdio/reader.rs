//! Line by line: what it is, what is said about it, where it goes.

use super::{
    Judge, Output,
    apply::{Applied, apply},
};
use crate::{
    decode::{
        Limits,
        json::{Document, Form, LoneSurrogate, Malformed, Scanner, Value, ValueKind, canonical},
        jsonrpc::{Envelope, Invalid, Payload},
        lines,
        mcp::{Dialogue, Reading, Unfit},
        oversize::Oversize,
    },
    model::{Denial, Incident, ListKind, RequestId, Side, Timestamp},
    rewrite::{Fault, Stopped, denied, list_changed, refusal},
};

/// Reads the lines of both sides.
#[derive(Debug)]
pub(super) struct Reader {
    limits: Limits,
    scanner: Scanner,
    /// Scans what was written anew.
    second: Scanner,
    dialogue: Dialogue,
}

/// What is to be written for a message, or for an item of a batch.
enum Passage<'t> {
    AsIs(Value<'t>),
    Instead(String),
    Nothing,
}

impl Reader {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            scanner: Scanner::new(limits.max_depth),
            second: Scanner::new(limits.max_depth),
            dialogue: Dialogue::new(limits),
        }
    }

    /// A whole line, with its terminator.
    pub(super) fn line(
        &mut self,
        now: Timestamp,
        side: Side,
        line: &[u8],
        judge: &mut Judge<'_>,
        out: &mut Output,
    ) {
        let content = lines::content(line);
        if lines::is_blank(content) {
            return match side {
                Side::Client => {}
                Side::Server => out.divert(line),
            };
        }
        let lone = match side {
            Side::Client => LoneSurrogate::Refuse,
            Side::Server => LoneSurrogate::Replace,
        };
        let mut turn = Turn {
            limits: self.limits,
            dialogue: &mut self.dialogue,
            now,
            side,
            judge,
            out,
        };
        let scan = match self.scanner.scan(content, lone) {
            Ok(scan) => scan,
            Err(malformed) => return turn.malformed(line, malformed),
        };
        if scan.form == Form::Exact {
            return turn.packet(scan.document, line);
        }
        let mut anew = canonical(scan.document);
        anew.push('\n');
        match self
            .second
            .scan(lines::content(anew.as_bytes()), LoneSurrogate::Refuse)
        {
            Ok(scan) => turn.packet(scan.document, anew.as_bytes()),
            Err(malformed) => turn.malformed(line, malformed),
        }
    }

    /// What stands at the end of a stream without the end of a line.
    pub(super) fn unfinished(&mut self, side: Side, rest: &[u8], out: &mut Output) {
        if lines::is_blank(rest) {
            return;
        }
        match side {
            Side::Client => {
                let cause = "the stream ended inside a line";
                out.answer(side, &refusal(None, Fault::Parse, cause));
                let cause = cause.to_owned();
                out.incidents.push(Incident::Unparsable { cause });
            }
            Side::Server => out.divert(rest),
        }
    }

    /// A line over the limit, which was not kept.
    pub(super) fn too_long(&mut self, side: Side, line: Oversize, out: &mut Output) {
        let limit = self.limits.max_line;
        out.incidents.push(Incident::TooLong { side, limit });
        let cause = format!("the message is longer than {limit} bytes");
        let answers = line.id.as_ref().filter(|_| !line.has_method);
        let awaited = answers.is_some_and(|id| self.dialogue.give_up(side, id));
        if awaited {
            out.forward_line(side, &refusal(line.id.as_ref(), Fault::Answer, &cause));
            return;
        }
        match (side, line.id) {
            (Side::Client, id) => out.answer(side, &refusal(id.as_ref(), Fault::Request, &cause)),
            (Side::Server, Some(id)) if line.has_method => {
                out.answer(side, &refusal(Some(&id), Fault::Request, &cause));
            }
            (Side::Server, _) => {}
        }
    }

    /// Tells the client that a list shows something else by now, if it is told of such changes at all.
    pub(super) fn list_changed(&self, kind: ListKind, out: &mut Output) {
        for stream in self.dialogue.listeners(kind) {
            out.forward_line(Side::Server, &list_changed(kind, stream.as_ref()));
        }
    }

    /// Answers what the client still waits for: nobody else will.
    pub(super) fn turn_away(&mut self, denial: &Denial, out: &mut Output) {
        for id in self.dialogue.abandon(Side::Client) {
            out.answer(Side::Client, &denied(&id, denial));
        }
    }

    /// Answers what has waited too long.
    pub(super) fn expire(&mut self, now: Timestamp, out: &mut Output) {
        for side in [Side::Client, Side::Server] {
            for id in self.dialogue.expire(now, side) {
                out.answer(
                    side,
                    &refusal(Some(&id), Fault::Timeout, "no answer came in time"),
                );
            }
        }
    }
}

/// One line's turn.
struct Turn<'r, 'j> {
    limits: Limits,
    dialogue: &'r mut Dialogue,
    now: Timestamp,
    side: Side,
    judge: &'r mut Judge<'j>,
    out: &'r mut Output,
}

impl Turn<'_, '_> {
    /// A message or a batch; `line` is what goes on if nothing in it changes.
    fn packet(&mut self, document: Document<'_>, line: &[u8]) {
        let root = document.root();
        if root.kind() == ValueKind::Array {
            return self.batch(root, line);
        }
        match self.message(root) {
            Passage::AsIs(_) => self.out.forward(self.side, line),
            Passage::Instead(text) => self.out.forward_line(self.side, &text),
            Passage::Nothing => {}
        }
    }

    /// Messages in an array, judged one by one. What is left of them goes on as an array.
    fn batch(&mut self, batch: Value<'_>, line: &[u8]) {
        let mut items = batch.items();
        let first = items.by_ref().take(self.limits.max_batch).count();
        if first == 0 || items.next().is_some() {
            let cause = if first == 0 {
                "an empty batch"
            } else {
                "a batch of too many messages"
            };
            return self.no_batch(batch, line, cause);
        }
        let mut unchanged = true;
        let mut pieces = String::new();
        for item in batch.items() {
            let passage = self.message(item);
            unchanged &= matches!(passage, Passage::AsIs(_));
            let piece = match &passage {
                Passage::AsIs(value) => value.text(),
                Passage::Instead(text) => text,
                Passage::Nothing => continue,
            };
            pieces.push(if pieces.is_empty() { '[' } else { ',' });
            pieces.push_str(piece);
        }
        if unchanged {
            self.out.forward(self.side, line);
        } else if !pieces.is_empty() {
            pieces.push(']');
            self.out.forward_line(self.side, &pieces);
        }
    }

    /// A batch that may not be one. Whoever waits for one of its messages is told, as far as they can be read and
    /// no more than may wait at all.
    fn no_batch(&mut self, batch: Value<'_>, line: &[u8], cause: &'static str) {
        let (mut answered, mut untold) = (0, batch.items().next().is_none());
        for item in batch.items() {
            let Ok(Envelope { id, payload, .. }) = Envelope::read(item) else {
                untold = true;
                continue;
            };
            match (payload, id) {
                (Payload::Method { .. }, Some(id)) if answered < self.limits.max_pending => {
                    answered += 1;
                    self.out
                        .answer(self.side, &refusal(Some(&id), Fault::Request, cause));
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
                    self.out.answer(self.side, &refusal(None, Fault::Request, cause));
                }
                let cause = cause.to_owned();
                self.out.incidents.push(Incident::Unparsable { cause });
            }
            Side::Server => self.out.divert(line),
        }
    }

    /// One message: read, judged, and dealt with, but for what goes on in its place.
    fn message<'t>(&mut self, value: Value<'t>) -> Passage<'t> {
        let envelope = match Envelope::read(value) {
            Ok(envelope) => envelope,
            Err(invalid) => {
                self.invalid(value, &invalid);
                return Passage::Nothing;
            }
        };
        let reading = match self.dialogue.read(self.side, &envelope) {
            Ok(reading) => reading,
            Err(unfit) => {
                self.unfit(&envelope, unfit);
                return Passage::Nothing;
            }
        };
        let Reading {
            message,
            shape,
            sequel,
        } = reading;
        let verdict = (self.judge)(&message);
        let passage = match apply(&envelope, &message, shape, &verdict) {
            Applied::AsIs => Passage::AsIs(value),
            Applied::Less(text) => Passage::Instead(text),
            Applied::Stopped(Stopped::ToReceiver(text)) => return Passage::Instead(text),
            Applied::Stopped(Stopped::ToSender(text)) => {
                self.out.answer(self.side, &text);
                return Passage::Nothing;
            }
            Applied::Stopped(Stopped::Dropped) => return Passage::Nothing,
        };
        self.dialogue.went_on(self.now, self.side, envelope.id, sequel);
        passage
    }

    /// A line that is no JSON.
    fn malformed(&mut self, line: &[u8], malformed: Malformed) {
        match self.side {
            Side::Client => self.unparsable(None, Fault::Parse, malformed.to_string()),
            Side::Server => self.out.divert(line),
        }
    }

    /// A value that is no message.
    fn invalid(&mut self, value: Value<'_>, invalid: &Invalid) {
        let answers = invalid.id.as_ref().filter(|_| !invalid.has_method);
        let awaited = self.give_up(answers, invalid.cause);
        match self.side {
            Side::Client if awaited => {
                let cause = invalid.cause.to_owned();
                self.out.incidents.push(Incident::Unparsable { cause });
            }
            Side::Client => {
                self.unparsable(invalid.id.as_ref(), Fault::Request, invalid.cause.to_owned());
            }
            Side::Server => self.out.divert(value.text().as_bytes()),
        }
    }

    /// A message without a meaning, or at the wrong time.
    fn unfit(&mut self, envelope: &Envelope<'_>, unfit: Unfit) {
        let id = envelope.id.as_ref();
        match (unfit, self.side, id) {
            (Unfit::Refused(cause), side, Some(id)) => {
                self.out.answer(side, &refusal(Some(id), Fault::Request, cause));
                let id = id.clone();
                self.out.incidents.push(Incident::Refused { side, id, cause });
            }
            (Unfit::Unasked, side, Some(id)) => {
                let id = id.clone();
                self.out.incidents.push(Incident::Unasked { side, id });
            }
            (Unfit::Invalid(cause) | Unfit::Refused(cause), Side::Client, _) => {
                self.unparsable(id, Fault::Request, cause.to_owned());
            }
            (Unfit::Invalid(cause) | Unfit::Refused(cause), Side::Server, _) => {
                // Its request waits no longer: the dialogue has taken it.
                if !matches!(envelope.payload, Payload::Method { .. }) {
                    let answer = refusal(id, Fault::Answer, cause);
                    self.out.forward_line(self.side, &answer);
                }
                self.out.divert(envelope.whole.text().as_bytes());
            }
            (Unfit::Unasked, _, None) => {}
        }
    }

    /// Answers the client, and notes why.
    fn unparsable(&mut self, id: Option<&RequestId>, fault: Fault, cause: String) {
        self.out.answer(self.side, &refusal(id, fault, &cause));
        self.out.incidents.push(Incident::Unparsable { cause });
    }

    /// Tells the other side that what it waits for will not come; whether it waited.
    fn give_up(&mut self, id: Option<&RequestId>, cause: &str) -> bool {
        let Some(id) = id.filter(|id| self.dialogue.give_up(self.side, id)) else {
            return false;
        };
        let answer = refusal(Some(id), Fault::Answer, cause);
        self.out.forward_line(self.side, &answer);
        true
    }
}
