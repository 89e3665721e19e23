//! `mcp.version_pinning`, `mcp.registry` and `mcp.rate_limits`.

use std::collections::BTreeMap;

use mcpmon_model::{Digest, ServerId};
use mcpmon_policy::{FileChanges, OnChange};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Text;

/// Pins of tool definitions and of the files servers run from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct VersionPinning {
    /// True if anything is pinned.
    pub(crate) enabled: bool,
    /// The effect of a difference from a pin.
    pub(crate) on_change: OnChange,
    /// True if a definition or file seen for the first time is pinned without approval.
    pub(crate) auto_trust_first: bool,
    /// True if executables, scripts and packages are pinned too.
    pub(crate) pin_binary: bool,
    /// The effects of differences in files whose cause is known.
    pub(crate) files: FileChanges,
    /// Definitions that are known to be good: pinned and approved as they are. A name that is listed may have no other
    /// definition.
    pub(crate) known: Vec<KnownDefinition>,
}

/// A version of a definition that is known to be good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownDefinition {
    /// Server id.
    pub(crate) server: Text<ServerId>,
    /// The kind of definition.
    #[serde(default)]
    pub(crate) kind: KnownKind,
    /// Name of the tool, prompt or template, URI of the resource; empty for instructions.
    #[serde(default)]
    pub(crate) name: String,
    /// The digest of the definition, as `mcpmon registry show` has it.
    pub(crate) content_hash: Text<Digest>,
}

/// The kind of a known definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KnownKind {
    /// A tool.
    #[default]
    Tool,
    /// A prompt.
    Prompt,
    /// A resource.
    Resource,
    /// A template of resources.
    Template,
    /// The instructions of the server.
    Instructions,
}

impl Default for VersionPinning {
    fn default() -> Self {
        Self {
            enabled: true,
            on_change: OnChange::default(),
            auto_trust_first: true,
            pin_binary: true,
            files: FileChanges::default(),
            known: Vec::new(),
        }
    }
}

/// The registry of tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Registry {
    /// True if a tool is pinned when it is first called.
    pub(crate) pin_on_first_use: bool,
    /// True if the registry survives a restart.
    pub(crate) persistent: bool,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            pin_on_first_use: true,
            persistent: true,
        }
    }
}

/// The rate limits of servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RateLimits {
    /// True if calls are limited.
    pub(crate) enabled: bool,
    /// Calls a minute to a server without an entry of its own.
    pub(crate) default_rpm: u32,
    /// Calls it may get at once.
    pub(crate) default_burst: u32,
    /// Limits by server id.
    pub(crate) per_server: BTreeMap<String, RateLimit>,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self {
            enabled: true,
            default_rpm: 600,
            default_burst: 60,
            per_server: BTreeMap::new(),
        }
    }
}

/// The rate limit of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateLimit {
    /// Calls a minute.
    pub(crate) calls_per_minute: u32,
    /// Calls at once; `default_burst` where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) burst: Option<u32>,
}
