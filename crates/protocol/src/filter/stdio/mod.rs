//! MCP over a server's standard streams: one message per line.
//!
//! A client's line that cannot be parsed strictly never reaches the server; a server's line that is not a message never
//! reaches the client.

mod exit;
mod lists;
mod output;
#[cfg(test)]
mod tests;

use mcpmon_model::{Denial, Era, Incident, ListKind, Message, RequestId, Side, Timestamp, Verdict};

use self::{exit::LineExit, lists::OwnListRequests};
pub use self::{lists::OwnLists, output::StdioOutput};

use super::message::{Arbiter, ReceivedText, TextReader};
use crate::{
    decode::{
        DecodeLimits,
        json::Doubt,
        lines::{self, LineOutcome, Lines},
        mcp::Dialogue,
    },
    rewrite::{RefusalReason, denied, list_changed, refusal},
};

/// Both directions of one conversation.
#[derive(Debug)]
pub struct StdioFilter {
    client: Lines,
    server: Lines,
    reader: TextReader,
    limits: DecodeLimits,
    /// The lists that the filter requests itself, if it does.
    lists: Option<OwnListRequests>,
}

impl StdioFilter {
    /// Returns a filter for a new conversation.
    pub fn new(limits: DecodeLimits) -> Self {
        Self {
            client: Lines::new(limits.max_line),
            server: Lines::new(limits.max_line),
            reader: TextReader::new(limits, Dialogue::new(limits)).recognising_lists(),
            limits,
            lists: None,
        }
    }

    /// Has the server's tools requested before a call of an unlisted tool is forwarded.
    #[must_use]
    pub fn asking_itself(self, bounds: OwnLists) -> Self {
        Self {
            lists: Some(OwnListRequests::new(bounds)),
            ..self
        }
    }

    /// Reads what `side` wrote, cut anywhere, and puts into `out` the output for every line that is complete.
    pub fn push(
        &mut self,
        now: Timestamp,
        side: Side,
        chunk: &[u8],
        arbiter: &mut dyn Arbiter,
        out: &mut StdioOutput,
    ) {
        if side == Side::Client
            && let Some(held) = self.lists.as_mut().and_then(OwnListRequests::held)
        {
            return held.extend_from_slice(chunk);
        }
        let lines = match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        let mut chunk = chunk;
        while let Some(line) = lines.next(&mut chunk) {
            match line {
                LineOutcome::Whole(line) => {
                    if side == Side::Client
                        && let Some(lists) = &mut self.lists
                        && lists.ask_about(now, self.limits, &mut self.reader.dialogue, line, arbiter, out)
                        && let Some(held) = lists.held()
                    {
                        held.extend_from_slice(line);
                        return held.extend_from_slice(chunk);
                    }
                    read(
                        &mut self.reader,
                        self.lists.as_mut(),
                        now,
                        side,
                        line,
                        arbiter,
                        out,
                    );
                }
                LineOutcome::TooLong(line) => {
                    let own = self.lists.as_ref().map(|lists| &lists.own);
                    let mut exit = LineExit::new(side, &[], own, out);
                    self.reader.too_long(side, &line, &mut exit);
                }
            }
        }
        if side == Side::Server {
            self.go_on(now, arbiter, out);
        }
    }

    /// Returns whether the client's next messages wait for a list that the filter requested.
    pub fn is_asking(&self) -> bool {
        self.lists.as_ref().is_some_and(OwnListRequests::is_asking)
    }

    /// Returns whether the client expects an answer to any of its messages.
    pub fn is_answer_awaited(&self) -> bool {
        self.is_asking() || self.reader.dialogue.is_answer_awaited()
    }

    /// Processes the bytes that wait for a list, if the list is complete or takes too long.
    pub fn go_on(&mut self, now: Timestamp, arbiter: &mut dyn Arbiter, out: &mut StdioOutput) {
        let held = self
            .lists
            .as_mut()
            .and_then(|lists| lists.settle(now, &mut self.reader.dialogue, out));
        if let Some(held) = held {
            self.push(now, Side::Client, &held, arbiter, out);
        }
    }

    /// Handles the end of the output of `side`. A line without an end is dropped: not all readers would accept it as a
    /// line.
    pub fn close(&mut self, side: Side, out: &mut StdioOutput) {
        let lines = match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        match lines.rest() {
            Some(LineOutcome::Whole(line)) => unfinished(side, line, out),
            Some(LineOutcome::TooLong(line)) => {
                let own = self.lists.as_ref().map(|lists| &lists.own);
                let mut exit = LineExit::new(side, &[], own, out);
                self.reader.too_long(side, &line, &mut exit);
            }
            None => {}
        }
        if side == Side::Server
            && let Some(lists) = &mut self.lists
        {
            lists.stop();
        }
    }

    /// Has a held call judged again, because there is an answer to it.
    pub fn release(
        &mut self,
        now: Timestamp,
        held_call: &str,
        arbiter: &mut dyn Arbiter,
        out: &mut StdioOutput,
    ) {
        let Some(held) = self.reader.held.release(held_call) else {
            return;
        };
        let mut line = held.text.into_bytes();
        line.push(b'\n');
        let lists = self.lists.as_mut();
        read(&mut self.reader, lists, now, Side::Client, &line, arbiter, out);
    }

    /// Takes all held calls, because their client has left. Returns the ids by which persons answer them.
    pub fn take_held(&mut self) -> Vec<String> {
        let held = self.reader.held.drain();
        held.into_iter().map(|(_, held_call)| held_call).collect()
    }

    /// Sends the client the progress notifications of its held calls that are due.
    pub fn tell_progress(&mut self, now: Timestamp, out: &mut StdioOutput) {
        for progress in self.reader.held.progress(now) {
            out.forward_line(Side::Server, &progress);
        }
    }

    /// Answers every request of the client that waits with `denial`, because the server may not answer any more.
    pub fn turn_away(&mut self, now: Timestamp, denial: &Denial, out: &mut StdioOutput) {
        for id in self.reader.dialogue.abandon(Side::Client) {
            if !self.is_own(&id) {
                out.answer(Side::Client, &denied(&id, denial));
            }
        }
        for (id, _) in self.reader.held.drain() {
            out.answer(Side::Client, &denied(&id, denial));
        }
        if let Some(lists) = &mut self.lists {
            lists.stop();
        }
        self.go_on(now, &mut |_: &Message<'_>| Verdict::Block(denial.clone()), out);
    }

    /// Returns whether this was a request of mcpmon, and stops waiting for it.
    fn is_own(&mut self, id: &RequestId) -> bool {
        self.lists.as_mut().is_some_and(|lists| lists.own.give_up(id))
    }

    /// Tells the client that a list changed because its verdicts did, if such changes are reported to the client.
    pub fn list_changed(&self, kind: ListKind, out: &mut StdioOutput) {
        for stream in self.reader.dialogue.listeners(kind) {
            out.forward_line(Side::Server, &list_changed(kind, stream.as_ref()));
        }
    }

    /// Frees memory that only long lines need, after some time without traffic.
    pub fn shrink(&mut self) {
        self.client.shrink();
        self.server.shrink();
    }

    /// Answers requests that have waited longer than allowed, if there is such a limit. Cheap if there are none.
    pub fn expire(&mut self, now: Timestamp, out: &mut StdioOutput) {
        for side in [Side::Client, Side::Server] {
            for id in self.reader.dialogue.expire(now, side) {
                if side == Side::Client && self.is_own(&id) {
                    continue;
                }
                out.answer(
                    side,
                    &refusal(Some(&id), RefusalReason::Timeout, "no answer came in time"),
                );
            }
        }
    }
}

/// Reads a whole line, with its terminator.
fn read(
    reader: &mut TextReader,
    lists: Option<&mut OwnListRequests>,
    now: Timestamp,
    side: Side,
    line: &[u8],
    arbiter: &mut dyn Arbiter,
    out: &mut StdioOutput,
) {
    let content = lines::content(line);
    if lines::is_blank(content) {
        return match side {
            Side::Client => {}
            Side::Server => out.divert(line),
        };
    }
    let lists = lists.filter(|lists| side == Side::Server && lists.is_asking());
    // While mcpmon waits for its own list, a repeated list may be the answer to it.
    if side == Side::Server
        && lists.is_none()
        && reader.read_again(content, arbiter, &mut LineExit::new(side, line, None, out))
    {
        return;
    }
    let spoken = ReceivedText {
        side,
        text: content,
        borne: Doubt::None,
        era: Era::default(),
    };
    let Some(lists) = lists else {
        return reader.read(now, spoken, arbiter, &mut LineExit::new(side, line, None, out));
    };
    let mut came = Vec::new();
    let mut hear = |message: &Message<'_>| {
        came.extend(lists.own.hear(message));
        arbiter.decide(message)
    };
    let mut exit = LineExit::new(side, line, Some(&lists.own), out);
    reader.read(now, spoken, &mut hear, &mut exit);
    came.into_iter().for_each(|came| lists.own.answered(came));
}

/// Reports bytes at the end of a stream that have no end of line.
fn unfinished(side: Side, rest: &[u8], out: &mut StdioOutput) {
    if lines::is_blank(rest) {
        return;
    }
    match side {
        Side::Client => {
            let cause = "the stream ended inside a line";
            out.answer(side, &refusal(None, RefusalReason::Parse, cause));
            let cause = cause.to_owned();
            out.incidents.push(Incident::Unparsable { cause });
        }
        Side::Server => out.divert(rest),
    }
}
