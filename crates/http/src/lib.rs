//! The HTTP proxy: a reverse proxy in front of LLM providers, on which agents set their base URL, and in front of
//! declared MCP servers ([`mcp`]).
//!
//! Text is forwarded with the read that brought it. Tool calls are judged by the implementations of [`Exchanges`] and
//! [`mcp::Servers`]; this crate only moves bytes.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "I/O")]

mod activation;
mod admission;
mod answer;
mod ask;
mod body;
pub mod bridge;
mod callback;
mod chunks;
pub mod client;
mod coding;
mod endpoint;
mod gate;
mod headers;
mod listen;
pub mod mcp;
mod peer;
mod pin;
mod scrape;
mod self_wake;
mod serve;
pub mod shares;
mod stall;
mod target;
mod token;
mod trouble;
mod upstream;

#[cfg(test)]
mod tests;

use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration};

use mcpmon_model::{Dialect, SessionId};
use mcpmon_protocol::llm::{ContentJudge, HoldLimits, LlmFault};

pub use self::{
    activation::take_listeners,
    callback::{CallbackError, CallbackListener, PostAnswer, SignedPost},
    listen::{RunningProxy, StartError},
    peer::{Peer, Who},
    scrape::{ScrapeError, ScrapeListener},
    target::Provider,
    token::{Token, TokenError},
};

/// Header with the token, for listeners that require one.
const TOKEN_HEADER: &str = "x-mcpmon-token";

/// The settings of the proxy.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Unix socket on which it also listens.
    pub listen_unix: Option<PathBuf>,
    /// Group that may use the socket.
    pub group: Option<u32>,
    /// The token that clients must present at [`Self::listen`].
    pub token: Option<Token>,
    /// The providers it connects to.
    pub providers: Vec<Provider>,
    /// Limits for what is held of one request or response.
    pub limits: HoldLimits,
    /// Most connections at a time; half of them for one user.
    pub connections: usize,
    /// Most bytes of bodies that are held at a time, of all connections together; half of them for one user.
    pub room: usize,
    /// Longest time without a byte from either side; long, because models think before they answer.
    pub patience: Duration,
    /// Longest time for a head, and between two requests of a connection.
    pub head: Duration,
    /// The MCP servers, if there are any.
    pub mcp: Option<mcp::McpSettings>,
}

impl HttpSettings {
    /// The defaults for a listener: 1024 connections, 1 GiB of bodies together, 10 min of silence, 60 s for a head.
    pub fn new(listen: SocketAddr, providers: Vec<Provider>) -> Self {
        Self {
            listen,
            listen_unix: None,
            group: None,
            token: None,
            providers,
            limits: HoldLimits::default(),
            connections: 1024,
            room: 1 << 30,
            patience: Duration::from_secs(600),
            head: Duration::from_secs(60),
            mcp: None,
        }
    }
}

/// The origin of a request, as far as it is known before the request is judged.
#[derive(Clone, Debug)]
pub struct RequestOrigin {
    /// The session of the request.
    pub session: Option<SessionId>,
    /// The peer of the connection.
    pub peer: Peer,
    /// The API.
    pub dialect: Dialect,
    /// The agent's own name.
    pub agent: Option<Box<str>>,
    /// The trace that the request belongs to, if the agent sends one.
    pub trace_parent: Option<Box<str>>,
}

/// The judge of all traffic.
pub trait Exchanges: fmt::Debug + Send + Sync {
    /// Returns the session that has this token, from a path.
    fn session(&self, token: &str) -> Option<SessionId>;

    /// Returns whether `peer` may send requests to unknown endpoints without having them judged.
    fn passes_unknown(&self, peer: &Peer) -> bool;

    /// Returns the judge of one request and its response.
    fn judge(&self, asked: RequestOrigin) -> Box<dyn ExchangeJudge>;
}

/// Judges one request with its response.
pub trait ExchangeJudge: ContentJudge + fmt::Debug + Send {
    /// Records that the request was read to its end.
    fn request_read(&mut self);

    /// Records that the request is forwarded with this body.
    fn sent(&mut self, body: &[u8]);

    /// Records that these bytes of the response are forwarded to the agent. When the judge is dropped, no more follow.
    fn answered(&mut self, bytes: &[u8]);

    /// Records that the request, or its response, is not forwarded.
    fn failed(&mut self, fault: &LlmFault);
}
