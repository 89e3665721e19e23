//! The proxy's own answers to clients of an LLM provider, in the format in which the agent's SDK shows errors.

use hyper::{
    Response, StatusCode,
    header::{CONNECTION, CONTENT_TYPE, HeaderValue, UPGRADE},
};
use mcpmon_model::Dialect;
use mcpmon_protocol::llm::{LlmFault, error_body};

use super::{body::OutgoingBody, chunks::ReadError};

/// The reason why a request gets no answer of its provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProviderProblem {
    pub(super) status: StatusCode,
    /// The dialect of the answer; if it is unknown, that of the path, or else the one that most SDKs read.
    pub(super) dialect: Option<Dialect>,
    pub(super) message: String,
}

impl ProviderProblem {
    pub(super) fn new(status: StatusCode, dialect: Option<Dialect>, message: impl ToString) -> Self {
        Self {
            status,
            dialect,
            message: message.to_string(),
        }
    }

    /// Returns the answer to a request that is not forwarded.
    pub(super) fn of_request(dialect: Dialect, fault: &LlmFault) -> Self {
        let status = match fault {
            LlmFault::Malformed { .. } => StatusCode::BAD_REQUEST,
            LlmFault::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            LlmFault::Blocked(_) => StatusCode::FORBIDDEN,
        };
        Self::new(status, Some(dialect), format!("the request: {fault}"))
    }

    /// Returns the answer in place of a response that is not forwarded.
    pub(super) fn of_response(dialect: Dialect, cause: impl ToString) -> Self {
        let message = format!("the provider's answer is not forwarded: {}", cause.to_string());
        Self::new(StatusCode::BAD_GATEWAY, Some(dialect), message)
    }

    /// Returns the answer to a request that could not be read.
    pub(super) fn of_reading(error: &ReadError) -> Self {
        let status = match error {
            ReadError::Coding(super::coding::CodingError::Unknown(_)) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ReadError::Coding(super::coding::CodingError::Expansion(_)) | ReadError::TooLong(_) => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            ReadError::Coding(_) | ReadError::Broken(_) => StatusCode::BAD_REQUEST,
            ReadError::Silent(_) | ReadError::Slow { .. } => StatusCode::REQUEST_TIMEOUT,
            ReadError::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(
            status,
            None,
            format!("the request's body cannot be read: {error}"),
        )
    }

    pub(super) fn answer(&self) -> Response<OutgoingBody> {
        let dialect = self.dialect.unwrap_or(Dialect::OpenaiChat);
        let body = error_body(dialect, self.status.as_u16(), &self.message);
        let mut response = Response::new(OutgoingBody::whole(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.status == StatusCode::UPGRADE_REQUIRED {
            headers.insert(UPGRADE, HeaderValue::from_static("HTTP/1.1"));
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        }
        response
    }
}
