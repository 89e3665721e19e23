//! Handles one request to a provider: admission, the provider, the judgement of the request and of the answer.

use std::{sync::Arc, time::Duration};

use http_body_util::Either;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::{Body as _, Incoming},
    header::{CONTENT_TYPE, LOCATION, UPGRADE, USER_AGENT},
    http::{request::Parts, response},
};
use mcpmon_model::{Dialect, SessionId};
use mcpmon_protocol::llm::{self, Framing, HoldLimits, RequestRoute};
use tokio::task::block_in_place;

use super::{
    ExchangeJudge, Exchanges, Peer, RequestOrigin,
    admission::{self, ListenerEntry},
    answer::ProviderProblem,
    ask::{ModelRequest, QuestionForm, RequestLine},
    body::{JudgedBody, OutgoingBody},
    chunks::{BodyMemory, Chunks, ReadError, Share, causes, gather},
    coding::ContentCoding,
    headers, mcp,
    target::{Provider, Target, target},
    trouble::ConnectTrouble,
    upstream::{Sent, Upstream, whole},
};

/// Longest body that is read on the shared threads, bytes: it takes about a millisecond.
const LONG: usize = 64 << 10;
/// The time limit for each body of a request, plus a second for each 128 KiB of it: agents have their bodies ready when
/// they send a request.
const BODY: Duration = Duration::from_secs(60);
/// Longest name of an agent (`User-Agent`), bytes.
const MAX_AGENT: usize = 256;

/// Prefixes of content types of uploads.
const UPLOADS: [&str; 5] = [
    "multipart/",
    "application/octet-stream",
    "audio/",
    "image/",
    "video/",
];

/// The state that all requests share.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) providers: Vec<Provider>,
    pub(super) limits: HoldLimits,
    /// Longest time without a byte from either side.
    pub(super) patience: Duration,
    /// Longest time for a head.
    pub(super) head: Duration,
    pub(super) room: BodyMemory,
    pub(super) upstream: Upstream,
    pub(super) exchanges: Arc<dyn Exchanges>,
    /// The MCP servers.
    pub(super) mcp: Option<Arc<mcp::McpProxy>>,
}

impl Proxy {
    /// Answers a request.
    pub(super) async fn answer(
        &self,
        entry: &ListenerEntry,
        request: Request<Incoming>,
    ) -> Response<OutgoingBody> {
        let (parts, body) = request.into_parts();
        let uri = parts.uri.clone();
        if let (Some(mcp), Some(route)) = (&self.mcp, mcp::route(uri.path())) {
            return mcp.answer(entry, route, parts, body, &self.upstream).await;
        }
        match self.forward(entry, parts, body).await {
            Ok(response) => response,
            Err(mut problem) => {
                problem.dialect = problem.dialect.or_else(|| llm::asked_by(uri.path()));
                tracing::debug!(status = %problem.status, problem.message, "a request is not forwarded");
                problem.answer()
            }
        }
    }

    async fn forward(
        &self,
        entry: &ListenerEntry,
        parts: Parts,
        body: Incoming,
    ) -> Result<Response<OutgoingBody>, ProviderProblem> {
        let presented = session_token(parts.uri.path());
        let is_session = |token: &str| self.exchanges.session(token).is_some();
        admission::admit(entry, &parts.uri, &parts.headers, presented, is_session).map_err(|refusal| {
            let status = match refusal {
                admission::RequestRefusal::Token => StatusCode::UNAUTHORIZED,
                admission::RequestRefusal::Forward => StatusCode::BAD_REQUEST,
                admission::RequestRefusal::Origin
                | admission::RequestRefusal::Page
                | admission::RequestRefusal::Host => StatusCode::FORBIDDEN,
            };
            ProviderProblem::new(status, None, refusal)
        })?;
        let uri = parts.uri.clone();
        let target = target(&self.providers, uri.path(), &parts.headers)
            .map_err(|error| ProviderProblem::new(StatusCode::NOT_FOUND, None, error))?;
        let session = self.session(entry, &target)?;
        if let Some(problem) = upgrade(&parts.headers) {
            return Err(problem);
        }
        if parts.method == Method::CONNECT {
            let refusal = admission::RequestRefusal::Forward;
            return Err(ProviderProblem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                None,
                refusal,
            ));
        }
        let line = RequestLine::of(&parts.method, &uri, &target);
        if is_upload(&parts.headers) && line.route(&[]) == RequestRoute::Plain {
            return self.pass(parts, &target, Either::Right(body)).await;
        }
        let mut share = Share::default();
        let room = self.room.of(entry.peer.owner());
        let body = self
            .gather(&parts.headers, body, &room, &mut share)
            .await
            .map_err(|error| ProviderProblem::of_reading(&error))?;
        let route = line.route(&body);
        entry.peer.found().await;
        let judge = |dialect| {
            self.exchanges.judge(RequestOrigin {
                session: session.clone(),
                peer: entry.peer.clone(),
                dialect,
                agent: agent(&parts.headers),
                trace_parent: trace_parent(&parts.headers),
            })
        };
        let ask = match route {
            RequestRoute::Plain => None,
            RequestRoute::Unknown => {
                self.admit_unknown(&line, &entry.peer)?;
                None
            }
            RequestRoute::Model { dialect, stream, .. } => {
                Some(ModelRequest::model(judge(dialect), dialect, stream))
            }
            RequestRoute::Count(dialect) => Some(ModelRequest::unanswered(
                judge(dialect),
                dialect,
                QuestionForm::One,
            )),
            RequestRoute::Texts(dialect) => Some(ModelRequest::unanswered(
                judge(dialect),
                dialect,
                QuestionForm::Texts,
            )),
            RequestRoute::Batch(dialect) => Some(ModelRequest::unanswered(
                judge(dialect),
                dialect,
                QuestionForm::Many,
            )),
            RequestRoute::Stored(dialect) => {
                Some(ModelRequest::kept(judge(dialect), dialect, line.asks_stream()))
            }
            RequestRoute::Results(dialect) => Some(ModelRequest::results(judge(dialect), dialect)),
        };
        match ask {
            Some(ask) => self.exchange(parts, &target, ask, body, share, room).await,
            None => self.pass(parts, &target, whole(body)).await,
        }
    }

    async fn gather(
        &self,
        headers: &HeaderMap,
        body: Incoming,
        room: &BodyMemory,
        share: &mut Share,
    ) -> Result<Vec<u8>, ReadError> {
        let chunks = Chunks::new(body, ContentCoding::of(headers)?, self.patience)?.within(BODY);
        gather(chunks, self.limits.max_body, room, share).await
    }

    /// Checks a request to an unknown endpoint: its answer may contain tool calls that cannot be found.
    fn admit_unknown(&self, line: &RequestLine<'_>, peer: &Peer) -> Result<(), ProviderProblem> {
        let path = line.path();
        if self.exchanges.passes_unknown(peer) {
            tracing::warn!(
                path,
                "an endpoint that mcpmon does not know: its answers are not judged"
            );
            return Ok(());
        }
        let message = format!("`{path}` is no endpoint that mcpmon knows, and mcp.fail_closed is set");
        Err(ProviderProblem::new(StatusCode::FORBIDDEN, None, message))
    }

    /// Returns the session of a request, from its path.
    fn session(
        &self,
        entry: &ListenerEntry,
        target: &Target<'_>,
    ) -> Result<Option<SessionId>, ProviderProblem> {
        let Some(token) = target.token else {
            return Ok(None);
        };
        if let Some(session) = self.exchanges.session(token) {
            return Ok(Some(session));
        }
        match entry.token.as_ref().is_some_and(|shared| shared.is(token)) {
            true => Ok(None),
            false => Err(ProviderProblem::new(
                StatusCode::UNAUTHORIZED,
                None,
                "the session of this path is not known, or is over: start the agent with `mcpmon run`",
            )),
        }
    }

    /// Forwards a request that does not concern a model's answer.
    async fn pass(
        &self,
        parts: Parts,
        target: &Target<'_>,
        body: Sent,
    ) -> Result<Response<OutgoingBody>, ProviderProblem> {
        let was_read = matches!(body, Either::Left(_));
        let mut request = self.request(parts, target, body, None)?;
        if was_read {
            headers::forget_bytes(request.headers_mut());
        }
        let response = self.send(request, target, None).await?;
        let (mut head, body) = response.into_parts();
        headers::to_agent(&mut head.headers);
        Ok(Response::from_parts(head, OutgoingBody::Passed(body, None)))
    }

    /// Forwards a request to a model, and judges its answer.
    async fn exchange(
        &self,
        parts: Parts,
        target: &Target<'_>,
        mut ask: ModelRequest,
        body: Vec<u8>,
        share: Share,
        room: BodyMemory,
    ) -> Result<Response<OutgoingBody>, ProviderProblem> {
        let dialect = ask.dialect;
        // A long conversation is read where it does not delay the other answers of this thread.
        let body = match body.len() > LONG {
            true => block_in_place(|| ask.read(body))?,
            false => ask.read(body)?,
        };
        ask.judge.sent(&body);
        let mut request = self.request(parts, target, whole(body), Some(dialect))?;
        headers::forget_bytes(request.headers_mut());
        headers::narrow_codings(request.headers_mut());
        let response = self.send(request, target, Some(dialect)).await?;
        drop(share);
        let (mut head, body) = response.into_parts();
        headers::to_agent(&mut head.headers);
        if head.status.is_redirection() && head.headers.contains_key(LOCATION) {
            let name = target.provider.name();
            let cause = format!(
                "`{name}` redirects elsewhere, where nothing would be judged; name that address in `proxy.providers.{name}`"
            );
            return Err(ProviderProblem::of_response(dialect, cause));
        }
        let read = match body.is_end_stream() {
            // A body without content contains no call.
            true => None,
            false => ask.response(&head, self.limits)?,
        };
        let Some((framing, response)) = read else {
            let passed = OutgoingBody::Passed(body, Some(ask.judge));
            return Ok(Response::from_parts(head, passed));
        };
        let coding = ContentCoding::of(&head.headers);
        let chunks = coding
            .and_then(|coding| Chunks::new(body, coding, self.patience))
            .map_err(|error| ProviderProblem::of_response(dialect, error))?;
        headers::forget_bytes(&mut head.headers);
        match framing {
            Framing::Whole => whole_answer(head, dialect, chunks, response, ask.judge, &room).await,
            Framing::Unread | Framing::Events | Framing::Lines => {
                let judged = JudgedBody::new(chunks, response, ask.judge, room);
                Ok(Response::from_parts(head, OutgoingBody::Judged(Box::new(judged))))
            }
        }
    }

    fn request(
        &self,
        parts: Parts,
        target: &Target<'_>,
        body: Sent,
        dialect: Option<Dialect>,
    ) -> Result<Request<Sent>, ProviderProblem> {
        let uri = target
            .provider
            .uri(target.path, parts.uri.query())
            .map_err(|error| ProviderProblem::new(StatusCode::BAD_REQUEST, dialect, error))?;
        let mut request = Request::new(body);
        *request.method_mut() = parts.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = parts.headers;
        headers::to_provider(request.headers_mut());
        Ok(request)
    }

    async fn send(
        &self,
        request: Request<Sent>,
        target: &Target<'_>,
        dialect: Option<Dialect>,
    ) -> Result<Response<Incoming>, ProviderProblem> {
        let name = target.provider.name();
        match tokio::time::timeout(self.patience, self.upstream.send(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                let what = match error.is_connect() {
                    true => "cannot connect to",
                    false => "got no answer of",
                };
                let base = target.provider.base();
                let url = format!("`proxy.providers.{name}`");
                let remedy = match ConnectTrouble::behind(&error) {
                    None => format!("check the network and {url}"),
                    Some(trouble) => trouble.remedy(&url, None),
                };
                let message = format!("{what} `{name}` at {base}{}; {remedy}", causes(&error));
                Err(ProviderProblem::new(StatusCode::BAD_GATEWAY, dialect, message))
            }
            Err(_elapsed) => {
                let message = format!("`{name}` did not answer within {} s", self.patience.as_secs());
                Err(ProviderProblem::new(
                    StatusCode::GATEWAY_TIMEOUT,
                    dialect,
                    message,
                ))
            }
        }
    }
}

/// Answers with a response that is judged as a whole before any of it is forwarded.
async fn whole_answer(
    head: response::Parts,
    dialect: Dialect,
    mut chunks: Chunks,
    mut response: llm::LlmResponse,
    mut judge: Box<dyn ExchangeJudge>,
    room: &BodyMemory,
) -> Result<Response<OutgoingBody>, ProviderProblem> {
    let mut out = Vec::new();
    let mut share = Share::default();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| ProviderProblem::of_response(dialect, error))?;
        room.cover(&mut share, response.held() + chunk.len())
            .map_err(|error| ProviderProblem::of_response(dialect, error))?;
        if let Err(fault) = response.push(&chunk, &mut *judge, &mut out) {
            judge.failed(&fault);
            return Err(ProviderProblem::of_response(dialect, fault));
        }
    }
    if let Err(fault) = response.finish(&mut *judge, &mut out) {
        judge.failed(&fault);
        return Err(ProviderProblem::of_response(dialect, fault));
    }
    judge.answered(&out);
    Ok(Response::from_parts(head, OutgoingBody::whole(out)))
}

/// Returns the token in a path, whatever the rest of the path is.
fn session_token(path: &str) -> Option<&str> {
    path.strip_prefix("/s/")?.split('/').next()
}

/// Returns the refusal of a WebSocket, if the request asks for one: its messages could not be judged. Agents that ask
/// for one continue without it after this status.
fn upgrade(headers: &HeaderMap) -> Option<ProviderProblem> {
    let asked = headers.get_all(UPGRADE).into_iter();
    let wants = |value: &str| {
        value
            .split(',')
            .any(|name| name.trim().eq_ignore_ascii_case("websocket"))
    };
    let is_websocket = asked.into_iter().any(|value| value.to_str().is_ok_and(wants));
    is_websocket.then(|| {
        let message = "WebSocket is not forwarded: what it carries could not be judged; use HTTP";
        ProviderProblem::new(StatusCode::UPGRADE_REQUIRED, None, message)
    })
}

/// Returns whether the content type is that of an upload, which is forwarded unread.
fn is_upload(headers: &HeaderMap) -> bool {
    let is_one = |value: &str| {
        let value = value.trim_start().to_ascii_lowercase();
        UPLOADS.iter().any(|kind| value.starts_with(kind))
    };
    let content_type = headers.get(CONTENT_TYPE);
    content_type.is_some_and(|value| value.to_str().is_ok_and(is_one))
}

fn agent(headers: &HeaderMap) -> Option<Box<str>> {
    let agent = headers.get(USER_AGENT)?.to_str().ok()?;
    Some(agent.chars().take(MAX_AGENT).collect())
}

/// The trace that a request is part of ([W3C Trace Context](https://www.w3.org/TR/trace-context/)): two ids of
/// hexadecimal digits between a version and flags.
fn trace_parent(headers: &HeaderMap) -> Option<Box<str>> {
    let parent = headers.get("traceparent")?.to_str().ok()?;
    let mut lengths = [2, 32, 16, 2].into_iter();
    let is_part =
        |part: &str| lengths.next() == Some(part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    (parent.len() == 55 && parent.split('-').all(is_part)).then(|| parent.into())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use test_case::test_case;

    use super::*;

    #[test_case("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" => true; "a trace")]
    #[test_case("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x" => false; "no digits")]
    #[test_case("00-4bf92f3577b34da6a3ce929d0e0e473600f067aa0ba902b7-0001" => false; "other parts")]
    #[test_case("" => false; "nothing")]
    fn traces(value: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", HeaderValue::from_str(value).expect("a value"));
        trace_parent(&headers).is_some()
    }
}
