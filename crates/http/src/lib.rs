//! The HTTP proxy: a reverse proxy in front of LLM providers, on which agents set their base URL, and in front of
//! declared MCP servers ([`mcp`]).
//!
//! Text flows through with the read that brought it. What has to do with tools is judged by whoever the host of the
//! proxy puts behind [`Exchanges`] and [`mcp::Servers`]; here is only how bytes come and go.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "I/O")]

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
    callback::{CallbackError, CallbackListener, PostAnswer, SignedPost},
    listen::{RunningProxy, StartError},
    peer::{Peer, Who},
    scrape::{ScrapeError, ScrapeListener},
    target::Provider,
    token::{Token, TokenError},
};

/// Header with the token, where one is demanded.
const TOKEN_HEADER: &str = "x-mcpmon-token";

/// The settings of the proxy.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Unix socket it listens on beside that.
    pub listen_unix: Option<PathBuf>,
    /// Group that may use the socket.
    pub group: Option<u32>,
    /// The token that clients must present at [`Self::listen`].
    pub token: Option<Token>,
    /// The providers it connects to.
    pub providers: Vec<Provider>,
    /// Bounds of what is held of one request or response.
    pub limits: HoldLimits,
    /// Connections at a time; half of them for one user.
    pub connections: usize,
    /// Bytes of bodies that are held at a time, of all together; half of them for one user.
    pub room: usize,
    /// Longest time in which no byte comes, of either side: models think long before they speak.
    pub patience: Duration,
    /// Longest time for a head, and between two requests of a connection.
    pub head: Duration,
    /// The MCP servers, where there are any.
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

/// The request's origin, as far as it is known before anything is judged.
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
    /// The session that a token in a path was given to.
    fn session(&self, token: &str) -> Option<SessionId>;

    /// Returns whether requests of `peer` to endpoints that are not known here may pass unread.
    fn passes_unknown(&self, peer: &Peer) -> bool;

    /// Returns the judge of one request and its response.
    fn judge(&self, asked: RequestOrigin) -> Box<dyn ExchangeJudge>;
}

/// Judges one request with its response.
pub trait ExchangeJudge: ContentJudge + fmt::Debug + Send {
    /// The request was read to its end.
    fn request_read(&mut self);

    /// The request goes on with this body.
    fn sent(&mut self, body: &[u8]);

    /// These bytes of the response go on to the agent. There are no more once the judge is dropped.
    fn answered(&mut self, bytes: &[u8]);

    /// The request, or its response, does not go on.
    fn failed(&mut self, fault: &LlmFault);
}
