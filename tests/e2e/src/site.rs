//! The files of one daemon: a policy, a store and a socket in a directory that only root can change.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{self, Run};

/// A directory with everything a daemon needs, removed at the end.
#[derive(Debug)]
pub struct Site {
    directory: TempDir,
}

impl Site {
    /// A new one with this policy.
    ///
    /// # Errors
    /// Returns an error if it cannot be made.
    pub fn new(policy: &str) -> Result<Self> {
        // A root daemon takes its policy from where only root can write, or from below a sticky directory.
        let directory = tempfile::Builder::new()
            .prefix("mcpmon-e2e-")
            .tempdir_in("/var/tmp")
            .context("cannot make a directory in /var/tmp")?;
        // As /run/mcpmon: what is inside has modes of its own.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        let site = Self { directory };
        site.write_policy(policy)?;
        Ok(site)
    }

    /// A file or directory in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> PathBuf {
        self.path("mcpmon.yaml")
    }

    /// The store, in a directory that the daemon makes.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.path("store/mcpmon.db")
    }

    /// The control socket, in a directory that the daemon makes.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.path("run/mcpmon.sock")
    }

    /// The directory for what stays in the kernel, in a file system of the site's own.
    #[must_use]
    pub fn bpffs(&self) -> PathBuf {
        self.mount_point().join("mcpmon")
    }

    fn mount_point(&self) -> PathBuf {
        self.path("bpf")
    }

    /// Mounts that file system, where it is not. What daemons leave in it ends with the site.
    ///
    /// # Errors
    /// Returns an error if it cannot be mounted.
    pub fn mount_bpffs(&self) -> Result<()> {
        let point = self.mount_point();
        if point.exists() {
            return Ok(());
        }
        fs::create_dir(&point)?;
        mount(
            Some("bpf"),
            &point,
            Some("bpf"),
            MsFlags::empty(),
            Some("mode=0700"),
        )
        .context("cannot mount a BPF file system")
    }

    /// Puts another policy in the place of the one that is there, in one step as editors do.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn write_policy(&self, text: &str) -> Result<()> {
        let new = self.path("mcpmon.yaml.new");
        fs::write(&new, text)?;
        fs::rename(&new, self.policy()).context("cannot replace the policy")
    }

    /// The arguments of its daemon.
    #[must_use]
    pub fn daemon_arguments(&self) -> Vec<OsString> {
        let mut arguments = vec![OsString::from("daemon")];
        for (option, path) in [
            ("--config", self.policy()),
            ("--db", self.store()),
            ("--socket", self.socket()),
            ("--bpffs", self.bpffs()),
        ] {
            arguments.extend([option.into(), path.into()]);
        }
        arguments
    }

    /// `PROGRAM wrap -- COMMAND` with its daemon. What is kept without a daemon is kept in the site, below `own`.
    #[must_use]
    pub fn wrap<A: AsRef<OsStr>>(&self, program: &Path, words: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.wrapper(program);
        command.arg("--").args(words);
        command
    }

    /// The same before a server that is reached over the network: `PROGRAM wrap --url URL`.
    #[must_use]
    pub fn wrap_url(&self, program: &Path, url: &str) -> Command {
        let mut command = self.wrapper(program);
        command.args(["--url", url]);
        command
    }

    fn wrapper(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg("wrap").arg("--socket").arg(self.socket());
        command.arg("--db").arg(self.own_store());
        command
            .env("XDG_CONFIG_HOME", self.path("own"))
            .env_remove("MCPMON_CONFIG")
            .env_remove("RUST_LOG");
        command
    }

    /// Returns the store of wrappers that run without a daemon.
    #[must_use]
    pub fn own_store(&self) -> PathBuf {
        self.path("own/mcpmon.db")
    }

    /// Runs a command that asks the daemon.
    ///
    /// # Errors
    /// Returns an error if it cannot be run.
    pub fn ask(&self, arguments: &[&str]) -> Result<Run> {
        program::run(with_path(arguments, "--socket", &self.socket()))
    }

    /// Runs a command that reads the store.
    ///
    /// # Errors
    /// Returns an error if it cannot be run.
    pub fn read(&self, arguments: &[&str]) -> Result<Run> {
        program::run(with_path(arguments, "--db", &self.store()))
    }

    /// A listing of the store, an object for each line.
    ///
    /// # Errors
    /// Returns an error if it cannot be had.
    pub fn list(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let run = self.read(&[arguments, &["--json"]].concat())?;
        ensure!(run.code == Some(0), "{arguments:?} failed: {run:?}");
        run.objects()
    }

    /// The listing `events`, up to far more than a test makes.
    ///
    /// # Errors
    /// Returns an error if it cannot be had.
    pub fn events(&self) -> Result<Vec<Value>> {
        self.list(&["events", "--limit", "100000"])
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let point = self.mount_point();
        if point.exists() {
            let _is_no_mount_point = umount2(&point, MntFlags::MNT_DETACH);
        }
    }
}

fn with_path(arguments: &[&str], option: &str, path: &Path) -> Vec<OsString> {
    let given = arguments.iter().map(OsString::from);
    given.chain([option.into(), path.into()]).collect()
}
