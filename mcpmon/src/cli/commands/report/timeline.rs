//! The course of a session in the order of time: intents, calls, results, connections and findings.

use std::{cmp::Reverse, collections::BTreeMap};

use mcpmon_model::{Action, FieldChange};
use mcpmon_store::{StoredEvent, json as form, name};
use serde_json::{Value, json};

use crate::cli::summary;

/// Most entries of a timeline; if there are more, the most severe are kept, then the oldest.
const MAX_ENTRIES: usize = 2_000;
/// Most characters of a text in an entry: arguments can have 16 KiB.
const MAX_TEXT_CHARS: usize = 2_000;
/// Most changes of definitions in a report.
const MAX_CHANGES: usize = 50;

/// The events of a session, and their number.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    pub(super) entries: Vec<TimelineEntry>,
    /// The number of all entries, those that are left out included.
    pub(super) count: usize,
}

/// An event, and the call that it belongs to.
#[derive(Debug)]
pub(super) struct TimelineEntry {
    pub(super) event: StoredEvent,
    /// The number of the call in this session, from 1; `None` for an event that belongs to no call.
    pub(super) call: Option<usize>,
}

impl Timeline {
    pub(super) fn from_events<'a>(events: impl Iterator<Item = &'a StoredEvent>) -> Self {
        // Every list names each tool again.
        let has_entry = |event: &&StoredEvent| event.kind != "mcp_tool_seen" || event.rule.is_some();
        let mut events: Vec<&StoredEvent> = events.filter(has_entry).collect();
        let count = events.len();
        events.sort_by_key(|event| (Reverse(event.severity), event.timestamp, event.seq));
        events.truncate(MAX_ENTRIES);
        events.sort_by_key(|event| (event.timestamp, event.seq));
        let mut calls = TimelineCalls::default();
        let entries = events.into_iter().map(|event| TimelineEntry {
            event: event.clone(),
            call: calls.number(event),
        });
        Self {
            entries: entries.collect(),
            count,
        }
    }
}

impl TimelineEntry {
    /// Returns the summary without the reason, which has its own column.
    pub(super) fn what(&self) -> String {
        let what = summary::summary(&StoredEvent {
            reason: None,
            ..self.event.clone()
        });
        shortened(&what)
    }

    /// Returns the reason for the verdict.
    pub(super) fn reason(&self) -> Option<String> {
        self.event.reason.as_deref().map(shortened)
    }

    /// Returns the arguments of a call, which were masked when they were recorded.
    pub(super) fn input(&self) -> Option<String> {
        self.text("input").map(shortened)
    }

    /// Returns a text field of the event's type.
    pub(super) fn text(&self, field: &str) -> Option<&str> {
        self.event.data.get(field)?.as_str()
    }

    /// Returns the entry as JSON.
    pub(super) fn object(&self) -> Value {
        let event = &self.event;
        json!({
            "id": event.id.to_string(),
            "timestamp": form::rfc3339(event.timestamp),
            "type": event.kind,
            "layer": name(&event.layer),
            "server_id": event.server_id,
            "what": self.what(),
            "action": event.action.as_str(),
            "severity": event.severity.as_str(),
            "rule": event.rule,
            "reason": self.reason(),
            "remedy": self.text("remedy"),
            "input": self.input(),
            "call": self.call,
        })
    }
}

/// Returns the text; if it is long, its first characters and the number of the others.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        Some((end, _)) => format!(
            "{} … ({} characters more)",
            &text[..end],
            text[end..].chars().count()
        ),
        None => text.to_owned(),
    }
}

/// The calls of a session, by the ids that its layers use.
#[derive(Default)]
struct TimelineCalls<'a> {
    count: usize,
    /// Calls by the id that the model gave them.
    by_model: BTreeMap<&'a str, usize>,
    /// Running calls by server and JSON-RPC id. A server that is started again counts its ids from the beginning.
    running: BTreeMap<(&'a str, String), usize>,
}

impl<'a> TimelineCalls<'a> {
    fn number(&mut self, event: &'a StoredEvent) -> Option<usize> {
        let by_model = event.data.get("tool_call_id").and_then(Value::as_str);
        let request = event.data.get("jsonrpc_id").map(Value::to_string);
        let request = event.server_id.as_deref().zip(request);
        if by_model.is_none() && request.is_none() {
            return None;
        }
        let known = by_model.and_then(|id| self.by_model.get(id));
        let known = known.or_else(|| self.running.get(request.as_ref()?)).copied();
        let number = known.unwrap_or_else(|| {
            self.count += 1;
            self.count
        });
        if let Some(id) = by_model {
            self.by_model.insert(id, number);
        }
        if let Some(request) = request {
            let is_over = event.kind == "mcp_tool_returned" || event.action == Action::Block;
            match is_over {
                true => self.running.remove(&request),
                false => self.running.insert(request, number),
            };
        }
        Some(number)
    }
}

/// A change of a definition.
#[derive(Debug)]
pub(super) struct ToolChange {
    pub(super) time: String,
    pub(super) server: String,
    pub(super) tool: String,
    pub(super) renamed_from: Option<String>,
    /// False if the server does not list the definition any more.
    pub(super) is_listed: bool,
    pub(super) fields: Vec<FieldChange>,
}

/// Changes of definitions, and their number.
#[derive(Debug, Default)]
pub(super) struct ToolChanges {
    pub(super) first: Vec<ToolChange>,
    pub(super) count: usize,
}

impl ToolChanges {
    pub(super) fn add(&mut self, change: ToolChange) {
        self.count += 1;
        if self.first.len() < MAX_CHANGES {
            self.first.push(change);
        }
    }
}

impl ToolChange {
    /// Returns the change as JSON.
    pub(super) fn object(&self) -> Value {
        json!({
            "timestamp": self.time,
            "server_id": self.server,
            "tool_name": self.tool,
            "renamed_from": self.renamed_from,
            "listed": self.is_listed,
            "fields": self.fields,
        })
    }
}
