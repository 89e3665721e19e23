//! Stopped uses, or those that enforce mode would stop. Several events can be about one use: its cause, a finding, its
//! outcome.

use std::collections::{BTreeMap, BTreeSet};

use mcpmon_model::{Action, Layer, Timestamp};
use mcpmon_store::StoredEvent;
use serde_json::Value;

/// The key of a message: all events about one message have the same time.
type Moment<'a> = (Timestamp, Option<&'a str>, Option<&'a str>, Layer);

/// Returns one event for each use with this action, in the order of `events`.
pub(super) fn things<'a>(
    events: impl Iterator<Item = &'a StoredEvent>,
    action: Action,
) -> Vec<&'a StoredEvent> {
    let told: Vec<&StoredEvent> = events
        .filter(|event| event.action == action && place(event).is_some())
        .collect();
    let mut moments: BTreeMap<Moment<'_>, Vec<usize>> = BTreeMap::new();
    for (position, event) in told.iter().enumerate() {
        moments.entry(moment(event)).or_default().push(position);
    }
    let mut kept = BTreeSet::new();
    for mut positions in moments.into_values() {
        positions.sort_by_key(|position| place(told[*position]));
        let mut names: BTreeSet<&str> = BTreeSet::new();
        let mut covers_all = false;
        for position in positions {
            let event = told[position];
            let name = name(event);
            let is_told = covers_all || names.contains(name) || (name.is_empty() && !names.is_empty());
            if place(event) > Some(EventRelation::Thing) && is_told {
                continue;
            }
            // An event without a tool is about the whole message.
            covers_all |= name.is_empty();
            names.insert(name);
            kept.insert(position);
        }
    }
    let mut hidden = BTreeSet::new();
    let things = kept.into_iter().map(|position| told[position]);
    // A hidden definition has an event for each list it is left out of, but counts as one.
    things
        .filter(|event| !is_definition(event) || hidden.insert(definition(event)))
        .collect()
}

/// The relation of an event to a stopped use. If there are several events, the one with the closest relation describes
/// it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EventRelation {
    /// The event describes the use.
    Thing,
    /// The event describes the use and the reason; for a result that belongs to no call it is the only one.
    Account,
    /// The event gives the reason.
    Cause,
    /// The event only says that something passed or was found.
    Trace,
}

/// Returns `None` for an event about no stopped use, such as a person's answer.
fn place(event: &StoredEvent) -> Option<EventRelation> {
    match event.kind.as_str() {
        "mcp_approval" | "mcp_kill" | "policy_rejected" => None,
        "mcp_output_inspection" | "mcp_server_unwrapped" => Some(EventRelation::Account),
        "mcp_tool_changed" | "mcp_cross_server_blocked" | "mcp_server_binary_mismatch" => {
            Some(EventRelation::Cause)
        }
        "mcp_detection" | "mcp_tool_called" | "mcp_server_started" => Some(EventRelation::Trace),
        _ => Some(EventRelation::Thing),
    }
}

fn moment(event: &StoredEvent) -> Moment<'_> {
    (
        event.timestamp,
        event.server_id.as_deref(),
        event.session_id.as_deref(),
        event.layer,
    )
}

/// Returns the tool that an event is about; empty if it is about none.
fn name(event: &StoredEvent) -> &str {
    let names = ["tool_name", "blocked_tool_name"].into_iter();
    let mut texts = names.filter_map(|name| event.data.get(name)?.as_str());
    texts.next().unwrap_or_default()
}

fn is_definition(event: &StoredEvent) -> bool {
    event.kind == "mcp_tool_seen"
}

/// Returns the key of a hidden definition: its server, kind and name, and the rule.
fn definition(event: &StoredEvent) -> [&str; 5] {
    let text = |field| event.data.get(field).and_then(Value::as_str).unwrap_or_default();
    [
        event.server_id.as_deref().unwrap_or_default(),
        text("definition"),
        text("tool_name"),
        text("tool_hash"),
        event.rule.as_deref().unwrap_or_default(),
    ]
}
