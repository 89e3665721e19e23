//! Tool calls: what a model wanted, each judgement with what went to the server, and what came back.

use std::collections::{BTreeMap, VecDeque};

use mcpmon_core::model::{Action, Definition, Digest, Layer, RawJson, Timestamp};
use rusqlite::Connection;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{
    Filter, StoredEvent,
    query::{self, Window},
};

const JUDGED: &str = "mcp_tool_call_intercepted";
const CALLED: &str = "mcp_tool_called";
const RETURNED: &str = "mcp_tool_returned";

/// How long after a model wanted a tool its call can come, nanoseconds: a person may be asked in between.
pub const LONGEST_WAIT: i64 = 300 * 1_000_000_000;

/// One tool call, as far as it was recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCall {
    /// That a model wanted it.
    pub intent: Option<StoredEvent>,
    /// What stood against it, where anything did.
    pub judged: Option<StoredEvent>,
    /// That it went to its server.
    pub called: Option<StoredEvent>,
    /// What came back.
    pub returned: Option<StoredEvent>,
}

impl ToolCall {
    /// The event that tells most of it: the judgement, else the call, else that it was wanted.
    #[must_use]
    pub fn main(&self) -> Option<&StoredEvent> {
        self.judged
            .as_ref()
            .or(self.called.as_ref())
            .or(self.returned.as_ref())
            .or(self.intent.as_ref())
    }

    /// Every event, in the order of what they tell.
    pub fn events(&self) -> impl Iterator<Item = &StoredEvent> {
        let all = [&self.intent, &self.judged, &self.called, &self.returned];
        all.into_iter().flatten()
    }
}

/// The newest `limit` calls that match, oldest first.
pub(super) fn load(connection: &Connection, filter: &Filter, limit: u32) -> rusqlite::Result<Vec<ToolCall>> {
    let of = |types: &[&str]| Filter {
        types: types.iter().map(|name| (*name).to_owned()).collect(),
        ..filter.clone()
    };
    let window = Window::Newest {
        limit: limit.saturating_mul(3),
    };
    let events = query::events(connection, &of(&[JUDGED, CALLED]), window)?;
    let Some(first) = events.first().map(|event| event.seq) else {
        return Ok(Vec::new());
    };
    let answers = Filter {
        // An answer was let through, whatever was said of the call, and bears no id but its own.
        action: None,
        severity: None,
        until: None,
        trace: None,
        ..of(&[RETURNED])
    };
    let window = Window::After {
        seq: first,
        limit: limit.saturating_mul(3),
    };
    let mut all = events;
    all.extend(query::events(connection, &answers, window)?);
    // Each process writes when it finds time to: what a model wanted can be written behind the call that came of it.
    all.sort_by_key(|event| (event.timestamp, event.seq));
    let mut calls = join(all);
    let beyond = calls.len().saturating_sub(limit as usize);
    Ok(calls.split_off(beyond))
}

/// By session, server and request id; an id that is used again belongs to a new call.
fn join(events: Vec<StoredEvent>) -> Vec<ToolCall> {
    let mut calls: Vec<ToolCall> = Vec::new();
    let mut open: BTreeMap<[String; 3], usize> = BTreeMap::new();
    let mut intents = Intents::default();
    for event in events {
        let key = key(&event);
        let known = open.get(&key).copied();
        let is_free = |call: &ToolCall| call.called.is_none() && call.returned.is_none();
        match event.kind.as_str() {
            JUDGED if event.layer == Layer::Llm => {
                intents.add(&event, calls.len());
                calls.push(ToolCall {
                    intent: Some(event),
                    ..ToolCall::default()
                });
            }
            CALLED if known.is_some_and(|at| is_free(&calls[at])) => {
                if let Some(at) = known {
                    calls[at].called = Some(event);
                }
            }
            JUDGED | CALLED => {
                let at = intents.take(&event).unwrap_or(calls.len());
                if at == calls.len() {
                    calls.push(ToolCall::default());
                }
                open.insert(key, at);
                match event.kind.as_str() {
                    JUDGED => calls[at].judged = Some(event),
                    _ => calls[at].called = Some(event),
                }
            }
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

/// Calls that a model wanted and that did not come yet, by their positions.
#[derive(Debug, Default)]
struct Intents {
    by_id: BTreeMap<String, usize>,
    /// Oldest first: whether the client has ids of its own, when it was wanted, and which it is.
    by_content: BTreeMap<Content, VecDeque<Intent>>,
}

/// Session, server, tool, and what it is called with.
type Content = (Option<String>, Option<String>, String, Option<Digest>);

#[derive(Debug)]
struct Intent {
    id: Option<String>,
    at: Timestamp,
    position: usize,
}

impl Intents {
    /// A call that is wanted. One that was stopped does not come.
    fn add(&mut self, event: &StoredEvent, position: usize) {
        if event.action == Action::Block {
            return;
        }
        let id = text(event, "tool_call_id");
        if let Some(id) = &id {
            self.by_id.insert(id.clone(), position);
        }
        let intent = Intent {
            id,
            at: event.timestamp,
            position,
        };
        self.by_content
            .entry(content(event))
            .or_default()
            .push_back(intent);
    }

    /// The one that a call comes from: by the id that both layers have, else the first of the same content that is
    /// not known to be another.
    fn take(&mut self, event: &StoredEvent) -> Option<usize> {
        let id = text(event, "tool_call_id");
        let content = content(event);
        let same = self.by_content.get_mut(&content);
        if let Some(position) = id.as_ref().and_then(|id| self.by_id.remove(id)) {
            if let Some(same) = same {
                same.retain(|intent| intent.position != position);
            }
            return Some(position);
        }
        let same = same?;
        let is_due = |intent: &Intent| {
            let waited = event.timestamp.0.saturating_sub(intent.at.0);
            (0..=LONGEST_WAIT).contains(&waited) && (intent.id.is_none() || id.is_none())
        };
        let at = same.iter().position(is_due)?;
        let intent = same.remove(at)?;
        if let Some(id) = intent.id {
            self.by_id.remove(&id);
        }
        Some(intent.position)
    }
}

fn content(event: &StoredEvent) -> Content {
    let input = text(event, "input").filter(|input| serde_json::from_str::<IgnoredAny>(input).is_ok());
    (
        event.session_id.clone(),
        event.server_id.clone(),
        text(event, "tool_name").unwrap_or_default(),
        // Each layer writes what it was given; in one spelling both are the same.
        input.map(|input| Definition::of(RawJson::trusted(&input)).hash),
    )
}

fn text(event: &StoredEvent, field: &str) -> Option<String> {
    event.data.get(field).and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use mcpmon_core::model::{CallOutcome, Event, EventKind};
    use test_case::test_case;

    use super::*;
    use crate::record::sample;

    fn loaded(events: Vec<Event>, filter: &Filter, limit: u32) -> Vec<String> {
        let (_directory, mut store) = sample::store();
        sample::fill(&mut store, events);
        let name = |event: &Option<StoredEvent>| event.as_ref().map_or(0, |event| event.seq);
        load(&store.connection, filter, limit)
            .unwrap()
            .iter()
            .map(|call| {
                let intent = match &call.intent {
                    Some(intent) => format!("{}>", intent.seq),
                    None => String::new(),
                };
                format!(
                    "{intent}{}-{}-{}",
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

    fn wanted(tool: &str, id: Option<&str>, second: i64, action: Action) -> Event {
        sample::at(second, sample::wanted(tool, id, action))
    }

    #[test]
    fn what_was_wanted_first_and_written_last_is_of_its_call() {
        let call = sample::at(1, sample::called("a", 1));
        let answer = sample::at(2, sample::returned("a", 1, CallOutcome::Ok));
        let intent = wanted("a", Some("toolu_1"), 0, Action::Allow);
        let events = vec![call, answer, intent];
        assert_eq!(loaded(events, &Filter::default(), 10), ["3>0-1-2"]);
    }

    /// As a client calls that has no ids of other layers.
    fn called(tool: &str, request: u32, input: &str, second: i64) -> Event {
        let mut event = sample::called(tool, request);
        if let EventKind::ToolCalled {
            tool_call_id,
            input: given,
            ..
        } = &mut event.kind
        {
            *tool_call_id = None;
            *given = Some(input.to_owned());
        }
        sample::at(second, event)
    }

    const INPUT: &str = r#"{"path":"/home/me/a.txt"}"#;

    #[test_case(vec![wanted("a", Some("toolu_1"), 0, Action::Allow), sample::at(1, sample::called("a", 1))] => vec!["1>0-2-0"]; "by its id")]
    #[test_case(vec![wanted("a", Some("toolu_2"), 0, Action::Allow), sample::at(1, sample::called("a", 1))] => vec!["1>0-0-0", "0-2-0"]; "another id")]
    #[test_case(vec![wanted("a", Some("x"), 0, Action::Allow), called("a", 1, INPUT, 1)] => vec!["1>0-2-0"]; "by its content")]
    #[test_case(vec![wanted("a", None, 0, Action::Allow), called("a", 1, "{ \"path\" : \"/home/me/a.txt\" }", 1)] => vec!["1>0-2-0"]; "written in another way")]
    #[test_case(vec![wanted("a", None, 0, Action::Allow), called("a", 1, "{}", 1)] => vec!["1>0-0-0", "0-2-0"]; "other arguments")]
    #[test_case(vec![wanted("a", None, 0, Action::Allow), called("b", 1, INPUT, 1)] => vec!["1>0-0-0", "0-2-0"]; "another tool")]
    #[test_case(vec![wanted("a", None, 0, Action::Allow), called("a", 1, INPUT, 300)] => vec!["1>0-2-0"]; "as late as can be")]
    #[test_case(vec![wanted("a", None, 0, Action::Allow), called("a", 1, INPUT, 301)] => vec!["1>0-0-0", "0-2-0"]; "too late")]
    #[test_case(vec![wanted("a", None, 0, Action::Allow), wanted("a", None, 1, Action::Allow), called("a", 1, INPUT, 2), called("a", 2, INPUT, 3)] => vec!["1>0-3-0", "2>0-4-0"]; "two alike")]
    #[test_case(vec![wanted("a", Some("toolu_1"), 0, Action::Block), sample::at(1, sample::called("a", 1))] => vec!["1>0-0-0", "0-2-0"]; "one that was stopped does not come")]
    #[test_case(vec![wanted("a", Some("toolu_1"), 0, Action::Allow), sample::at(1, sample::intercepted("a", 1, Action::Audit)), sample::at(1, sample::called("a", 1)), sample::at(2, sample::returned("a", 1, CallOutcome::Ok))] => vec!["1>2-3-4"]; "all of it")]
    fn what_a_model_wanted_is_part_of_the_call(events: Vec<Event>) -> Vec<String> {
        loaded(events, &Filter::default(), 10)
    }
}
