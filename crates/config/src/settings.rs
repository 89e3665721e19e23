//! Settings of the daemon outside the policy.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use mcpmon_bundle::PublicKey;
use mcpmon_store::SinkSettings;

/// The compiled settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveSettings {
    /// The LLM proxy; `None` if it is disabled.
    pub proxy: Option<ProxySettings>,
    /// The store.
    pub record: RecordSettings,
    /// The address at which Prometheus metrics are served; `None` if they are not.
    pub metrics: Option<SocketAddr>,
    /// Listing of declared remote servers.
    pub discovery: DiscoverySettings,
    /// The bundle from which the daemon takes its policy; `None` if it only has its own files.
    pub bundle: Option<BundleSettings>,
}

/// The `policy.bundle` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleSettings {
    /// `https`, `file`, or `http` to this host.
    pub url: String,
    /// The accepted keys; at least one.
    pub keys: Vec<PublicKey>,
    /// The interval between two checks for a new bundle.
    pub interval: Duration,
    /// The only name of bundles that is accepted, if one is set.
    pub name: Option<String>,
    /// File with certificate authorities, absolute.
    pub ca_file: Option<PathBuf>,
}

/// The `mcp.discovery` section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscoverySettings {
    /// True if servers are listed regularly, without a client.
    pub enabled: bool,
    /// The interval.
    pub interval: Duration,
}

/// The `record` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    /// Database file, absolute; `None` for the default location.
    pub path: Option<PathBuf>,
    /// The sinks of events besides the store.
    pub sinks: SinkSettings,
    /// The time for which events are kept.
    pub retention: Duration,
    /// The size limit of the database, in bytes.
    pub max_size: u64,
}

/// The `proxy` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxySettings {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Unix socket on which it also listens, absolute.
    pub listen_unix: Option<PathBuf>,
    /// File with the token that clients must present, absolute.
    pub token_file: Option<PathBuf>,
    /// The providers it connects to.
    pub providers: Vec<ProviderSettings>,
    /// The storage of bodies (`llm_storage`); `None` if they are not kept.
    pub bodies: Option<BodyStorageSettings>,
}

/// An LLM provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderSettings {
    /// The prefix of paths to it.
    pub name: String,
    /// `http` or `https`, without a slash at its end.
    pub url: String,
}

/// The `llm_storage` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyStorageSettings {
    /// The file with the key, absolute.
    pub key_file: Option<PathBuf>,
    /// Bytes that are kept of one body.
    pub max_body: usize,
    /// The time for which bodies are kept.
    pub retention: Duration,
}
