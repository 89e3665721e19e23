//! The measured daemon, with the same files in every round.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use aya::maps::{HashMap, Map, MapData};
use mcpmon_e2e::{daemon::Daemon, host::Host, json::number, program, site::Site};

/// The key of a name in the kernel's table of gated names.
type GateKey = [u64; 2];

/// Returns a policy that looks only for servers of this run.
pub(crate) fn policy(on_change: &str) -> String {
    let own = std::process::id();
    format!(
        "version: 1\nmcp:\n  version_pinning: {{on_change: {on_change}}}\n  detection: {{server_patterns: [\"mcp-server-e2e{own}x*\", \"mcp_server_e2e{own}x*\"]}}\n"
    )
}

/// Waits for this benchmark's turn on the host.
pub(crate) fn host() -> Result<Host> {
    Host::take(&["cc", "python3", "node", "sha256sum"])?.context("it cannot be measured here")
}

/// Ends a daemon, and removes what it pinned in the kernel.
pub(crate) fn end(daemon: Daemon) -> Result<Site> {
    let (site, status) = daemon.end()?;
    ensure!(status.success(), "the daemon ended with {status}");
    let detached = program::run(["detach", "--bpffs", &site.bpffs().display().to_string()])?;
    ensure!(detached.code == Some(0), "{detached:?}");
    Ok(site)
}

/// Returns a counter of the kernel programs.
pub(crate) fn counter(daemon: &Daemon, name: &str) -> Result<u64> {
    Ok(number(&daemon.status()?["counters"], name))
}

/// Removes all names from the kernel's table, so that only the daemon stops servers.
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
