//! One of the answers of a response, as far as it was forwarded.

use std::collections::BTreeMap;

use super::call::{Call, CallDecision};
use crate::llm::{
    ContentJudge, LlmFault,
    openai::{MAX_PARTS, too_many},
    openai_chat::decode::{CallPosition, Choice},
};

/// The state of an answer: its text and its calls so far.
#[derive(Debug, Default)]
pub(super) struct AnswerState {
    /// True once the role of the speaker was forwarded.
    pub(super) has_begun: bool,
    has_text: bool,
    allowed: usize,
    blocked: usize,
    /// Calls that were decided, with their ids.
    decided: BTreeMap<CallPosition, String>,
    /// The index after that of the last forwarded call.
    next: u64,
    /// True if calls were left out or split, so that later ones have other indexes than they came with.
    is_shifted: bool,
}

impl AnswerState {
    pub(super) fn hear(&mut self, has_role: bool, has_text: bool) {
        self.has_begun |= has_role;
        self.has_text |= has_text;
    }

    /// Returns the id with which a call at this position was decided, if one was.
    pub(super) fn decided(&self, place: CallPosition) -> Option<&str> {
        self.decided.get(&place).map(String::as_str)
    }

    /// Decides a call.
    pub(super) fn decide(
        &mut self,
        call: &Call,
        judge: &mut dyn ContentJudge,
    ) -> Result<CallDecision, LlmFault> {
        if self.decided.len() >= MAX_PARTS {
            return Err(too_many());
        }
        self.decided.insert(call.place, call.id.clone());
        let (denial, arguments) = call.judge(judge)?;
        if let Some(denial) = denial {
            self.blocked += 1;
            self.is_shifted = true;
            return Ok(CallDecision::Block(call.blocked_text(&denial)));
        }
        self.allowed += 1;
        let index = match call.place {
            CallPosition::Function => None,
            CallPosition::At(index) if !self.is_shifted && !call.is_displaced => Some(index),
            CallPosition::At(_) | CallPosition::Unsaid => Some(self.next),
        };
        self.is_shifted |= call.is_displaced;
        self.next = self.next.max(index.map_or(0, |index| index.saturating_add(1)));
        Ok(match (arguments, index) {
            (Some(arguments), index) => CallDecision::Rewrite { index, arguments },
            (None, index) if !call.is_plain => CallDecision::Rewrite {
                index,
                arguments: call.input.clone(),
            },
            (None, Some(index)) if call.place != CallPosition::At(index) => CallDecision::Renumber(index),
            (None, _) => CallDecision::Keep,
        })
    }

    /// Returns the text in place of a call, separated from earlier text.
    pub(super) fn say(&mut self, text: &str) -> String {
        let gap = if self.has_text { "\n\n" } else { "" };
        self.has_text = true;
        format!("{gap}{text}")
    }

    /// Returns whether the answer ends with calls, but all of them were blocked.
    pub(super) fn stops(&self, choice: &Choice<'_>) -> bool {
        let promises = matches!(choice.finish.as_deref(), Some("tool_calls" | "function_call"));
        promises && self.blocked > 0 && self.allowed == 0
    }
}
