//! The transport of 2024-11-05: a stream that everything comes on, and a place that it names for what goes the other way.

use mcpmon_core::filter::mcp_http::Endpoint;
use uuid::Uuid;

use super::{call::Call, stream::Talk};

/// Where a client posts the messages that are answered on a stream. It is known as long as this is there.
#[derive(Debug)]
pub(super) struct Place {
    call: Call,
    /// The path behind the server's own; nobody else can name it.
    path: String,
    is_open: bool,
}

impl Place {
    pub(super) fn new(call: &Call) -> Self {
        Self {
            call: call.clone(),
            path: format!("/messages/{}", Uuid::now_v7().simple()),
            is_open: false,
        }
    }

    /// What the client is told in place of what the server says.
    pub(super) fn endpoint(&self) -> Endpoint {
        Endpoint {
            server: self.call.uri.to_string(),
            announced: format!("{}{}", self.call.here.path, self.path),
        }
    }

    /// The server has said where it takes messages.
    pub(super) fn open(&mut self, talk: &Talk, endpoint: &str) {
        if self.is_open {
            return;
        }
        match endpoint.parse() {
            Ok(uri) => {
                self.is_open = true;
                self.call.proxy.sessions.insert(&self.path, &talk.live, Some(uri));
            }
            Err(error) => {
                let server = self.call.server.id();
                tracing::warn!(server, %error, "an MCP server takes messages where nothing can be sent");
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.call
            .proxy
            .sessions
            .forget(&self.call.conversation, &self.path);
    }
}
