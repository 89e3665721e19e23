//! Whole messages: a response that is no stream, or the message with which a stream starts.

use std::ops::Range;

use mcpmon_model::{Input, Intent, LlmMention, Verdict};

use super::{ContentJudge, LlmFault};
use crate::{
    decode::json::{Doubt, LoneSurrogate, MAX_DEPTH, Scanner, Value, canonical},
    llm::{
        anthropic::{
            decode::{Block, Call, Message},
            rewrite::with_texts,
        },
        blocked::blocked_text,
    },
};

/// Filters a whole body. Returns `None` if it is unchanged.
pub(in super::super) fn whole(
    body: &[u8],
    judge: &mut dyn ContentJudge,
) -> Result<Option<Vec<u8>>, LlmFault> {
    if body.trim_ascii().is_empty() {
        return Ok(None);
    }
    let mut scanner = Scanner::new(MAX_DEPTH);
    let scan = scanner.scan(body, LoneSurrogate::Replace);
    let scan = scan.map_err(LlmFault::malformed)?;
    if scan.doubt < Doubt::Surrogate {
        let root = scan.document.root();
        let changed = JudgedMessage::read(root, judge)?.changed(root);
        let (before, after) = (&body[..root.range().start], &body[root.range().end..]);
        return Ok(changed.map(|new| [before, new.as_bytes(), after].concat()));
    }
    let anew = canonical(scan.document);
    let mut scanner = Scanner::new(MAX_DEPTH);
    let scan = scanner.scan(anew.as_bytes(), LoneSurrogate::Refuse);
    let root = scan.map_err(LlmFault::malformed)?.document.root();
    let changed = JudgedMessage::read(root, judge)?.changed(root);
    Ok(Some(changed.unwrap_or_else(|| anew.clone()).into_bytes()))
}

/// A message whose calls were judged.
#[derive(Debug)]
pub(super) struct JudgedMessage<'t> {
    /// The number of blocks.
    pub(super) blocks: usize,
    /// The number of calls that pass.
    pub(super) allowed: usize,
    /// The ranges of the blocked calls, each with the text in its place.
    pub(super) blocked: Vec<(Range<usize>, String)>,
    stop_reason: Option<Value<'t>>,
}

impl<'t> JudgedMessage<'t> {
    pub(super) fn read(message: Value<'t>, judge: &mut dyn ContentJudge) -> Result<Self, LlmFault> {
        let message = Message::read(message)?;
        let mut judged = Self {
            blocks: message.content.len(),
            allowed: 0,
            blocked: Vec::new(),
            stop_reason: message.stop_reason,
        };
        for (value, block) in message.content {
            match said(block) {
                Some(LlmMention::Call(intent)) => {
                    let name = intent.name.clone();
                    match judge.judge(&LlmMention::Call(intent)) {
                        Verdict::Block(denial) => {
                            judged.blocked.push((value.range(), blocked_text(&name, &denial)));
                        }
                        Verdict::Allow
                        | Verdict::Hide(_)
                        | Verdict::StripInstructions
                        | Verdict::Redact(_)
                        | Verdict::Ask(_) => judged.allowed += 1,
                    }
                }
                // The provider has already executed it.
                Some(said) => drop(judge.judge(&said)),
                None => {}
            }
        }
        Ok(judged)
    }

    /// Returns `whole`, which contains the message, without the blocked calls; `None` if none was blocked.
    pub(super) fn changed(&self, whole: Value<'_>) -> Option<String> {
        let is_left = self.allowed > 0;
        let reason = self.stop_reason.filter(|reason| !is_left && is_tool_use(*reason));
        (!self.blocked.is_empty()).then(|| with_texts(whole, &self.blocked, reason))
    }
}

/// Returns whether a stop reason is that a tool is to be called.
pub(super) fn is_tool_use(reason: Value<'_>) -> bool {
    reason.string().as_deref() == Some("tool_use")
}

/// Returns the content of a whole block in the form in which it is judged.
fn said(block: Block<'_>) -> Option<LlmMention<'_>> {
    Some(match block {
        Block::Call(call) => LlmMention::Call(intent(call)),
        Block::Called { server, call } => LlmMention::Called {
            server,
            intent: intent(call),
        },
        Block::Listed { server, tools } => LlmMention::Listed { server, tools },
        Block::Other => return None,
    })
}

fn intent(call: Call<'_>) -> Intent<'_> {
    const EMPTY: mcpmon_model::RawJson<'_> = mcpmon_model::RawJson::trusted("{}");
    Intent {
        id: call.id,
        name: call.name,
        input: Input::Json(call.input.map_or(EMPTY, Value::raw)),
    }
}
