//! Requests of a client on their way to a server, and the requests that the proxy itself makes for a client.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode, Uri,
    body::Incoming,
    header::{AUTHORIZATION, HeaderName, HeaderValue, LOCATION},
};
use mcpmon_model::{Denial, Incident, Timestamp};
use mcpmon_protocol::filter::mcp_http::{DecodeLimits, Head, Resource};

use super::{
    Caps, Crowded, NoAnswer, ServerGuard,
    hearing::{Cut, ticks},
    problem::Problem,
    proxy::McpProxy,
    server::{Kind, Server, TooMany},
    sessions::Conversation,
};
use crate::{
    chunks::{BodyMemory, Chunks, causes},
    coding::{CodingError, ContentCoding},
    headers,
    pin::CertificateMismatch,
    shares::{QuotaOwner, QuotaPermit},
    trouble::ConnectTrouble,
    upstream::{Upstream, whole},
};

/// Name of the header with the id of a session.
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The prefix of headers that belong to one request of the stateless era.
const OF_ONE_REQUEST: &str = "mcp-param-";
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// A client's request to a server, without the body.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) proxy: Arc<McpProxy>,
    pub(super) server: Arc<Server>,
    /// The connections to the server.
    pub(super) upstream: Upstream,
    pub(super) conversation: Arc<Conversation>,
    /// The URI of the server.
    pub(super) uri: Uri,
    /// The headers for the server, including all that identify the client.
    pub(super) headers: HeaderMap,
    /// The client's URL of the server.
    pub(super) here: Here,
    /// The owner of the request.
    pub(super) owner: QuotaOwner,
    /// Memory for what is held of the request.
    pub(super) room: BodyMemory,
    /// Limits for decoding.
    pub(super) limits: DecodeLimits,
}

/// The URL at which a client reaches a server.
#[derive(Clone)]
pub(super) struct Here {
    /// Scheme and authority, as the client has them.
    pub(super) origin: String,
    /// The path, as the client wrote it.
    pub(super) path: String,
    /// True if the path contains a token.
    pub(super) has_token: bool,
}

impl Here {
    /// The URL.
    pub(super) fn url(&self) -> String {
        format!("{}{}", self.origin, self.path)
    }
}

// The headers may contain credentials, and the path may contain a token: neither is shown.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("server", &self.server.id())
            .finish_non_exhaustive()
    }
}

impl Call {
    pub(super) fn now(&self) -> Timestamp {
        self.proxy.now()
    }

    pub(super) fn caps(&self) -> &Caps {
        self.proxy.caps()
    }

    pub(super) const fn room(&self) -> &BodyMemory {
        &self.room
    }

    /// Returns a permit for one more request or stream, given back when dropped.
    pub(super) fn admit(&self, kind: Kind) -> Result<QuotaPermit, Problem> {
        self.server
            .admit(kind, self.owner)
            .map_err(|too_many| self.crowded(&too_many))
    }

    /// Counts one more session that is opened.
    pub(super) fn open(&self) -> Result<(), Problem> {
        self.server
            .open(self.caps(), self.owner)
            .map_err(|too_many| self.crowded(&too_many))
    }

    /// Returns the refusal for an exhausted limit. Frequent refusals are recorded.
    pub(super) fn crowded(&self, too_many: &TooMany) -> Problem {
        if let Some(times) = self.server.refused() {
            self.proxy.crowded(Crowded {
                server: Some(self.server.remote.id.clone()),
                cause: too_many.to_string(),
                times,
            });
        }
        Problem::of_many(too_many)
    }

    pub(super) fn guard(&self) -> &dyn ServerGuard {
        &*self.conversation.guard
    }

    /// Returns the headers that repeat parts of the body.
    pub(super) fn head(&self) -> Head<'_> {
        let fields = self.headers.iter();
        Head::of(fields.map(|(name, value)| (name.as_str(), value.as_bytes())))
    }

    /// Records that the server gave no answer.
    pub(super) fn failed(&self, failure: &NoAnswer) {
        self.guard().failed(self.now(), failure);
    }

    /// Records input that is not a message.
    pub(super) fn note(&self, incidents: &mut Vec<Incident>) {
        for incident in incidents.drain(..) {
            self.guard().incident(self.now(), &incident);
        }
    }

    /// Records that the server's response is not forwarded, and returns the problem for the client.
    pub(super) fn unfit(&self, cause: impl ToString) -> Problem {
        let cause = cause.to_string();
        let problem = Problem::of_answer(self.server.id(), &cause);
        self.failed(&NoAnswer::Unfit { cause });
        problem
    }

    /// Calls `say` with the URL of the server that the client knows.
    pub(super) fn with_resource<T>(&self, say: impl FnOnce(Resource<'_>) -> T) -> T {
        say(Resource {
            server: &self.server.shown(),
            client: &self.here.url(),
            has_secret: self.here.has_token,
        })
    }

    /// Returns the headers for a request of the proxy in the client's name.
    pub(super) fn own_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers::forget_bytes(&mut headers);
        headers.remove(NAME);
        let of_one: Vec<HeaderName> = headers
            .keys()
            .filter(|name| name.as_str().starts_with(OF_ONE_REQUEST))
            .cloned()
            .collect();
        for name in of_one {
            headers.remove(name);
        }
        headers
    }

    /// Returns the headers for a request for public documents.
    pub(super) fn public_headers(&self) -> HeaderMap {
        let mut headers = self.own_headers();
        for name in [AUTHORIZATION, SESSION_ID] {
            headers.remove(name);
        }
        headers
    }

    /// Returns the denial once a person stops requests, or the server may not be used any longer.
    pub(super) async fn halted(&self) -> Denial {
        let mut ticks = ticks();
        loop {
            ticks.tick().await;
            if let Some(denial) = self.guard().halted(self.now()) {
                return denial;
            }
        }
    }

    /// Sends a request, and waits for the head of the response. Redirects are not followed.
    pub(super) async fn send(
        &self,
        method: Method,
        uri: &Uri,
        headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> Result<Response<Incoming>, Problem> {
        let mut request = Request::new(whole(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        headers::narrow_codings(request.headers_mut());
        let patience = self.caps().head;
        let name = self.server.id();
        let sending = tokio::time::timeout(patience, self.upstream.send(request));
        let sent = tokio::select! {
            biased;
            sent = sending => sent,
            denial = self.halted() => return Err(Problem::of_cut(Cut::Halted(denial.into()))),
        };
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.unreachable(&error)),
            Err(_elapsed) => {
                let cause = format!("no answer within {} s", patience.as_secs());
                self.failed(&NoAnswer::Unreachable { cause });
                let message = format!("`{name}` did not answer within {} s", patience.as_secs());
                return Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, message));
            }
        };
        if response.status().is_redirection() && response.headers().contains_key(LOCATION) {
            return Err(self.unfit(format!(
                "it redirects elsewhere, where nothing would be judged; name that address as the `url` of `{name}` in `mcp.servers`"
            )));
        }
        Ok(response)
    }

    fn unreachable(&self, error: &hyper_util::client::legacy::Error) -> Problem {
        let (name, place) = (self.server.id(), self.server.shown());
        if let Some(mismatch) = CertificateMismatch::behind(error) {
            let failure = NoAnswer::Certificate {
                pinned: mismatch.expected,
                shown: mismatch.actual,
            };
            self.failed(&failure);
            let message = format!(
                "`{name}` at {place} is refused: {mismatch}; if its operator renewed it, put the new one into `tls_fingerprint` of `{name}` in `mcp.servers`"
            );
            return Problem::new(StatusCode::BAD_GATEWAY, message);
        }
        let what = match error.is_connect() {
            true => "cannot connect to",
            false => "got no answer of",
        };
        let cause = format!("{what} it{}", causes(error));
        self.failed(&NoAnswer::Unreachable { cause });
        let url = format!("the `url` of `{name}` in `mcp.servers`");
        let remedy = match ConnectTrouble::behind(error) {
            None => format!("check the network and {url}"),
            Some(trouble) => {
                let pin = format!("`tls_fingerprint` of `{name}` in `mcp.servers`");
                trouble.remedy(&url, Some(&pin))
            }
        };
        let message = format!("{what} `{name}` at {place}{}; {remedy}", causes(error));
        Problem::new(StatusCode::BAD_GATEWAY, message)
    }

    /// Prepares the reading of a body from the server.
    pub(super) fn chunks(
        &self,
        headers: &HeaderMap,
        body: Incoming,
        silence: Duration,
    ) -> Result<Chunks, CodingError> {
        Chunks::new(body, ContentCoding::of(headers)?, silence)
    }
}

/// Returns the value of a header. Returns an error if the header occurs more than once, or is not text.
pub(super) fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, ()> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(());
    }
    first.map(HeaderValue::to_str).transpose().map_err(drop)
}
