//! The MCP proxy: declared remote servers behind the listener of the LLM proxy, each at `/mcp/SERVER`.
//!
//! Messages are judged by the host's implementation of [`Servers`], and parsed by
//! [`mcpmon_protocol::filter::mcp_http`]; this module only moves the bytes.

mod answer;
mod call;
mod document;
mod hearing;
mod old;
mod own;
mod post;
mod problem;
mod proxy;
mod route;
mod server;
mod sessions;
mod stream;
mod unasked;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use mcpmon_model::{
    Denial, Digest, Incident, ListKind, Message, ServerId, ServerType, SessionId, Timestamp, Verdict,
};
use mcpmon_protocol::filter::mcp_http::Limits;

pub(super) use self::{hearing::TICK, proxy::Proxy, route::route, stream::Judged};
use super::Peer;

/// A declared server that is reached over the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its id.
    pub id: ServerId,
    /// Its URL, as declared.
    pub url: String,
    /// The transport of the server.
    pub server_type: ServerType,
    /// The only certificate that it may show.
    pub tls: Option<Digest>,
}

/// The client and the server of a conversation.
#[derive(Clone, Debug)]
pub struct AskedServer {
    /// The server.
    pub server: Arc<Remote>,
    /// The session whose token was in the path.
    pub session: Option<SessionId>,
    /// The peer of the connection.
    pub peer: Peer,
    /// The client's own name (`User-Agent`).
    pub agent: Option<Box<str>>,
}

/// The reason why there is no judge, so that nothing is forwarded. Its text tells the cause and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotJudged(pub String);

/// The declared servers, and who judges what is said to them.
pub trait Servers: fmt::Debug + Send + Sync {
    /// The session that a token in a path was given to.
    fn session(&self, token: &str) -> Option<SessionId>;

    /// The server of that id, as declared now.
    fn remote(&self, id: &str) -> Option<Arc<Remote>>;

    /// Ids of all of them, in order.
    fn ids(&self) -> Vec<ServerId>;

    /// Bounds that the policy sets.
    fn bounds(&self) -> Bounds;

    /// Records that more is asked for than there is.
    fn crowded(&self, now: Timestamp, crowded: &Crowded);

    /// Returns the judge of this conversation: the same value (by pointer) for all requests that belong
    /// together, because a client may not continue an MCP session of another. It lives as long as anything
    /// here holds it.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no judge.
    fn conversation(&self, asked: AskedServer) -> Result<Arc<dyn ServerJudge>, NotJudged>;
}

/// The reason why a server gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The server cannot be reached, or broke off.
    Unreachable {
        /// The cause.
        cause: String,
    },
    /// The server shows another certificate than the pinned one.
    Certificate {
        /// The pinned one.
        pinned: Digest,
        /// The one that it shows.
        shown: Digest,
    },
    /// The response is not forwarded: it redirects, has no end, or is not the expected one.
    Unfit {
        /// The cause.
        cause: String,
    },
}

/// Judges one conversation with a server. May wait for the store or the daemon: an implementation tells the runtime
/// (`block_in_place`) where it does.
pub trait ServerJudge: fmt::Debug + Send + Sync {
    /// Judges a message; events and effects are recorded.
    fn message(&self, now: Timestamp, message: &Message<'_>) -> Verdict;

    /// Returns the denial of requests without a message: a stream, the end of a session, a document.
    fn halted(&self, now: Timestamp) -> Option<Denial>;

    /// Records what is on the wire and no message.
    fn incident(&self, now: Timestamp, incident: &Incident);

    /// Lists that show something else by now than the client saw; each is told once.
    fn changed(&self, now: Timestamp) -> BTreeSet<ListKind>;

    /// Returns whether a tool of that name was on a list of the server. Where it was not, the proxy asks for
    /// the list before the call is judged.
    fn knows(&self, tool: &str) -> bool;

    /// Records what a client is answered in the place of the server, of which nothing came.
    fn missed(&self, now: Timestamp, message: &Message<'_>);

    /// Records that the server gave no answer.
    fn failed(&self, now: Timestamp, failure: &NoAnswer);
}

/// Somebody is refused again and again what others are to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crowded {
    /// Of which server, if it is of one.
    pub server: Option<ServerId>,
    /// The resource, its owner and the limit of the latest refusal.
    pub cause: String,
    /// The lowest number of refusals within a minute.
    pub times: u32,
}

/// Bounds that a policy sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Of messages; a body is no longer than one.
    pub limits: Limits,
    /// Streams of one server that clients keep open for what it says unasked.
    pub streams: usize,
}

/// The settings of the MCP proxy.
#[derive(Clone, Debug)]
pub struct McpSettings {
    /// The servers.
    pub servers: Arc<dyn Servers>,
    /// The clock.
    pub clock: fn() -> Timestamp,
    /// Bounds.
    pub caps: Caps,
}

impl McpSettings {
    /// With the usual bounds.
    #[must_use]
    pub fn new(servers: Arc<dyn Servers>, clock: fn() -> Timestamp) -> Self {
        Self {
            servers,
            clock,
            caps: Caps::default(),
        }
    }
}

/// Bounds that are the same under every policy, of each server where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Requests that wait for the head of their answer, or are answered, at a time; half of them for one user.
    pub requests: usize,
    /// MCP sessions that are known at a time, of all servers together, half of them for one user; of its own, the one
    /// that was used longest ago makes room.
    pub sessions: usize,
    /// New MCP sessions of one user a minute.
    pub new_sessions: u32,
    /// The time after its last use for which an MCP session is remembered.
    pub session_idle: Duration,
    /// Longest wait for the head of an answer.
    pub head: Duration,
    /// Longest time in which no byte of an answer comes.
    pub silence: Duration,
    /// Longest time in which no byte of a stream that is kept open comes: many servers send nothing to keep it alive.
    pub stream_silence: Duration,
    /// Longest time in which no byte of a request's body comes.
    pub request_silence: Duration,
    /// Time in which a request's body is there, beside a second more for each 128 KiB of it.
    pub request_body: Duration,
    /// Pages of a list that the proxy itself asks for.
    pub own_pages: usize,
    /// Longest time for such a list.
    pub own_time: Duration,
    /// The time after such a list during which another unknown tool does not cause one more.
    pub own_pause: Duration,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            requests: 128,
            sessions: 4096,
            new_sessions: 600,
            session_idle: Duration::from_secs(24 * 3600),
            head: Duration::from_secs(600),
            silence: Duration::from_secs(600),
            stream_silence: Duration::from_secs(3600),
            request_silence: Duration::from_secs(30),
            request_body: Duration::from_secs(60),
            own_pages: 64,
            own_time: Duration::from_secs(20),
            own_pause: Duration::from_secs(30),
        }
    }
}
