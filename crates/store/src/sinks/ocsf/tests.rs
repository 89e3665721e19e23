use insta::assert_snapshot;
use mcpmon_model::{CallOutcome, ContainerRef, Event, EventKind};
use uuid::Uuid;

use super::*;
use crate::sample;

fn stored(event: Event) -> StoredEvent {
    StoredEvent::new(Uuid::from_u128(1), "laptop", event)
}

fn mapped(event: Event) -> Value {
    Value::Object(to_ocsf(&stored(event)))
}

#[test]
fn a_refused_connection() {
    let mut event = sample::blocked_connection();
    event.container = Some(ContainerRef {
        container_id: Some("4f1c".into()),
        pod_uid: Some("static".into()),
        ..ContainerRef::default()
    });
    let json = serde_json::to_string_pretty(&mapped(event)).unwrap();
    assert_snapshot!(json, @r#"
    {
      "time": 1795176000000,
      "timezone_offset": 0,
      "class_uid": 4001,
      "class_name": "Network Activity",
      "category_uid": 4,
      "category_name": "Network Activity",
      "activity_id": 5,
      "activity_name": "Refuse",
      "type_uid": 400105,
      "type_name": "Network Activity: Refuse",
      "severity_id": 4,
      "severity": "High",
      "status_id": 2,
      "status": "Failure",
      "action_id": 2,
      "action": "Denied",
      "disposition_id": 2,
      "disposition": "Blocked",
      "is_alert": true,
      "message": "203.0.113.0/24 is denied",
      "policy": {
        "name": "deny-test-net"
      },
      "metadata": {
        "version": "1.8.0",
        "uid": "00000000-0000-0000-0000-000000000001",
        "product": {
          "name": "mcpmon",
          "vendor_name": "mcpmon",
          "version": "0.1.0"
        },
        "profiles": [
          "host",
          "security_control",
          "container"
        ],
        "event_code": "mcp_network_connection",
        "log_name": "mcpmon",
        "log_provider": "kernel",
        "original_time": "2026-11-20T12:00:00.000000000Z",
        "correlation_uid": "s1"
      },
      "device": {
        "hostname": "laptop",
        "type": "Unknown",
        "type_id": 0,
        "os": {
          "name": "Linux",
          "type": "Linux",
          "type_id": 200
        }
      },
      "observables": [
        {
          "name": "device.hostname",
          "type_id": 1,
          "type": "Hostname",
          "value": "laptop"
        },
        {
          "name": "dst_endpoint.ip",
          "type_id": 2,
          "type": "IP Address",
          "value": "203.0.113.9"
        }
      ],
      "connection_info": {
        "direction": "Outbound",
        "direction_id": 2,
        "protocol_name": "tcp",
        "protocol_num": 6
      },
      "src_endpoint": {
        "hostname": "laptop"
      },
      "dst_endpoint": {
        "ip": "203.0.113.9",
        "hostname": "evil.example",
        "port": 443,
        "svc_name": "weather"
      },
      "actor": {
        "process": {
          "pid": 4242,
          "name": "node",
          "file": {
            "name": "node",
            "path": "/usr/bin/node",
            "type": "Regular File",
            "type_id": 1
          },
          "user": {
            "uid": "1000"
          },
          "container": {
            "uid": "4f1c"
          }
        },
        "session": {
          "uid": "s1"
        }
      },
      "unmapped": {
        "session_id": "s1",
        "server_id": "weather",
        "layer": "kernel",
        "action": "block",
        "rule": "deny-test-net",
        "container_id": "4f1c",
        "pod_uid": "static",
        "remote_addr": "203.0.113.9:443",
        "remote_name": "evil.example",
        "direction": "server_egress",
        "protocol": "tcp",
        "server_type": "stdio",
        "given_addr": "[::ffff:203.0.113.9]:443"
      }
    }
    "#);
}

#[test]
fn a_call_that_failed() {
    let json = mapped(sample::returned("read_file", 7, CallOutcome::Failed));
    assert_eq!(json["class_uid"], 6003);
    assert_eq!(json["type_uid"], 600_399);
    assert_eq!(json["status"], "Failure");
    assert_eq!(json["duration"], 12);
    assert_snapshot!(json["api"], @r#"{"operation":"tools/call","service":{"name":"files"},"request":{"uid":"7","data":{"name":"read_file"}},"response":{"message":"failed","error":"failed"}}"#);
    let asked = mapped(sample::returned("read_file", 7, CallOutcome::InputRequired));
    assert_eq!(asked["status"], "Success");
}

#[test]
fn a_call_has_its_masked_arguments_and_its_trace() {
    let mut event = sample::called("read_file", 1);
    if let EventKind::ToolCalled {
        trace_parent, input, ..
    } = &mut event.kind
    {
        *trace_parent = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned());
        *input = Some(r#"{"key":"ghp_16C7e42F292c6912E7710c838347Ae178B4a"}"#.to_owned());
    }
    let json = mapped(event);
    assert_eq!(json["trace"]["uid"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_snapshot!(json["api"]["request"], @r#"{"uid":"1","data":{"name":"read_file","arguments":"{\"key\":\"***\"}"}}"#);
    assert!(!json.to_string().contains("ghp_16C7"), "{json}");
}

#[test]
fn a_finding_names_its_rule_and_what_it_is_about() {
    let json = mapped(sample::detected("read_file"));
    assert_eq!(json["is_alert"], true);
    assert_snapshot!(json["finding_info"], @r#"{"uid":"00000000-0000-0000-0000-000000000001","title":"Detection in MCP traffic","created_time":1795176000000,"data_sources":["stdio"],"types":["credential_theft"],"analytic":{"name":"credential_file","type":"Rule","type_id":1,"category":"credential_theft"}}"#);
    assert_snapshot!(json["resources"], @r#"[{"type":"MCP server","name":"files"},{"type":"MCP tool","name":"read_file"}]"#);
}

#[test]
fn nothing_that_an_event_tells_is_lost() {
    for event in sample::every_kind() {
        let event = stored(event);
        let row = table::row_of(event.parse_kind().unwrap().event_type());
        let json = to_ocsf(&event);
        let all = Value::Object(json.clone()).to_string();
        let unmapped = json["unmapped"].as_object().unwrap();
        for (name, value) in event_json::to_json(&event) {
            if !is_mapped(&row, &event, &name) {
                assert_eq!(unmapped.get(&name), Some(&value), "{}", event.kind);
            } else if let Some(text) = value.as_str()
                && name != "severity"
            {
                let text = Value::from(text).to_string();
                let text = text.trim_matches('"');
                assert!(all.contains(text), "{name} of {}: {all}", event.kind);
            }
        }
    }
}

#[test]
fn every_type_has_the_number_of_its_class_and_activity() {
    for event in sample::every_kind() {
        let json = mapped(event);
        let number = |name: &str| json[name].as_u64().unwrap();
        assert_eq!(number("class_uid") / 1000, number("category_uid"), "{json}");
        assert_eq!(
            number("type_uid"),
            number("class_uid") * 100 + number("activity_id"),
            "{json}"
        );
    }
}

#[test]
fn a_type_of_a_later_version_is_a_base_event() {
    let mut event = stored(sample::started("files", 2));
    event.kind = "mcp_mind_read".to_owned();
    let json = to_ocsf(&event);
    assert_eq!(json["class_uid"], 0);
    assert_eq!(json["metadata"]["event_code"], "mcp_mind_read");
}

#[test]
fn the_documentation_has_the_class_of_every_type() {
    let page = include_str!("../../../../../docs/telemetry.md");
    let (_, section) = page.split_once("\n### OCSF\n").unwrap();
    let mut documented: Vec<String> = section
        .lines()
        .filter_map(|line| {
            let (class, types) = line.strip_prefix("| ")?.split_once(" | ")?;
            class
                .ends_with(')')
                .then(|| (class, types.trim_end_matches(" |")))
        })
        .flat_map(|(class, types)| types.split(", ").map(move |name| format!("{class}: {name}")))
        .collect();
    let mut known: Vec<String> = EventType::ALL
        .iter()
        .map(|event_type| {
            let class = table::row_of(*event_type).class;
            format!("{} ({}): `{}`", class.name, class.uid, event_type.as_str())
        })
        .collect();
    documented.sort_unstable();
    known.sort_unstable();
    assert_eq!(documented, known);
}
