//! Tool calls as spans: a call and its result are two events, which are joined here.

use std::collections::{BTreeMap, VecDeque};

use mcpmon_model::{Action, EventType, Layer};
use ring::digest;
use serde_json::Value;

use super::{
    logs,
    messages::{KeyValue, Span, SpanKind, Status, StatusCode},
    names,
};
use crate::StoredEvent;

/// Most calls that wait for their results; beyond it, the oldest are forgotten. A result of a forgotten call gets a
/// span without the call.
const MAX_OPEN_CALLS: usize = 4096;

const CALLED: &str = EventType::ToolCalled.as_str();
const JUDGED: &str = EventType::ToolCallIntercepted.as_str();
const RETURNED: &str = EventType::ToolReturned.as_str();

/// The ids of a span, by which the records of a call are linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SpanIds {
    pub(super) trace: [u8; 16],
    pub(super) span: [u8; 8],
    parent: Option<[u8; 8]>,
}

/// The key of a call: the request id, which is unique within one conversation.
type CallKey = (Option<String>, Option<String>, Option<u32>, String);

/// A call that has no answer yet.
#[derive(Clone, Debug)]
struct OpenCall {
    ids: SpanIds,
    started: u64,
    attributes: Vec<KeyValue>,
}

/// The calls that wait for their answers.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: BTreeMap<CallKey, OpenCall>,
    order: VecDeque<CallKey>,
}

impl Calls {
    /// Processes an event. Returns the ids of its span, and the span if the event completes it.
    pub(super) fn take(&mut self, event: &StoredEvent) -> (Option<SpanIds>, Option<Span>) {
        match event.kind.as_str() {
            CALLED => {
                let ids = ids(event);
                self.open(event, ids.clone());
                (Some(ids), None)
            }
            RETURNED => {
                let open = self.open.remove(&key(event));
                let ended = logs::nanoseconds(event);
                let duration = event.data.get("duration_us").and_then(Value::as_u64);
                let started = ended.saturating_sub(duration.unwrap_or_default().saturating_mul(1000));
                let open = open.unwrap_or_else(|| OpenCall {
                    ids: ids(event),
                    started,
                    attributes: Vec::new(),
                });
                let ids = open.ids.clone();
                (Some(ids), Some(span(event, open, ended)))
            }
            // A blocked intent has no span: models' intents are reported again when they are called.
            JUDGED if event.action == Action::Block && event.layer != Layer::Llm => {
                let (ids, at) = (ids(event), logs::nanoseconds(event));
                let stopped = OpenCall {
                    ids: ids.clone(),
                    started: at,
                    attributes: Vec::new(),
                };
                (Some(ids), Some(span(event, stopped, at)))
            }
            JUDGED => (Some(ids(event)), None),
            _ => (None, None),
        }
    }

    fn open(&mut self, event: &StoredEvent, ids: SpanIds) {
        let key = key(event);
        let call = OpenCall {
            ids,
            started: logs::nanoseconds(event),
            attributes: logs::attributes(event, false),
        };
        if self.open.insert(key.clone(), call).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > MAX_OPEN_CALLS {
            if let Some(oldest) = self.order.pop_front() {
                self.open.remove(&oldest);
            }
        }
    }
}

fn key(event: &StoredEvent) -> CallKey {
    let id = event.data.get("jsonrpc_id").map(Value::to_string);
    (
        event.session_id.clone(),
        event.server_id.clone(),
        event.process.as_ref().map(|process| process.pid),
        id.unwrap_or_default(),
    )
}

/// Returns the span of a call that ended with `event`.
fn span(event: &StoredEvent, call: OpenCall, ended: u64) -> Span {
    let tool = event.data.get("tool_name").and_then(Value::as_str);
    let mut attributes = logs::attributes(event, false);
    // Only the call has the ids of other layers.
    for attribute in call.attributes {
        if attributes.iter().all(|known| known.key != attribute.key) {
            attributes.push(attribute);
        }
    }
    let error = logs::error_type(event);
    let status = error.map(|error| Status {
        message: event.reason.clone().unwrap_or_else(|| error.to_owned()),
        code: StatusCode::Error.into(),
    });
    Span {
        trace_id: call.ids.trace.to_vec(),
        span_id: call.ids.span.to_vec(),
        parent_span_id: call.ids.parent.map(Vec::from).unwrap_or_default(),
        name: format!("{} {}", names::CALL, tool.unwrap_or_default()),
        // By the convention `mcp.server`: to the client, mcpmon is the server.
        kind: SpanKind::Server.into(),
        start_time_unix_nano: call.started.min(ended),
        end_time_unix_nano: ended,
        attributes,
        status,
    }
}

/// Returns the ids of a call's span. They are the same in every export of the event: the trace comes from the call's
/// `traceparent`, else from the model's id of the call, else from the event.
fn ids(event: &StoredEvent) -> SpanIds {
    let own = event.id.into_bytes();
    let [.., a, b, c, d, e, f, g, h] = own;
    let span = [a, b, c, d, e, f, g, h];
    let text = |field: &str| event.data.get(field).and_then(Value::as_str);
    if let Some((trace, parent)) = text("trace_parent").and_then(parse_traceparent) {
        return SpanIds {
            trace,
            span,
            parent: Some(parent),
        };
    }
    let trace = match text("tool_call_id") {
        Some(id) => {
            let hash = digest::digest(
                &digest::SHA256,
                format!("mcpmon call {}\0{id}", event.host).as_bytes(),
            );
            hash.as_ref().first_chunk().copied().unwrap_or(own)
        }
        None => own,
    };
    SpanIds {
        trace,
        span,
        parent: None,
    }
}

/// Returns the trace and the parent of a `traceparent` of W3C Trace Context. Returns `None` if it is invalid.
fn parse_traceparent(text: &str) -> Option<([u8; 16], [u8; 8])> {
    let mut parts = text.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let version: [u8; 1] = hexadecimal(version)?;
    let _flags: [u8; 1] = hexadecimal(flags)?;
    let is_known = version == [0];
    if version == [0xff] || (is_known && parts.next().is_some()) {
        return None;
    }
    let (trace, parent) = (hexadecimal(trace)?, hexadecimal(parent)?);
    (trace != [0; 16] && parent != [0; 8]).then_some((trace, parent))
}

/// Decodes lower-case hexadecimal digits to exactly this number of bytes.
fn hexadecimal<const LENGTH: usize>(text: &str) -> Option<[u8; LENGTH]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * LENGTH {
        return None;
    }
    let mut bytes = [0; LENGTH];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? * 16 + digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{CallOutcome, Event, EventKind};
    use test_case::test_case;
    use uuid::Uuid;

    use super::*;
    use crate::sample;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn stored(number: u128, mut event: Event) -> StoredEvent {
        event.timestamp = mcpmon_model::Timestamp(i64::try_from(number).unwrap() * 1_000_000);
        StoredEvent::new(Uuid::from_u128(number), "laptop", event)
    }

    fn traced(mut event: Event) -> Event {
        if let EventKind::ToolCalled { trace_parent, .. } = &mut event.kind {
            *trace_parent = Some(PARENT.to_owned());
        }
        event
    }

    #[test]
    fn a_call_and_its_answer_are_one_span_below_the_clients() {
        let mut calls = Calls::default();
        let (called, none) = calls.take(&stored(10, traced(sample::called("read_file", 1))));
        assert_eq!(none, None);
        let answer = sample::returned("read_file", 1, CallOutcome::Failed);
        let (returned, span) = calls.take(&stored(22, answer));
        assert_eq!(called, returned, "both are of the same span");
        let span = span.unwrap();
        assert_eq!(span.name, "tools/call read_file");
        assert_eq!(
            span.trace_id,
            hexadecimal::<16>("4bf92f3577b34da6a3ce929d0e0e4736").unwrap()
        );
        assert_eq!(span.parent_span_id, hexadecimal::<8>("00f067aa0ba902b7").unwrap());
        assert_eq!(
            (span.start_time_unix_nano, span.end_time_unix_nano),
            (10_000_000, 22_000_000)
        );
        assert_eq!(span.status.as_ref().unwrap().code, i32::from(StatusCode::Error));
        let has = |key: &str| {
            span.attributes
                .iter()
                .filter(|attribute| attribute.key == key)
                .count()
        };
        assert_eq!(
            ["gen_ai.tool.call.id", "error.type", "mcp.method.name"].map(has),
            [1, 1, 1]
        );
        assert!(calls.open.is_empty());
    }

    #[test]
    fn an_answer_to_a_call_that_is_not_known_is_a_span_by_its_duration() {
        let (_, span) = Calls::default().take(&stored(22, sample::returned("read_file", 1, CallOutcome::Ok)));
        let span = span.unwrap();
        assert_eq!(
            (span.start_time_unix_nano, span.end_time_unix_nano),
            (10_000_000, 22_000_000)
        );
        assert_eq!(span.status, None);
    }

    #[test]
    fn a_call_that_was_stopped_is_a_span_and_what_a_model_wanted_is_in_its_trace() {
        let mut calls = Calls::default();
        let (wanted, none) = calls.take(&stored(
            1,
            sample::wanted("read_file", Some("toolu_7"), Action::Allow),
        ));
        assert_eq!(none, None);
        let (stopped, span) = calls.take(&stored(2, sample::intercepted("read_file", 7, Action::Block)));
        assert!(span.is_some());
        assert_eq!(wanted.unwrap().trace, stopped.unwrap().trace);
    }

    #[test]
    fn calls_without_an_answer_are_forgotten_in_the_end() {
        let mut calls = Calls::default();
        for number in 0..u32::try_from(MAX_OPEN_CALLS).unwrap() + 10 {
            calls.take(&stored(u128::from(number), sample::called("read_file", number)));
        }
        assert_eq!(
            (calls.open.len(), calls.order.len()),
            (MAX_OPEN_CALLS, MAX_OPEN_CALLS)
        );
    }

    #[test_case(PARENT => true)]
    #[test_case("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x" => false; "version 0 has four parts")]
    #[test_case("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x" => true; "a later version may have more")]
    #[test_case("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" => false; "no version")]
    #[test_case("00-00000000000000000000000000000000-00f067aa0ba902b7-01" => false; "no trace")]
    #[test_case("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01" => false; "no parent")]
    #[test_case("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01" => false; "capitals")]
    #[test_case("00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01" => false; "no digits")]
    #[test_case("" => false)]
    fn a_traceparent_is_taken_strictly(text: &str) -> bool {
        parse_traceparent(text).is_some()
    }
}
