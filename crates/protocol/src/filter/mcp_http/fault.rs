//! Faults: reasons why a response is not forwarded unchanged.

use crate::rewrite;

/// Returns the body of an error with this status that belongs to no particular request.
pub fn error_body(status: u16, cause: &str) -> String {
    let fault = match status {
        504 => rewrite::RefusalReason::Timeout,
        500.. => rewrite::RefusalReason::Answer,
        _ => rewrite::RefusalReason::Request,
    };
    rewrite::refusal(None, fault, cause)
}

impl ResponseFault {
    /// Returns the JSON-RPC error for the waiting side.
    pub(super) const fn kind(&self) -> rewrite::RefusalReason {
        match self {
            Self::Late => rewrite::RefusalReason::Timeout,
            Self::TooLong { .. }
            | Self::NoMessage
            | Self::Charset
            | Self::Endpoint { .. }
            | Self::Broken { .. } => rewrite::RefusalReason::Answer,
        }
    }
}

/// The reason why a response is not forwarded unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseFault {
    /// The response is longer than the limit.
    #[error("the server's answer is longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// The response is not a message.
    #[error("the server's answer is no JSON-RPC message")]
    NoMessage,
    /// The headers of the response declare a charset other than UTF-8.
    #[error("the server's answer names another charset than UTF-8")]
    Charset,
    /// The server gives an address for messages that is not its own.
    #[error("the server wants messages sent to another place: {cause}")]
    Endpoint {
        /// The defect.
        cause: &'static str,
    },
    /// The response does not come within the time that the client's request may wait.
    #[error("no answer came in time")]
    Late,
    /// The response does not come, or not completely.
    #[error("{cause}")]
    Broken {
        /// The cause.
        cause: String,
    },
}
