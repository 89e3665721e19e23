//! The daemon that is measured, with the same files in every round.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use aya::maps::{HashMap, Map, MapData};
use mcpmon_e2e::{daemon::Daemon, host::Host, json::number, program, site::Site};

/// The kernel's key of a name in the exec gate.
type GateKey = [u64; 2];

/// A policy that takes only this run's servers for servers.
pub(crate) fn policy(on_change: &str) -> String {
    let own = std::process::id();
    format!(
        "version: 1\nmcp:\n  version_pinning: {{on_change: {on_change}}}\n  detection: {{server_patterns: [\"mcp-server-e2e{own}x*\", \"mcp_server_e2e{own}x*\"]}}\n"
    )
}

/// Its turn on this host.
pub(crate) fn host() -> Result<Host> {
    Host::take(&["cc", "python3", "node", "sha256sum"])?.context("it cannot be measured here")
}

/// Ends a daemon and removes what it left in the kernel.
pub(crate) fn end(daemon: Daemon) -> Result<Site> {
    let (site, status) = daemon.end()?;
    ensure!(status.success(), "the daemon ended with {status}");
    let detached = program::run(["detach", "--bpffs", &site.bpffs().display().to_string()])?;
    ensure!(detached.code == Some(0), "{detached:?}");
    Ok(site)
}

/// A counter of the kernel programs.
pub(crate) fn counter(daemon: &Daemon, name: &str) -> Result<u64> {
    Ok(number(&daemon.status()?["counters"], name))
}

/// Takes all names out of the kernel's table: what is left is the daemon's own signal.
pub(crate) fn forget_names(site: &Site) -> Result<()> {
    let file = fs::read_dir(site.bpffs())?
        .filter_map(Result::ok)
        .map(|set| set.path().join("GATED"))
        .find(|file: &PathBuf| file.exists())
        .context("the table of names is not pinned")?;
    let mut names: HashMap<MapData, GateKey, u32> =
        HashMap::try_from(Map::HashMap(MapData::from_pin(file)?))?;
    let known = names.keys().collect::<Result<Vec<_>, _>>()?;
    ensure!(!known.is_empty(), "the kernel knew no name");
    for name in &known {
        names.remove(name)?;
    }
    Ok(())
}
