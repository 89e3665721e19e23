//! Traffic between an agent and a model: whole requests, and responses as they stream.
//!
//! Text and reasoning are forwarded byte for byte as soon as they are read. Only a tool call is held until its name and
//! arguments are complete, with whatever its API orders after it; it is then judged, and forwarded unchanged or
//! replaced by text that every SDK accepts.

mod anthropic;
mod arguments;
mod batch;
mod blocked;
mod dialect;
mod fault;
mod fields;
mod framing;
mod gemini;
#[cfg(test)]
mod harness;
mod members;
mod ollama;
mod openai;
mod openai_chat;
mod openai_responses;
mod reframe;
mod request;
mod strict;

use mcpmon_model::{Dialect, LlmMention, OmittedCall, Redaction, Verdict};

use self::dialect::api;
pub use self::{
    fault::{LlmFault, error_body},
    framing::Framing,
    request::{ReadRequest, RequestRoute, asked_by, read_batch, read_request, read_texts, route},
};
use crate::{
    decode::{
        lines::{LineOutcome, Lines},
        sse::{Events, SseEvent, SseFraming, has_hidden_line, is_plain},
    },
    rewrite::{event_with_data, silent_event},
};

/// The error that data does not follow the API, so that a reader could find a call in it that mcpmon does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ApiViolation(pub &'static str);

/// The judge of content: it decides whether a call passes.
pub trait ContentJudge {
    /// Judges a fact about tools. [`Verdict::Hide`] applies to lists only, and [`Verdict::Redact`] to nothing here: the
    /// arguments of a call are redacted when the call is made.
    fn judge(&mut self, said: &LlmMention<'_>) -> Verdict;

    /// Returns the replacements in a text of the user or of a tool that is sent to a model; the ranges are in the
    /// decoded text, not in the JSON literal.
    fn redact(&mut self, text: &str) -> Vec<Redaction>;

    /// Notes that these calls were left out of the response with this id, which its provider may store with them.
    fn left_out(&mut self, _response: &str, _calls: &[OmittedCall]) {}

    /// Returns the calls left out of the response with this id.
    fn unanswered(&mut self, _response: &str) -> Vec<OmittedCall> {
        Vec::new()
    }
}

/// Limits of what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldLimits {
    /// Longest body of a request, or of a response that does not come as a stream, bytes.
    pub max_body: usize,
    /// Longest event, or line, of a stream, bytes.
    pub max_event: usize,
    /// Most bytes of a stream that are held until the end of a tool call.
    pub max_held: usize,
}

impl Default for HoldLimits {
    fn default() -> Self {
        Self {
            max_body: 64 << 20,
            max_event: 16 << 20,
            max_held: 16 << 20,
        }
    }
}

/// A piece of a stream: an event, or a line.
#[derive(Clone, Copy, Debug)]
struct Piece<'a> {
    /// The whole piece, as it came.
    raw: &'a [u8],
    /// The name of the event; a line has none.
    name: Option<&'a [u8]>,
    /// The data: JSON, or a word of the dialect (`[DONE]`); `None` if empty.
    data: Option<&'a [u8]>,
}

/// The reader of one stream in one dialect.
trait Stream: std::fmt::Debug + Send {
    /// Checks whether an event may pass at all: members that are not understood are removed afterwards.
    fn admits(&self, _piece: Piece<'_>) -> Result<(), LlmFault> {
        Ok(())
    }

    /// Reads the next piece, and puts into `out` what can be forwarded now.
    fn piece(
        &mut self,
        piece: Piece<'_>,
        judge: &mut dyn ContentJudge,
        out: &mut Vec<u8>,
    ) -> Result<(), LlmFault>;

    /// Ends the stream, and puts into `out` what can still be forwarded; an incomplete call cannot.
    fn end(&mut self, judge: &mut dyn ContentJudge, out: &mut Vec<u8>) -> Result<(), LlmFault>;

    /// Returns the number of bytes held.
    fn held(&self) -> usize;

    /// Writes the dialect's message for a stream that this fault ends early.
    fn broken(&self, fault: &LlmFault, out: &mut Vec<u8>);
}

/// A response on its way to the agent.
#[derive(Debug)]
pub struct LlmResponse {
    dialect: Dialect,
    limits: HoldLimits,
    body: LlmBody,
    fault: Option<LlmFault>,
}

#[derive(Debug)]
enum LlmBody {
    Unread,
    Whole(Vec<u8>),
    Events(Events, Box<dyn Stream>),
    Lines(Lines, Box<dyn Stream>),
}

impl LlmResponse {
    /// Returns a response of which nothing was read yet.
    pub fn new(dialect: Dialect, framing: Framing, limits: HoldLimits) -> Self {
        let body = match framing {
            Framing::Unread => LlmBody::Unread,
            Framing::Whole => LlmBody::Whole(Vec::new()),
            Framing::Events => LlmBody::Events(Events::new(limits.max_event), api(dialect).stream(limits)),
            Framing::Lines => LlmBody::Lines(Lines::new(limits.max_event), api(dialect).stream(limits)),
        };
        Self {
            dialect,
            limits,
            body,
            fault: None,
        }
    }

    /// Returns the response with the answers to a batch of requests, one per line.
    pub fn of_batch(dialect: Dialect, limits: HoldLimits) -> Self {
        let lines = Lines::new(limits.max_event);
        Self {
            dialect,
            limits,
            body: LlmBody::Lines(lines, Box::new(batch::BatchReader::new(dialect))),
            fault: None,
        }
    }

    /// Reads what the provider sent, cut anywhere, and puts into `out` what can be forwarded to the agent now.
    ///
    /// # Errors
    /// Returns an error if the response cannot be forwarded. In the middle of a stream `out` has the dialect's own
    /// error message, and what follows is dropped; a response that was to be forwarded when complete is answered with
    /// [`error_body`].
    pub fn push(
        &mut self,
        chunk: &[u8],
        judge: &mut dyn ContentJudge,
        out: &mut Vec<u8>,
    ) -> Result<(), LlmFault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let read = match &mut self.body {
            LlmBody::Unread => {
                out.extend_from_slice(chunk);
                Ok(())
            }
            LlmBody::Whole(body) if body.len() + chunk.len() > self.limits.max_body => {
                Err(LlmFault::TooLong {
                    limit: self.limits.max_body,
                })
            }
            LlmBody::Whole(body) => {
                body.extend_from_slice(chunk);
                Ok(())
            }
            LlmBody::Events(events, stream) => read_events(events, &mut **stream, chunk, judge, out),
            LlmBody::Lines(lines, stream) => read_lines(lines, &mut **stream, chunk, judge, out),
        };
        self.settle(read, out)
    }

    /// Ends the response: the provider sends no more.
    ///
    /// # Errors
    /// As for [`Self::push`].
    pub fn finish(&mut self, judge: &mut dyn ContentJudge, out: &mut Vec<u8>) -> Result<(), LlmFault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let read = match &mut self.body {
            LlmBody::Unread => Ok(()),
            LlmBody::Whole(body) => {
                let body = std::mem::take(body);
                api(self.dialect)
                    .whole(&body, judge)
                    .map(|new| put(new.unwrap_or(body), out))
            }
            LlmBody::Events(events, stream) => {
                let rest = match events.rest() {
                    Some(event) => read_event(&event, &mut **stream, judge, out),
                    None => Ok(()),
                };
                rest.and_then(|()| stream.end(judge, out))
            }
            LlmBody::Lines(lines, stream) => {
                let rest = match lines.rest() {
                    Some(line) => read_line(line, &mut **stream, self.limits.max_event, judge, out),
                    None => Ok(()),
                };
                rest.and_then(|()| stream.end(judge, out))
            }
        };
        self.settle(read, out)
    }

    /// Returns the number of bytes that are held: of an incomplete piece, and of a call that is not decided yet.
    pub fn held(&self) -> usize {
        match &self.body {
            LlmBody::Unread => 0,
            LlmBody::Whole(body) => body.len(),
            LlmBody::Events(events, stream) => events.held() + stream.held(),
            LlmBody::Lines(lines, stream) => lines.held() + stream.held(),
        }
    }

    fn settle(&mut self, read: Result<(), LlmFault>, out: &mut Vec<u8>) -> Result<(), LlmFault> {
        let Err(fault) = read else {
            return Ok(());
        };
        // The last forwarded piece may have no end: the error must not become a part of it.
        let is_open = !out.is_empty();
        match &self.body {
            LlmBody::Unread | LlmBody::Whole(_) => {}
            LlmBody::Events(_, stream) => {
                if is_open && !is_ended(out) {
                    out.extend_from_slice(b"\n\n");
                }
                stream.broken(&fault, out);
            }
            LlmBody::Lines(_, stream) => {
                if is_open && !out.ends_with(b"\n") {
                    out.push(b'\n');
                }
                stream.broken(&fault, out);
            }
        }
        self.body = LlmBody::Whole(Vec::new());
        self.fault = Some(fault.clone());
        Err(fault)
    }
}

/// Returns whether a blank line ends it, so that the next bytes begin another event.
fn is_ended(raw: &[u8]) -> bool {
    let line = raw.strip_suffix(b"\r\n").or_else(|| raw.strip_suffix(b"\n"));
    line.or_else(|| raw.strip_suffix(b"\r"))
        .is_some_and(|line| line.is_empty() || line.ends_with(b"\n") || line.ends_with(b"\r"))
}

/// Appends `bytes` to `out`.
fn put(bytes: Vec<u8>, out: &mut Vec<u8>) {
    match out.is_empty() {
        true => *out = bytes,
        false => out.extend_from_slice(&bytes),
    }
}

fn piece<'a>(event: &'a SseEvent<'_>) -> Piece<'a> {
    Piece {
        raw: event.raw,
        name: event.name,
        data: event.data.as_deref(),
    }
}

fn read_events(
    events: &mut Events,
    stream: &mut dyn Stream,
    mut chunk: &[u8],
    judge: &mut dyn ContentJudge,
    out: &mut Vec<u8>,
) -> Result<(), LlmFault> {
    while let Some(cut) = events.next(&mut chunk) {
        match cut {
            SseFraming::Event(event) => read_event(&event, stream, judge, out)?,
            SseFraming::TooLong | SseFraming::Skipped(_) => {
                return Err(LlmFault::TooLong { limit: events.max() });
            }
        }
    }
    Ok(())
}

fn read_event(
    event: &SseEvent<'_>,
    stream: &mut dyn Stream,
    judge: &mut dyn ContentJudge,
    out: &mut Vec<u8>,
) -> Result<(), LlmFault> {
    if has_hidden_line(event.raw) {
        return Err(LlmFault::malformed("a line of an event has another one in it"));
    }
    stream.admits(piece(event))?;
    if is_plain(event.raw) {
        return stream.piece(piece(event), judge, out);
    }
    let mut raw = Vec::new();
    match event.data.as_deref() {
        Some(data) => event_with_data(event.raw, &String::from_utf8_lossy(data), &mut raw),
        None => silent_event(event.raw, &mut raw),
    }
    let raw = &raw[..];
    stream.piece(Piece { raw, ..piece(event) }, judge, out)
}

fn read_lines(
    lines: &mut Lines,
    stream: &mut dyn Stream,
    mut chunk: &[u8],
    judge: &mut dyn ContentJudge,
    out: &mut Vec<u8>,
) -> Result<(), LlmFault> {
    let limit = lines.max();
    while let Some(line) = lines.next(&mut chunk) {
        read_line(line, stream, limit, judge, out)?;
        // [`LlmResponse::held`] does not count the buffer that is kept for the next line.
        lines.shrink();
    }
    Ok(())
}

fn read_line(
    line: LineOutcome<'_>,
    stream: &mut dyn Stream,
    limit: usize,
    judge: &mut dyn ContentJudge,
    out: &mut Vec<u8>,
) -> Result<(), LlmFault> {
    match line {
        LineOutcome::Whole(line) => {
            let content = crate::decode::lines::content(line);
            let piece = Piece {
                raw: line,
                name: None,
                data: (!content.is_empty()).then_some(content),
            };
            stream.piece(piece, judge, out)
        }
        LineOutcome::TooLong(_) => Err(LlmFault::TooLong { limit }),
    }
}
