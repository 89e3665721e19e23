//! Events about traffic between agents and models.

use std::collections::BTreeSet;

use mcpmon_detect::{arguments::Arguments, secrets::Secret};
use mcpmon_model::{
    Conversation, Digest, Event, EventKind, Exchange, Input, Intent, Layer, RawJson, Timestamp,
};

use crate::{
    rules::Ruling,
    traffic::tell::{MAX_TEXT, about, cut, input, objected},
};

use super::meant::IntendedTool;

/// The time and the exchange of an observed fact.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speaker<'a> {
    /// The time.
    pub(super) now: Timestamp,
    /// The request, or the response, that contains it.
    pub(super) exchange: &'a Exchange,
}

/// Digests of the events that are recorded only once.
#[derive(Debug, Default)]
pub(super) struct RecordedOnce(BTreeSet<Digest>);

/// Most such events that are remembered; beyond it all are forgotten, and recorded once more.
const MAX_REMEMBERED: usize = 1 << 14;

impl RecordedOnce {
    /// Returns whether the key `words` is new, and remembers it.
    pub(super) fn is_new(&mut self, words: &[&str]) -> bool {
        let mut text = String::new();
        for word in words {
            text.push_str(word);
            text.push('\0');
        }
        if self.0.len() >= MAX_REMEMBERED {
            self.0.clear();
        }
        self.0.insert(Digest::of(text.as_bytes()))
    }
}

impl Speaker<'_> {
    /// Returns the session, as part of the key of events that are recorded once for each.
    pub(super) fn session(&self) -> &str {
        let session = self.exchange.session.as_ref();
        session.map(|session| session.as_str()).unwrap_or_default()
    }

    /// Returns the conversation that a call of `meant` would be part of.
    pub(super) fn conversation(
        &self,
        meant: &IntendedTool,
        server_type: Option<mcpmon_model::ServerType>,
    ) -> Conversation {
        Conversation {
            identity: meant.identity.clone(),
            server_type: server_type.unwrap_or(mcpmon_model::ServerType::Stdio),
            session: self.exchange.session.clone(),
            layer: Layer::Llm,
        }
    }

    /// Returns an event about a server.
    pub(super) fn about(&self, meant: &IntendedTool, kind: EventKind) -> Event {
        about(self.now, &self.conversation(meant, None), kind)
    }

    /// Returns an event that is about no server.
    pub(super) fn event(&self, kind: EventKind) -> Event {
        let mut event = Event::new(self.now, Layer::Llm, kind);
        event.session_id.clone_from(&self.exchange.session);
        event
    }

    /// Builds the kind of event for an intent of a model, or an act of a provider, with the names that it used.
    pub(super) fn intercepted(&self, visible: &str, intent: Option<&Intent<'_>>) -> EventKind {
        let id = intent.and_then(|intent| intent.id.as_deref());
        EventKind::ToolCallIntercepted {
            tool_name: cut(visible, MAX_TEXT).to_owned(),
            visible_name: None,
            dialect: Some(self.exchange.dialect),
            request_id: Some(self.exchange.request.clone().into_string()),
            jsonrpc_id: None,
            tool_call_id: id.map(|id| cut(id, MAX_TEXT).to_owned()),
            trace_parent: self.exchange.trace_parent.clone().map(Into::into),
            server_type: None,
            server_addr: None,
            tool_hash: None,
            input: None,
            client_uid: self.exchange.uid,
        }
    }
}

/// Adds the reported objection of a ruling, if there is one, to an event.
pub(super) fn ruled(event: &mut Event, ruling: &Ruling) {
    if let Some(objection) = ruling.told() {
        objected(event, objection);
    }
}

/// The input of a tool call, as JSON.
#[derive(Debug)]
pub(super) enum IntentInput {
    /// There is no input.
    Nothing,
    /// JSON; input that need not be JSON is a JSON string.
    Json(String),
    /// The input is not JSON.
    Malformed,
}

impl IntentInput {
    pub(super) fn of(given: &Input<'_>) -> Self {
        match given {
            Input::Json(json) => Self::Json(json.as_str().to_owned()),
            Input::Text(text) => Self::Json(RawJson::quoted(text)),
            Input::Malformed(text) if text.trim().is_empty() => Self::Nothing,
            Input::Malformed(_) => Self::Malformed,
        }
    }

    pub(super) fn json(&self) -> Option<RawJson<'_>> {
        match self {
            Self::Json(text) => Some(RawJson::trusted(text)),
            Self::Nothing | Self::Malformed => None,
        }
    }

    /// Returns the input for events: without secrets; `None` if it was too large to be searched for them completely.
    pub(super) fn told(&self, arguments: &Arguments<'_>, secrets: &[Secret]) -> Option<String> {
        let json = self.json().filter(|_| !arguments.is_cut())?;
        Some(input(json.as_str(), secrets))
    }
}
