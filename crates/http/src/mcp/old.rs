//! The transport of 2024-11-05: one stream with all messages of the server, and a URL, named on the stream, for those
//! of the client.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
};

use hyper::Uri;
use mcpmon_protocol::filter::mcp_http::AnnouncedEndpoint;
use uuid::Uuid;

use super::{call::Call, problem::Problem, stream::Talk};

/// Bytes of events that wait for a stream, above which no more messages are accepted.
const MAX_WAITING_BYTES: usize = 1 << 20;

/// Events that mcpmon wrote for a client; they wait until its stream reads them.
#[derive(Debug, Default)]
pub(super) struct Aside(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    events: Vec<u8>,
    /// The waker of the task that writes the stream.
    waker: Option<Waker>,
}

impl Aside {
    /// Returns whether more messages may be accepted: a client that sends messages has to read the answers too.
    pub(super) fn has_room(&self) -> bool {
        self.lock().events.len() < MAX_WAITING_BYTES
    }

    pub(super) fn put(&self, events: &[u8]) {
        let mut waiting = self.lock();
        waiting.events.extend_from_slice(events);
        if let Some(waker) = waiting.waker.take() {
            waker.wake();
        }
    }

    /// Takes the events. If there are none, `context` is woken when there are.
    pub(super) fn take(&self, context: &Context<'_>) -> Vec<u8> {
        let mut waiting = self.lock();
        if waiting.events.is_empty() {
            waiting.waker = Some(context.waker().clone());
        }
        std::mem::take(&mut waiting.events)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // A poisoned lock is used anyway: no code that holds it can leave the value half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The URL for a client's messages that are answered on a stream. It is valid as long as this value lives.
#[derive(Debug)]
pub(super) struct AnnouncedUrl {
    call: Call,
    /// The path below the server's own; it cannot be guessed by other clients.
    path: String,
    is_open: bool,
}

impl AnnouncedUrl {
    pub(super) fn new(call: &Call) -> Self {
        Self {
            call: call.clone(),
            path: format!("/messages/{}", Uuid::now_v7().simple()),
            is_open: false,
        }
    }

    /// Returns the endpoint that the client is sent in place of the server's own.
    pub(super) fn endpoint(&self) -> AnnouncedEndpoint {
        AnnouncedEndpoint {
            server: self.call.uri.to_string(),
            announced: format!("{}{}", self.call.here.path, self.path),
        }
    }

    /// Records the URL at which the server accepts messages: the client's, and those that mcpmon sends in its name.
    ///
    /// # Errors
    /// Returns an error if the limit of sessions is reached.
    pub(super) fn open(&mut self, talk: &mut Talk, endpoint: &str) -> Result<(), Problem> {
        if self.is_open {
            return Ok(());
        }
        match endpoint.parse::<Uri>() {
            Ok(uri) => {
                self.is_open = true;
                talk.call.uri = uri.clone();
                let inserted = self.call.proxy.sessions.insert(&self.path, &talk.live, Some(uri));
                inserted.map_err(|too_many| self.call.crowded(&too_many))?;
            }
            Err(error) => {
                let server = self.call.server.id();
                tracing::warn!(server, %error, "an MCP server takes messages where nothing can be sent");
            }
        }
        Ok(())
    }
}

impl Drop for AnnouncedUrl {
    fn drop(&mut self) {
        self.call
            .proxy
            .sessions
            .forget(&self.call.conversation, &self.path);
    }
}
