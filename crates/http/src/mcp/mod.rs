//! The MCP proxy: declared remote servers behind the listener of the LLM proxy, each at `/mcp/SERVER`.
//!
//! The guards from the host's implementation of [`Servers`] judge the bytes; this module only moves them.

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
    DecodeLimits, HttpOutput, HttpResponse, HttpSession, Post, PostDecision, ReadState, ResponseFault,
    UnlistedTools, WholeResponseHead,
};

pub(super) use self::{
    hearing::near_timer, held::HeldResponse, proxy::McpProxy, route::route, stream::Judged,
};
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
    /// The only certificate that is accepted, if one is pinned.
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

/// The reason why there is no guard, so that nothing is forwarded. The text gives the cause and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotJudged(pub String);

/// The declared servers, and the guards of conversations with them.
pub trait Servers: fmt::Debug + Send + Sync {
    /// Returns the session that has this token, from a path.
    fn session(&self, token: &str) -> Option<SessionId>;

    /// Returns the server with this id, as it is declared now.
    fn remote(&self, id: &str) -> Option<Arc<Remote>>;

    /// Returns the ids of all servers, in order.
    fn ids(&self) -> Vec<ServerId>;

    /// Returns the limits that the policy sets.
    fn bounds(&self) -> Bounds;

    /// Records that requests are refused because a limit is reached.
    fn crowded(&self, now: Timestamp, crowded: &Crowded);

    /// Returns the guard of this conversation: the same value (by pointer) for all requests that belong together,
    /// because a client may not continue an MCP session of another. The guard lives as long as this crate holds a
    /// reference to it.
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
    /// The server presents another certificate than the pinned one.
    Certificate {
        /// The pinned certificate.
        pinned: Digest,
        /// The certificate that the server presents.
        shown: Digest,
    },
    /// The response is not forwarded: it redirects, is too long, or is not the expected one.
    Unfit {
        /// The cause.
        cause: String,
    },
}

/// Guards one conversation with a server: bytes go in with their session, and the bytes to forward come out. When a
/// method returns, the resulting events and effects are recorded. Methods may wait for the store or the daemon: an
/// implementation uses `block_in_place` where it waits, and where it works on many bytes.
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

    /// Judges bytes of a response, cut at any place.
    fn push(
        &self,
        now: Timestamp,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        bytes: &[u8],
        out: &mut HttpOutput,
    ) -> ReadState;

    /// Handles the end of a response.
    fn end(
        &self,
        now: Timestamp,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        out: &mut HttpOutput,
    ) -> WholeResponseHead;

    /// Handles a response that is missing or incomplete. The waiting requests are answered with the fault, and these
    /// answers are recorded as if the server had sent them.
    fn fail(
        &self,
        now: Timestamp,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        fault: &ResponseFault,
        out: &mut HttpOutput,
    ) -> WholeResponseHead;

    /// Returns the denial of requests that carry no message: a stream, the end of a session, a document. Returns `None`
    /// if they are allowed.
    fn halted(&self, now: Timestamp) -> Option<Denial>;

    /// Records input that is not a message.
    fn incident(&self, now: Timestamp, incident: &Incident);

    /// Returns the lists whose content has changed since the client read them; each change is returned once.
    fn changed(&self, now: Timestamp) -> BTreeSet<ListKind>;

    /// Returns whether a tool of that name was on a list of the server.
    fn is_listed(&self, tool: &str) -> bool;

    /// Returns the state of a call that is held until a person answers. The default is for guards that hold no calls.
    fn held_call(&self, _now: Timestamp, _held_call: &str) -> HeldPostState {
        HeldPostState::Gone
    }

    /// Records that the client no longer waits for the answer to a held call.
    fn withdraw_call(&self, _now: Timestamp, _held_call: &str) {}

    /// Records that the server gave no answer.
    fn failed(&self, now: Timestamp, failure: &NoAnswer);
}

/// The state of a call that is held until a person answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldPostState {
    /// The person has not answered yet.
    Waiting,
    /// There is an answer, or none will come: the call is to be posted again.
    Settled,
    /// The call is not held.
    Gone,
}

/// A refusal that happens again and again, because others use the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crowded {
    /// The server, if the resource belongs to one.
    pub server: Option<ServerId>,
    /// The resource, its owner and the limit of the latest refusal.
    pub cause: String,
    /// A lower bound for the number of refusals within a minute.
    pub times: u32,
}

/// Limits that a policy sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Limits for messages; a body is no longer than one message.
    pub limits: DecodeLimits,
    /// Most streams of one server that clients keep open for its unasked messages.
    pub streams: usize,
}

/// The settings of the MCP proxy.
#[derive(Clone, Debug)]
pub struct McpSettings {
    /// The servers.
    pub servers: Arc<dyn Servers>,
    /// The clock.
    pub clock: fn() -> Timestamp,
    /// Fixed limits.
    pub caps: Caps,
}

impl McpSettings {
    /// Settings with the default limits.
    #[must_use]
    pub fn new(servers: Arc<dyn Servers>, clock: fn() -> Timestamp) -> Self {
        Self {
            servers,
            clock,
            caps: Caps::default(),
        }
    }
}

/// Fixed limits, independent of the policy. They are for each server unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Most requests in progress at a time; half of them for one user.
    pub requests: usize,
    /// Most MCP sessions that are known at a time, for all servers together, half of them for one user. If a user has
    /// too many, the user's least recently used session is forgotten.
    pub sessions: usize,
    /// Most new MCP sessions of one user in a minute.
    pub new_sessions: u32,
    /// The time after its last use for which an MCP session is remembered.
    pub session_idle: Duration,
    /// Longest wait for the head of a response.
    pub head: Duration,
    /// Longest time without a byte of a response.
    pub silence: Duration,
    /// Longest time without a byte on a stream that is kept open: many servers send nothing to keep it alive.
    pub stream_silence: Duration,
    /// Longest time without a byte of a request's body.
    pub request_silence: Duration,
    /// Time limit for a request's body, plus a second for each 128 KiB of it.
    pub request_body: Duration,
    /// Most pages of a list that the proxy itself requests.
    pub own_pages: usize,
    /// Time limit for such a list.
    pub own_time: Duration,
    /// Time after such a list in which another unknown tool does not cause a new request.
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
