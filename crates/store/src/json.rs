//! The JSON form of an event, the same for all sinks.

use jiff::Timestamp as Instant;
use mcpmon_model::{ContainerRef, ProcessRef, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{StoredEvent, names};

/// Returns the event's fields in their fixed order, without absent ones; the fields of the kind come last.
pub fn to_json(event: &StoredEvent) -> Map<String, Value> {
    let mut fields = EventFields(Map::new());
    fields.put("id", event.id.to_string());
    fields.put("type", event.kind.as_str());
    fields.put("timestamp", rfc3339(event.timestamp));
    fields.put("host", event.host.as_str());
    fields.put_known("session_id", event.session_id.as_deref());
    fields.put_known("server_id", event.server_id.as_deref());
    fields.put("layer", names::name(&event.layer));
    fields.put("severity", event.severity.as_str());
    fields.put("action", event.action.as_str());
    fields.put_known("rule", event.rule.as_deref());
    fields.put_known("reason", event.reason.as_deref());
    if let Some(process) = &event.process {
        put_process(&mut fields, process);
    }
    if let Some(container) = &event.container {
        put_container(&mut fields, container);
    }
    let mut fields = fields.0;
    for (name, value) in &event.data {
        fields.entry(name.as_str()).or_insert_with(|| value.clone());
    }
    fields
}

/// Returns the event of an object that [`to_json`] made. Returns `None` for another object. The position is unknown.
pub fn from_json(mut fields: Map<String, Value>) -> Option<StoredEvent> {
    let id = take_text(&mut fields, "id")?.parse().ok()?;
    let kind = take_text(&mut fields, "type")?;
    let timestamp: Instant = take_text(&mut fields, "timestamp")?.parse().ok()?;
    Some(StoredEvent {
        seq: 0,
        id,
        kind,
        timestamp: Timestamp(i64::try_from(timestamp.as_nanosecond()).ok()?),
        host: take_text(&mut fields, "host")?,
        session_id: take_text(&mut fields, "session_id"),
        server_id: take_text(&mut fields, "server_id"),
        layer: take_named(&mut fields, "layer")?,
        severity: take_named(&mut fields, "severity")?,
        action: take_named(&mut fields, "action")?,
        rule: take_text(&mut fields, "rule"),
        reason: take_text(&mut fields, "reason"),
        process: take_process(&mut fields),
        container: take_container(&mut fields),
        data: fields,
    })
}

/// Formats a time by RFC 3339, in UTC with nine digits of the second.
pub fn rfc3339(timestamp: Timestamp) -> String {
    let instant =
        Instant::from_nanosecond(timestamp.0.into()).expect("jiff's range holds every 64-bit nanosecond");
    format!("{instant:.9}")
}

fn put_process(fields: &mut EventFields, process: &ProcessRef) {
    fields.put("pid", process.pid);
    fields.put_known(
        "exe",
        process.exe.as_ref().map(|exe| exe.to_string_lossy().into_owned()),
    );
    fields.put_known("comm", process.comm.as_deref());
    fields.put_known("uid", process.uid);
}

fn put_container(fields: &mut EventFields, container: &ContainerRef) {
    fields.put_known("container_id", container.container_id.as_deref());
    fields.put_known("pod_uid", container.pod_uid.as_deref());
    fields.put_known("namespace", container.namespace.as_deref());
    fields.put_known("pod", container.pod.as_deref());
}

fn take_process(fields: &mut Map<String, Value>) -> Option<ProcessRef> {
    let pid = fields.shift_remove("pid")?.as_u64()?;
    Some(ProcessRef {
        pid: u32::try_from(pid).ok()?,
        exe: take_text(fields, "exe").map(Into::into),
        comm: take_text(fields, "comm"),
        uid: fields
            .shift_remove("uid")
            .and_then(|uid| u32::try_from(uid.as_u64()?).ok()),
    })
}

fn take_container(fields: &mut Map<String, Value>) -> Option<ContainerRef> {
    let container = ContainerRef {
        container_id: take_text(fields, "container_id"),
        pod_uid: take_text(fields, "pod_uid"),
        namespace: take_text(fields, "namespace"),
        pod: take_text(fields, "pod"),
    };
    (container != ContainerRef::default()).then_some(container)
}

fn take_text(fields: &mut Map<String, Value>, name: &str) -> Option<String> {
    match fields.shift_remove(name)? {
        Value::String(text) => Some(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn take_named<T: DeserializeOwned>(fields: &mut Map<String, Value>, name: &str) -> Option<T> {
    names::parse_name(&take_text(fields, name)?).ok()
}

struct EventFields(Map<String, Value>);

impl EventFields {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    fn put_known(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::sample;

    #[test]
    fn fields_have_a_fixed_order() {
        let mut event = sample::blocked_connection();
        event.container = Some(ContainerRef {
            container_id: Some("4f1c".into()),
            pod_uid: Some("b2a9".into()),
            namespace: Some("agents".into()),
            pod: Some("coder-0".into()),
        });
        let json =
            serde_json::to_string_pretty(&to_json(&StoredEvent::new(Uuid::nil(), "laptop", event))).unwrap();
        insta::assert_snapshot!(json, @r#"
        {
          "id": "00000000-0000-0000-0000-000000000000",
          "type": "mcp_network_connection",
          "timestamp": "2026-11-20T12:00:00.000000000Z",
          "host": "laptop",
          "session_id": "s1",
          "server_id": "weather",
          "layer": "kernel",
          "severity": "high",
          "action": "block",
          "rule": "deny-test-net",
          "reason": "203.0.113.0/24 is denied",
          "pid": 4242,
          "exe": "/usr/bin/node",
          "comm": "node",
          "uid": 1000,
          "container_id": "4f1c",
          "pod_uid": "b2a9",
          "namespace": "agents",
          "pod": "coder-0",
          "remote_addr": "203.0.113.9:443",
          "remote_name": "evil.example",
          "direction": "server_egress",
          "protocol": "tcp",
          "server_type": "stdio",
          "given_addr": "[::ffff:203.0.113.9]:443"
        }
        "#);
    }

    #[test]
    fn every_kind_is_read_back_as_it_was() {
        for event in sample::every_kind() {
            let stored = StoredEvent::new(Uuid::from_u128(7), "laptop", event);
            assert_eq!(from_json(to_json(&stored)), Some(stored));
        }
        assert_eq!(from_json(Map::new()), None);
    }

    #[test]
    fn a_kind_cannot_overwrite_a_common_field() {
        let mut event = StoredEvent::new(Uuid::nil(), "laptop", sample::started("a", 1));
        event.data.insert("action".into(), "forged".into());
        assert_eq!(to_json(&event)["action"], "allow");
    }

    #[test]
    fn times_are_utc_with_nanoseconds() {
        assert_eq!(rfc3339(Timestamp(0)), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(rfc3339(Timestamp(i64::MAX)), "2262-04-11T23:47:16.854775807Z");
        assert_eq!(rfc3339(Timestamp(i64::MIN)), "1677-09-21T00:12:43.145224192Z");
    }
}
