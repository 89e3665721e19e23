//! The `exec` section.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Starting of MCP servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Exec {
    /// Whether a server is refused whose pinned binary changed.
    pub(crate) gate: Gate,
    /// MCP servers started outside a wrapper.
    pub(crate) unwrapped: Unwrapped,
}

/// Whether a server is refused whose pinned binary changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Gate {
    /// By the strongest mechanism this kernel has.
    #[default]
    Auto,
    /// No.
    Off,
}

/// What happens to MCP servers started outside a wrapper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unwrapped {
    /// Nothing.
    Allow,
    /// They are reported.
    #[default]
    Alert,
    /// They are refused.
    Deny,
}
