//! Fields that events of several types have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A container as events name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerRef {
    /// Id given by the runtime.
    pub container_id: Option<String>,
    /// Kubernetes pod.
    pub pod_uid: Option<String>,
    /// Kubernetes namespace.
    pub namespace: Option<String>,
    /// Kubernetes pod name.
    pub pod: Option<String>,
}

/// The way a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServerType {
    /// Pipes of a child process.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP with server-sent events, the 2024-11-05 transport.
    Sse,
}

/// Transport protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IpProtocol {
    /// TCP, MPTCP included.
    Tcp,
    /// UDP, UDP-Lite included.
    Udp,
    /// Anything else.
    Other,
}

/// The reason why a connection is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// To the address of a registered server.
    AgentToServer,
    /// From a server's process tree.
    ServerEgress,
    /// To a watched or denied address.
    Watch,
}

/// The part of a server that a pin covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PinPart {
    /// The file that runs: a binary, or the interpreter.
    Executable,
    /// The entry script.
    Script,
    /// The package directory with its dependencies.
    Package,
    /// The program that started the server, if that is not the server itself: a launcher such as npx, or a
    /// script on the way.
    Launcher,
}

impl PinPart {
    /// Returns the name used in events and listings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Executable => "executable",
            Self::Script => "script",
            Self::Package => "package",
            Self::Launcher => "launcher",
        }
    }
}

/// A changed field of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldChange {
    /// JSON path of the field.
    pub field: String,
    /// The previous value, at most 1,000 characters; empty if the field did not exist.
    pub previous: String,
    /// The new value, at most 1,000 characters; empty if the field is gone.
    pub new: String,
}
