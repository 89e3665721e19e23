//! Faults: reasons why a request or response cannot pass, in a form that the agent's SDK understands.

use mcpmon_model::{Denial, Dialect};

use super::{ApiViolation, dialect::api};
use crate::decode::json::quote_into;

/// The reason why a request or response cannot pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LlmFault {
    /// The text cannot be read strictly, and could carry a tool call.
    #[error("it cannot be read: {cause}")]
    Malformed {
        /// The cause, with the position.
        cause: String,
    },
    /// The text is longer than the limit.
    #[error("longer than the {limit} bytes that mcpmon holds")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// The policy blocks the request.
    #[error("blocked by policy: {} [{}]{}", .0.reason, .0.rule, recorded(.0))]
    Blocked(Denial),
}

/// Returns the note with the id of the recorded event.
fn recorded(denial: &Denial) -> String {
    let event = denial.event.as_ref();
    event.map_or_else(String::new, |event| {
        format!(" (event {event}; the user can look it up with: mcpmon explain {event})")
    })
}

impl LlmFault {
    /// Builds the fault for a malformed text with this cause.
    pub(super) fn malformed(cause: impl std::fmt::Display) -> Self {
        Self::Malformed {
            cause: cause.to_string(),
        }
    }

    /// Returns the status of the answer in place of a response of which nothing was forwarded yet.
    pub const fn response_status(&self) -> u16 {
        match self {
            Self::Malformed { .. } | Self::TooLong { .. } => 502,
            Self::Blocked(_) => 403,
        }
    }
}

impl From<ApiViolation> for LlmFault {
    fn from(unfit: ApiViolation) -> Self {
        Self::malformed(unfit)
    }
}

/// Returns the body of an error answer in this dialect, from which SDKs show `message` with `[mcpmon]` before it; its
/// content type is `application/json`.
pub fn error_body(dialect: Dialect, status: u16, message: &str) -> Vec<u8> {
    let mut quoted = String::with_capacity(message.len() + 16);
    quote_into(&format!("[mcpmon] {message}"), &mut quoted);
    api(dialect).error(status, &quoted).into_bytes()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::{super::dialect::DIALECTS, *};

    #[test_case(Dialect::Anthropic, 403 => r#"{"type":"error","error":{"type":"permission_error","message":"[mcpmon] a \"b\"\n"}}"#; "anthropic")]
    #[test_case(Dialect::Anthropic, 502 => r#"{"type":"error","error":{"type":"api_error","message":"[mcpmon] a \"b\"\n"}}"#; "anthropic, a gateway")]
    #[test_case(Dialect::OpenaiChat, 400 => r#"{"error":{"message":"[mcpmon] a \"b\"\n","type":"invalid_request_error","param":null,"code":"mcpmon"}}"#; "openai chat")]
    #[test_case(Dialect::OpenaiResponses, 502 => r#"{"error":{"message":"[mcpmon] a \"b\"\n","type":"server_error","param":null,"code":"mcpmon"}}"#; "openai responses")]
    #[test_case(Dialect::Gemini, 403 => r#"{"error":{"code":403,"message":"[mcpmon] a \"b\"\n","status":"PERMISSION_DENIED"}}"#; "gemini")]
    #[test_case(Dialect::Ollama, 403 => r#"{"error":"[mcpmon] a \"b\"\n"}"#; "ollama")]
    fn bodies(dialect: Dialect, status: u16) -> String {
        String::from_utf8(error_body(dialect, status, "a \"b\"\n")).unwrap()
    }

    #[test]
    fn any_status_and_message_make_json() {
        for (dialect, _) in DIALECTS {
            for status in [0, 400, 401, 404, 413, 429, 500, 503, 504, 529, u16::MAX] {
                let body = error_body(dialect, status, "\u{2028}\0\"\\");
                let read: serde_json::Value = serde_json::from_slice(&body).unwrap();
                let error = &read["error"];
                let message = if dialect == Dialect::Ollama {
                    error
                } else {
                    &error["message"]
                };
                assert_eq!(message, "[mcpmon] \u{2028}\0\"\\");
            }
        }
    }
}
