//! The `exec` section.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Starting of MCP servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Exec {
    /// The treatment of a server whose pinned binary changed: refuse it or only report.
    pub(crate) gate: Gate,
    /// MCP servers started outside a wrapper.
    pub(crate) unwrapped: Unwrapped,
}

/// The treatment of a server whose pinned binary changed: refuse it or only report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Gate {
    /// By the strongest mechanism this kernel has.
    #[default]
    Auto,
    /// No.
    Off,
}

/// The treatment of MCP servers started outside a wrapper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unwrapped {
    /// Nothing.
    Allow,
    /// The server is reported.
    #[default]
    Alert,
    /// The server is refused.
    Deny,
}
