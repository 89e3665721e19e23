//! Objects of OCSF that events of several classes have. Each is `None` if none of its attributes is known, because an
//! OCSF object must identify its subject.

use std::net::SocketAddr;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::StoredEvent;

/// An object under construction; absent attributes are left out.
#[derive(Debug, Default)]
pub(super) struct Object(pub(super) Map<String, Value>);

impl Object {
    #[must_use]
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    #[must_use]
    pub(super) fn known(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Returns the object. Returns `None` if it has no attributes.
    pub(super) fn some(self) -> Option<Value> {
        (!self.0.is_empty()).then(|| self.into())
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self::Object(object.0)
    }
}

/// Returns the host, with the container unless the container is named at the process.
pub(super) fn device(event: &StoredEvent, has_process: bool) -> Value {
    let linux = json!({"name": "Linux", "type": "Linux", "type_id": 200});
    let device = Object::default()
        .with("hostname", event.host.as_str())
        .with("type", "Unknown")
        .with("type_id", 0)
        .with("os", linux);
    let container = if has_process { None } else { container(event) };
    device.known("container", container).into()
}

/// Returns the container of the process.
pub(super) fn container(event: &StoredEvent) -> Option<Value> {
    let container = event.container.as_ref()?;
    let pod = container.pod_uid.as_deref();
    // The uid of a static pod is a hash; it stays in `unmapped`.
    let pod = pod.filter(|uid| Uuid::try_parse(uid).is_ok_and(|uuid| uuid.to_string() == **uid));
    let uid = container.container_id.as_deref()?;
    let container = Object::default().with("uid", uid).known("pod_uuid", pod);
    Some(container.into())
}

/// Returns the process of an event, with what is known about its launch.
pub(super) fn process(event: &StoredEvent) -> Option<Value> {
    let process = event.process.as_ref()?;
    let uid = process.uid.map(|uid| json!({"uid": uid.to_string()}));
    let process = Object::default()
        .with("pid", process.pid)
        .known("name", process.comm.as_deref())
        .known("file", executable(event))
        .known("user", uid)
        .known("container", container(event));
    Some(process.into())
}

fn executable(event: &StoredEvent) -> Option<Value> {
    let path = event.process.as_ref()?.exe.as_deref()?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    let hash = text(event, "exe_sha256").map(|digest| json!([sha256(digest)]));
    let file = Object::default()
        .with("name", name)
        .with("path", path.to_string_lossy().into_owned())
        .with("type", "Regular File")
        .with("type_id", 1)
        .known("hashes", hash);
    Some(file.into())
}

/// Returns the command of a launch; its secrets are masked before it is recorded.
pub(super) fn command_line(event: &StoredEvent) -> Option<String> {
    let arguments = event.data.get("args").and_then(Value::as_array);
    let arguments = arguments.into_iter().flatten().filter_map(Value::as_str);
    let words: Vec<&str> = std::iter::once(text(event, "command")?)
        .chain(arguments)
        .collect();
    Some(words.join(" "))
}

fn sha256(digest: &str) -> Value {
    let value = digest.strip_prefix("sha256:").unwrap_or(digest);
    json!({"algorithm": "SHA-256", "algorithm_id": 3, "value": value})
}

/// Returns the actor: a process in a session, or mcpmon.
pub(super) fn actor(event: &StoredEvent) -> Value {
    let actor = Object::default()
        .known("process", process(event))
        .known("session", session(event));
    match actor.0.is_empty() {
        true => actor.with("app_name", "mcpmon").into(),
        false => actor.into(),
    }
}

/// Returns the caller of a server: a client, with its user and session if they are known.
pub(super) fn caller(event: &StoredEvent) -> Value {
    let user = event.data.get("client_uid").and_then(Value::as_u64);
    let caller = Object::default()
        .with("app_name", "MCP client")
        .known("user", user.map(|uid| json!({"uid": uid.to_string()})))
        .known("session", session(event));
    caller.into()
}

pub(super) fn session(event: &StoredEvent) -> Option<Value> {
    let session = event.session_id.as_deref()?;
    Some(json!({"uid": session}))
}

/// Returns the server and the tool, prompt or resource that an event is about.
pub(super) fn resources(event: &StoredEvent) -> Option<Value> {
    let server = event
        .server_id
        .as_deref()
        .map(|id| json!({"type": "MCP server", "name": id}));
    let tool = tool(event).map(|name| {
        let kind = text(event, "definition").unwrap_or("tool");
        let resource = Object::default()
            .with("type", format!("MCP {kind}"))
            .with("name", name);
        let hash = text(event, "tool_hash").or_else(|| text(event, "new_hash"));
        Value::from(resource.known("uid", hash))
    });
    let uri = text(event, "uri").map(|uri| json!({"type": "MCP resource", "name": uri}));
    let resources: Vec<Value> = [server, tool, uri].into_iter().flatten().collect();
    (!resources.is_empty()).then(|| resources.into())
}

/// Returns the name of the tool.
pub(super) fn tool(event: &StoredEvent) -> Option<&str> {
    let name = text(event, "tool_name").or_else(|| text(event, "blocked_tool_name"))?;
    (!name.is_empty()).then_some(name)
}

/// Returns the remote end of a connection.
pub(super) fn remote(event: &StoredEvent) -> Option<Value> {
    let address = text(event, "remote_addr").or_else(|| text(event, "server_addr"));
    let address = address.map(Address::parse).unwrap_or_default();
    let name = text(event, "remote_name").or(address.name);
    let endpoint = Object::default()
        .known("ip", address.ip)
        .known("hostname", name)
        .known("port", address.port)
        .known("svc_name", event.server_id.as_deref());
    // A port alone does not identify an endpoint.
    endpoint
        .0
        .keys()
        .any(|key| key != "port")
        .then(|| endpoint.into())
}

#[derive(Debug, Default)]
struct Address<'a> {
    ip: Option<String>,
    name: Option<&'a str>,
    port: Option<u16>,
}

impl<'a> Address<'a> {
    /// Parses `ADDRESS:PORT` or `NAME:PORT`. An unspecified address counts as absent.
    fn parse(text: &'a str) -> Self {
        if let Ok(address) = text.parse::<SocketAddr>() {
            if address.ip().is_unspecified() {
                return Self::default();
            }
            return Self {
                ip: Some(address.ip().to_string()),
                name: None,
                port: Some(address.port()),
            };
        }
        match text.rsplit_once(':') {
            Some((name, port)) if !name.is_empty() && port.parse::<u16>().is_ok() => Self {
                ip: None,
                name: Some(name),
                port: port.parse().ok(),
            },
            Some(_) | None => Self {
                name: Some(text),
                ..Self::default()
            },
        }
    }
}

/// Returns a field of the event's data, as text.
pub(super) fn text<'a>(event: &'a StoredEvent, field: &str) -> Option<&'a str> {
    event.data.get(field)?.as_str()
}
