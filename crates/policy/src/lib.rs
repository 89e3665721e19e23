//! Compiled rules. A [`Policy`] that exists is valid: every check happens on the way in.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

use std::time::Duration;

use mcpmon_model::{Finding, NameGlob, Package, PathPattern, ServerId, Timestamp, one_spelling};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod admission;
mod arguments;
mod cross_server;
mod environment;
mod extent;
mod faults;
mod inspection;
mod known;
mod llm;
mod losses;
pub mod network;
mod pinning;
mod rate;
pub mod rules;
mod sandbox;
mod server;
mod similarity;
mod tighten;
pub mod written;

pub use admission::{Admission, ServerNames};
pub use arguments::{ArgumentInspection, OnSecret};
pub use cross_server::{Burst, Categories, Classifier, CrossServer, CrossServerDecision, Flow, ToolGlob};
pub use environment::{EnvironmentRules, VariableVerdict, variable_names};
pub use extent::PolicyExtent;
pub use faults::{Fault, FaultResponse, PolicyOwner, mode_of_unusable, respond};
pub use inspection::{
    Approvals, DefinitionInspection, Handling, Limits, OnDetection, OnNewTool, OnOutput, OnTimeout,
    OutputInspection, Requests, Suppression,
};
pub use known::{KnownDefinition, KnownDefinitions, KnownStanding};
pub use llm::{DlpMode, LlmPolicy, ProxyMode};
pub use network::{
    Bypass, Cidr, EgressDestination, HostName, ModelHost, NetworkPolicy, NetworkRule, OnBypass, RuleAction,
    Scope,
};
pub use pinning::{FileChanges, FileEffect, OnChange, Pinning};
pub use rate::{RateLimit, RateLimits};
pub use rules::{Decision, Rules};
pub use sandbox::{
    SandboxMode, SandboxModeError, SandboxNetwork, SandboxPath, SandboxPathError, SandboxPathStart,
    SandboxPolicy,
};
pub use server::{
    Egress, EgressDefault, ProcessAccess, RemoteHost, Server, Transport, makes_sandbox, starts_container,
};
pub use similarity::NameSimilarity;

/// A complete configuration, checked and ready to use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// The mode: verdicts are applied, or only recorded.
    pub mode: Mode,
    /// Declared servers, in the order of the file; ids are unique.
    pub servers: Vec<Server>,
    /// The servers that may be used at all.
    pub server_policy: ServerPolicy,
    /// Addresses watched and refused.
    pub network: NetworkPolicy,
    /// The commands that are launches of MCP servers.
    pub launch_patterns: LaunchPatterns,
    /// Pins of executables, scripts and packages.
    pub pinning: Pinning,
    /// Pins of tools, prompts, resources and instructions.
    pub definition_pinning: Pinning,
    /// Definitions that are known to be good.
    pub known: KnownDefinitions,
    /// The treatment of a definition on first use: it is pinned, or only recorded.
    pub first_use: FirstUse,
    /// Inspection of definitions.
    pub inspection: DefinitionInspection,
    /// Inspection of results.
    pub outputs: OutputInspection,
    /// Inspection of the arguments of calls.
    pub arguments: ArgumentInspection,
    /// Findings that are known and accepted.
    pub suppressions: Vec<Suppression>,
    /// Requests that are no tool calls.
    pub requests: Requests,
    /// Lists and rules over calls and resources.
    pub rules: Rules,
    /// Bounds of what is read and kept.
    pub limits: Limits,
    /// Approvals by a person.
    pub approvals: Approvals,
    /// True if unknown tools and undeclared servers are blocked.
    pub fail_closed: bool,
    /// The names of servers that are reported as similar.
    pub name_similarity: NameSimilarity,
    /// Starting of servers.
    pub exec: ExecPolicy,
    /// Protection of files.
    pub guard: ConfigGuard,
    /// Calls to several servers.
    pub cross_server: CrossServer,
    /// The categories of tools.
    pub categories: Categories,
    /// The rate limits of servers.
    pub rate_limits: RateLimits,
    /// Traffic between agents and models.
    pub llm: LlmPolicy,
}

impl Policy {
    /// Returns whether a finding with one of these `names` in `tool` of `server` is accepted at `now`.
    pub fn suppresses(&self, names: &[&str], server: &ServerId, tool: &str, now: Timestamp) -> bool {
        let mut known = self.suppressions.iter();
        known.any(|known| known.covers(names, server.as_str(), tool, now))
    }

    /// Returns whether a finding of `tool` of `server`, which `rule` acts upon, is accepted at `now`: as a
    /// whole, or each of the rules that found it.
    pub fn accepts(
        &self,
        rule: &str,
        finding: &Finding,
        server: &ServerId,
        tool: &str,
        now: Timestamp,
    ) -> bool {
        let accepts = |names: &[&str]| self.suppresses(names, server, tool, now);
        let each = || finding.rules.iter().all(|found| accepts(&[found]));
        accepts(&[rule, &finding.pattern]) || !finding.rules.is_empty() && each()
    }
}

/// The mode: verdicts are applied, or only recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Blocks block.
    #[default]
    Enforce,
    /// Every block becomes an audit, marked `would_block`.
    Observe,
}

/// The servers that may be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ServerPolicy {
    /// All of them.
    #[default]
    None,
    /// Only those that match.
    Allowlist(Vec<NameGlob>),
    /// All but those that match.
    Denylist(Vec<NameGlob>),
    /// Those that both let through.
    Both(Box<(Self, Self)>),
}

impl ServerPolicy {
    /// Returns whether `server` is refused. Names match in any spelling: `mcp_server_*` is `mcp-server-*`.
    pub fn denies(&self, server: &ServerId) -> bool {
        match self {
            Self::None => false,
            Self::Allowlist(allowed) => !is_listed(allowed, server),
            Self::Denylist(denied) => is_listed(denied, server),
            Self::Both(both) => both.0.denies(server) || both.1.denies(server),
        }
    }

    /// Returns whether a server with these names is refused. A refusal holds for each of them. The name that its client
    /// gives permits nothing, because a client can write any name.
    pub fn denies_named(&self, names: ServerNames<'_>) -> bool {
        let is_packed = |globs: &[NameGlob]| {
            let is_named = |package: &Package| globs.iter().any(|glob| package.is_named_by(glob));
            names.package.is_some_and(is_named)
        };
        match self {
            Self::None => false,
            Self::Allowlist(allowed) => !is_listed(allowed, names.permitting) && !is_packed(allowed),
            Self::Denylist(denied) => {
                is_listed(denied, names.given) || is_listed(denied, names.derived) || is_packed(denied)
            }
            Self::Both(both) => both.0.denies_named(names) || both.1.denies_named(names),
        }
    }

    /// Returns whether `server` is refused by its own name, and not because it is missing in a list of allowed ones.
    pub fn names_denied(&self, server: &ServerId) -> bool {
        match self {
            Self::None | Self::Allowlist(_) => false,
            Self::Denylist(denied) => is_listed(denied, server),
            Self::Both(both) => both.0.names_denied(server) || both.1.names_denied(server),
        }
    }
}

fn is_listed(globs: &[NameGlob], server: &ServerId) -> bool {
    let spelled = one_spelling(server.as_str());
    globs.iter().any(|glob| {
        glob.matches(server.as_str()) || NameGlob::new(one_spelling(glob.as_str())).matches(&spelled)
    })
}

/// Patterns over commands, in addition to the built-in ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchPatterns {
    /// True if launches are recognised at all.
    pub enabled: bool,
    /// Patterns in place of the built-in ones, if set.
    pub server_patterns: Option<Vec<NameGlob>>,
    /// Further commands that are MCP servers.
    pub custom_servers: Vec<NameGlob>,
    /// Commands that match a pattern and are no MCP servers.
    pub exclude_servers: Vec<NameGlob>,
}

impl Default for LaunchPatterns {
    fn default() -> Self {
        Self {
            enabled: true,
            server_patterns: None,
            custom_servers: Vec::new(),
            exclude_servers: Vec::new(),
        }
    }
}

/// `mcp.config_guard`: files that no call may write. What is built in is always protected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigGuard {
    /// Further protected paths.
    pub extra_paths: Vec<PathPattern>,
}

/// `mcp.registry.pin_on_first_use`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstUse {
    /// The definition is pinned as it is.
    #[default]
    Pin,
    /// The definition is recorded; only an approval pins it.
    Record,
}

/// Starting of MCP servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExecPolicy {
    /// The treatment of a server whose pinned binary changed: refuse it or only report.
    pub gate: Gate,
    /// MCP servers started outside a wrapper.
    pub unwrapped: Unwrapped,
    /// Servers that live on after their client or session.
    pub orphans: Orphans,
}

impl ExecPolicy {
    /// Combines two sections by the stricter settings.
    const fn tightened_by(self, other: Self) -> Self {
        Self {
            gate: match (self.gate, other.gate) {
                (Gate::Off, Gate::Off) => Gate::Off,
                (Gate::Auto, _) | (_, Gate::Auto) => Gate::Auto,
            },
            unwrapped: match (self.unwrapped, other.unwrapped) {
                (Unwrapped::Deny, _) | (_, Unwrapped::Deny) => Unwrapped::Deny,
                (Unwrapped::Observe, _) | (_, Unwrapped::Observe) => Unwrapped::Observe,
                (Unwrapped::Alert, _) | (_, Unwrapped::Alert) => Unwrapped::Alert,
                (Unwrapped::Allow, Unwrapped::Allow) => Unwrapped::Allow,
            },
            orphans: match (self.orphans, other.orphans) {
                (Orphans::Stop, _) | (_, Orphans::Stop) => Orphans::Stop,
                (Orphans::Report, Orphans::Report) => Orphans::Report,
            },
        }
    }
}

/// The treatment of a server whose pinned binary changed: refuse it or only report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// It is refused, by the strongest mechanism this kernel has.
    #[default]
    Auto,
    /// It is only reported.
    Off,
}

/// The treatment of MCP servers that are started outside a wrapper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unwrapped {
    /// Nothing.
    Allow,
    /// The server is reported.
    #[default]
    Alert,
    /// The server is reported, and what it says and hears is recorded by a tap in the kernel: nothing of it can be stopped, and
    /// while this is set every system call on the host takes longer.
    Observe,
    /// The server is refused.
    Deny,
}

/// The treatment of servers that live on after the client that started them, or after their session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Orphans {
    /// The server is reported.
    #[default]
    Report,
    /// The server is reported, and its processes are ended.
    Stop,
}

/// Default of `network.resolve_interval`.
pub const DEFAULT_RESOLVE_INTERVAL: Duration = Duration::from_secs(30);
