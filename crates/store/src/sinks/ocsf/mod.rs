//! Events in the form of the Open Cybersecurity Schema Framework (OCSF), which security event systems read without a
//! special parser.
//!
//! The version of the schema is fixed here, and tests/e2e checks events against this version.

mod class;
mod objects;
mod table;

use mcpmon_model::{Action, EventOutcome, EventType, Severity};
use serde_json::{Map, Value, json};

use self::{
    objects::{Object, text},
    table::{API, ERROR, FINDING, LIFECYCLE, Row},
};
use crate::{StoredEvent, json as event_json};

/// Version of the schema.
const VERSION: &str = "1.8.0";

/// Fields that attributes of the schema express completely. All others are in `unmapped` too, because their attributes
/// are coarser, or differ between classes.
const MAPPED: [&str; 7] = ["id", "type", "timestamp", "host", "severity", "reason", "input"];

/// Fields of the process, which is the actor in most classes. In API Activity the actor is the caller, and an event's
/// process is the server's.
const PROCESS_FIELDS: [&str; 4] = ["pid", "exe", "comm", "uid"];

/// Returns an event in the form of OCSF.
pub(super) fn to_ocsf(event: &StoredEvent) -> Map<String, Value> {
    let event_type = EventType::ALL.iter().find(|known| known.as_str() == event.kind);
    let row = event_type.map_or(UNKNOWN, |event_type| table::row_of(*event_type));
    let (activity, activity_name) = class::activity(&row, event);
    let (severity, severity_name) = severity(event.severity);
    let (action, disposition) = handling(event.action);
    let (status, status_name) = status(&row, event);
    let message = event.reason.as_deref().unwrap_or(row.title);
    let object = Object::default()
        .with("time", milliseconds(event))
        .with("timezone_offset", 0)
        .with("class_uid", row.class.uid)
        .with("class_name", row.class.name)
        .with("category_uid", row.class.category.0)
        .with("category_name", row.class.category.1)
        .with("activity_id", activity)
        .with("activity_name", activity_name)
        .with("type_uid", row.class.uid * 100 + activity)
        .with(
            "type_name",
            format!("{}: {}", row.class.name, type_of(activity, activity_name)),
        )
        .with("severity_id", severity)
        .with("severity", severity_name)
        .with("status_id", status)
        .with("status", status_name)
        .with("action_id", action.0)
        .with("action", action.1)
        .with("disposition_id", disposition.0)
        .with("disposition", disposition.1)
        .with("is_alert", is_alert(event))
        .with("message", message)
        .known("count", count(&row, event))
        .known("duration", duration(event))
        .known("policy", event.rule.as_deref().map(|rule| json!({"name": rule})))
        .with("metadata", metadata(&row, event))
        .with("device", objects::device(event, has_process(&row, event)))
        .with("observables", observables(event));
    let object = class::own(&row, event, object);
    object.with("unmapped", unmapped(&row, event)).0
}

/// The row for a type that this version of mcpmon does not know.
const UNKNOWN: Row = Row {
    class: table::BASE,
    activity: (99, "Other"),
    outcome: EventOutcome::Open,
    title: "Event of another version",
};

/// Returns the name of an activity's type. The schema has one name for all activities without a number.
const fn type_of(activity: u64, name: &'static str) -> &'static str {
    if activity == 99 { "Other" } else { name }
}

fn milliseconds(event: &StoredEvent) -> i64 {
    event.timestamp.0.div_euclid(1_000_000)
}

fn metadata(row: &Row, event: &StoredEvent) -> Value {
    let product = json!({
        "name": "mcpmon",
        "vendor_name": "mcpmon",
        "version": env!("CARGO_PKG_VERSION"),
    });
    let original = event_json::rfc3339(event.timestamp);
    let metadata = Object::default()
        .with("version", VERSION)
        .with("uid", event.id.to_string())
        .with("product", product)
        .with("profiles", class::profiles(row, event))
        .with("event_code", event.kind.as_str())
        .with("log_name", "mcpmon")
        .with("log_provider", event.layer.as_str())
        .with("original_time", original)
        .known("correlation_uid", event.session_id.as_deref());
    metadata.into()
}

const fn severity(severity: Severity) -> (u64, &'static str) {
    match severity {
        Severity::Info => (1, "Informational"),
        Severity::Low => (2, "Low"),
        Severity::Medium => (3, "Medium"),
        Severity::High => (4, "High"),
        Severity::Critical => (5, "Critical"),
    }
}

type Named = (u64, &'static str);

/// Returns action and disposition.
const fn handling(action: Action) -> (Named, Named) {
    match action {
        Action::Allow => ((1, "Allowed"), (1, "Allowed")),
        Action::Audit => ((1, "Allowed"), (17, "Logged")),
        Action::WouldAsk | Action::WouldBlock => ((3, "Observed"), (15, "Detected")),
        Action::Block => ((2, "Denied"), (2, "Blocked")),
    }
}

fn is_alert(event: &StoredEvent) -> bool {
    event.action == Action::Block || event.severity >= Severity::High
}

/// Returns the status. Findings have states of their own in the schema.
fn status(row: &Row, event: &StoredEvent) -> Named {
    if row.class == FINDING {
        return (1, "New");
    }
    let has_failed = match text(event, "outcome") {
        Some(outcome) => class::is_failure(outcome),
        None => event.action == Action::Block || row.outcome == EventOutcome::Failure,
    };
    match row.outcome {
        _ if has_failed => (2, "Failure"),
        EventOutcome::Success => (1, "Success"),
        EventOutcome::Open | EventOutcome::Failure => (0, "Unknown"),
    }
}

/// Returns the number of occurrences in an event. Lost events are not occurrences of one event.
fn count(row: &Row, event: &StoredEvent) -> Option<Value> {
    if row.class == ERROR {
        return None;
    }
    event.data.get("count").cloned()
}

/// Returns the duration in milliseconds.
fn duration(event: &StoredEvent) -> Option<u64> {
    let number = |field| event.data.get(field).and_then(Value::as_u64);
    number("duration_ms").or_else(|| Some(number("duration_us")? / 1000))
}

/// Returns the values to search for, which are the same for every class.
fn observables(event: &StoredEvent) -> Value {
    let observable = |path: &str, (id, kind): Named, value: &str| json!({"name": path, "type_id": id, "type": kind, "value": value});
    let host = observable("device.hostname", (1, "Hostname"), &event.host);
    let hash = text(event, "exe_sha256").map(|digest| {
        let value = digest.strip_prefix("sha256:").unwrap_or(digest);
        observable("process.file.hashes.value", (8, "Hash"), value)
    });
    let remote = objects::remote(event);
    let address = remote.as_ref().and_then(|remote| remote.get("ip")?.as_str());
    let address = address.map(|address| observable("dst_endpoint.ip", (2, "IP Address"), address));
    std::iter::once(host).chain(hash).chain(address).collect()
}

/// Returns mcpmon's own fields.
fn unmapped(row: &Row, event: &StoredEvent) -> Map<String, Value> {
    let fields = event_json::to_json(event).into_iter();
    fields.filter(|(name, _)| !is_mapped(row, event, name)).collect()
}

fn is_mapped(row: &Row, event: &StoredEvent, field: &str) -> bool {
    MAPPED.contains(&field) || (PROCESS_FIELDS.contains(&field) && has_process(row, event))
}

/// Returns whether the event's process is among the attributes of the class.
fn has_process(row: &Row, event: &StoredEvent) -> bool {
    event.process.is_some() && ![API, LIFECYCLE, ERROR].contains(&row.class)
}

#[cfg(test)]
mod tests;
