//! Attributes that exist in one class only.

use mcpmon_model::Action;
use serde_json::{Value, json};

use super::{
    milliseconds,
    objects::{self, Object, text},
    table::{API, Class, ERROR, FINDING, LIFECYCLE, NETWORK, PROCESS, Row, SETTING},
};
use crate::StoredEvent;

/// Returns the activity: that of the table, unless the class has another one for refusals.
pub(super) fn activity(row: &Row, event: &StoredEvent) -> (u64, &'static str) {
    if row.class == NETWORK && event.action == Action::Block {
        return (5, "Refuse");
    }
    row.activity
}

/// Returns the profiles whose attributes an event has.
pub(super) fn profiles(row: &Row, event: &StoredEvent) -> Vec<&'static str> {
    let mut profiles = vec!["host", "security_control"];
    if objects::container(event).is_some() {
        profiles.push("container");
    }
    if row.class == API {
        profiles.push("ai_operation");
        if trace(event).is_some() {
            profiles.push("trace");
        }
    }
    profiles
}

/// Adds the attributes of the class.
pub(super) fn own(row: &Row, event: &StoredEvent, object: Object) -> Object {
    match row.class {
        PROCESS => process(event, object),
        FINDING => finding(row, event, object),
        NETWORK => network(event, object),
        API => api(event, object),
        SETTING => setting(event, object.with("actor", objects::actor(event))),
        LIFECYCLE => object.with(
            "app",
            json!({"name": "mcpmon", "version": env!("CARGO_PKG_VERSION")}),
        ),
        ERROR => object.with("status_detail", text(event, "where").unwrap_or_default()),
        Class { .. } => object.with("actor", objects::actor(event)),
    }
}

fn process(event: &StoredEvent, object: Object) -> Object {
    // The schema requires a process; number 0 stands for an unknown one.
    let process = objects::process(event).unwrap_or_else(|| json!({"pid": 0}));
    // The serving process can be another one than that started by the command.
    let launcher = event.data.get("launcher_pid").cloned().map(|pid| {
        let launcher = Object::default().with("pid", pid);
        launcher.known("cmd_line", objects::command_line(event))
    });
    let actor = match launcher {
        Some(launcher) => Object::default()
            .with("process", launcher)
            .known("session", objects::session(event))
            .into(),
        None => objects::actor(event),
    };
    object
        .with("process", process)
        .with("actor", actor)
        .known("exit_code", event.data.get("exit_status").cloned())
}

fn finding(row: &Row, event: &StoredEvent, object: Object) -> Object {
    let time = milliseconds(event);
    let found = event.data.get("detection");
    let found = found.or_else(|| event.data.get("detections")?.get(0));
    let part = |name: &str| found?.get(name)?.as_str();
    let analytic = part("pattern").or(event.rule.as_deref()).map(|name| {
        let analytic = Object::default()
            .with("name", name)
            .with("type", "Rule")
            .with("type_id", 1);
        analytic.known("category", part("category"))
    });
    let info = Object::default()
        .with("uid", event.id.to_string())
        .with("title", row.title)
        .with("created_time", time)
        .with("data_sources", json!([event.layer.as_str()]))
        .known("desc", event.reason.as_deref())
        .known("types", part("category").map(|category| json!([category])))
        .known("analytic", analytic);
    let remedy = text(event, "remedy").map(|remedy| json!({"desc": remedy}));
    let evidence = Object::default()
        .known("process", objects::process(event))
        .known("dst_endpoint", objects::remote(event))
        .some();
    object
        .with("finding_info", info)
        .with("actor", objects::actor(event))
        .known("resources", objects::resources(event))
        .known("remediation", remedy)
        .known("evidences", evidence.map(|evidence| json!([evidence])))
}

fn network(event: &StoredEvent, object: Object) -> Object {
    let protocol = match text(event, "protocol") {
        Some("udp") => Some(("udp", 17)),
        Some("other") => None,
        Some(_) | None => Some(("tcp", 6)),
    };
    let connection = Object::default()
        .with("direction", "Outbound")
        .with("direction_id", 2)
        .known("protocol_name", protocol.map(|(name, _)| name))
        .known("protocol_num", protocol.map(|(_, number)| number));
    object
        .with("connection_info", connection)
        .with("src_endpoint", json!({"hostname": event.host}))
        .known("dst_endpoint", objects::remote(event))
        .with("actor", objects::actor(event))
}

fn api(event: &StoredEvent, object: Object) -> Object {
    let service = event.server_id.as_deref().map(|server| json!({"name": server}));
    let api = Object::default()
        .with("operation", operation(event))
        .known("service", service.clone())
        .known("request", request(event))
        .known("response", response(event));
    // The role of the message's author: an assistant asks, a tool answers.
    let role = match event.data.contains_key("outcome") {
        true => ("Tool", 3),
        false => ("Assistant", 2),
    };
    let context = Object::default()
        .with("ai_role", role.0)
        .with("ai_role_id", role.1)
        .with("service", service.unwrap_or_else(|| json!({"name": "mcpmon"})))
        .known("uid", event.session_id.as_deref());
    object
        .with("api", api)
        .with("actor", objects::caller(event))
        .with("src_endpoint", json!({"hostname": event.host}))
        .known("dst_endpoint", objects::remote(event))
        .known("resources", objects::resources(event))
        .with("message_context", context)
        .known("trace", trace(event))
}

/// Returns the method, as MCP names it.
fn operation(event: &StoredEvent) -> String {
    let method = text(event, "method").filter(|method| !method.is_empty());
    let by_type = match event.kind.as_str() {
        "mcp_tool_called" | "mcp_tool_returned" | "mcp_tool_call_intercepted" => "tools/call",
        "mcp_tool_seen" => match text(event, "definition") {
            Some("prompt") => "prompts/list",
            Some("resource") => "resources/list",
            Some("template") => "resources/templates/list",
            Some("instructions") => "initialize",
            Some(_) | None => "tools/list",
        },
        "mcp_resource_read" => "resources/read",
        "mcp_discovery_failed" => "tools/list",
        _ => "unknown",
    };
    method.unwrap_or(by_type).to_owned()
}

fn request(event: &StoredEvent) -> Option<Value> {
    let fields = ["jsonrpc_id", "tool_call_id", "request_id"];
    let id = fields.iter().find_map(|field| event.data.get(*field));
    let input = text(event, "input");
    let id = match id {
        Some(id) => id.as_str().map_or_else(|| id.to_string(), str::to_owned),
        None if input.is_some() => event.id.to_string(),
        None => return None,
    };
    let data = Object::default()
        .known("name", objects::tool(event))
        .known("arguments", input);
    let request = Object::default().with("uid", id).known("data", data.some());
    Some(request.into())
}

fn response(event: &StoredEvent) -> Option<Value> {
    let outcome = text(event, "outcome")?;
    let error = is_failure(outcome).then_some(outcome);
    Some(
        Object::default()
            .with("message", outcome)
            .known("error", error)
            .into(),
    )
}

/// Returns whether the outcome of a call is a failure; a request for input, or a task, is not.
pub(super) fn is_failure(outcome: &str) -> bool {
    ["failed", "error", "withheld"].contains(&outcome)
}

/// Returns the trace of W3C Trace Context.
fn trace(event: &StoredEvent) -> Option<Value> {
    let trace = text(event, "trace_parent")?.split('-').nth(1)?;
    Some(json!({"uid": trace}))
}

fn setting(event: &StoredEvent, object: Object) -> Object {
    match event.kind.as_str() {
        "mcp_enforcement_degraded" => object
            .with("security_states", malfunction())
            .with("security_level", "At Risk")
            .with("security_level_id", 2)
            .with("status_detail", text(event, "cause").unwrap_or_default()),
        "mcp_enforcement_restored" => object
            .with("prev_security_states", malfunction())
            .with("security_level", "Secure")
            .with("security_level_id", 1),
        "policy_loaded" | "policy_rejected" => {
            let policy = Object::default()
                .known("name", text(event, "path"))
                .known("uid", text(event, "hash"))
                .with("is_applied", event.kind == "policy_loaded");
            object.with("policy", policy)
        }
        _ => object,
    }
}

fn malfunction() -> Value {
    json!([{"state": "Protection malfunction", "state_id": 5}])
}
