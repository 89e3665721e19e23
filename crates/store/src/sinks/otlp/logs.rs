//! Log records of events.

use mcpmon_model::{EventType, Layer, Severity};
use serde_json::Value;

use super::{
    calls::SpanIds,
    messages::{AnyKind, AnyValue, KeyValue, LogRecord},
    names::{self, CONTENT, ELSEWHERE, FIELDS, Form, PREFIX},
};
use crate::{StoredEvent, json};

/// Longest text of an attribute, in characters; a longer one is cut, and ends with `…`.
const MAX_TEXT_CHARS: usize = 8 << 10;

/// Returns the record of an event; `ids` are those of its span.
pub(super) fn record(
    event: &StoredEvent,
    ids: Option<&SpanIds>,
    with_content: bool,
    observed: u64,
) -> LogRecord {
    let (severity_number, severity_text) = severity(event.severity);
    let body = event.reason.clone().unwrap_or_else(|| event.kind.clone());
    LogRecord {
        time_unix_nano: nanoseconds(event),
        observed_time_unix_nano: observed,
        severity_number,
        severity_text: severity_text.to_owned(),
        body: Some(AnyValue {
            value: Some(AnyKind::Text(cut(body))),
        }),
        attributes: attributes(event, with_content),
        trace_id: ids.map(|ids| ids.trace.to_vec()).unwrap_or_default(),
        span_id: ids.map(|ids| ids.span.to_vec()).unwrap_or_default(),
        event_name: event.kind.clone(),
    }
}

/// Returns the attributes of an event: its fields, under the names of the table.
pub(super) fn attributes(event: &StoredEvent, with_content: bool) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::text(names::EVENT_ID, event.id.to_string()),
        // The name is an attribute too, because few backends store the record's own member yet.
        KeyValue::text(names::EVENT_NAME, event.kind.clone()),
    ];
    for (field, value) in json::to_json(event) {
        if field == "reason" || ELSEWHERE.contains(&field.as_str()) {
            continue;
        }
        if let Some(findings) = findings(&field, &value) {
            attributes.extend(findings);
        }
        if with_content || !CONTENT.contains(&field.as_str()) {
            attributes.extend(attribute(&field, value));
        }
    }
    attributes.extend(of_conventions(event));
    attributes
}

pub(super) fn nanoseconds(event: &StoredEvent) -> u64 {
    u64::try_from(event.timestamp.0).unwrap_or_default()
}

/// Returns a field under its name in the table.
fn attribute(field: &str, value: Value) -> Vec<KeyValue> {
    let row = FIELDS.iter().find(|(known, ..)| *known == field);
    let (key, form) = match row {
        Some((_, key, form)) => ((*key).to_owned(), *form),
        None => (format!("{PREFIX}{field}"), Form::Plain),
    };
    match (form, value) {
        (Form::Endpoint(port_key), Value::String(endpoint)) => match endpoint.rsplit_once(':') {
            Some((address, port)) if port.parse::<u16>().is_ok() => {
                let address = address.trim_start_matches('[').trim_end_matches(']');
                let port = port.parse::<u16>().unwrap_or_default();
                vec![
                    KeyValue::text(&key, address),
                    KeyValue::new(port_key, AnyKind::Int(port.into())),
                ]
            }
            Some(_) | None => vec![KeyValue::text(&key, cut(endpoint))],
        },
        (Form::Text, value @ Value::Number(_)) => vec![KeyValue::text(&key, value.to_string())],
        (_, value) => kind(value)
            .map(|kind| KeyValue::new(&key, kind))
            .into_iter()
            .collect(),
    }
}

/// Returns a value; lists and objects become JSON text, which every backend can store. Returns `None` for null.
fn kind(value: Value) -> Option<AnyKind> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(flag) => AnyKind::Bool(flag),
        Value::String(text) => AnyKind::Text(cut(text)),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => AnyKind::Int(integer),
            (None, Some(double)) => AnyKind::Double(double),
            (None, None) => AnyKind::Text(number.to_string()),
        },
        parts @ (Value::Array(_) | Value::Object(_)) => AnyKind::Text(cut(parts.to_string())),
    })
}

/// Returns the findings without the matched texts.
fn findings(field: &str, value: &Value) -> Option<Vec<KeyValue>> {
    let text = |finding: &Value, part: &str| finding.get(part)?.as_str().map(str::to_owned);
    match field {
        "detection" => {
            let parts = ["pattern", "category", "field"];
            let attribute = |part: &str| {
                let key = format!("{PREFIX}detection.{part}");
                Some(KeyValue::text(&key, cut(text(value, part)?)))
            };
            Some(parts.into_iter().filter_map(attribute).collect())
        }
        "detections" => {
            let patterns = value.as_array()?.iter();
            let patterns: Vec<String> = patterns.filter_map(|finding| text(finding, "pattern")).collect();
            let key = format!("{PREFIX}detection.patterns");
            Some(vec![KeyValue::text(&key, cut(patterns.join(" ")))])
        }
        _ => None,
    }
}

/// Returns the attributes that the conventions for MCP require for a tool call.
fn of_conventions(event: &StoredEvent) -> Vec<KeyValue> {
    let is_call = [
        EventType::ToolCalled,
        EventType::ToolReturned,
        EventType::ToolCallIntercepted,
    ]
    .iter()
    .any(|kind| kind.as_str() == event.kind);
    if !is_call {
        return Vec::new();
    }
    let mut attributes = vec![KeyValue::text(names::OPERATION, names::EXECUTE_TOOL)];
    let transport = match event.layer {
        Layer::Stdio | Layer::Tap => Some(names::PIPE),
        Layer::McpHttp => Some(names::TCP),
        Layer::Kernel | Layer::Llm | Layer::Agent | Layer::Hook => None,
    };
    if let Some(transport) = transport {
        attributes.push(KeyValue::text(names::METHOD, names::CALL));
        attributes.push(KeyValue::text(names::TRANSPORT, transport));
    }
    if let Some(error) = error_type(event) {
        attributes.push(KeyValue::text(names::ERROR_TYPE, error));
    }
    attributes
}

/// Returns the type of the error with which a call ended.
pub(super) fn error_type(event: &StoredEvent) -> Option<&'static str> {
    if event.action == mcpmon_model::Action::Block {
        return Some(names::BLOCKED);
    }
    match event.data.get("outcome")?.as_str()? {
        "failed" => Some(names::TOOL_ERROR),
        "error" => Some(names::OTHER_ERROR),
        "withheld" => Some(names::BLOCKED),
        _ => None,
    }
}

/// Returns the severity number of OpenTelemetry.
const fn severity(severity: Severity) -> (i32, &'static str) {
    match severity {
        Severity::Info => (9, "INFO"),
        Severity::Low => (10, "INFO2"),
        Severity::Medium => (13, "WARN"),
        Severity::High => (17, "ERROR"),
        Severity::Critical => (21, "FATAL"),
    }
}

fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT_CHARS) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use mcpmon_model::{Direction, Event};
    use uuid::Uuid;

    use super::*;
    use crate::sample;

    fn told(event: Event, with_content: bool) -> String {
        let event = StoredEvent::new(Uuid::from_u128(1), "laptop", event);
        let record = record(&event, None, with_content, 2);
        let value = |value: &Option<AnyValue>| match value.as_ref().and_then(|value| value.value.clone()) {
            Some(AnyKind::Text(text)) => format!("{text:?}"),
            Some(AnyKind::Int(integer)) => integer.to_string(),
            Some(AnyKind::Bool(flag)) => flag.to_string(),
            Some(AnyKind::Double(double)) => double.to_string(),
            None => "nothing".to_owned(),
        };
        let attributes = record
            .attributes
            .iter()
            .map(|attribute| format!("{} = {}", attribute.key, value(&attribute.value)));
        let head = format!(
            "{} {} {}",
            record.event_name,
            record.severity_text,
            value(&record.body)
        );
        std::iter::once(head)
            .chain(attributes)
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn a_call_has_the_attributes_of_the_conventions_and_its_arguments_only_where_they_are_asked_for() {
        assert_snapshot!(told(sample::called("read_file", 1), false), @r#"
        mcp_tool_called INFO "mcp_tool_called"
        mcpmon.event.id = "00000000-0000-0000-0000-000000000001"
        event.name = "mcp_tool_called"
        mcpmon.session.id = "s1"
        mcpmon.server.id = "files"
        mcpmon.layer = "stdio"
        mcpmon.verdict = "allow"
        gen_ai.tool.name = "read_file"
        jsonrpc.request.id = "1"
        gen_ai.tool.call.id = "toolu_1"
        gen_ai.operation.name = "execute_tool"
        mcp.method.name = "tools/call"
        network.transport = "pipe"
        "#);
        let with_content = told(sample::called("read_file", 1), true);
        assert!(
            with_content.contains(r#"gen_ai.tool.call.arguments = "{\"path\""#),
            "{with_content}"
        );
    }

    #[test]
    fn a_finding_is_told_without_the_text_it_was_in() {
        let without = told(sample::detected("read_file"), false);
        assert_snapshot!(without, @r#"
        mcp_detection FATAL "mcp_detection"
        mcpmon.event.id = "00000000-0000-0000-0000-000000000001"
        event.name = "mcp_detection"
        mcpmon.session.id = "s1"
        mcpmon.server.id = "files"
        mcpmon.layer = "stdio"
        mcpmon.verdict = "block"
        mcpmon.subject = "definition"
        gen_ai.tool.name = "read_file"
        mcpmon.detection.pattern = "credential_file"
        mcpmon.detection.category = "credential_theft"
        mcpmon.detection.field = "description"
        "#);
        assert!(told(sample::detected("read_file"), true).contains("mcpmon.detection = "));
    }

    #[test]
    fn an_address_is_two_attributes() {
        let event = sample::connection("a", 2, "[2001:db8::1]:443", Direction::ServerEgress);
        let told = told(event, false);
        assert!(
            told.contains("network.peer.address = \"2001:db8::1\"\nnetwork.peer.port = 443"),
            "{told}"
        );
    }

    #[test]
    fn every_kind_of_event_becomes_a_record_with_no_name_twice() {
        for event in sample::every_kind() {
            let told = told(event, true);
            let mut keys: Vec<&str> = told
                .lines()
                .filter_map(|line| line.split_once(" = "))
                .map(|(key, _)| key)
                .collect();
            let all = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), all, "{told}");
        }
    }
}
