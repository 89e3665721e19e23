//! Chat Completions. A call comes in fragments that identify it by its position. Readers differ about a name or an id
//! that comes twice, so neither is certain before the call is complete. Until then its chunks are held; text is
//! forwarded.

mod answer;
mod call;
mod held;
#[cfg(test)]
mod tests;
mod whole;

use std::collections::BTreeMap;

pub(super) use self::whole::whole;
use self::{
    answer::AnswerState,
    held::{HeldChunk, HeldPieces},
};
use crate::{
    decode::json::{Scanner, TextForm, Value, canonical},
    llm::{
        ContentJudge, HoldLimits, LlmFault, Piece, Stream, is_ended,
        openai::{DONE, MAX_PARTS, Raw, error_members, malformed, scan, scanner, too_many},
        openai_chat::{
            decode::{Choice, ChoicePart, choices},
            rewrite::{ChoiceEdit, with_edits},
        },
        strict,
    },
};

/// The reading of one stream.
#[derive(Debug)]
pub(super) struct StreamReader {
    limits: HoldLimits,
    scanner: Scanner,
    said: StreamState,
}

/// The state of the response so far.
#[derive(Debug, Default)]
struct StreamState {
    answers: BTreeMap<u64, AnswerState>,
    held: HeldPieces,
}

impl StreamReader {
    pub(super) fn new(limits: HoldLimits) -> Self {
        Self {
            limits,
            scanner: scanner(),
            said: StreamState::default(),
        }
    }
}

impl Stream for StreamReader {
    fn piece(
        &mut self,
        piece: Piece<'_>,
        judge: &mut dyn ContentJudge,
        out: &mut Vec<u8>,
    ) -> Result<(), LlmFault> {
        let Some(data) = piece.data.filter(|data| !data.trim_ascii().is_empty()) else {
            out.extend_from_slice(piece.raw);
            return Ok(());
        };
        if data.trim_ascii() == DONE {
            self.said.release_all(judge, out)?;
            out.extend_from_slice(piece.raw);
            return Ok(());
        }
        let read = scan(&mut self.scanner, data)?;
        if read.form == TextForm::Exact {
            let raw = Raw::exact(piece.raw);
            self.said.chunk(read.document.root(), raw, judge, out)?;
        } else {
            let is_half = strict::is_half(read.doubt, piece.raw);
            let text = canonical(read.document);
            let read = scan(&mut self.scanner, text.as_bytes())?;
            let anew = event(&text);
            let raw = Raw {
                read: anew.as_bytes(),
                unchanged: if is_half { piece.raw } else { anew.as_bytes() },
            };
            self.said.chunk(read.document.root(), raw, judge, out)?;
        }
        let limit = self.limits.max_held;
        if self.said.held.bytes() > limit {
            return Err(LlmFault::TooLong { limit });
        }
        Ok(())
    }

    fn end(&mut self, judge: &mut dyn ContentJudge, out: &mut Vec<u8>) -> Result<(), LlmFault> {
        self.said.release_all(judge, out)
    }

    fn held(&self) -> usize {
        self.said.held.bytes()
    }

    fn broken(&self, fault: &LlmFault, out: &mut Vec<u8>) {
        let (error, _) = error_members(fault);
        out.extend_from_slice(event(&format!("{{{error}}}")).as_bytes());
    }
}

impl StreamState {
    fn chunk(
        &mut self,
        root: Value<'_>,
        raw: Raw<'_>,
        judge: &mut dyn ContentJudge,
        out: &mut Vec<u8>,
    ) -> Result<(), LlmFault> {
        let choices = choices(root, ChoicePart::Delta).map_err(malformed)?;
        for choice in &choices {
            self.answers.entry(choice.index).or_default();
        }
        if self.answers.len() > MAX_PARTS {
            return Err(too_many());
        }
        let has_calls = choices.iter().any(|choice| !choice.entries.is_empty());
        if has_calls {
            self.held.end_before(&choices);
            self.release(judge, out)?;
        }
        let calls = self.held.take(&choices, &self.answers)?;
        if has_calls || self.must_wait(&choices, raw.read) {
            self.held.push(HeldChunk::new(root, raw.read, &choices, calls));
        } else {
            self.pass(root, &choices, raw.unchanged, out);
        }
        for choice in choices.iter().filter(|choice| choice.finish.is_some()) {
            self.held.end(choice.index);
        }
        self.release(judge, out)
    }

    /// Returns whether a chunk without a call has to stay behind the held ones: it ends an answer, or would come before
    /// the chunk that has the role.
    fn must_wait(&self, choices: &[Choice<'_>], raw: &[u8]) -> bool {
        let waits = |choice: &Choice<'_>| {
            let has_begun = self
                .answers
                .get(&choice.index)
                .is_some_and(|answer| answer.has_begun);
            choice.finish.is_some() || !(choice.has_role || has_begun)
        };
        !self.held.is_empty() && (!is_ended(raw) || choices.iter().any(waits))
    }

    /// Forwards a chunk without a call.
    fn pass(&mut self, root: Value<'_>, choices: &[Choice<'_>], raw: &[u8], out: &mut Vec<u8>) {
        let mut edits = Vec::new();
        for choice in choices {
            let answer = self.answers.entry(choice.index).or_default();
            answer.hear(choice.has_role, choice.has_text);
            edits.push(ChoiceEdit {
                stop: answer.stops(choice),
                ..ChoiceEdit::default()
            });
        }
        if edits.iter().all(ChoiceEdit::is_none) {
            out.extend_from_slice(raw);
        } else if let Some(text) = with_edits(root, ChoicePart::Delta, &edits) {
            out.extend_from_slice(event(&text).as_bytes());
        }
    }

    fn release_all(&mut self, judge: &mut dyn ContentJudge, out: &mut Vec<u8>) -> Result<(), LlmFault> {
        self.held.end_all();
        self.release(judge, out)
    }

    /// Forwards the held chunks, or their replacements, if every call in them is complete.
    fn release(&mut self, judge: &mut dyn ContentJudge, out: &mut Vec<u8>) -> Result<(), LlmFault> {
        if self.held.is_over() {
            std::mem::take(&mut self.held).release(&mut self.answers, judge, out)?;
        }
        Ok(())
    }
}

fn event(text: &str) -> String {
    format!("data: {text}\n\n")
}
