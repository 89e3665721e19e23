//! The `network` section.

use mcpmon_policy::{Cidr, DEFAULT_RESOLVE_INTERVAL, HostName, OnBypass, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Lapse, Port, Text};

/// Addresses that are watched or refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Network {
    /// True if refusals are carried out in the kernel.
    pub(crate) enforce: bool,
    /// Destinations to report, above all model hosts: agents that go round the LLM proxy.
    pub(crate) watch: Vec<Watch>,
    /// Destinations to refuse.
    pub(crate) deny: Vec<Deny>,
    /// Further executables that count as agents. Built in: the known clients, what `mcpmon run` starts, and
    /// whatever starts MCP servers.
    pub(crate) agents: Vec<String>,
    /// The interval at which host names are resolved again.
    pub(crate) resolve_interval: Text<Lapse>,
    /// The treatment of an agent in a proxied session that connects to a model host itself.
    pub(crate) proxy_bypass: OnBypass,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            enforce: true,
            watch: Vec::new(),
            deny: Vec::new(),
            agents: Vec::new(),
            resolve_interval: Text(Lapse(DEFAULT_RESOLVE_INTERVAL)),
            proxy_bypass: OnBypass::default(),
        }
    }
}

/// Destinations to report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Watch {
    /// The name in events and tables.
    pub(crate) name: String,
    /// Host names; each is resolved, and resolved again.
    #[serde(default)]
    pub(crate) hosts: Vec<Text<HostName>>,
    /// Addresses and ranges of addresses.
    #[serde(default)]
    pub(crate) cidrs: Vec<Text<Cidr>>,
    /// Ports; none for all of them.
    #[serde(default)]
    pub(crate) ports: Vec<Port>,
}

/// Destinations to refuse.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Deny {
    /// The name in events and tables.
    pub(crate) name: String,
    /// Host names; each is resolved, and resolved again.
    #[serde(default)]
    pub(crate) hosts: Vec<Text<HostName>>,
    /// Addresses and ranges of addresses.
    #[serde(default)]
    pub(crate) cidrs: Vec<Text<Cidr>>,
    /// Ports; none for all of them.
    #[serde(default)]
    pub(crate) ports: Vec<Port>,
    /// The processes whose connections are refused.
    #[serde(default)]
    pub(crate) scope: Scope,
}
