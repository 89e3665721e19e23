//! Handles one request to a declared server: admission, the server, and the conversation.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use hyper::{
    HeaderMap, Method, Response, StatusCode,
    body::Incoming,
    header::{HOST, USER_AGENT},
    http::request::Parts,
};
use mcpmon_model::{ServerId, ServerType, SessionId, Timestamp};
use tokio::sync::watch;

use super::{
    AskedServer, Caps, Crowded, McpSettings,
    call::{Call, Here},
    document, post,
    problem::Problem,
    route::{Route, RouteError, RoutePlace, escape},
    server::Server,
    sessions::Sessions,
    unasked,
};
use crate::{
    admission::{self, ListenerEntry},
    body::OutgoingBody,
    chunks::BodyMemory,
    headers,
    upstream::Upstream,
};

/// Longest name of a client (`User-Agent`), bytes.
const MAX_AGENT: usize = 256;
/// Most servers that are listed in the answer to an unknown one.
const MAX_NAMED: usize = 32;

/// The state that all requests share.
#[derive(Debug)]
pub(in super::super) struct McpProxy {
    settings: McpSettings,
    room: BodyMemory,
    pub(super) sessions: Sessions,
    servers: Mutex<BTreeMap<ServerId, Arc<Server>>>,
    /// True once the proxy is to stop.
    stopped: watch::Receiver<bool>,
}

impl McpProxy {
    /// A proxy without sessions. Streams that are kept open end once it is `stopped`.
    pub(in super::super) fn new(
        settings: McpSettings,
        room: BodyMemory,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let caps = &settings.caps;
        Self {
            sessions: Sessions::new(caps.sessions, caps.session_idle, Instant::now()),
            servers: Mutex::default(),
            settings,
            room,
            stopped,
        }
    }

    /// Forgets unused sessions and conversations.
    pub(in super::super) fn sweep(&self) {
        self.sessions.sweep(Instant::now());
    }

    /// Returns once the proxy is to stop.
    pub(super) fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopped = self.stopped.clone();
        async move { drop(stopped.wait_for(|stopped| *stopped).await) }
    }

    pub(super) fn now(&self) -> Timestamp {
        (self.settings.clock)()
    }

    pub(super) const fn caps(&self) -> &Caps {
        &self.settings.caps
    }

    /// Records that requests are refused because a limit is reached.
    pub(in super::super) fn crowded(&self, crowded: Crowded) {
        let Crowded { cause, times, .. } = &crowded;
        tracing::warn!(times, "much is asked of the proxy: {cause}");
        let (servers, now) = (Arc::clone(&self.settings.servers), self.now());
        // Recording may have to wait; the refused request does not.
        tokio::task::spawn_blocking(move || servers.crowded(now, &crowded));
    }

    /// Answers a request whose path is for a server. A server without a pinned certificate is reached through
    /// `upstream`, the connections of the thread that serves the client, so that no other thread is woken.
    pub(in super::super) async fn answer(
        self: &Arc<Self>,
        entry: &ListenerEntry,
        route: Result<Route<'_>, RouteError>,
        parts: Parts,
        body: Incoming,
        upstream: &Upstream,
    ) -> Response<OutgoingBody> {
        match self.forward(entry, route, parts, body, upstream).await {
            Ok(response) => response,
            Err(problem) => {
                tracing::debug!(
                    status = %problem.status(),
                    problem = problem.message(),
                    "a request to an MCP server is not forwarded"
                );
                problem.answer()
            }
        }
    }

    async fn forward(
        self: &Arc<Self>,
        entry: &ListenerEntry,
        route: Result<Route<'_>, RouteError>,
        parts: Parts,
        body: Incoming,
        upstream: &Upstream,
    ) -> Result<Response<OutgoingBody>, Problem> {
        let presented = route.as_ref().ok().and_then(|route| route.token);
        let is_session = |token: &str| self.settings.servers.session(token).is_some();
        admission::admit(entry, &parts.uri, &parts.headers, presented, is_session)
            .map_err(Problem::of_admission)?;
        let route = route.map_err(|error| self.nowhere(error))?;
        let session = self.session(entry, &route)?;
        let bounds = self.settings.servers.bounds();
        let server = self.server(&route.server, bounds.streams)?;
        let asked = AskedServer {
            server: Arc::clone(&server.remote),
            session,
            peer: entry.peer.clone(),
            agent: agent(&parts.headers),
        };
        entry.peer.found().await;
        let guard = self
            .settings
            .servers
            .conversation(asked)
            .map_err(|error| Problem::new(StatusCode::SERVICE_UNAVAILABLE, error))?;
        // The messages of a POST are judged one by one, and answered together.
        let halted = (parts.method != Method::POST).then(|| guard.halted((self.settings.clock)()));
        if let Some(denial) = halted.flatten() {
            return Err(Problem::new(StatusCode::FORBIDDEN, denial.reason));
        }
        let owner = entry.peer.owner();
        let conversation = self.sessions.conversation(&server.remote.id, guard, owner);
        let conversation = conversation.map_err(|too_many| Problem::of_many(&too_many))?;
        let here = Here {
            origin: origin(&parts.headers),
            path: route.base.to_owned(),
            has_token: route.token.is_some(),
        };
        let uri = server.endpoint(parts.uri.query());
        let uri =
            uri.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "the query is no part of a URL"))?;
        let mut headers = parts.headers;
        headers::to_provider(&mut headers);
        let call = Call {
            proxy: Arc::clone(self),
            upstream: server.upstream.as_ref().unwrap_or(upstream).clone(),
            conversation,
            uri,
            headers,
            here,
            owner,
            room: self.room.of(owner),
            limits: bounds.limits,
            server,
        };
        let is_old = call.server.remote.server_type == ServerType::Sse;
        match (route.place, &parts.method) {
            (RoutePlace::Endpoint, &Method::POST) => post::post(call, body).await,
            (RoutePlace::Endpoint, &Method::GET) => unasked::listen(call, is_old).await,
            (RoutePlace::Endpoint, &Method::DELETE) => unasked::delete(call).await,
            (RoutePlace::Below(path), &Method::POST) if is_old => post::post_below(call, path, body).await,
            (RoutePlace::Document(document), &Method::GET) => document::fetch(call, document).await,
            (RoutePlace::Below(_), _) if !is_old => Err(self.nowhere(RouteError::Nothing)),
            (RoutePlace::Endpoint | RoutePlace::Below(_) | RoutePlace::Document(_), method) => {
                let message = format!("{method} means nothing to an MCP server");
                Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, message))
            }
        }
    }

    /// Returns the problem of a path that leads to no server.
    fn nowhere(&self, error: RouteError) -> Problem {
        match error {
            RouteError::Ambiguous => Problem::new(
                StatusCode::NOT_FOUND,
                "the path is written in a way that mcpmon does not forward: without `//`, `.`, `..`, `\\` and escaped letters it is",
            ),
            RouteError::Nothing => self.unknown("no server is meant by the path"),
        }
    }

    /// Returns the problem of an unknown server; it lists those that exist, and says how to declare one.
    fn unknown(&self, what: &str) -> Problem {
        let ids = self.settings.servers.ids();
        let mut named: Vec<String> = ids
            .iter()
            .take(MAX_NAMED)
            .map(|id| format!("`/mcp/{}`", escape(id.as_str())))
            .collect();
        if ids.len() > named.len() {
            named.push("…".to_owned());
        }
        let declared = match named.is_empty() {
            true => "no server with a `url` is declared".to_owned(),
            false => format!("declared are {}", named.join(", ")),
        };
        let message = format!("{what}: {declared}; declare it with its `url` in `mcp.servers`");
        Problem::new(StatusCode::NOT_FOUND, message)
    }

    /// Returns the session of a request, from its path.
    fn session(&self, entry: &ListenerEntry, route: &Route<'_>) -> Result<Option<SessionId>, Problem> {
        let Some(token) = route.token else {
            return Ok(None);
        };
        if let Some(session) = self.settings.servers.session(token) {
            return Ok(Some(session));
        }
        match entry.token.as_ref().is_some_and(|shared| shared.is(token)) {
            true => Ok(None),
            false => Err(Problem::new(
                StatusCode::FORBIDDEN,
                "the session of this path is not known, or is over: start the agent with `mcpmon run`",
            )),
        }
    }

    /// Returns the server with this id, as it is declared now.
    fn server(&self, id: &str, streams: usize) -> Result<Arc<Server>, Problem> {
        let Some(remote) = self.settings.servers.remote(id) else {
            return Err(self.unknown(&format!("`{id}` is no server that is reached over the network")));
        };
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = servers.get(&remote.id)
            && known.remote == remote
            && known.most_streams == streams
        {
            return Ok(Arc::clone(known));
        }
        let upstream = match remote.tls {
            None => Ok(None),
            pin => Upstream::pinned(pin).map(Some),
        };
        let upstream = upstream.map_err(|error| {
            let message = format!("no TLS connection to `{id}` can be prepared: {error}");
            Problem::new(StatusCode::BAD_GATEWAY, message)
        })?;
        let server = Server::new(Arc::clone(&remote), upstream, self.caps(), streams).ok_or_else(|| {
            let message = format!("the `url` of `{id}` in `mcp.servers` cannot be asked");
            Problem::new(StatusCode::BAD_GATEWAY, message)
        })?;
        let server = Arc::new(server);
        servers.insert(remote.id.clone(), Arc::clone(&server));
        Ok(server)
    }
}

/// Returns scheme and authority by which the client knows this proxy.
fn origin(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    format!("http://{}", host.unwrap_or("localhost"))
}

fn agent(headers: &HeaderMap) -> Option<Box<str>> {
    let agent = headers.get(USER_AGENT)?.to_str().ok()?;
    Some(agent.chars().take(MAX_AGENT).collect())
}
