//! Pieces that are held until the end of a call.

use std::{collections::BTreeMap, ops::Range};

use memchr::memmem;

use super::{
    answer::AnswerState,
    call::{Call, CallDecision, is_another},
    event,
};
use crate::{
    decode::json::Value,
    llm::{
        ContentJudge, LlmFault,
        openai::{MAX_PARTS, malformed, scan, scanner, too_many},
        openai_chat::{
            decode::{CallFragment, CallPosition, Choice, ChoicePart, choices},
            rewrite::{ChoiceEdit, with_edits},
        },
    },
};

/// Held chunks, and the calls in them.
#[derive(Debug, Default)]
pub(super) struct HeldPieces {
    chunks: Vec<HeldChunk>,
    calls: Vec<Call>,
    /// Calls by their answer and their position in it; the last one, if several have the same position.
    places: BTreeMap<(u64, CallPosition), usize>,
    /// The last call of each answer.
    last: BTreeMap<u64, usize>,
    bytes: usize,
}

/// A held chunk.
#[derive(Debug)]
pub(super) struct HeldChunk {
    raw: Vec<u8>,
    /// The range of its JSON.
    text: Range<usize>,
    /// The calls that its entries belong to, in order.
    calls: Vec<usize>,
    /// For each answer in it: whether it has a role, and whether it has text.
    heard: Vec<(u64, bool, bool)>,
    finishes: bool,
}

impl HeldChunk {
    pub(super) fn new(root: Value<'_>, raw: &[u8], choices: &[Choice<'_>], calls: Vec<usize>) -> Self {
        let text = root.text();
        let start = memmem::find(raw, text.as_bytes()).expect("an event has its data in it");
        let heard = |choice: &Choice<'_>| (choice.index, choice.has_role, choice.has_text);
        Self {
            raw: raw.to_vec(),
            text: start..start + text.len(),
            calls,
            heard: choices.iter().map(heard).collect(),
            finishes: choices.iter().any(|choice| choice.finish.is_some()),
        }
    }
}

impl HeldPieces {
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, chunk: HeldChunk) {
        self.bytes += chunk.raw.len();
        self.chunks.push(chunk);
    }

    /// Returns whether something is held, and every call in it is complete.
    pub(super) fn is_over(&self) -> bool {
        !self.chunks.is_empty() && self.calls.iter().all(|call| call.is_over)
    }

    /// Ends the last call of every answer in which another call begins, if it is complete; otherwise all that follow
    /// wait with it. Each call is checked once.
    pub(super) fn end_before(&mut self, choices: &[Choice<'_>]) {
        for choice in choices {
            if choice
                .entries
                .iter()
                .any(|entry| self.find(choice.index, entry).is_none())
            {
                self.end_last(choice.index);
            }
        }
    }

    /// Adds the fragments to their calls. Returns the calls that they belong to.
    pub(super) fn take(
        &mut self,
        choices: &[Choice<'_>],
        answers: &BTreeMap<u64, AnswerState>,
    ) -> Result<Vec<usize>, LlmFault> {
        let mut calls = Vec::new();
        for choice in choices {
            for entry in &choice.entries {
                let at = match self.find(choice.index, entry) {
                    Some(at) => at,
                    None => self.begin(choice.index, entry, answers)?,
                };
                self.calls[at].take(entry)?;
                calls.push(at);
            }
        }
        Ok(calls)
    }

    /// Ends the calls of an answer.
    pub(super) fn end(&mut self, answer: u64) {
        for call in self.calls.iter_mut().filter(|call| call.answer == answer) {
            call.is_over = true;
        }
    }

    pub(super) fn end_all(&mut self) {
        for call in &mut self.calls {
            call.is_over = true;
        }
    }

    /// Forwards everything, or its replacement.
    pub(super) fn release(
        self,
        answers: &mut BTreeMap<u64, AnswerState>,
        judge: &mut dyn ContentJudge,
        out: &mut Vec<u8>,
    ) -> Result<(), LlmFault> {
        let mut fates = Vec::new();
        for call in &self.calls {
            let answer = answers.entry(call.answer).or_default();
            fates.push(answer.decide(call, judge)?);
        }
        let mut started = vec![false; fates.len()];
        for chunk in &self.chunks {
            for (answer, has_role, has_text) in &chunk.heard {
                answers.entry(*answer).or_default().hear(*has_role, *has_text);
            }
            let is_kept = |call: &usize| matches!(fates[*call], CallDecision::Keep);
            if chunk.calls.iter().all(is_kept) && !chunk.finishes {
                out.extend_from_slice(&chunk.raw);
            } else {
                self.write(chunk, &fates, &mut started, answers, out)?;
            }
        }
        Ok(())
    }

    fn write(
        &self,
        chunk: &HeldChunk,
        fates: &[CallDecision],
        started: &mut [bool],
        answers: &mut BTreeMap<u64, AnswerState>,
        out: &mut Vec<u8>,
    ) -> Result<(), LlmFault> {
        let mut scanner = scanner();
        let root = scan(&mut scanner, &chunk.raw[chunk.text.clone()])?
            .document
            .root();
        let mut calls = chunk.calls.iter();
        let mut edits = Vec::new();
        for choice in choices(root, ChoicePart::Delta).map_err(malformed)? {
            let answer = answers.entry(choice.index).or_default();
            let mut edit = ChoiceEdit {
                stop: answer.stops(&choice),
                ..ChoiceEdit::default()
            };
            for (entry, call) in choice.entries.iter().zip(calls.by_ref()) {
                let is_first = !std::mem::replace(&mut started[*call], true);
                edit.entries
                    .push(self.calls[*call].edit(&fates[*call], is_first, entry.value));
                if let (CallDecision::Block(text), true) = (&fates[*call], is_first) {
                    edit.said.get_or_insert_default().push_str(&answer.say(text));
                }
            }
            edits.push(edit);
        }
        if edits.iter().all(ChoiceEdit::is_none) {
            out.extend_from_slice(&chunk.raw);
        } else if let Some(text) = with_edits(root, ChoicePart::Delta, &edits) {
            out.extend_from_slice(event(&text).as_bytes());
        }
        Ok(())
    }

    /// Returns the call that this fragment continues; `None` if it begins another one.
    fn find(&self, answer: u64, entry: &CallFragment<'_>) -> Option<usize> {
        let at = *self.places.get(&(answer, entry.place))?;
        let call = &self.calls[at];
        let begins = match entry.place {
            CallPosition::At(_) | CallPosition::Function => call.is_left_by(entry),
            CallPosition::Unsaid => !entry.name.is_empty() && (entry.id.is_empty() || entry.id != call.id),
        };
        (!begins).then_some(at)
    }

    fn begin(
        &mut self,
        answer: u64,
        entry: &CallFragment<'_>,
        answers: &BTreeMap<u64, AnswerState>,
    ) -> Result<usize, LlmFault> {
        if self.calls.len() >= MAX_PARTS {
            return Err(too_many());
        }
        let key = (answer, entry.place);
        let decided = answers
            .get(&answer)
            .and_then(|answer| answer.decided(entry.place));
        match decided {
            Some(id) if entry.place != CallPosition::Unsaid && !is_another(id, entry) => {
                return Err(malformed("a tool call goes on after the next one began"));
            }
            Some(_) | None => {}
        }
        let is_displaced =
            entry.place == CallPosition::Unsaid || decided.is_some() || self.places.contains_key(&key);
        self.end_last(answer);
        let at = self.calls.len();
        self.calls.push(Call::new(answer, entry.place, is_displaced));
        self.places.insert(key, at);
        self.last.insert(answer, at);
        Ok(at)
    }

    fn end_last(&mut self, answer: u64) {
        let Some(at) = self.last.get(&answer) else {
            return;
        };
        let call = &mut self.calls[*at];
        if !call.is_over && !call.is_interleaved {
            call.is_over = call.is_whole();
            call.is_interleaved = !call.is_over;
        }
    }
}
