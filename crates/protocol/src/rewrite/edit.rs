//! A message with some of its parts replaced.

use std::ops::Range;

use crate::decode::json::Value;

/// Replacements in one message, from its start to its end.
pub(crate) struct MessageEdit<'t> {
    text: &'t str,
    /// The offset of the message in the text to which the ranges of values refer.
    offset: usize,
    /// The position up to which the message is written.
    done: usize,
    out: String,
}

impl<'t> MessageEdit<'t> {
    pub(crate) fn of(message: Value<'t>) -> Self {
        Self {
            text: message.text(),
            offset: message.range().start,
            done: 0,
            out: String::with_capacity(message.text().len() + 256),
        }
    }

    /// Replaces the text at `place`, which must be after all earlier places.
    pub(crate) fn replace(&mut self, place: Range<usize>, new: &str) {
        self.out
            .push_str(&self.text[self.done..place.start - self.offset]);
        self.out.push_str(new);
        self.done = place.end - self.offset;
    }

    pub(crate) fn finish(mut self) -> String {
        self.out.push_str(&self.text[self.done..]);
        self.out
    }
}
