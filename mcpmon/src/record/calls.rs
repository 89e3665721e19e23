//! Tool calls: each judgement with what went to the server and what came back.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::{
    Filter, StoredEvent,
    query::{self, Window},
};

const JUDGED: &str = "mcp_tool_call_intercepted";
const CALLED: &str = "mcp_tool_called";
const RETURNED: &str = "mcp_tool_returned";

/// One tool call, as far as it was recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCall {
    /// What stood against it, where anything did.
    pub judged: Option<StoredEvent>,
    /// That it went to its server.
    pub called: Option<StoredEvent>,
    /// What came back.
    pub returned: Option<StoredEvent>,
}

impl ToolCall {
    /// The event that tells most of it: the judgement, else the call.
    #[must_use]
    pub fn main(&self) -> Option<&StoredEvent> {
        self.judged
            .as_ref()
            .or(self.called.as_ref())
            .or(self.returned.as_ref())
    }
}

/// The newest `limit` calls that match, oldest first.
pub(super) fn load(connection: &Connection, filter: &Filter, limit: u32) -> rusqlite::Result<Vec<ToolCall>> {
    let of = |types: &[&str]| Filter {
        types: types.iter().map(|name| (*name).to_owned()).collect(),
        ..filter.clone()
    };
    let window = Window::Newest {
        limit: limit.saturating_mul(2),
    };
    let events = query::events(connection, &of(&[JUDGED, CALLED]), window)?;
    let Some(first) = events.first().map(|event| event.seq) else {
        return Ok(Vec::new());
    };
    let answers = Filter {
        // An answer was let through, whatever was said of the call.
        action: None,
        severity: None,
        until: None,
        ..of(&[RETURNED])
    };
    let window = Window::After {
        seq: first,
        limit: limit.saturating_mul(2),
    };
    let mut all = events;
    all.extend(query::events(connection, &answers, window)?);
    all.sort_by_key(|event| event.seq);
    let mut calls = join(all);
    let beyond = calls.len().saturating_sub(limit as usize);
    Ok(calls.split_off(beyond))
}

/// By session, server and request id; an id that is used again belongs to a new call.
fn join(events: Vec<StoredEvent>) -> Vec<ToolCall> {
    let mut calls: Vec<ToolCall> = Vec::new();
    let mut open: BTreeMap<[String; 3], usize> = BTreeMap::new();
    for event in events {
        let key = key(&event);
        let known = open.get(&key).copied();
        match event.kind.as_str() {
            JUDGED => {
                open.insert(key, calls.len());
                calls.push(ToolCall {
                    judged: Some(event),
                    ..ToolCall::default()
                });
            }
            CALLED => match known.filter(|&at| calls[at].called.is_none() && calls[at].returned.is_none()) {
                Some(at) => calls[at].called = Some(event),
                None => {
                    open.insert(key, calls.len());
                    calls.push(ToolCall {
                        called: Some(event),
                        ..ToolCall::default()
                    });
                }
            },
            _ => {
                if let Some(at) = known {
                    open.remove(&key);
                    calls[at].returned = Some(event);
                }
            }
        }
    }
    calls
}

fn key(event: &StoredEvent) -> [String; 3] {
    [
        event.session_id.clone().unwrap_or_default(),
        event.server_id.clone().unwrap_or_default(),
        event
            .data
            .get("jsonrpc_id")
            .map(ToString::to_string)
            .unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use mcpmon_core::model::{Action, CallOutcome};

    use super::*;
    use crate::record::sample;

    fn loaded(events: Vec<mcpmon_core::model::Event>, filter: &Filter, limit: u32) -> Vec<String> {
        let (_directory, mut store) = sample::store();
        sample::fill(&mut store, events);
        let name = |event: &Option<StoredEvent>| event.as_ref().map_or(0, |event| event.seq);
        load(&store.connection, filter, limit)
            .unwrap()
            .iter()
            .map(|call| {
                format!(
                    "{}-{}-{}",
                    name(&call.judged),
                    name(&call.called),
                    name(&call.returned)
                )
            })
            .collect()
    }

    #[test]
    fn each_call_has_its_own_judgement_and_answer() {
        let events = vec![
            sample::called("a", 1),
            sample::intercepted("b", 2, Action::Audit),
            sample::called("b", 2),
            sample::returned("b", 2, CallOutcome::Ok),
            sample::intercepted("c", 3, Action::Block),
            sample::returned("a", 1, CallOutcome::Failed),
            sample::called("a", 1),
        ];
        assert_eq!(
            loaded(events.clone(), &Filter::default(), 10),
            ["0-1-6", "2-3-4", "5-0-0", "0-7-0"]
        );
        assert_eq!(loaded(events.clone(), &Filter::default(), 2), ["5-0-0", "0-7-0"]);
        let blocked = Filter {
            action: Some(Action::Block),
            ..Filter::default()
        };
        assert_eq!(loaded(events, &blocked, 10), ["5-0-0"]);
        assert_eq!(loaded(Vec::new(), &Filter::default(), 10), [""; 0]);
    }

    #[test]
    fn calls_of_other_sessions_are_others() {
        let mut elsewhere = sample::returned("a", 1, CallOutcome::Ok);
        elsewhere.session_id = Some(mcpmon_core::model::SessionId::new("s2"));
        let events = vec![sample::called("a", 1), elsewhere];
        assert_eq!(loaded(events, &Filter::default(), 10), ["0-1-0"]);
    }
}
