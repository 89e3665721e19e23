//! The table of names: fields of events and labels of metrics, and the attributes of OpenTelemetry for them.
//!
//! Names of the conventions for MCP and generative AI are used if they exist. Verdicts, rules and findings are
//! `mcpmon.*` until the conventions for guardrails are settled. A field without an entry gets the prefix `mcpmon.`.

/// The form of an attribute's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Unchanged.
    Plain,
    /// A text, even if the event has a number: `jsonrpc.request.id` is a text by the conventions.
    Text,
    /// `ADDRESS:PORT`, split into two attributes; this is the name of the second.
    Endpoint(&'static str),
}

/// An event's field with its attribute.
pub(super) type Row = (&'static str, &'static str, Form);

/// Fields of events, by their names in docs/events.md.
pub(super) const FIELDS: &[Row] = &[
    ("session_id", "mcpmon.session.id", Form::Plain),
    ("server_id", "mcpmon.server.id", Form::Plain),
    ("action", "mcpmon.verdict", Form::Plain),
    ("rule", "mcpmon.rule.id", Form::Plain),
    ("pid", "process.pid", Form::Plain),
    ("exe", "process.executable.path", Form::Plain),
    ("comm", "process.executable.name", Form::Plain),
    ("uid", "process.real_user.id", Form::Plain),
    ("container_id", "container.id", Form::Plain),
    ("pod_uid", "k8s.pod.uid", Form::Plain),
    ("namespace", "k8s.namespace.name", Form::Plain),
    ("pod", "k8s.pod.name", Form::Plain),
    ("tool_name", "gen_ai.tool.name", Form::Plain),
    ("blocked_tool_name", "gen_ai.tool.name", Form::Plain),
    ("tool_call_id", "gen_ai.tool.call.id", Form::Plain),
    ("input", "gen_ai.tool.call.arguments", Form::Plain),
    ("description", "gen_ai.tool.description", Form::Plain),
    ("jsonrpc_id", "jsonrpc.request.id", Form::Text),
    ("method", "mcp.method.name", Form::Plain),
    ("uri", "mcp.resource.uri", Form::Plain),
    ("server_addr", "server.address", Form::Endpoint("server.port")),
    ("remote_name", "server.address", Form::Plain),
    (
        "remote_addr",
        "network.peer.address",
        Form::Endpoint("network.peer.port"),
    ),
    ("protocol", "network.transport", Form::Plain),
    ("command", "mcpmon.server.command", Form::Plain),
    ("args", "mcpmon.server.args", Form::Plain),
    ("exe_sha256", "mcpmon.server.exe_sha256", Form::Plain),
    ("script_sha256", "mcpmon.server.script_sha256", Form::Plain),
    ("package_sha256", "mcpmon.server.package_sha256", Form::Plain),
    ("tool_hash", "mcpmon.tool.hash", Form::Plain),
    ("bundle_serial", "mcpmon.bundle.serial", Form::Plain),
    ("bundle_digest", "mcpmon.bundle.digest", Form::Plain),
];

/// Fields that are exported in another way: as members of the record, or as attributes of the resource.
pub(super) const ELSEWHERE: [&str; 6] = ["id", "type", "timestamp", "host", "severity", "trace_parent"];

/// Fields with content: arguments, matched texts, definitions. They are exported only if `record.otlp_content` is set.
pub(super) const CONTENT: [&str; 8] = [
    "input",
    "description",
    "detection",
    "detections",
    "changes",
    "evidence",
    "related_calls",
    "summary",
];

/// Labels of metrics.
pub(super) const LABELS: &[(&str, &str)] = &[
    ("server", "mcpmon.server.id"),
    ("verdict", "mcpmon.verdict"),
    ("rule", "mcpmon.rule.id"),
    ("digest", "mcpmon.policy.digest"),
    ("bundle", "mcpmon.bundle.digest"),
    ("serial", "mcpmon.bundle.serial"),
    ("version", "service.version"),
];

/// Prefix of everything that has no entry in a table.
pub(super) const PREFIX: &str = "mcpmon.";

pub(super) const EVENT_ID: &str = "mcpmon.event.id";
pub(super) const EVENT_NAME: &str = "event.name";
pub(super) const POLICY_DIGEST: &str = "mcpmon.policy.digest";
pub(super) const BUNDLE_DIGEST: &str = "mcpmon.bundle.digest";
pub(super) const BUNDLE_SERIAL: &str = "mcpmon.bundle.serial";
pub(super) const ENFORCEMENT: &str = "mcpmon.enforcement.effective";
pub(super) const METHOD: &str = "mcp.method.name";
pub(super) const OPERATION: &str = "gen_ai.operation.name";
pub(super) const ERROR_TYPE: &str = "error.type";
pub(super) const TRANSPORT: &str = "network.transport";
pub(super) const SERVICE: &str = "service.name";
pub(super) const SERVICE_VERSION: &str = "service.version";
pub(super) const SERVICE_INSTANCE: &str = "service.instance.id";
pub(super) const HOST: &str = "host.name";
pub(super) const OS: &str = "os.type";

/// Values of the conventions.
pub(super) const CALL: &str = "tools/call";
pub(super) const EXECUTE_TOOL: &str = "execute_tool";
pub(super) const PIPE: &str = "pipe";
pub(super) const TCP: &str = "tcp";
/// `error.type` of a result with `isError`.
pub(super) const TOOL_ERROR: &str = "tool_error";
/// `error.type` of an error without a name.
pub(super) const OTHER_ERROR: &str = "_OTHER";
/// `error.type` of a call that was blocked, and of a result that was withheld.
pub(super) const BLOCKED: &str = "mcpmon.blocked";
