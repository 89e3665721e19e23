//! The daemon of the demo, with its own policy, store and socket.

use std::{
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::{
    PORT, network,
    outcome::{self, Listings},
    undo::{Action, Streams, Undo, wait_until},
};
use crate::shell;

/// The longest wait until an event is stored.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The directory for state in the kernel; the demo removes it at its end.
const BPFFS: &str = "/sys/fs/bpf/mcpmon-demo";
const INTERVAL: Duration = Duration::from_millis(100);

/// A running daemon.
#[derive(Debug)]
pub(super) struct Daemon {
    policy: PathBuf,
    store: PathBuf,
    socket: PathBuf,
}

impl Daemon {
    /// Starts the daemon, and returns when it enforces.
    pub(super) fn start(scratch: &Path, undo: &Undo) -> Result<Self> {
        let daemon = Self {
            policy: scratch.join("policy.yaml"),
            store: scratch.join("mcpmon.db"),
            socket: scratch.join("mcpmon.sock"),
        };
        let policy = policy();
        shell::say(format_args!("its policy, beside the defaults:\n\n{policy}"));
        fs::write(&daemon.policy, policy).context("could not write the policy")?;
        let mut command = daemon.mcpmon("daemon");
        command
            .arg("--config")
            .arg(&daemon.policy)
            .arg("--socket")
            .arg(&daemon.socket)
            .arg("--bpffs")
            .arg(BPFFS);
        undo.later(Action::Detach(program(), BPFFS));
        let log = scratch.join("daemon.log");
        let mut child = undo.spawn(command, Streams::Logged, &log)?;
        let enforces = || {
            daemon
                .asking("status")
                .output()
                .is_ok_and(|output| output.status.success())
        };
        wait_until(enforces, "the daemon", &mut child, &log)?;
        Ok(daemon)
    }

    /// Waits until connections to all of these addresses are stored.
    pub(super) fn wait_for(&self, addresses: &[Ipv4Addr]) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let output = self
                .asking("connections")
                .output()
                .context("could not run mcpmon")?;
            let listed = String::from_utf8_lossy(&output.stdout);
            let absent = addresses
                .iter()
                .find(|address| !listed.contains(&address.to_string()));
            let Some(absent) = absent else {
                return Ok(());
            };
            if Instant::now() > deadline {
                bail!("no connection to {absent} was recorded; `mcpmon connections` says:\n{listed}");
            }
            std::thread::park_timeout(INTERVAL);
        }
    }

    /// Prints a listing as a user sees it.
    pub(super) fn show(&self, listing: &str) -> Result<()> {
        let status = self.asking(listing).status().context("could not run mcpmon")?;
        if !status.success() {
            bail!("`mcpmon {listing}` failed: {status}");
        }
        Ok(())
    }

    /// Returns the listings as JSON.
    pub(super) fn listings(&self) -> Result<Listings> {
        let listed = |listing: &str| {
            let output = self
                .asking(listing)
                .arg("--json")
                .output()
                .context("could not run mcpmon")?;
            outcome::objects(&output.stdout)
        };
        Ok(Listings {
            servers: listed("servers")?,
            execs: listed("execs")?,
            connections: listed("connections")?,
            status: listed("status")?,
        })
    }

    fn asking(&self, command: &str) -> Command {
        let mut mcpmon = self.mcpmon(command);
        if command == "status" {
            mcpmon.arg("--socket").arg(&self.socket);
        }
        mcpmon
    }

    fn mcpmon(&self, command: &str) -> Command {
        let mut mcpmon = Command::new(program());
        mcpmon.arg(command).arg("--db").arg(&self.store);
        mcpmon
    }
}

fn program() -> PathBuf {
    shell::target().join("debug/mcpmon")
}

fn policy() -> String {
    let (watched, denied) = (network::WATCHED, network::DENIED);
    format!(
        "version: 1
mcp:
  servers:
    - id: demo-http
      type: http
      url: http://{watched}:{PORT}/mcp
network:
  watch:
    - name: demo-watched
      cidrs: [\"{watched}/32\"]
  deny:
    - name: demo-denied
      cidrs: [\"{denied}/32\"]
"
    )
}
