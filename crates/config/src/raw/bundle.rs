//! The `policy` section: the bundle that a host takes its policy from.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Lapse, Text};

/// The sources of the policy besides the host's own files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PolicySource {
    /// The signed bundle of a fleet.
    pub(crate) bundle: PolicyBundle,
}

/// A signed bundle with the policy of a fleet. What it says holds, and a host's own file can only tighten it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PolicyBundle {
    /// The bundle: an `https` URL, a `file` URL, or an `http` URL of this host; empty for none.
    pub(crate) url: String,
    /// The key that it is signed with, as `mcpmon bundle keygen` prints it.
    pub(crate) public_key: String,
    /// Further keys that are accepted, while one key is replaced by another.
    pub(crate) further_keys: Vec<String>,
    /// The time between two looks; each host looks up to a tenth earlier or later.
    pub(crate) interval: Text<Lapse>,
    /// The only series of bundles that is taken, where a key signs several; empty for any.
    pub(crate) name: String,
    /// File with the certificate authorities that the server's certificate is to come from, in PEM; empty for the public
    /// ones.
    pub(crate) ca_file: String,
}

impl Default for PolicyBundle {
    fn default() -> Self {
        Self {
            url: String::new(),
            public_key: String::new(),
            further_keys: Vec::new(),
            interval: Text(Lapse(Duration::from_secs(300))),
            name: String::new(),
            ca_file: String::new(),
        }
    }
}
