//! MCP over a server's standard streams: a message a line.
//!
//! What the client says and cannot be read strictly never reaches the server; what the server says and is no message
//! never reaches the client.

mod exit;
mod output;
#[cfg(test)]
mod tests;

pub use super::message::Judge;
pub use output::Output;

use self::exit::LineExit;
use super::message::{Reader, Spoken};
use crate::{
    decode::{
        Limits,
        json::Doubt,
        lines::{self, Line, Lines},
        mcp::Dialogue,
    },
    model::{Denial, Era, Incident, ListKind, Side, Timestamp},
    rewrite::{Fault, denied, list_changed, refusal},
};

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
            reader: Reader::new(limits, Dialogue::new(limits)).recognising_lists(),
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
                Line::Whole(line) => read(&mut self.reader, now, side, line, judge, out),
                Line::TooLong(line) => {
                    self.reader
                        .too_long(side, line, &mut LineExit { side, line: &[], out });
                }
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
            Some(Line::Whole(line)) => unfinished(side, line, out),
            Some(Line::TooLong(line)) => {
                self.reader
                    .too_long(side, line, &mut LineExit { side, line: &[], out });
            }
            None => {}
        }
    }

    /// The server says nothing any more, for this reason: whatever the client waits for is answered with it.
    pub fn turn_away(&mut self, denial: &Denial, out: &mut Output) {
        for id in self.reader.dialogue.abandon(Side::Client) {
            out.answer(Side::Client, &denied(&id, denial));
        }
    }

    /// What a verdict makes of a list is not what it was: the client is told, if it is told of such changes at all.
    pub fn list_changed(&self, kind: ListKind, out: &mut Output) {
        for stream in self.reader.dialogue.listeners(kind) {
            out.forward_line(Side::Server, &list_changed(kind, stream.as_ref()));
        }
    }

    /// Gives back memory that only long lines need: nobody has said anything for some time.
    pub fn shrink(&mut self) {
        self.client.shrink();
        self.server.shrink();
    }

    /// Answers requests that have waited longer than allowed, if there is such a limit. Cheap when there is none.
    pub fn expire(&mut self, now: Timestamp, out: &mut Output) {
        for side in [Side::Client, Side::Server] {
            for id in self.reader.dialogue.expire(now, side) {
                out.answer(
                    side,
                    &refusal(Some(&id), Fault::Timeout, "no answer came in time"),
                );
            }
        }
    }
}

/// A whole line, with its terminator.
fn read(
    reader: &mut Reader,
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
    if side == Side::Server && reader.read_again(content, judge, &mut LineExit { side, line, out }) {
        return;
    }
    let spoken = Spoken {
        side,
        text: content,
        borne: Doubt::None,
        era: Era::default(),
    };
    reader.read(now, spoken, judge, &mut LineExit { side, line, out });
}

/// What stands at the end of a stream without the end of a line.
fn unfinished(side: Side, rest: &[u8], out: &mut Output) {
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
