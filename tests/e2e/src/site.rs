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

/// A directory with everything that a daemon needs; it is removed at the end.
#[derive(Debug)]
pub struct Site {
    directory: TempDir,
}

impl Site {
    /// Makes a site with this policy.
    ///
    /// # Errors
    /// Returns an error if it cannot be made.
    pub fn new(policy: &str) -> Result<Self> {
        // A daemon that runs as root takes its policy only from places where root alone can write, or from below a
        // sticky directory.
        let directory = tempfile::Builder::new()
            .prefix("mcpmon-e2e-")
            .tempdir_in("/var/tmp")
            .context("cannot make a directory in /var/tmp")?;
        // The same mode as of /run/mcpmon: everyone may enter, and the files inside have their own modes.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        let site = Self { directory };
        site.write_policy(policy)?;
        Ok(site)
    }

    /// Returns the path of a file or directory in the site.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the path of the policy.
    #[must_use]
    pub fn policy(&self) -> PathBuf {
        self.path("mcpmon.yaml")
    }

    /// Returns the path of the store, in a directory that the daemon makes.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.path("store/mcpmon.db")
    }

    /// Returns the path of the control socket, in a directory that the daemon makes.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.path("run/mcpmon.sock")
    }

    /// Returns the directory for pinned kernel objects, in a BPF file system that belongs to the site.
    #[must_use]
    pub fn bpffs(&self) -> PathBuf {
        self.mount_point().join("mcpmon")
    }

    fn mount_point(&self) -> PathBuf {
        self.path("bpf")
    }

    /// Mounts that file system, unless it is mounted already. What daemons leave in it ends with the site.
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

    /// Replaces the policy in one step, as editors do.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn write_policy(&self, text: &str) -> Result<()> {
        let new = self.path("mcpmon.yaml.new");
        fs::write(&new, text)?;
        fs::rename(&new, self.policy()).context("cannot replace the policy")
    }

    /// Returns the arguments of the site's daemon.
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

    /// Returns the command `PROGRAM wrap -- COMMAND` with the site's daemon. What is kept without a daemon is kept in
    /// the site, below `own`.
    #[must_use]
    pub fn wrap<A: AsRef<OsStr>>(&self, program: &Path, words: impl IntoIterator<Item = A>) -> Command {
        self.wrap_with(program, &[], words)
    }

    /// Does the same as [`Self::wrap`], with options of the wrapper.
    #[must_use]
    pub fn wrap_with<A: AsRef<OsStr>>(
        &self,
        program: &Path,
        options: &[&str],
        words: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = self.wrapper(program);
        command.args(options).arg("--").args(words);
        command
    }

    /// Returns the command `PROGRAM wrap --url URL`, for a server that is reached over the network, with the site's
    /// daemon.
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

    /// Returns a listing of the store, an object for each line.
    ///
    /// # Errors
    /// Returns an error if the listing fails.
    pub fn list(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let run = self.read(&[arguments, &["--json"]].concat())?;
        ensure!(run.code == Some(0), "{arguments:?} failed: {run:?}");
        run.objects()
    }

    /// Returns the listing `events`, with a limit far above what a test makes.
    ///
    /// # Errors
    /// Returns an error if the listing fails.
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
