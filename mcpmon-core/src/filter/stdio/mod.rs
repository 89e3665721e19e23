//! MCP over a server's standard streams: a message a line.
//!
//! What the client says and cannot be read strictly never reaches the server; what the server says and is no message
//! never reaches the client.

mod apply;
mod output;
mod reader;
#[cfg(test)]
mod tests;

pub use output::Output;

use self::reader::Reader;
use crate::{
    decode::{
        Limits,
        lines::{Line, Lines},
    },
    model::{Denial, ListKind, Message, Side, Timestamp, Verdict},
};

/// Whoever decides what becomes of a message.
pub type Judge<'j> = dyn FnMut(&Message<'_>) -> Verdict + 'j;

/// Both directions of one conversation.
#[derive(Debug)]
pub struct Filter {
    client: Lines,
    server: Lines,
    reader: Reader,
}

impl Filter {
    /// A conversation in which nothing was said yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            client: Lines::new(limits.max_line),
            server: Lines::new(limits.max_line),
            reader: Reader::new(limits),
        }
    }

    /// Takes what `side` wrote, cut anywhere, and puts into `out` what is to be written for every line it completes.
    pub fn push(
        &mut self,
        now: Timestamp,
        side: Side,
        chunk: &[u8],
        judge: &mut Judge<'_>,
        out: &mut Output,
    ) {
        let lines = match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        let mut chunk = chunk;
        while let Some(line) = lines.next(&mut chunk) {
            match line {
                Line::Whole(line) => self.reader.line(now, side, line, judge, out),
                Line::TooLong(line) => self.reader.too_long(side, line, out),
            }
        }
    }

    /// `side` writes no more. A line that it did not end goes nowhere: not all readers would take it for one.
    pub fn close(&mut self, side: Side, out: &mut Output) {
        let lines = match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        match lines.rest() {
            Some(Line::Whole(line)) => self.reader.unfinished(side, line, out),
            Some(Line::TooLong(line)) => self.reader.too_long(side, line, out),
            None => {}
        }
    }

    /// The server says nothing any more, for this reason: whatever the client waits for is answered with it.
    pub fn turn_away(&mut self, denial: &Denial, out: &mut Output) {
        self.reader.turn_away(denial, out);
    }

    /// What a verdict makes of a list is not what it was: the client is told, if it is told of such changes at all.
    pub fn list_changed(&self, kind: ListKind, out: &mut Output) {
        self.reader.list_changed(kind, out);
    }

    /// Answers requests that have waited longer than allowed, if there is such a limit. Cheap when there is none.
    pub fn expire(&mut self, now: Timestamp, out: &mut Output) {
        self.reader.expire(now, out);
    }
}
