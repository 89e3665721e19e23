//! Tables that map another tool's keys to mcpmon's.

use super::{ImportedTool, convert::Draft};
use crate::load::Node;

/// A key, and the treatment of its value.
#[derive(Debug)]
pub(super) struct ImportRow {
    pub(super) key: &'static str,
    pub(super) act: Act,
}

/// The treatment of a value.
#[derive(Debug)]
pub(super) enum Act {
    /// Descends: the keys of the value are looked up in this table.
    Down(&'static [ImportRow]),
    /// The value is put at this mcpmon key.
    To(&'static str),
    /// The value is put at this mcpmon key, with decisions in capitals.
    Decisions(&'static str),
    /// The value is left out, for this reason.
    Left(&'static str),
    /// The value is converted by this function.
    With(fn(&mut Draft, Node)),
}

/// The keys at the root of a file.
pub(super) const fn root(from: ImportedTool) -> &'static [ImportRow] {
    match from {
        ImportedTool::Agentsh => AGENTSH,
        ImportedTool::Agentshield => AGENTSHIELD,
    }
}

const fn row(key: &'static str, act: Act) -> ImportRow {
    ImportRow { key, act }
}

const AGENTSH: &[ImportRow] = &[
    row("sandbox", Act::Down(&[row("mcp", Act::With(Draft::rules))])),
    row("mcp_rules", Act::With(Draft::rules)),
    row("mcp", Act::Down(&[row("inspection", Act::Down(INSPECTION))])),
    row("builtin_patterns", Act::With(Draft::builtin_patterns)),
    row("proxy", Act::Down(PROXY)),
    row("dlp", Act::Down(&[row("mode", Act::To("dlp.mode"))])),
    row(
        "llm_storage",
        Act::Down(&[row("store_bodies", Act::To("llm_storage.store_bodies"))]),
    ),
    // Parts of `cross_server`, at the root.
    row(
        "read_then_send",
        Act::With(|draft, node| draft.cross_server_part("read_then_send", node)),
    ),
    row(
        "burst",
        Act::With(|draft, node| draft.cross_server_part("burst", node)),
    ),
    row(
        "cross_server_flow",
        Act::With(|draft, node| draft.cross_server_part("cross_server_flow", node)),
    ),
    row(
        "shadow_tool",
        Act::With(|draft, node| draft.cross_server_part("shadow_tool", node)),
    ),
];

/// Below `sandbox.mcp` and `mcp_rules`.
pub(super) const RULES: &[ImportRow] = &[
    row("enforce_policy", Act::To("mcp.enforce_policy")),
    row("fail_closed", Act::To("mcp.fail_closed")),
    row("servers", Act::To("mcp.servers")),
    row("server_policy", Act::To("mcp.server_policy")),
    row("allowed_servers", Act::To("mcp.allowed_servers")),
    row("denied_servers", Act::To("mcp.denied_servers")),
    row("tool_policy", Act::To("mcp.tool_policy")),
    row("allowed_tools", Act::To("mcp.allowed_tools")),
    row("denied_tools", Act::To("mcp.denied_tools")),
    row("version_pinning", Act::To("mcp.version_pinning")),
    row("rate_limits", Act::To("mcp.rate_limits")),
    row("cross_server", Act::With(Draft::cross_server)),
    row("detection", Act::To("mcp.detection")),
    row("output_inspection", Act::To("mcp.output_inspection")),
];

const INSPECTION: &[ImportRow] = &[
    row("enabled", Act::With(Draft::inspection)),
    row("server_patterns", Act::With(Draft::server_patterns)),
    row("custom_servers", Act::To("mcp.detection.custom_servers")),
    row("registry", Act::Down(REGISTRY)),
    row("detection", Act::Down(DETECTION)),
    row(
        "on_detection",
        Act::Down(&[row("webhook_url", Act::To("record.webhook_url"))]),
    ),
];

const REGISTRY: &[ImportRow] = &[
    row("pin_on_first_use", Act::To("mcp.registry.pin_on_first_use")),
    row("alert_on_change", Act::With(Draft::alert_on_change)),
    row("persistent", Act::To("mcp.registry.persistent")),
    row(
        "path",
        Act::Left("the registry is a part of the store: `record.path` says where that is"),
    ),
];

const DETECTION: &[ImportRow] = &[
    row("builtin", Act::To("mcp.detection.builtin")),
    row("custom_patterns", Act::To("mcp.detection.custom_patterns")),
    row("alert_threshold", Act::To("mcp.detection.alert_threshold")),
];

const PROXY: &[ImportRow] = &[
    row("mode", Act::With(Draft::proxy_mode)),
    row("port", Act::With(Draft::proxy_port)),
    row("providers", Act::To("proxy.providers")),
];

const AGENTSHIELD: &[ImportRow] = &[
    row("defaults", Act::Decisions("mcp.defaults")),
    row("blocked_tools", Act::To("mcp.blocked_tools")),
    row("rules", Act::Decisions("mcp.rules")),
    row("blocked_resources", Act::To("mcp.blocked_resources")),
    row("resource_rules", Act::Decisions("mcp.resource_rules")),
    row("value_limits", Act::Decisions("mcp.value_limits")),
];
