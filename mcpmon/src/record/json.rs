//! The one JSON form of an event, the same for every sink.

use jiff::Timestamp as Instant;
use mcpmon_core::model::{ContainerRef, ProcessRef, Timestamp};
use serde_json::{Map, Value};

use super::{StoredEvent, names};

/// The event's fields in their fixed order, absent ones left out, the kind's own fields last.
#[must_use]
pub fn to_json(event: &StoredEvent) -> Map<String, Value> {
    let mut fields = Fields(Map::new());
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

/// RFC 3339 in UTC with nine digits of the second.
#[must_use]
pub fn rfc3339(timestamp: Timestamp) -> String {
    let instant =
        Instant::from_nanosecond(timestamp.0.into()).expect("jiff's range holds every 64-bit nanosecond");
    format!("{instant:.9}")
}

fn put_process(fields: &mut Fields, process: &ProcessRef) {
    fields.put("pid", process.pid);
    fields.put_known(
        "exe",
        process.exe.as_ref().map(|exe| exe.to_string_lossy().into_owned()),
    );
    fields.put_known("comm", process.comm.as_deref());
    fields.put_known("uid", process.uid);
}

fn put_container(fields: &mut Fields, container: &ContainerRef) {
    fields.put_known("container_id", container.container_id.as_deref());
    fields.put_known("pod_uid", container.pod_uid.as_deref());
    fields.put_known("namespace", container.namespace.as_deref());
    fields.put_known("pod", container.pod.as_deref());
}

struct Fields(Map<String, Value>);

impl Fields {
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
    use crate::record::sample;

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
