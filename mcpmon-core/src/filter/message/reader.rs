//! Text by text: what it is, what is said about it, where it goes.

use super::{Exit, Judge, Why, turn::Turn};
use crate::{
    decode::{
        Limits,
        json::{Doubt, LoneSurrogate, Scanner, canonical},
        mcp::Dialogue,
        oversize::Oversize,
    },
    model::{Era, Incident, RequestId, Side, Timestamp},
    rewrite::{Fault, refusal},
};

/// Reads the texts of both sides of a conversation.
#[derive(Debug)]
pub(in crate::filter) struct Reader {
    limits: Limits,
    scanner: Scanner,
    /// Scans what was written anew.
    second: Scanner,
    pub(in crate::filter) dialogue: Dialogue,
}

/// A text that a side said.
#[derive(Clone, Copy, Debug)]
pub(in crate::filter) struct Spoken<'t> {
    pub(in crate::filter) side: Side,
    pub(in crate::filter) text: &'t [u8],
    /// The worst that readers may differ about for it to go on as it came.
    pub(in crate::filter) borne: Doubt,
    /// What its transport says of the revision it was written under; a message can tell a later one itself.
    pub(in crate::filter) era: Era,
}

impl Reader {
    pub(in crate::filter) fn new(limits: Limits, dialogue: Dialogue) -> Self {
        Self {
            limits,
            scanner: Scanner::new(limits.max_depth),
            second: Scanner::new(limits.max_depth),
            dialogue,
        }
    }

    /// A whole text, not blank.
    pub(in crate::filter) fn read(
        &mut self,
        now: Timestamp,
        spoken: Spoken<'_>,
        judge: &mut Judge<'_>,
        exit: &mut dyn Exit,
    ) {
        let lone = match spoken.side {
            Side::Client => LoneSurrogate::Refuse,
            Side::Server => LoneSurrogate::Replace,
        };
        let mut turn = Turn {
            limits: self.limits,
            dialogue: &mut self.dialogue,
            now,
            side: spoken.side,
            era: spoken.era,
            judge,
            exit,
        };
        let scan = match self.scanner.scan(spoken.text, lone) {
            Ok(scan) => scan,
            Err(malformed) => return turn.malformed(malformed),
        };
        if scan.doubt <= spoken.borne {
            return turn.packet(scan.document, None);
        }
        let anew = canonical(scan.document);
        match self.second.scan(anew.as_bytes(), LoneSurrogate::Refuse) {
            Ok(scan) => turn.packet(scan.document, Some(&anew)),
            Err(malformed) => turn.malformed(malformed),
        }
    }

    /// A text over the limit, which was not kept.
    pub(in crate::filter) fn too_long(&mut self, side: Side, text: Oversize, exit: &mut dyn Exit) {
        let limit = self.limits.max_line;
        exit.incident(Incident::TooLong { side, limit });
        let cause = format!("the message is longer than {limit} bytes");
        let answers = text.id.as_ref().filter(|_| !text.has_method);
        if let Some(id) = answers.filter(|id| self.dialogue.give_up(side, id)) {
            exit.gave_up(id);
            exit.instead(&refusal(Some(id), Fault::Answer, &cause));
            return;
        }
        let mut refuse =
            |id: Option<&RequestId>| exit.answer(&refusal(id, Fault::Request, &cause), Why::Refused);
        match (side, text.id) {
            (Side::Client, id) => refuse(id.as_ref()),
            (Side::Server, Some(id)) if text.has_method => refuse(Some(&id)),
            (Side::Server, _) => {}
        }
    }
}
