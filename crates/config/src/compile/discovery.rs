//! Listing of declared remote servers.

use std::time::Duration;

use super::Finding;
use crate::{load::KeyPath, raw, settings::DiscoverySettings};

/// Shortest time between two rounds: servers of others are asked.
const SHORTEST: Duration = Duration::from_secs(10);

/// Compiles `mcp.discovery`.
pub(super) fn compile(raw: &raw::Discovery, findings: &mut Vec<Finding>) -> DiscoverySettings {
    let interval = raw.interval.0.0;
    if interval < SHORTEST {
        let path = KeyPath::root().key("mcp").key("discovery").key("interval");
        findings.push(Finding::new(
            path,
            "servers would be asked without a pause: expected at least `10s`; `enabled: false` asks none",
        ));
    }
    DiscoverySettings {
        enabled: raw.enabled,
        interval,
    }
}
