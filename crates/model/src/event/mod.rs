//! Events: the one record type, the same for every sink.
//!
//! The host is added when an event is recorded, and so is the id of an event that nothing refers to; this module reads
//! no clock.

mod activity;
mod fields;
mod serial;
#[cfg(test)]
mod tests;

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    Action, ApprovalState, CallOrigin, CallOutcome, DefinitionKey, DefinitionKind, DefinitionRecord,
    DefinitionStatus, Dialect, Digest, EventId, Evidence, FileChange, Finding, InspectionSubject, KillState,
    Layer, OrphanCause, Package, PackageOrigin, PinState, RelatedCall, RequestId, ServerId, SessionId,
    Severity, Timestamp,
};

use serial::{is_false, is_one, lossy, lossy_option, one};

pub use activity::{EventActivity, EventOutcome, EventPriority};
pub use fields::{ContainerRef, Direction, FieldChange, IpProtocol, PinPart, ServerType};

/// A recorded fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its id, if a refusal names it; any other event gets its id when it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<EventId>,
    /// The time of the event.
    pub timestamp: Timestamp,
    /// Agent session, if known.
    pub session_id: Option<SessionId>,
    /// Server it concerns.
    pub server_id: Option<ServerId>,
    /// The package of that server, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<Package>,
    /// The layer that observed it.
    pub layer: Layer,
    /// The severity of the event.
    pub severity: Severity,
    /// The action taken.
    pub action: Action,
    /// Rule that decided, by its configured name.
    pub rule: Option<String>,
    /// The reason, as a sentence, with the remedy if there is one.
    pub reason: Option<String>,
    /// The command with which a person can allow the subject of the event, or learn more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Process it concerns.
    pub process: Option<ProcessRef>,
    /// Container of that process.
    pub container: Option<ContainerRef>,
    /// The kind of event, with the kind's own fields.
    pub kind: EventKind,
}

/// A process in an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRef {
    /// Process id in the initial pid namespace.
    pub pid: u32,
    /// Executable.
    #[serde(serialize_with = "lossy_option")]
    pub exe: Option<PathBuf>,
    /// Command name.
    pub comm: Option<String>,
    /// Real user id.
    pub uid: Option<u32>,
}

/// Declares every type of event: its priority, its activity and its outcome, its name, its title, and its kind with the
/// fields. The documentation of the fields is docs/events.md.
macro_rules! event_types {
    ($(
        $(#[$doc:meta])*
        $priority:ident $activity:ident $outcome:ident $name:literal $title:literal: $kind:ident { $($fields:tt)* }
    )*) => {
        /// The type of an event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EventType {
            $($(#[$doc])* $kind,)*
        }

        impl EventType {
            /// Every type, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Returns the name in the `type` field.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// Returns the share of a queue that events of this type may fill.
            #[must_use]
            pub const fn priority(self) -> EventPriority {
                match self {
                    $(Self::$kind => EventPriority::$priority,)*
                }
            }

            /// Returns the activity that events of this type report.
            #[must_use]
            pub const fn activity(self) -> EventActivity {
                match self {
                    $(Self::$kind => EventActivity::$activity,)*
                }
            }

            /// Returns the outcome that the type implies.
            #[must_use]
            pub const fn outcome(self) -> EventOutcome {
                match self {
                    $(Self::$kind => EventOutcome::$outcome,)*
                }
            }

            /// Returns the title, for an event without a reason.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self {
                    $(Self::$kind => $title,)*
                }
            }
        }

        /// The kinds of events, each with its own fields.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "type")]
        #[expect(
            missing_docs,
            reason = "field names are the documented interface, see docs/events.md"
        )]
        pub enum EventKind {
            $($(#[$doc])* #[serde(rename = $name)] $kind { $($fields)* },)*
        }

        impl EventKind {
            /// Returns the type of this kind.
            pub const fn event_type(&self) -> EventType {
                match self {
                    $(Self::$kind { .. } => EventType::$kind,)*
                }
            }
        }
    };
}

event_types! {
    /// A server launch was seen and its serving process identified.
    Ordinary Launch Success "mcp_server_started" "MCP server started": ServerStarted {
        command: String,
        args: Vec<String>,
        wrapped: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exe_sha256: Option<Digest>,
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            serialize_with = "lossy_option"
        )]
        script: Option<PathBuf>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        script_sha256: Option<Digest>,
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            serialize_with = "lossy_option"
        )]
        package_path: Option<PathBuf>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        package_sha256: Option<Digest>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        package_origin: Option<PackageOrigin>,
        pin: PinState,
        launcher_pid: u32,
        /// The rule or pattern by which the launch was recognised.
        matched_pattern: String,
        /// Names of the environment variables it started with, never their values.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        environment: Vec<String>,
    }
    /// The serving process ended.
    Ordinary Exit Success "mcp_server_exited" "MCP server exited": ServerExited {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_status: Option<i32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
        duration_ms: u64,
    }
    /// A part of the server differs from its pin.
    Critical Finding Open "mcp_server_binary_mismatch" "MCP server differs from its pin": BinaryMismatch {
        #[serde(serialize_with = "lossy")]
        path: PathBuf,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_hash: Option<Digest>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        actual_hash: Option<Digest>,
        part: PinPart,
        /// Files of a package that changed, at most 20.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed_files: Vec<String>,
        /// The causes of the difference, at most 20.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<FileChange>,
    }
    /// A server was refused before or at its start.
    Critical Finding Open "mcp_server_denied" "MCP server refused": ServerDenied { cause: String }
    /// A connection that concerns MCP.
    Bulk Connection Open "mcp_network_connection" "Connection of an MCP server": NetworkConnection {
        remote_addr: SocketAddr,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remote_name: Option<String>,
        direction: Direction,
        protocol: IpProtocol,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server_type: Option<ServerType>,
        /// The address as the process gave it, if that was in another form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        given_addr: Option<SocketAddr>,
        /// True if mcpmon itself connected on behalf of a judged client: its proxy, or the wrapper of a remote server.
        #[serde(default, skip_serializing_if = "is_false")]
        proxied: bool,
        /// The kernel's number of the socket, if its end will be reported.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        socket: Option<u64>,
        /// The number of occurrences that this event represents.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        count: u64,
    }
    /// A process of a server closed the socket of a connection.
    Bulk Close Success "mcp_connection_closed" "Connection of an MCP server closed": ConnectionClosed {
        remote_addr: SocketAddr,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remote_name: Option<String>,
        protocol: IpProtocol,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        socket: Option<u64>,
        /// False if the other side never answered.
        established: bool,
        /// Milliseconds since the connection was requested.
        duration_ms: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes_sent: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes_received: Option<u64>,
        #[serde(default = "one", skip_serializing_if = "is_one")]
        count: u64,
    }
    /// An open connection was cut, because a rule now refuses it.
    Ordinary Cut Open "mcp_connection_cut" "Open connection cut": ConnectionCut {
        remote_addr: SocketAddr,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remote_name: Option<String>,
        direction: Direction,
        protocol: IpProtocol,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        socket: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes_sent: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes_received: Option<u64>,
        #[serde(default = "one", skip_serializing_if = "is_one")]
        count: u64,
    }
    /// The kernel saw a server that no wrapper started.
    Ordinary Finding Open "mcp_server_unwrapped" "MCP server without a wrapper": ServerUnwrapped {
        command: String,
        /// Command names from the launcher up.
        parent_chain: Vec<String>,
        matched_pattern: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        config_source: Option<String>,
    }
    /// A wrapper started a server in a sandbox, or without the configured one.
    Ordinary Setting Success "mcp_server_sandboxed" "Sandbox of an MCP server": ServerSandboxed {
        /// The files that it may use: `off`, `home-readonly`, `strict`.
        mode: String,
        /// The network that it may use: `egress`, `ports`, `off`.
        network: String,
        /// False if it runs without a sandbox.
        enforced: bool,
        /// The version of Landlock; `None` if the kernel has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        landlock: Option<u8>,
        /// The parts that the kernel does not enforce, and grants without effect.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        gaps: Vec<String>,
    }
    /// A server lives on after the client that started it, or after its session.
    Critical Finding Open "mcp_server_orphaned" "MCP server outlives its client": ServerOrphaned {
        cause: OrphanCause,
        /// Command name of the client.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client_pid: Option<u32>,
        /// Milliseconds since the client or session ended.
        orphaned_ms: u64,
    }
    /// A server's name is close to a known one.
    Ordinary Finding Open "mcp_server_name_similarity" "MCP server has a similar name": NameSimilarity {
        similar_to: String,
        /// From 0 to 1000, thousandths.
        score: u16,
        /// The comparison that found it.
        method: String,
    }
    /// A definition was listed.
    Bulk Read Success "mcp_tool_seen" "MCP definition listed": ToolSeen {
        /// The kind of definition; `tool_name` is its name, whatever the kind.
        #[serde(default = "tool")]
        definition: DefinitionKind,
        tool_name: String,
        tool_hash: Digest,
        server_type: ServerType,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        status: DefinitionStatus,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        detections: Vec<Finding>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_severity: Option<Severity>,
    }
    /// A definition differs from its pin.
    Critical Finding Open "mcp_tool_changed" "MCP definition differs from its pin": ToolChanged {
        /// The kind of definition; `tool_name` is its name, whatever the kind.
        #[serde(default = "tool")]
        definition: DefinitionKind,
        tool_name: String,
        previous_hash: Digest,
        /// `None` if it is no longer listed.
        new_hash: Option<Digest>,
        /// The changed fields, at most 50.
        changes: Vec<FieldChange>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        renamed_from: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        detections: Vec<Finding>,
    }
    /// A detection rule matched something that was inspected.
    Ordinary Finding Open "mcp_detection" "Detection in MCP traffic": Detection {
        subject: InspectionSubject,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_name: Option<String>,
        detection: Finding,
        /// The number of occurrences that this event represents.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        count: u64,
    }
    /// A tool call was judged.
    Critical Judgement Open "mcp_tool_call_intercepted" "MCP tool call judged": ToolCallIntercepted {
        /// The name that the server uses.
        tool_name: String,
        /// The name that the model uses, if it is another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        visible_name: Option<String>,
        /// The API in which a model asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dialect: Option<Dialect>,
        /// mcpmon's own id of the request to the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        jsonrpc_id: Option<RequestId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<String>,
        /// W3C Trace Context, of the call or of the request to the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace_parent: Option<String>,
        /// `None` if its server is not known, or it is not a server's tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server_type: Option<ServerType>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server_addr: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_hash: Option<Digest>,
        /// Arguments as JSON text; masked before they leave the process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<String>,
        /// User who asked, if the host knows the user and the process does not show it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client_uid: Option<u32>,
    }
    /// A tool call was forwarded to its server.
    Bulk Call Open "mcp_tool_called" "MCP tool called": ToolCalled {
        tool_name: String,
        jsonrpc_id: RequestId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace_parent: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<CallOrigin>,
        /// Arguments as JSON text; masked before they leave the process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<String>,
        /// User who asked, if the host knows the user and the process does not show it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client_uid: Option<u32>,
    }
    /// The answer to a tool call arrived.
    Bulk Return Success "mcp_tool_returned" "MCP tool returned": ToolReturned {
        tool_name: String,
        jsonrpc_id: RequestId,
        duration_us: u64,
        outcome: CallOutcome,
        bytes: u64,
        /// User who asked, if the host knows the user and the process does not show it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client_uid: Option<u32>,
    }
    /// Rules matched in a result.
    Critical Finding Open "mcp_output_inspection" "Detection in the result of an MCP tool": OutputInspection {
        tool_name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        jsonrpc_id: Option<RequestId>,
        detections: Vec<Finding>,
        /// The number of results that this event represents.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        count: u64,
    }
    /// The reading of a resource was requested.
    Ordinary Read Open "mcp_resource_read" "MCP resource read": ResourceRead { uri: String }
    /// Sampling, elicitation, a prompt or a completion was judged.
    Ordinary Judgement Open "mcp_request_judged" "MCP request judged": RequestJudged {
        method: String,
        summary: String,
        /// The number of occurrences that this event represents.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        count: u64,
    }
    /// Secrets were replaced in a request to a model.
    Ordinary Finding Open "mcp_dlp_redaction" "Secret in a request to a model": DlpRedaction {
        dialect: Dialect,
        request_id: String,
        /// The kind of secrets.
        kind: String,
        count: u64,
    }
    /// An agent connected to a model's host directly, although its session has a proxy.
    Critical Connection Open "mcp_proxy_bypass" "Connection to a model beside the proxy": ProxyBypass {
        remote_addr: SocketAddr,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remote_name: Option<String>,
        /// The number of connections that this event represents.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        count: u64,
    }
    /// A declared server that is reached over the network gave no answer.
    Ordinary Read Failure "mcp_discovery_failed" "MCP server gave no answer": DiscoveryFailed { url: String, cause: String }
    /// A declared server has a certificate other than the pinned one; nothing was sent to it.
    Critical Finding Open "mcp_tls_mismatch" "Certificate of an MCP server differs from its pin": TlsMismatch {
        url: String,
        expected: Digest,
        actual: Digest,
    }
    /// An approval was requested, given, refused, or did not come.
    Critical Approval Success "mcp_approval" "Approval by a person": Approval {
        subject: String,
        by: String,
        state: ApprovalState,
        /// The tool, or the other definition.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_name: Option<String>,
        /// The findings in the definition.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        detections: Vec<Finding>,
        /// The id of a held call, by which a person answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held_call: Option<String>,
    }
    /// The kill switch was set or lifted.
    Critical Setting Success "mcp_kill" "Kill switch": Kill {
        /// A session's id, or `host`.
        scope: String,
        by: String,
        state: KillState,
    }
    /// A rule over the calls to several servers matched.
    Critical Finding Open "mcp_cross_server_blocked" "Calls to several MCP servers": CrossServerBlocked {
        blocked_tool_name: String,
        related_calls: Vec<RelatedCall>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        evidence: Vec<Evidence>,
    }
    /// A policy took effect.
    Ordinary Setting Success "policy_loaded" "Policy loaded": PolicyLoaded {
        path: String,
        hash: Digest,
        /// Rules of the previous policy that this one lacks.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        lost: Vec<String>,
        /// The serial of the signed bundle that it comes from, if it comes from one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bundle_serial: Option<u64>,
        /// The digest of that bundle.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bundle_digest: Option<Digest>,
    }
    /// A policy was refused; the previous one stays in force.
    Ordinary Setting Failure "policy_rejected" "Policy rejected": PolicyRejected { path: String, errors: Vec<String> }
    /// A self-test failed, or a part of the enforcement is missing.
    Critical Setting Failure "mcp_enforcement_degraded" "Enforcement degraded": EnforcementDegraded { component: String, cause: String }
    /// The part works again.
    Ordinary Setting Success "mcp_enforcement_restored" "Enforcement restored": EnforcementRestored { component: String, cause: String }
    /// No daemon ran for a while; the kernel continued to refuse what it had been told to.
    Ordinary Restart Success "mcp_daemon_gap" "No daemon ran for a while": DaemonGap {
        /// Milliseconds since the last sign of life of the previous daemon.
        duration_ms: u64,
        /// True if that daemon was stopped; false if it ended otherwise.
        stopped: bool,
        /// Records that the kernel kept of that time.
        records: u64,
        /// Refused connections among them.
        refused: u64,
        /// Programs killed at their start among them.
        killed: u64,
        /// Records of that time that are lost.
        missing: u64,
    }
    /// Records were dropped.
    Ordinary Loss Failure "mcp_events_lost" "Events lost": EventsLost {
        #[serde(rename = "where")]
        place: String,
        count: u64,
    }
}

const fn tool() -> DefinitionKind {
    DefinitionKind::Tool
}

impl EventKind {
    /// Returns the name in the `type` field.
    pub const fn name(&self) -> &'static str {
        self.event_type().as_str()
    }

    /// Returns the event kind of a decision about a definition.
    pub fn approval(record: &DefinitionRecord, by: &str, state: ApprovalState) -> Self {
        let DefinitionKey { identity, name, .. } = &record.key;
        Self::Approval {
            subject: format!("{}:{name}", identity.server),
            by: by.to_owned(),
            state,
            tool_name: (!name.is_empty()).then(|| name.clone()),
            detections: record.findings.to_vec(),
            held_call: None,
        }
    }
}

impl Event {
    /// Returns an event with only its time, layer and kind; severity info, action allow.
    pub const fn new(timestamp: Timestamp, layer: Layer, kind: EventKind) -> Self {
        Self {
            id: None,
            timestamp,
            session_id: None,
            server_id: None,
            package: None,
            layer,
            severity: Severity::Info,
            action: Action::Allow,
            rule: None,
            reason: None,
            remedy: None,
            process: None,
            container: None,
            kind,
        }
    }
}
