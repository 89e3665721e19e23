//! Functions that both APIs of `OpenAI` share.

#[cfg(test)]
pub(in crate::llm) mod fixture;
pub(in crate::llm) mod tools;

use mcpmon_model::{Denial, Intent, LlmMention, Verdict};

use crate::{
    decode::json::{Doubt, LoneSurrogate, MAX_DEPTH, Scan, Scanner, Value, canonical, quote_into},
    llm::{ContentJudge, LlmFault},
};

/// Most tool calls, and most answers, of one response.
pub(in crate::llm) const MAX_PARTS: usize = 1024;

/// Words in place of JSON that end a stream.
pub(in crate::llm) const DONE: &[u8] = b"[DONE]";

pub(in crate::llm) fn malformed(cause: impl std::fmt::Display) -> LlmFault {
    LlmFault::Malformed {
        cause: cause.to_string(),
    }
}

pub(in crate::llm) fn too_many() -> LlmFault {
    malformed(format!("more than {MAX_PARTS} of one kind in a response"))
}

/// Returns a scanner for texts of a provider.
pub(in crate::llm) fn scanner() -> Scanner {
    Scanner::new(MAX_DEPTH)
}

/// Reads a text of a provider.
pub(in crate::llm) fn scan<'t>(scanner: &'t mut Scanner, text: &'t [u8]) -> Result<Scan<'t>, LlmFault> {
    scanner.scan(text, LoneSurrogate::Replace).map_err(malformed)
}

/// Returns the text of the denial if the call is stopped; `None` if it passes. A decision that does not fit a
/// call stops it.
pub(in crate::llm) fn denied(judge: &mut dyn ContentJudge, intent: Intent<'_>) -> Option<Denial> {
    match judge.judge(&LlmMention::Call(intent)) {
        Verdict::Allow => None,
        Verdict::Block(denial) => Some(denial),
        Verdict::Hide(_) | Verdict::StripInstructions | Verdict::Redact(_) | Verdict::Ask(_) => {
            Some(Denial {
                rule: "internal".to_owned(),
                reason: "the decision does not fit a tool call".to_owned(),
                remedy: None,
                event: None,
            })
        }
    }
}

/// A piece of a stream that holds an event.
#[derive(Clone, Copy, Debug)]
pub(in crate::llm) struct Raw<'a> {
    /// The one that was read.
    pub(in crate::llm) read: &'a [u8],
    /// The bytes that pass if nothing in them changes and nothing is awaited.
    pub(in crate::llm) unchanged: &'a [u8],
}

impl<'a> Raw<'a> {
    /// Returns a text that was read unchanged.
    pub(in crate::llm) const fn exact(raw: &'a [u8]) -> Self {
        Self {
            read: raw,
            unchanged: raw,
        }
    }
}

/// Returns a fault in the form of an error in the middle of a stream, as two members of one object: the one that the
/// official SDKs raise, and those of an event of Responses.
pub(in crate::llm) fn error_members(fault: &LlmFault) -> (String, String) {
    let mut message = String::new();
    quote_into(&format!("[mcpmon] {fault}"), &mut message);
    let told = format!("\"message\":{message},\"param\":null,\"code\":\"mcpmon\"");
    (format!("\"error\":{{\"type\":\"server_error\",{told}}}"), told)
}

/// Filters a whole body after its calls were judged. Returns `None` if it is unchanged.
pub(in crate::llm) fn whole_body(
    body: &[u8],
    judged: impl FnOnce(Value<'_>) -> Result<Option<String>, LlmFault>,
) -> Result<Option<Vec<u8>>, LlmFault> {
    if body.trim_ascii().is_empty() {
        return Ok(None);
    }
    let mut scanner = scanner();
    let read = scan(&mut scanner, body)?;
    if read.doubt < Doubt::Surrogate {
        return Ok(judged(read.document.root())?.map(String::into_bytes));
    }
    let text = canonical(read.document);
    let new = judged(scan(&mut scanner, text.as_bytes())?.document.root())?;
    Ok(Some(new.unwrap_or(text).into_bytes()))
}

/// Writes the body of an error answer with this status, around a message that is quoted already.
pub(in crate::llm) fn error(status: u16, quoted: &str) -> String {
    let kind = error_kind(status);
    format!(r#"{{"error":{{"message":{quoted},"type":"{kind}","param":null,"code":"mcpmon"}}}}"#)
}

const fn error_kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}
