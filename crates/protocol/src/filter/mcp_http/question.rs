//! Requests of mcpmon itself, as they are posted.

use mcpmon_model::{Era, ListKind, RequestId, Timestamp};

use super::{HttpSession, ListOutcome, head::Head, post::PendingRequests};
use crate::filter::own::method;

/// A question of our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The id with which [`HttpSession::listed`] returns the outcome.
    pub id: RequestId,
    /// Headers for the post, besides those of every request to the server.
    pub headers: Vec<(&'static str, String)>,
    /// Its body.
    pub body: Vec<u8>,
    elsewhere: bool,
}

impl Question {
    /// Returns the state with which its response is read.
    pub fn waiting(&self) -> PendingRequests {
        PendingRequests {
            asked: vec![self.id.clone()],
            elsewhere: self.elsewhere,
            ..PendingRequests::default()
        }
    }
}

impl HttpSession {
    /// Builds a request for a page of a list that the client did not request, under the revision of a request with
    /// `head`. The page is judged and sent to no client; [`Self::listed`] returns the outcome.
    pub fn ask(
        &mut self,
        now: Timestamp,
        kind: ListKind,
        cursor: Option<&str>,
        head: &Head<'_>,
    ) -> Option<Question> {
        let version = head.version();
        let (id, body) = self
            .own
            .ask(now, &mut self.reader.dialogue, kind, cursor, version)?;
        let mut headers = Vec::new();
        headers.extend(version.map(|version| ("mcp-protocol-version", version.to_owned())));
        if head.era() == Era::Stateless {
            headers.push(("mcp-method", method(kind).to_owned()));
        }
        Some(Question {
            id,
            headers,
            body: body.into_bytes(),
            elsewhere: self.is_legacy,
        })
    }

    /// Returns the outcome of a request of our own.
    pub fn listed(&mut self, id: &RequestId) -> ListOutcome {
        self.own.listed(&self.reader.dialogue, id)
    }
}
