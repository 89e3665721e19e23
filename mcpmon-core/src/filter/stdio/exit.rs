//! Where what becomes of a line goes.

use super::{
    super::message::{Exit, Stray, Why},
    Output,
};
use crate::model::{Incident, Side};

/// A line that `side` wrote, and what is to be written because of it.
pub(super) struct LineExit<'o> {
    pub(super) side: Side,
    /// All of it, with its terminator.
    pub(super) line: &'o [u8],
    pub(super) out: &'o mut Output,
}

impl Exit for LineExit<'_> {
    fn as_it_came(&mut self) {
        self.out.forward(self.side, self.line);
    }

    fn instead(&mut self, text: &str) {
        self.out.forward_line(self.side, text);
    }

    fn answer(&mut self, text: &str, _why: Why) {
        self.out.answer(self.side, text);
    }

    fn divert(&mut self, what: Stray<'_>) {
        match what {
            Stray::All => self.out.divert(self.line),
            Stray::Part(text) => self.out.divert(text.as_bytes()),
        }
    }

    fn incident(&mut self, incident: Incident) {
        self.out.incidents.push(incident);
    }
}
