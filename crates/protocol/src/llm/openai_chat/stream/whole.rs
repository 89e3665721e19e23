//! A body that came whole.

use super::{
    answer::AnswerState,
    call::{Call, CallDecision},
};
use crate::{
    decode::json::Value,
    llm::{
        ContentJudge, LlmFault,
        openai::{MAX_PARTS, malformed, too_many, whole_body},
        openai_chat::{
            decode::{ChoicePart, choices},
            rewrite::{ChoiceEdit, with_edits},
        },
    },
};

/// Filters a whole body. Returns `None` if it is unchanged.
pub(in crate::llm) fn whole(body: &[u8], judge: &mut dyn ContentJudge) -> Result<Option<Vec<u8>>, LlmFault> {
    whole_body(body, |root| judged(root, judge))
}

fn judged(root: Value<'_>, judge: &mut dyn ContentJudge) -> Result<Option<String>, LlmFault> {
    let mut edits = Vec::new();
    for choice in choices(root, ChoicePart::Message).map_err(malformed)? {
        if choice.entries.len() > MAX_PARTS {
            return Err(too_many());
        }
        let mut answer = AnswerState::default();
        answer.hear(choice.has_role, choice.has_text);
        let mut edit = ChoiceEdit::default();
        for entry in &choice.entries {
            let mut call = Call::new(choice.index, entry.place, false);
            call.take(entry)?;
            let fate = match answer.decide(&call, judge)? {
                // A body numbers nothing.
                CallDecision::Renumber(_) => CallDecision::Keep,
                CallDecision::Rewrite { arguments, .. } => CallDecision::Rewrite {
                    index: None,
                    arguments,
                },
                fate @ (CallDecision::Keep | CallDecision::Block(_)) => fate,
            };
            edit.entries.push(call.edit(&fate, true, entry.value));
            if let CallDecision::Block(text) = &fate {
                edit.said.get_or_insert_default().push_str(&answer.say(text));
            }
        }
        edit.stop = answer.stops(&choice);
        edits.push(edit);
    }
    if edits.iter().all(ChoiceEdit::is_none) {
        return Ok(None);
    }
    Ok(with_edits(root, ChoicePart::Message, &edits))
}
