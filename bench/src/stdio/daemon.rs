//! A daemon beside the wrappers, if one can run.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use mcpmon_bench::site::Site;
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, geteuid},
};
use serde_json::Value;

/// The longest time until the daemon answers.
const UP: Duration = Duration::from_secs(60);
/// The directory for kernel objects that outlive the daemon.
const BPFFS: &str = "/sys/fs/bpf/mcpmon-bench";
const PAUSE: Duration = Duration::from_millis(50);

/// A running daemon; it is ended with this value.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    socket: PathBuf,
    /// The daemon's program.
    mcpmon: PathBuf,
}

impl Daemon {
    /// Starts a daemon with this policy and waits until its self-test is done. Returns `None`, and says why, without
    /// root.
    #[expect(clippy::print_stderr, reason = "what is left out is said")]
    pub(crate) fn start(mcpmon: &Path, policy: &str, site: &Site) -> Result<Option<Self>> {
        if !geteuid().is_root() {
            eprintln!("not root: calls that the daemon's state is asked about are not measured");
            return Ok(None);
        }
        let socket = site.path("daemon.sock");
        let config = site.file("daemon.yaml", policy)?;
        let log = std::fs::File::create(site.path("daemon.log"))?;
        let child = site
            .command(mcpmon)
            .arg("daemon")
            .args(["--socket".as_ref(), socket.as_os_str()])
            .args(["--config".as_ref(), config.as_os_str()])
            .args(["--db".as_ref(), site.path("daemon.db").as_os_str()])
            .args(["--bpffs", BPFFS])
            .stderr(log)
            .spawn()
            .context("cannot start the daemon")?;
        let mut daemon = Self {
            child,
            socket,
            mcpmon: mcpmon.to_owned(),
        };
        daemon.wait_until_tested(mcpmon, site)?;
        Ok(Some(daemon))
    }

    /// Returns the daemon's control socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    fn wait_until_tested(&mut self, mcpmon: &Path, site: &Site) -> Result<()> {
        let deadline = Instant::now() + UP;
        while !is_tested(site.command(mcpmon), &self.socket)? {
            if let Some(status) = self.child.try_wait()? {
                let log = std::fs::read_to_string(site.path("daemon.log"))?;
                bail!("the daemon ended with {status}: {log}");
            }
            ensure!(Instant::now() < deadline, "the daemon is not up after {UP:?}");
            thread::sleep(PAUSE);
        }
        Ok(())
    }
}

fn is_tested(mut mcpmon: Command, socket: &Path) -> Result<bool> {
    let status = mcpmon
        .args(["status", "--json", "--socket"])
        .arg(socket)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .output()?;
    let status: Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
    Ok(!status["checked_at"].is_null())
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _gone = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let _status = self.child.wait();
        // The kernel programs stay attached otherwise.
        let mut detach = Command::new(&self.mcpmon);
        let _left = detach
            .args(["detach", "--bpffs", BPFFS])
            .stdout(Stdio::null())
            .status();
    }
}
