//! The `mcp` section.

use std::time::Duration;

use mcpmon_policy::{ArgumentInspection, Handling, OnTimeout, OutputInspection};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Lapse, Level, Size, Text,
    cross_server::{Categories, CrossServer},
    inspection::{ConfigGuard, Detection},
    pinning::{RateLimits, Registry, VersionPinning},
    rules::{Defaults, ListMode, ResourceRule, Rule, Suppression, ToolMatch, ValueLimit},
    server::Server,
};

/// MCP servers, their tools and calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Mcp {
    /// True if lists, rules and limits of servers, tools and requests are checked at all. Pins, inspection,
    /// protected files and network rules hold in any case.
    pub(crate) enforce_policy: bool,
    /// True if unknown tools and undeclared servers are blocked.
    pub(crate) fail_closed: bool,
    /// Declared servers.
    pub(crate) servers: Vec<Server>,
    /// The list of servers that is used.
    pub(crate) server_policy: ListMode,
    /// Servers that may be used, under `server_policy: allowlist`.
    pub(crate) allowed_servers: Vec<ServerGlob>,
    /// Servers that may not be used, under `server_policy: denylist`.
    pub(crate) denied_servers: Vec<ServerGlob>,
    /// The list of tools that is used.
    pub(crate) tool_policy: ListMode,
    /// Tools that may be called, under `tool_policy: allowlist`.
    pub(crate) allowed_tools: Vec<ToolMatch>,
    /// Tools that may not be called, under `tool_policy: denylist`.
    pub(crate) denied_tools: Vec<ToolMatch>,
    /// The decision about calls and reads that no rule matches and no list allows.
    pub(crate) defaults: Defaults,
    /// Globs over tools that may never be called, whatever a rule says. Names match in any spelling.
    pub(crate) blocked_tools: Vec<String>,
    /// Rules over calls. Of those that match the most restrictive holds.
    pub(crate) rules: Vec<Rule>,
    /// Globs over URIs of resources that may never be read, whatever a rule says.
    pub(crate) blocked_resources: Vec<String>,
    /// Rules over resources. Of those that match the most restrictive holds.
    pub(crate) resource_rules: Vec<ResourceRule>,
    /// Bounds of numbers in arguments.
    pub(crate) value_limits: Vec<ValueLimit>,
    /// Pins of tool definitions and of the files servers run from.
    pub(crate) version_pinning: VersionPinning,
    /// The rate limits of servers.
    pub(crate) rate_limits: RateLimits,
    /// Rules over the calls to several servers.
    pub(crate) cross_server: CrossServer,
    /// Overrides of what a tool is taken to do.
    pub(crate) categories: Categories,
    /// Recognition of servers and inspection of tool definitions.
    pub(crate) detection: Detection,
    /// Inspection of results.
    pub(crate) output_inspection: OutputInspection,
    /// Inspection of arguments.
    pub(crate) argument_inspection: ArgumentInspection,
    /// Protection of configuration files.
    pub(crate) config_guard: ConfigGuard,
    /// Findings that are known and accepted.
    pub(crate) suppressions: Vec<Suppression>,
    /// LLM calls that a server asks for.
    pub(crate) sampling: Handling,
    /// Questions a server asks the user; one for credentials is blocked whatever this says.
    pub(crate) elicitation: Handling,
    /// Prompts a server offers.
    pub(crate) prompts: Handling,
    /// Completions a server offers.
    pub(crate) completion: Handling,
    /// An LLM's calls to tools that are no MCP tools.
    pub(crate) native_tools: Handling,
    /// Listing of declared HTTP servers.
    pub(crate) discovery: Discovery,
    /// The registry of tools.
    pub(crate) registry: Registry,
    /// Bounds of what is read and kept.
    pub(crate) limits: Limits,
    /// Approvals by a person.
    pub(crate) approvals: Approvals,
}

impl Default for Mcp {
    fn default() -> Self {
        Self {
            enforce_policy: true,
            fail_closed: false,
            servers: Vec::new(),
            server_policy: ListMode::default(),
            allowed_servers: Vec::new(),
            denied_servers: Vec::new(),
            tool_policy: ListMode::default(),
            allowed_tools: Vec::new(),
            denied_tools: Vec::new(),
            defaults: Defaults::default(),
            blocked_tools: Vec::new(),
            rules: Vec::new(),
            blocked_resources: Vec::new(),
            resource_rules: Vec::new(),
            value_limits: Vec::new(),
            version_pinning: VersionPinning::default(),
            rate_limits: RateLimits::default(),
            cross_server: CrossServer::default(),
            categories: Categories::default(),
            detection: Detection::default(),
            output_inspection: OutputInspection::default(),
            argument_inspection: ArgumentInspection::default(),
            config_guard: ConfigGuard::default(),
            suppressions: Vec::new(),
            sampling: Handling::Block,
            elicitation: Handling::Audit,
            prompts: Handling::Audit,
            completion: Handling::Allow,
            native_tools: Handling::Allow,
            discovery: Discovery::default(),
            registry: Registry::default(),
            limits: Limits::default(),
            approvals: Approvals::default(),
        }
    }
}

/// Servers, by a glob over their ids or over their packages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerGlob {
    /// Glob over server ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// Glob over packages, which begins with their kind: `npm:@scope/*`, `pypi:NAME`, `oci:IMAGE`, `script:PATH`, `program:NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) package: Option<String>,
}

/// Listing of declared HTTP servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Discovery {
    /// True if tools are listed without a client asking.
    pub(crate) enabled: bool,
    /// The interval.
    pub(crate) interval: Text<Lapse>,
}

impl Default for Discovery {
    fn default() -> Self {
        Self {
            enabled: true,
            interval: Text(Lapse(Duration::from_secs(15 * 60))),
        }
    }
}

/// Bounds of what is read and kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    /// Longest message.
    pub(crate) max_line: Text<Size>,
    /// Most tools of one server.
    pub(crate) max_tools: u32,
    /// Deepest schema of a tool.
    pub(crate) max_schema_depth: u32,
    /// Most messages in a batch.
    pub(crate) max_batch: u32,
    /// Most requests that wait for an answer.
    pub(crate) max_pending: u32,
    /// The time a request may wait; 0s for no limit.
    pub(crate) request_timeout: Text<Lapse>,
    /// Most open streams of one server.
    pub(crate) max_streams_per_server: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_line: Text(Size(16 << 20)),
            max_tools: 2000,
            max_schema_depth: 128,
            max_batch: 64,
            max_pending: 10_000,
            request_timeout: Text(Lapse(Duration::ZERO)),
            max_streams_per_server: 256,
        }
    }
}

/// Approvals by a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Approvals {
    /// Severity from which on a call needs one.
    pub(crate) required_for: Level,
    /// The time a call waits for an approval.
    pub(crate) timeout: Text<Lapse>,
    /// The decision if no approval comes.
    pub(crate) on_timeout: OnTimeout,
}

impl Default for Approvals {
    fn default() -> Self {
        Self {
            required_for: Level::Critical,
            timeout: Text(Lapse(Duration::from_secs(5 * 60))),
            on_timeout: OnTimeout::default(),
        }
    }
}
