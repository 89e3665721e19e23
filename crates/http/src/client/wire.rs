//! One request over HTTP and its response: nothing, a JSON text, or a stream of events.

use std::{fmt, time::Duration};

use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, USER_AGENT},
};
use mcpmon_model::Digest;

use super::{Address, AnswerFault, Header, events::Stream};
use crate::{
    chunks::{Chunks, ReadError, causes},
    coding::ContentCoding,
    pin::CertificateMismatch,
    trouble::ConnectTrouble,
    upstream::{self, Upstream},
};

/// Most bytes that are read of an error response.
const REFUSAL: usize = 64 << 10;
/// Longest time without a byte of a response.
pub(crate) const SILENCE: Duration = Duration::from_secs(3600);

/// `Mcp-Session-Id`.
pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// `MCP-Protocol-Version`.
pub(crate) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// `Last-Event-ID`.
pub(crate) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// A server's address, with all that is needed for requests.
#[derive(Clone)]
pub struct ServerEndpoint {
    /// The address.
    pub address: Address,
    /// The headers of every request.
    pub headers: Vec<Header>,
    /// The fingerprint of its certificate, if that is pinned.
    pub pin: Option<Digest>,
    /// Longest message, bytes.
    pub max_message: usize,
}

impl fmt::Debug for ServerEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking")
            .field("address", &self.address)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// Sends requests to one server.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    upstream: Upstream,
    asking: ServerEndpoint,
}

/// The reply.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The session that the server names.
    pub(crate) session: Option<HeaderValue>,
    pub(crate) body: Body,
}

/// The body of a reply.
#[derive(Debug)]
pub(crate) enum Body {
    /// No content: the message was accepted.
    Accepted,
    /// A JSON text.
    Whole(Vec<u8>),
    /// A stream of events.
    Events(Box<Stream>),
}

impl Wire {
    pub(crate) fn new(asking: ServerEndpoint) -> Result<Self, AnswerFault> {
        let upstream = Upstream::pinned(asking.pin).map_err(|error| AnswerFault::Tls(error.to_string()))?;
        Ok(Self { upstream, asking })
    }

    /// Limits messages to `most` bytes.
    pub(super) fn bounded(mut self, most: usize) -> Self {
        self.asking.max_message = self.asking.max_message.min(most);
        self
    }

    pub(crate) const fn address(&self) -> &Address {
        &self.asking.address
    }

    pub(crate) const fn max_message(&self) -> usize {
        self.asking.max_message
    }

    /// Sends a message.
    pub(crate) async fn post(&self, headers: HeaderMap, message: Vec<u8>) -> Result<Reply, AnswerFault> {
        let mut request = self.request(Method::POST, self.address(), headers);
        request
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        request.headers_mut().insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        let response = self.send(request.map(|()| upstream::whole(message))).await?;
        let session = response.headers().get(SESSION).cloned();
        let body = match response.status() {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => Body::Accepted,
            StatusCode::OK => self.body(response).await?,
            _ => return Err(self.refused(response).await),
        };
        Ok(Reply { session, body })
    }

    /// Sends a message whose answer, if there is one, comes on another stream.
    pub(crate) async fn deliver(&self, to: &Address, message: Vec<u8>) -> Result<(), AnswerFault> {
        let mut request = self.request(Method::POST, to, HeaderMap::new());
        request
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        let response = self.send(request.map(|()| upstream::whole(message))).await?;
        match response.status().is_success() {
            true => Ok(()),
            false => Err(self.refused(response).await),
        }
    }

    /// Opens a stream of the server's unasked messages, or of those that a broken stream did not deliver.
    pub(crate) async fn listen(&self, headers: HeaderMap) -> Result<Stream, AnswerFault> {
        let mut request = self.request(Method::GET, self.address(), headers);
        request
            .headers_mut()
            .insert(ACCEPT, HeaderValue::from_static(EVENTS));
        let response = self.send(request.map(|()| upstream::whole(Vec::new()))).await?;
        match response.status() {
            StatusCode::OK => match kind(response.headers()).as_str() {
                EVENTS => self.stream(response),
                other => Err(AnswerFault::Type(other.to_owned())),
            },
            _ => Err(self.refused(response).await),
        }
    }

    /// Fetches a JSON document. Returns `None` if there is another content, or none.
    pub(super) async fn document(&self, from: &Address) -> Result<Option<Vec<u8>>, AnswerFault> {
        let mut request = self.request(Method::GET, from, HeaderMap::new());
        request
            .headers_mut()
            .insert(ACCEPT, HeaderValue::from_static(JSON));
        let response = self.send(request.map(|()| upstream::whole(Vec::new()))).await?;
        let kind = kind(response.headers());
        let is_json = kind == JSON || kind.ends_with("+json");
        if response.status() != StatusCode::OK || !is_json {
            return Ok(None);
        }
        self.whole(response).await.map(Some)
    }

    /// Ends a session.
    pub(crate) async fn end(&self, headers: HeaderMap) -> Result<(), AnswerFault> {
        let request = self.request(Method::DELETE, &self.asking.address, headers);
        self.send(request.map(|()| upstream::whole(Vec::new()))).await?;
        Ok(())
    }

    fn request(&self, method: Method, to: &Address, headers: HeaderMap) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = method;
        *request.uri_mut() = to.uri().clone();
        *request.headers_mut() = headers;
        let agent = concat!("mcpmon/", env!("CARGO_PKG_VERSION"));
        request
            .headers_mut()
            .insert(USER_AGENT, HeaderValue::from_static(agent));
        request
            .headers_mut()
            .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        // The user's headers come last: they may set another `User-Agent`.
        for header in &self.asking.headers {
            header.put(request.headers_mut());
        }
        request
    }

    async fn send(&self, request: Request<upstream::Sent>) -> Result<Response<Incoming>, AnswerFault> {
        self.upstream
            .send(request)
            .await
            .map_err(|error| unreachable(&error))
    }

    async fn body(&self, response: Response<Incoming>) -> Result<Body, AnswerFault> {
        match kind(response.headers()).as_str() {
            JSON => {
                let whole = self.whole(response).await?;
                Ok(if whole.is_empty() {
                    Body::Accepted
                } else {
                    Body::Whole(whole)
                })
            }
            EVENTS => Ok(Body::Events(Box::new(self.stream(response)?))),
            // Some servers accept a notification with an empty 200.
            "" => Ok(Body::Accepted),
            other => Err(AnswerFault::Type(other.to_owned())),
        }
    }

    async fn whole(&self, response: Response<Incoming>) -> Result<Vec<u8>, AnswerFault> {
        let mut chunks = chunks(response)?;
        let mut whole = Vec::new();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| broken(&error))?;
            if whole.len() + chunk.len() > self.asking.max_message {
                return Err(AnswerFault::TooLong(self.asking.max_message));
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole)
    }

    fn stream(&self, response: Response<Incoming>) -> Result<Stream, AnswerFault> {
        Ok(Stream::new(chunks(response)?, self.asking.max_message))
    }

    /// Returns the fault for an unsuccessful status.
    async fn refused(&self, response: Response<Incoming>) -> AnswerFault {
        let status = response.status();
        if matches!(
            status,
            StatusCode::UNAUTHORIZED | StatusCode::PROXY_AUTHENTICATION_REQUIRED
        ) {
            return AnswerFault::Login(status.as_u16());
        }
        if status.is_redirection()
            && let Some(place) = response.headers().get(LOCATION)
        {
            let place = String::from_utf8_lossy(place.as_bytes());
            let place = place.split(['?', '#']).next().unwrap_or_default();
            return AnswerFault::Moved(place.chars().take(300).filter(|c| !c.is_control()).collect());
        }
        let mut text = Vec::new();
        if let Ok(mut chunks) = chunks(response) {
            while text.len() < REFUSAL
                && let Ok(Some(Ok(chunk))) = tokio::time::timeout(Duration::from_secs(5), chunks.next()).await
            {
                text.extend_from_slice(&chunk);
            }
        }
        text.truncate(REFUSAL);
        AnswerFault::Status {
            status: status.as_u16(),
            text: String::from_utf8_lossy(&text).into_owned(),
        }
    }
}

fn chunks(response: Response<Incoming>) -> Result<Chunks, AnswerFault> {
    let coding =
        ContentCoding::of(response.headers()).map_err(|error| AnswerFault::Message(error.to_string()))?;
    Chunks::new(response.into_body(), coding, SILENCE)
        .map_err(|error| AnswerFault::Message(error.to_string()))
}

/// Returns the media type, in lower case and without parameters.
fn kind(headers: &HeaderMap) -> String {
    let value = headers
        .get(CONTENT_TYPE)
        .map(|value| value.to_str().unwrap_or("?"));
    let kind = value.unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

fn unreachable(error: &hyper_util::client::legacy::Error) -> AnswerFault {
    if let Some(mismatch) = CertificateMismatch::behind(error) {
        return AnswerFault::Certificate {
            expected: mismatch.expected,
            actual: mismatch.actual,
        };
    }
    let causes = causes(error);
    AnswerFault::Unreachable(match ConnectTrouble::behind(error) {
        None => format!("{error}{causes}"),
        Some(trouble) => {
            let remedy = trouble.remedy(
                "the URL",
                Some("`tls_fingerprint` (or give it with `--tls-fingerprint`)"),
            );
            format!("{error}{causes}; {remedy}")
        }
    })
}

/// Returns the fault for a body that ended early.
pub(super) fn broken(error: &ReadError) -> AnswerFault {
    match error {
        ReadError::Coding(_) => AnswerFault::Message(error.to_string()),
        ReadError::Silent(_)
        | ReadError::Slow { .. }
        | ReadError::Broken(_)
        | ReadError::TooLong(_)
        | ReadError::NoRoom => AnswerFault::Unreachable(error.to_string()),
    }
}
