//! Sessions whose models are behind the proxy, and the effect of connecting to a model directly.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::HostName;

/// `network.proxy_bypass`, and the hosts that it applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bypass {
    /// The effect on the connection.
    pub action: OnBypass,
    /// The hosts of models.
    pub models: Vec<ModelHost>,
}

/// The effect on a connection to a model that bypasses the proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnBypass {
    /// The connection is reported.
    #[default]
    Alert,
    /// The connection is refused and reported.
    Deny,
}

/// The host and port of a model API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelHost {
    /// Names, to be resolved.
    pub hosts: Vec<HostName>,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
    /// Ports; empty for all. With all ports, addresses of the host itself are excluded, because the proxy is there.
    pub ports: Vec<u16>,
}

impl ModelHost {
    /// Returns whether `address`, which is one of these, is that of the model: an address of the host itself is not, if
    /// all ports are meant.
    pub fn means(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        !self.ports.is_empty() || !(address.is_loopback() || address.is_unspecified())
    }
}

impl Bypass {
    /// Combines two policies by the stricter setting.
    pub(crate) fn tightened_by(&self, other: &Self) -> Self {
        let new = other.models.iter().filter(|model| !self.models.contains(model));
        Self {
            action: self.action.max(other.action),
            models: self.models.iter().chain(new).cloned().collect(),
        }
    }
}
