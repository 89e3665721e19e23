//! Answers to messages that cannot be forwarded, whatever the policy.

use mcpmon_model::RequestId;

use crate::decode::json::quote_into;

/// MCP's code for headers that do not agree with the body.
const HEADER_MISMATCH: i64 = -32_020;

/// The reason for a refusal, as JSON-RPC codes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// The text is not JSON.
    Parse,
    /// The text is not a message, or may not be sent now.
    Request,
    /// The answer that came is not valid.
    Answer,
    /// No answer came in time.
    Timeout,
}

impl RefusalReason {
    const fn code(self) -> i32 {
        match self {
            Self::Parse => -32_700,
            Self::Request => -32_600,
            Self::Answer => -32_603,
            Self::Timeout => -32_001,
        }
    }
}

/// Returns an error answer; its id is `null` if the id of the request could not be read.
pub fn refusal(id: Option<&RequestId>, fault: RefusalReason, cause: &str) -> String {
    error_answer(id, fault.code().into(), &format!("[mcpmon] {cause}"))
}

/// Returns the error answer that stands for an answer that the server did not give. It has no text, because texts are
/// inspected as the server's.
pub fn missing_answer(id: &RequestId, fault: RefusalReason) -> String {
    error_answer(Some(id), fault.code().into(), "")
}

/// Returns the answer of a server of the stateless era to a request whose headers disagree with its body.
pub fn mismatch(id: Option<&RequestId>, cause: &str) -> String {
    error_answer(id, HEADER_MISMATCH, &format!("[mcpmon] header mismatch: {cause}"))
}

/// Returns an error answer with this code.
pub(super) fn error_answer(id: Option<&RequestId>, code: i64, message: &str) -> String {
    let mut answer = "{\"jsonrpc\":\"2.0\",\"id\":".to_owned();
    match id {
        Some(RequestId::Number(digits)) => answer.push_str(digits),
        Some(RequestId::Text(text)) => quote_into(text, &mut answer),
        None => answer.push_str("null"),
    }
    answer.push_str(",\"error\":");
    error_into(code, message, &mut answer);
    answer.push('}');
    answer
}

/// Appends an error object.
pub(super) fn error_into(code: i64, message: &str, out: &mut String) {
    out.push_str(&format!("{{\"code\":{code},\"message\":"));
    quote_into(message, out);
    out.push('}');
}
