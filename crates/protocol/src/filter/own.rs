//! Requests of mcpmon itself: lists that the client did not request, so that the tools it calls are known.

use std::collections::{BTreeMap, BTreeSet};

use mcpmon_model::{Content, Era, FromServer, ListKind, Message, RequestId, Side, Timestamp};

use crate::decode::{
    json::{LoneSurrogate, Scanner, quote_into},
    jsonrpc::Envelope,
    mcp::{Dialogue, VERSION, era_of},
};

/// Longest cursor that is repeated.
const MAX_CURSOR: usize = 64 << 10;

/// The outcome of a list request of mcpmon itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListOutcome {
    /// Nothing yet.
    Waiting,
    /// A page, which was judged, with the cursor of the next page if there is one.
    Page(Option<String>),
    /// No list.
    Failed,
}

/// Requests of mcpmon itself in one session.
#[derive(Debug, Default)]
pub(in crate::filter) struct OwnRequests {
    asked: u64,
    /// The requests that wait for an answer.
    pub(in crate::filter) waiting: BTreeSet<RequestId>,
    /// The outcomes of answered requests, until they are queried.
    came: BTreeMap<RequestId, ListOutcome>,
}

impl OwnRequests {
    /// Builds a request for a page of a list, under the revision `version` if it is given. Returns its id and its text.
    pub(in crate::filter) fn ask(
        &mut self,
        now: Timestamp,
        dialogue: &mut Dialogue,
        kind: ListKind,
        cursor: Option<&str>,
        version: Option<&str>,
    ) -> Option<(RequestId, String)> {
        let id = self.free(dialogue);
        let method = method(kind);
        let era = version.map_or(Era::Handshake, era_of);
        let body = body(&id, method, cursor, version.filter(|_| era == Era::Stateless));
        let mut scanner = Scanner::new(8);
        let scan = scanner.scan(body.as_bytes(), LoneSurrogate::Refuse).ok()?;
        let envelope = Envelope::read(scan.document.root()).ok()?;
        let reading = dialogue.read(Side::Client, era, &envelope).ok()?;
        dialogue.went_on(now, Side::Client, envelope.id.clone(), reading.sequel);
        self.waiting.insert(id.clone());
        Some((id, body))
    }

    /// Returns the id and the outcome, if the message answers one of these requests.
    pub(in crate::filter) fn hear(&self, message: &Message<'_>) -> Option<(RequestId, ListOutcome)> {
        let id = message.id.filter(|id| self.waiting.contains(*id))?;
        let Content::Server(said) = &message.content else {
            return None;
        };
        let came = match said {
            FromServer::Listing(listing) if listing.more => {
                let cursor = listing
                    .result
                    .member("nextCursor")
                    .and_then(|cursor| cursor.text());
                cursor
                    .filter(|cursor| cursor.len() <= MAX_CURSOR)
                    .map_or(ListOutcome::Failed, |cursor| {
                        ListOutcome::Page(Some(cursor.into_owned()))
                    })
            }
            FromServer::Listing(_) => ListOutcome::Page(None),
            FromServer::Answer(_) | FromServer::Introduction(_) => ListOutcome::Failed,
            // Requests of the server have their own ids.
            FromServer::Ask { .. } | FromServer::ListChanged(_) | FromServer::Notice { .. } => return None,
        };
        Some((id.clone(), came))
    }

    /// Notes the answer to a request.
    pub(in crate::filter) fn answered(&mut self, (id, came): (RequestId, ListOutcome)) {
        self.waiting.remove(&id);
        self.came.insert(id, came);
    }

    /// Returns the outcome of a request; each is returned once.
    pub(in crate::filter) fn listed(&mut self, dialogue: &Dialogue, id: &RequestId) -> ListOutcome {
        if !dialogue.waits(id) {
            // If the dialogue no longer waits, no valid answer came.
            self.give_up(id);
        }
        if self.waiting.contains(id) {
            return ListOutcome::Waiting;
        }
        self.came.remove(id).unwrap_or(ListOutcome::Failed)
    }

    /// Stops waiting for a request of mcpmon. Returns whether the id was that of one.
    pub(in crate::filter) fn give_up(&mut self, id: &RequestId) -> bool {
        self.waiting.remove(id)
    }

    /// Returns an id that no waiting request has.
    fn free(&mut self, dialogue: &Dialogue) -> RequestId {
        loop {
            self.asked += 1;
            let id = RequestId::Text(format!("mcpmon/list/{}", self.asked).into());
            if !dialogue.waits(&id) {
                return id;
            }
        }
    }
}

/// Returns the method that requests a list.
pub(in crate::filter) const fn method(kind: ListKind) -> &'static str {
    match kind {
        ListKind::Tools => "tools/list",
        ListKind::Prompts => "prompts/list",
        ListKind::Resources => "resources/list",
        ListKind::Templates => "resources/templates/list",
        ListKind::Skills => "skills/list",
    }
}

fn body(id: &RequestId, method: &str, cursor: Option<&str>, version: Option<&str>) -> String {
    let mut body = "{\"jsonrpc\":\"2.0\",\"id\":".to_owned();
    quote_into(&id.to_string(), &mut body);
    body.push_str(&format!(",\"method\":\"{method}\",\"params\":{{"));
    if let Some(cursor) = cursor {
        body.push_str("\"cursor\":");
        quote_into(cursor, &mut body);
    }
    if let Some(version) = version {
        body.push_str(if cursor.is_some() { "," } else { "" });
        body.push_str(&format!("\"_meta\":{{\"{VERSION}\":"));
        quote_into(version, &mut body);
        body.push_str(",\"io.modelcontextprotocol/clientCapabilities\":{}}");
    }
    body.push_str("}}");
    body
}
