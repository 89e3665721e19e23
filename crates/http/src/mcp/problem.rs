//! The proxy's own answers to clients of an MCP server: JSON-RPC errors with the cause, which clients show.

use hyper::{
    Response, StatusCode,
    header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER},
};
use mcpmon_protocol::filter::mcp_http::error_body;

use super::{hearing::Cut, server::TooMany};
use crate::{admission::RequestRefusal, body::OutgoingBody, chunks::ReadError, coding::CodingError};

/// The methods that an endpoint allows.
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
/// Seconds after which the client may try again.
const SOON: HeaderValue = HeaderValue::from_static("5");

/// The reason why a request gets no answer of its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Problem {
    status: StatusCode,
    message: String,
    /// The error for each waiting request; it replaces the message.
    cut: Option<Cut>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, message: impl ToString) -> Self {
        Self {
            status,
            message: message.to_string(),
            cut: None,
        }
    }

    /// The wait for an answer was ended.
    pub(super) fn of_cut(cut: Cut) -> Self {
        let (status, message) = match &cut {
            Cut::Halted(denial) => (StatusCode::FORBIDDEN, denial.reason.clone()),
            Cut::Late => (StatusCode::GATEWAY_TIMEOUT, "no answer came in time".to_owned()),
        };
        Self {
            cut: Some(cut),
            ..Self::new(status, message)
        }
    }

    /// The request is refused at admission. The status is never 401, because clients would then look for an
    /// authorization server.
    pub(in super::super) fn of_admission(refusal: RequestRefusal) -> Self {
        let status = match refusal {
            RequestRefusal::Forward => StatusCode::BAD_REQUEST,
            RequestRefusal::Token | RequestRefusal::Origin | RequestRefusal::Page | RequestRefusal::Host => {
                StatusCode::FORBIDDEN
            }
        };
        Self::new(status, refusal)
    }

    /// A limit is reached.
    pub(super) fn of_many(too_many: &TooMany) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, too_many)
    }

    /// A body could not be read.
    pub(super) fn of_reading(error: &ReadError) -> Self {
        let status = match error {
            ReadError::Coding(CodingError::Unknown(_)) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ReadError::Coding(CodingError::Expansion(_)) | ReadError::TooLong(_) => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            ReadError::Coding(_) | ReadError::Broken(_) => StatusCode::BAD_REQUEST,
            ReadError::Silent(_) | ReadError::Slow { .. } => StatusCode::REQUEST_TIMEOUT,
            ReadError::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, format!("the request's body cannot be read: {error}"))
    }

    /// Returns the problem of a server's response that is not forwarded.
    pub(super) fn of_answer(server: &str, cause: impl ToString) -> Self {
        let cause = cause.to_string();
        let message = format!("the answer of `{server}` is not forwarded: {cause}");
        Self::new(StatusCode::BAD_GATEWAY, message)
    }

    pub(super) const fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    pub(super) const fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// Returns the answer to a request as a whole, without an id.
    pub(in super::super) fn answer(&self) -> Response<OutgoingBody> {
        let body = error_body(self.status.as_u16(), &self.message);
        self.with(self.status, body.into_bytes())
    }

    /// Returns the answer with `body`, which has the errors for the waiting requests. What mcpmon itself decided has
    /// status 200, because many clients read the body of successful responses only.
    pub(super) fn answer_with(&self, body: Vec<u8>) -> Response<OutgoingBody> {
        let status = match self.cut {
            Some(_) => StatusCode::OK,
            None => self.status,
        };
        self.with(status, body)
    }

    fn with(&self, status: StatusCode, body: Vec<u8>) -> Response<OutgoingBody> {
        let mut response = Response::new(OutgoingBody::whole(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match status {
            StatusCode::METHOD_NOT_ALLOWED => {
                headers.insert(ALLOW, METHODS);
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, SOON);
            }
            _ => {}
        }
        response
    }
}
