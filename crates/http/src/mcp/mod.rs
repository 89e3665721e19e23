//! The MCP proxy: declared remote servers behind the listener of the LLM proxy, each at `/mcp/SERVER`.
//!
//! The guards that the host's implementation of [`Servers`] hands out judge the bytes; this module only moves them.

mod answer;
mod call;
mod document;
mod hearing;
mod held;
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

use mcpmon_model::{Denial, Digest, Incident, ListKind, ServerId, ServerType, SessionId, Timestamp};
use mcpmon_protocol::filter::mcp_http::{
    DecodeLimits, Flow, HttpOutput, HttpResponse, HttpSession, Post, PostDecision, ResponseFault,
    UnlistedTools, WholeResponseHead,
};

pub(super) use self::{hearing::near_timer, held::HeldResponse, proxy::Proxy, route::route, stream::Judged};
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

/// The reason why there is no guard, so that nothing is forwarded. Its text tells the cause and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotJudged(pub String);

/// The declared servers, and the guards of conversations with them.
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

    /// Returns the guard of this conversation: the same value (by pointer) for all requests that belong
    /// together, because a client may not continue an MCP session of another. It lives as long as anything
    /// here holds it.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no guard.
    fn conversation(&self, asked: AskedServer) -> Result<Arc<dyn ServerGuard>, NotJudged>;
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

/// Guards one conversation with a server: bytes go in with the session that they belong to, and what goes on comes out.
/// The events and effects that follow have been recorded when a method returns. May wait for the store or the daemon: an
/// implementation tells the runtime (`block_in_place`) where it does, and where there are many bytes.
pub trait ServerGuard: fmt::Debug + Send + Sync {
    /// Takes a post.
    ///
    /// # Errors
    /// Returns the tools that are on no list, if the post needs lists: the proxy asks the server for its list, and posts
    /// again.
    fn post(
        &self,
        now: Timestamp,
        session: &mut HttpSession,
        post: &Post<'_>,
        out: &mut HttpOutput,
    ) -> Result<PostDecision, UnlistedTools>;

    /// Takes bytes of a response, cut anywhere.
    fn push(
        &self,
        now: Timestamp,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        bytes: &[u8],
        out: &mut HttpOutput,
    ) -> Flow;

    /// Handles the end of a response.
    fn end(
        &self,
        now: Timestamp,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        out: &mut HttpOutput,
    ) -> WholeResponseHead;

    /// Handles a response that does not come, or not to its end. The requests that waited for it are answered with the
    /// fault, and these answers are recorded as if the server had sent them.
    fn fail(
        &self,
        now: Timestamp,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        fault: &ResponseFault,
        out: &mut HttpOutput,
    ) -> WholeResponseHead;

    /// Returns the denial of requests without a message: a stream, the end of a session, a document.
    fn halted(&self, now: Timestamp) -> Option<Denial>;

    /// Records something on the wire that is no message.
    fn incident(&self, now: Timestamp, incident: &Incident);

    /// Returns the lists that show something else by now than the client saw; each is told once.
    fn changed(&self, now: Timestamp) -> BTreeSet<ListKind>;

    /// Returns whether a tool of that name was on a list of the server.
    fn is_listed(&self, tool: &str) -> bool;

    /// Returns the state of a call that is held until a person answers. A guard that holds none knows none.
    fn held_call(&self, _now: Timestamp, _held_call: &str) -> HeldCallState {
        HeldCallState::Gone
    }

    /// Nobody waits for the answer to a held call any longer.
    fn withdraw_call(&self, _now: Timestamp, _held_call: &str) {}

    /// Records that the server gave no answer.
    fn failed(&self, now: Timestamp, failure: &NoAnswer);
}

/// The state of a call that is held until a person answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldCallState {
    /// Nobody has answered yet.
    Waiting,
    /// There is an answer, or none will come: the call is to be posted again.
    Settled,
    /// The call is not held.
    Gone,
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
    pub limits: DecodeLimits,
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
