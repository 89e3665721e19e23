//! `mcp.servers`.

use mcpmon_model::{Digest, ServerId, ServerType};
use mcpmon_policy::{
    EgressDefault, EgressDestination, OnChange, ProcessAccess, SandboxMode, SandboxNetwork, SandboxPath,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{HttpUrl, Text};

/// A declared MCP server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    /// Its name, unique in the whole configuration.
    pub(crate) id: Text<ServerId>,
    /// The way it is reached; `stdio` where only `command` is given, `http` where only `url` is.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<ServerType>,
    /// Program, as a client starts it (stdio).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    /// Arguments of the program (stdio).
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// Environment variables it may have beside the standard ones; sensitive suffixes are stripped unless
    /// listed (stdio).
    #[serde(default)]
    pub(crate) env_allow: Vec<String>,
    /// Environment variables to strip, as globs; ignored where `env_allow` is set (stdio).
    #[serde(default)]
    pub(crate) env_deny: Vec<String>,
    /// The resources of this host that its processes may reach, if `mcpmon wrap` starts it (stdio).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sandbox: Option<Sandbox>,
    /// Connections of its process tree, enforced in the kernel (stdio).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) egress: Option<Egress>,
    /// The effect of a difference of its files and definitions from their pins; by default that of
    /// `version_pinning.on_change`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) on_change: Option<OnChange>,
    /// The URL at which it is reached (http, sse).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<Text<HttpUrl>>,
    /// SHA-256 of the certificate it must present (http, sse).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tls_fingerprint: Option<Text<Digest>>,
}

/// The resources of this host that a server's processes may reach.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Sandbox {
    /// The files it may use without a grant: `off` for all that its user may; `home-readonly` for everything but
    /// secrets, keys and configuration, to be read only; `strict` for the system and its own package.
    pub(crate) default: SandboxMode,
    /// Further files and directories that it may read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) read: Vec<Text<SandboxPath>>,
    /// Further files and directories that it may read and write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) write: Vec<Text<SandboxPath>>,
    /// The network it may use: as `egress` has it, or none.
    pub(crate) network: SandboxNetwork,
    /// The processes they may trace, read the memory and open the descriptors of: those of the server, unless
    /// its program makes a sandbox itself (`podman`, `bwrap`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) processes: Option<ProcessAccess>,
}

/// The destinations of a server's process tree: `deny` wins over `allow`, both over `default`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Egress {
    /// The decision if no entry matches.
    pub(crate) default: EgressDefault,
    /// Allowed destinations: `HOST`, `HOST:PORT`, `CIDR` or `[CIDR]:PORT`.
    pub(crate) allow: Vec<Text<EgressDestination>>,
    /// Refused destinations, in the same forms.
    pub(crate) deny: Vec<Text<EgressDestination>>,
}
