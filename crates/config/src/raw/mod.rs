//! The file as written: one struct per section, every key of the interface with its default.
//!
//! Knows shapes and formats only; what keys mean together is for `compile`. Doc comments here are the
//! descriptions in `policies/schema.json`.

mod bundle;
mod cross_server;
mod inspection;
mod mcp;
mod network;
mod pinning;
mod proxy;
mod record;
mod rules;
mod server;

use mcpmon_policy::{ExecPolicy, Mode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use mcpmon_policy::written::{HttpUrl, Lapse, Level, Port, Size, Text};

pub(crate) use self::{
    bundle::{PolicyBundle, PolicySource},
    cross_server::{CrossServer, ShadowTool},
    inspection::{ConfigGuard, CustomPattern, Detection},
    mcp::{Approvals, Discovery, Limits, Mcp, ServerGlob},
    network::{Deny, Network, Watch},
    pinning::{KnownDefinition, KnownKind, RateLimits, VersionPinning},
    proxy::Proxy,
    record::{Metrics, Record},
    rules::{CallMatch, ListMode, Number, ResourceMatch, ResourceRule, Rule, ToolMatch, ValueLimit},
    server::{Egress, Sandbox, Server},
};

/// Newest version of the format that this program reads.
pub(crate) const VERSION: u32 = 1;

/// Configuration of mcpmon: which MCP servers may run, what they may do, and what is recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Version of this format; 1 is the only one.
    pub(crate) version: u32,
    /// The mode: verdicts are applied, or only recorded.
    pub(crate) mode: Mode,
    /// MCP servers, their tools and calls.
    pub(crate) mcp: Mcp,
    /// Addresses that are watched or refused.
    pub(crate) network: Network,
    /// Starting of MCP servers.
    pub(crate) exec: ExecPolicy,
    /// The MCP-over-HTTP and LLM proxies.
    pub(crate) proxy: Proxy,
    /// Data-loss prevention on the way to an LLM.
    pub(crate) dlp: proxy::Dlp,
    /// Storage of LLM traffic.
    pub(crate) llm_storage: proxy::LlmStorage,
    /// The store and its exports.
    pub(crate) record: Record,
    /// Prometheus metrics.
    pub(crate) metrics: Metrics,
    /// The sources of the policy besides the host's own files.
    pub(crate) policy: PolicySource,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            version: VERSION,
            mode: Mode::default(),
            mcp: Mcp::default(),
            network: Network::default(),
            exec: ExecPolicy::default(),
            proxy: Proxy::default(),
            dlp: proxy::Dlp::default(),
            llm_storage: proxy::LlmStorage::default(),
            record: Record::default(),
            metrics: Metrics::default(),
            policy: PolicySource::default(),
        }
    }
}
