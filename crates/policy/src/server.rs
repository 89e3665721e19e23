//! Declared MCP servers.

use mcpmon_model::{Digest, NameGlob, ServerId, ServerType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    OnChange,
    network::{EgressDestination, HostName},
    sandbox::SandboxPolicy,
};

/// An entry of `mcp.servers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name, unique in the policy.
    pub id: ServerId,
    /// The transport of the server.
    pub transport: Transport,
    /// Environment variables it may have; empty for all.
    pub env_allow: Vec<NameGlob>,
    /// Environment variables it may not have.
    pub env_deny: Vec<NameGlob>,
    /// The processes it may reach into, if configured.
    pub processes: Option<ProcessAccess>,
    /// The files and the network that it may use.
    pub sandbox: SandboxPolicy,
    /// The destinations its process tree may connect to; `None` if they are not restricted.
    pub egress: Option<Egress>,
    /// The effect of a difference of its files and definitions from their pins, if it has one of its own.
    pub on_change: Option<OnChange>,
}

/// The transport of a declared server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A local process that talks on stdio.
    Stdio {
        /// The program, as a client starts it.
        command: String,
        /// Its arguments.
        args: Vec<String>,
    },
    /// A server at a URL.
    Remote {
        /// `http` or `sse`.
        server_type: ServerType,
        /// The URL as configured.
        url: String,
        /// Host of the URL: a name or an address.
        host: RemoteHost,
        /// Port of the URL; the scheme's default, if the URL has none.
        port: u16,
        /// Certificate pin.
        tls_fingerprint: Option<Digest>,
    },
}

/// The processes a server may reach into: trace them, read their memory, open their descriptors. Its client's
/// pipes are among the descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProcessAccess {
    /// Those that it started, and what these started. It can neither use `sudo` nor mount file systems.
    Own,
    /// Every process that its user may.
    Any,
}

/// Programs that create a container or sandbox as an ordinary user. They mount file systems or run helpers with
/// privileges, which is not possible for a process that may not reach into others; they isolate what they run
/// themselves.
const SANDBOXES: [&str; 12] = [
    "apptainer",
    "bwrap",
    "buildah",
    "firejail",
    "flatpak",
    "nerdctl",
    "nsjail",
    "podman",
    "singularity",
    "snap",
    "srt",
    "toolbox",
];

impl ProcessAccess {
    /// Returns the access of a server that is started by `program`: the declared one, else its own processes only,
    /// unless the program could not work then.
    pub fn of(declared: Option<&Server>, program: &str) -> Self {
        let written = declared.and_then(|server| server.processes);
        match written {
            Some(access) => access,
            None if makes_sandbox(program) => Self::Any,
            None => Self::Own,
        }
    }
}

/// Returns whether a program creates its own container or sandbox, and so cannot run in another one.
pub fn makes_sandbox(program: &str) -> bool {
    SANDBOXES.contains(&program.rsplit('/').next().unwrap_or(program))
}

/// Clients of daemons that start containers: the container is no process of the client, and is in no sandbox made for
/// it.
const CONTAINER_CLIENTS: [&str; 4] = ["docker", "docker-compose", "finch", "nerdctl"];

/// Returns whether a program has a daemon start a container, which is in no sandbox of the program.
pub fn starts_container(program: &str) -> bool {
    CONTAINER_CLIENTS.contains(&program.rsplit('/').next().unwrap_or(program))
}

/// Host part of a server's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoteHost {
    /// A name, to be resolved.
    Name(HostName),
    /// An address.
    Address(std::net::IpAddr),
}

/// The destinations of a server's process tree. A `deny` entry takes precedence over an `allow` entry, and both over
/// the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// The decision if no entry matches.
    pub default: EgressDefault,
    /// Allowed destinations.
    pub allow: Vec<EgressDestination>,
    /// Refused destinations.
    pub deny: Vec<EgressDestination>,
}

/// The decision if no entry matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EgressDefault {
    /// Let through.
    #[default]
    Allow,
    /// Refuse.
    Deny,
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(None, "npx" => ProcessAccess::Own; "any program")]
    #[test_case(None, "/usr/bin/podman" => ProcessAccess::Any; "one that makes containers as an ordinary user")]
    #[test_case(None, "/opt/podman/server" => ProcessAccess::Own; "one in a directory of that name")]
    #[test_case(Some(ProcessAccess::Own), "podman" => ProcessAccess::Own; "as it is written")]
    #[test_case(Some(ProcessAccess::Any), "npx" => ProcessAccess::Any; "as it is written for any program")]
    fn access(written: Option<ProcessAccess>, program: &str) -> ProcessAccess {
        let declared = Server {
            id: ServerId::new("a").expect("an id"),
            transport: Transport::Stdio {
                command: program.to_owned(),
                args: Vec::new(),
            },
            env_allow: Vec::new(),
            env_deny: Vec::new(),
            processes: written,
            sandbox: SandboxPolicy::default(),
            egress: None,
            on_change: None,
        };
        ProcessAccess::of(Some(&declared), program)
    }
}
