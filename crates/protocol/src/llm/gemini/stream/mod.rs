//! Gemini: `generateContent` and its streams. A call is complete in one part or, if the request wants it, in parts of
//! several events. Only then are events held, from the call's first part to its last.

mod arguments;
#[cfg(test)]
mod tests;
mod turn;

use mcpmon_model::Dialect;

use self::turn::{ContentTurn, DecidedContent, Group};
use crate::{
    decode::json::TextForm,
    llm::{ContentJudge, HoldLimits, LlmFault, Piece, Stream, error_body, reframe::reframe, strict},
    rewrite::Splices,
};

/// The reading of one stream.
#[derive(Debug)]
pub(super) struct StreamReader {
    limits: HoldLimits,
    turn: ContentTurn,
    held: Vec<HeldEvent>,
    bytes: usize,
}

/// An event that waits for the end of a call.
#[derive(Debug)]
struct HeldEvent {
    raw: Vec<u8>,
    data: Vec<u8>,
    said: Option<HeldResponse>,
}

/// An event that may have to be changed.
#[derive(Debug)]
struct HeldResponse {
    json: String,
    form: TextForm,
    groups: Vec<Group>,
}

impl StreamReader {
    pub(super) fn new(limits: HoldLimits) -> Self {
        Self {
            limits,
            turn: ContentTurn::default(),
            held: Vec::new(),
            bytes: 0,
        }
    }

    /// Holds a piece until the call is decided.
    fn hold(&mut self, piece: Piece<'_>, said: Option<HeldResponse>) -> Result<(), LlmFault> {
        let data = piece.data.unwrap_or_default();
        let json = said.as_ref().map_or(0, |said| said.json.len());
        self.bytes += piece.raw.len() + data.len() + json;
        if self.bytes > self.limits.max_held {
            return Err(LlmFault::TooLong {
                limit: self.limits.max_held,
            });
        }
        self.held.push(HeldEvent {
            raw: piece.raw.to_vec(),
            data: data.to_vec(),
            said,
        });
        Ok(())
    }

    /// Decides about the calls, and forwards the held pieces.
    fn release(&mut self, judge: &mut dyn ContentJudge, out: &mut Vec<u8>) -> DecidedContent {
        let decided = self.turn.decide(judge);
        self.bytes = 0;
        for held in std::mem::take(&mut self.held) {
            let piece = Piece {
                raw: &held.raw,
                name: None,
                data: Some(&held.data),
            };
            self.pass(piece, held.said, &decided, out);
        }
        decided
    }

    fn pass(
        &mut self,
        piece: Piece<'_>,
        said: Option<HeldResponse>,
        decided: &DecidedContent,
        out: &mut Vec<u8>,
    ) {
        match said.and_then(|said| changed(said, &mut self.turn, decided)) {
            Some(json) => reframe(piece, &json, out),
            None => out.extend_from_slice(piece.raw),
        }
    }
}

/// Returns the text of an event after its calls are decided; `None` if it is unchanged.
fn changed(said: HeldResponse, turn: &mut ContentTurn, decided: &DecidedContent) -> Option<String> {
    let mut splices = Splices::default();
    for group in &said.groups {
        turn.edit(group, decided, &mut splices);
    }
    match said.form {
        TextForm::Exact if splices.is_empty() => None,
        TextForm::Exact | TextForm::Ambiguous => Some(splices.apply(&said.json)),
    }
}

/// Reads a JSON text. Returns `None` if nothing in it can change.
fn read(turn: &mut ContentTurn, json: &[u8]) -> Result<Option<HeldResponse>, LlmFault> {
    strict::read(json, |document, form| {
        let groups = turn.read(document.root())?;
        let may_change = form == TextForm::Ambiguous || !groups.is_empty();
        Ok(may_change.then(|| HeldResponse {
            json: document.text().to_owned(),
            form,
            groups,
        }))
    })?
}

impl Stream for StreamReader {
    fn admits(&self, piece: Piece<'_>) -> Result<(), LlmFault> {
        if has_foreign_line(piece) {
            let cause = "a line of an event that is no field of one".to_owned();
            return Err(LlmFault::Malformed { cause });
        }
        Ok(())
    }

    fn piece(
        &mut self,
        piece: Piece<'_>,
        judge: &mut dyn ContentJudge,
        out: &mut Vec<u8>,
    ) -> Result<(), LlmFault> {
        let said = match piece.data {
            Some(data) if !strict::is_silent(data) => read(&mut self.turn, data)?,
            Some(_) | None => None,
        };
        if self.turn.is_open() {
            return self.hold(piece, said);
        }
        let decided = self.release(judge, out);
        self.pass(piece, said, &decided, out);
        Ok(())
    }

    fn end(&mut self, _judge: &mut dyn ContentJudge, _out: &mut Vec<u8>) -> Result<(), LlmFault> {
        if self.turn.is_open() {
            return Err(unfinished());
        }
        Ok(())
    }

    fn held(&self) -> usize {
        self.bytes
    }

    fn broken(&self, fault: &LlmFault, out: &mut Vec<u8>) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(&error_body(Dialect::Gemini, 502, &fault.to_string()));
        out.extend_from_slice(b"\n\n");
    }
}

/// Filters a whole body: one response or an array of them. Returns `None` if it is unchanged.
pub(super) fn whole(body: &[u8], judge: &mut dyn ContentJudge) -> Result<Option<Vec<u8>>, LlmFault> {
    if strict::is_silent(body) {
        return Ok(None);
    }
    let mut turn = ContentTurn::default();
    let said = read(&mut turn, body)?;
    if turn.is_open() {
        return Err(unfinished());
    }
    let decided = turn.decide(judge);
    Ok(said
        .and_then(|said| changed(said, &mut turn, &decided))
        .map(String::into_bytes))
}

/// Returns whether an event contains a line that readers of events ignore: Google's SDK for Python reads it as a
/// response.
fn has_foreign_line(piece: Piece<'_>) -> bool {
    if piece
        .data
        .is_some_and(|data| !data.is_empty() && piece.raw.starts_with(data))
    {
        return false;
    }
    let raw = piece.raw.strip_prefix(b"\xef\xbb\xbf").unwrap_or(piece.raw);
    raw.split(|byte| matches!(byte, b'\r' | b'\n')).any(|line| {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        !matches!(name, b"" | b"data" | b"event" | b"id" | b"retry")
    })
}

fn unfinished() -> LlmFault {
    LlmFault::Malformed {
        cause: "the response ends inside a tool call".to_owned(),
    }
}
