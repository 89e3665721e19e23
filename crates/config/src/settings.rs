//! Settings of the daemon besides the policy.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use mcpmon_bundle::PublicKey;
use mcpmon_store::OutletSettings;

/// Settings that are in force in this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveSettings {
    /// The LLM proxy; `None` where it is disabled.
    pub proxy: Option<ProxySettings>,
    /// The store.
    pub record: RecordSettings,
    /// The address at which Prometheus metrics are served; `None` where they are not.
    pub metrics: Option<SocketAddr>,
    /// Listing of declared remote servers.
    pub discovery: DiscoverySettings,
    /// The bundle that the daemon takes its policy from; `None` where it has its own files only.
    pub bundle: Option<BundleSettings>,
}

/// The `policy.bundle` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleSettings {
    /// `https`, `file`, or `http` to this host.
    pub url: String,
    /// The keys, one of which signed it; at least one.
    pub keys: Vec<PublicKey>,
    /// The time between two looks.
    pub interval: Duration,
    /// The only series that is taken, where one is named.
    pub name: Option<String>,
    /// File with certificate authorities, absolute.
    pub ca_file: Option<PathBuf>,
}

/// The `mcp.discovery` section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscoverySettings {
    /// True if they are listed without a client asking.
    pub enabled: bool,
    /// The interval.
    pub interval: Duration,
}

/// The `record` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    /// Database file, absolute; `None` for the place that whoever runs the store usually takes.
    pub path: Option<PathBuf>,
    /// The outlets of events besides the store.
    pub outlets: OutletSettings,
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
    /// Unix socket it listens on beside that, absolute.
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
    /// The time for which they are kept.
    pub retention: Duration,
}
