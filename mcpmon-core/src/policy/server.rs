//! Declared MCP servers.

use super::network::{Endpoint, HostName};
use crate::model::{Digest, NameGlob, ServerId, ServerType};

/// An entry of `mcp.servers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name, unique in the policy.
    pub id: ServerId,
    /// How it is reached.
    pub transport: Transport,
    /// Environment variables it may have; empty for all.
    pub env_allow: Vec<NameGlob>,
    /// Environment variables it may not have.
    pub env_deny: Vec<NameGlob>,
    /// Where its process tree may connect; `None` where nothing is restricted.
    pub egress: Option<Egress>,
}

/// How a declared server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A child process.
    Stdio {
        /// Program, as a client starts it.
        command: String,
        /// Its arguments.
        args: Vec<String>,
    },
    /// A URL.
    Remote {
        /// `http` or `sse`.
        server_type: ServerType,
        /// As configured.
        url: String,
        /// Host of the URL: a name or an address.
        host: RemoteHost,
        /// Port of the URL, the scheme's default where it names none.
        port: u16,
        /// Certificate pin.
        tls_fingerprint: Option<Digest>,
    },
}

/// Host part of a server's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoteHost {
    /// To be resolved.
    Name(HostName),
    /// An address as it is.
    Address(std::net::IpAddr),
}

/// Where a server's process tree may connect. A `deny` entry wins over an `allow` entry, and both over
/// the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// Where no entry matches.
    pub default: EgressDefault,
    /// Allowed destinations.
    pub allow: Vec<Endpoint>,
    /// Refused destinations.
    pub deny: Vec<Endpoint>,
}

/// What holds where no entry matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EgressDefault {
    /// Let through.
    #[default]
    Allow,
    /// Refuse.
    Deny,
}
