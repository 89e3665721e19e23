//! The built program, and its output when it is run to its end.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::LazyLock,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::wait::TIMEOUT;

/// The path of the program.
static PATH: LazyLock<PathBuf> = LazyLock::new(|| assert_cmd::cargo::cargo_bin("mcpmon"));

/// Returns the path of the built `mcpmon`.
///
/// # Errors
/// Returns an error if it was not built.
pub fn path() -> Result<&'static PathBuf> {
    ensure!(
        PATH.exists(),
        "{} is not there: build it with `cargo build -p mcpmon`",
        PATH.display()
    );
    Ok(&PATH)
}

/// Returns the path of another program of this workspace, which is built beside it.
#[must_use]
pub fn beside(name: &str) -> String {
    assert_cmd::cargo::cargo_bin(name).display().to_string()
}

/// Copies a program that a test is about to run. Another process makes the copy: if this process did, a process that
/// another test starts meanwhile would inherit the file opened for writing, and the kernel would not run the copy
/// (`ETXTBSY`).
///
/// # Errors
/// Returns an error if it cannot be copied.
pub fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let status = Command::new("cp").arg("--").args([from, to]).status()?;
    ensure!(
        status.success(),
        "{} cannot be copied to {}: {status}",
        from.display(),
        to.display()
    );
    Ok(())
}

/// The result of a run of the program.
#[derive(Clone, Debug)]
pub struct Run {
    /// The exit status; `None` if a signal ended the program.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Run {
    /// Returns the lines of standard output, each of which is a JSON object.
    ///
    /// # Errors
    /// Returns an error if a line is not JSON.
    pub fn objects(&self) -> Result<Vec<Value>> {
        let parse = |line| serde_json::from_str(line).with_context(|| format!("no JSON: {line}"));
        self.stdout.lines().map(parse).collect()
    }
}

/// Runs the program to its end.
///
/// # Errors
/// Returns an error if the program is not built, does not start, or does not end.
pub fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Result<Run> {
    let mut command = assert_cmd::Command::new(path()?);
    command.args(arguments);
    finish(&mut command)
}

/// Returns the command of a program that has an empty `/var/lib` of its own, where root's own store is. Other users' stores are
/// in their homes.
pub fn with_own_state<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = A>,
) -> Command {
    let mut command = match nix::unistd::geteuid().is_root() {
        true => {
            let mut command = Command::new("/usr/bin/unshare");
            let line = "mount -t tmpfs mcpmon-e2e /var/lib && exec \"$@\"";
            command
                .args(["--mount", "/bin/sh", "-c", line, "sh"])
                .arg(program);
            command
        }
        false => Command::new(program),
    };
    command.args(arguments);
    command
}

/// Runs the program to its end as a user who is neither root nor a member of any group that matters.
///
/// # Errors
/// Returns the errors of [`run`].
pub fn run_as_nobody<A: AsRef<OsStr>>(
    program: &OsStr,
    arguments: impl IntoIterator<Item = A>,
) -> Result<Run> {
    run_as(&["--regid=65534", "--clear-groups"], program, arguments)
}

/// Runs the program to its end as a user whose only group that matters is this one.
///
/// # Errors
/// Returns the errors of [`run`].
pub fn run_as_member<A: AsRef<OsStr>>(
    group: u32,
    program: &OsStr,
    arguments: impl IntoIterator<Item = A>,
) -> Result<Run> {
    let groups = format!("--groups={group}");
    run_as(&["--regid=65534", &groups], program, arguments)
}

fn run_as<A: AsRef<OsStr>>(
    groups: &[&str],
    program: &OsStr,
    arguments: impl IntoIterator<Item = A>,
) -> Result<Run> {
    let mut command = assert_cmd::Command::new("setpriv");
    command.arg("--reuid=65534").args(groups).arg("--").arg(program);
    finish(command.args(arguments).env("HOME", "/nonexistent"))
}

fn finish(command: &mut assert_cmd::Command) -> Result<Run> {
    command.timeout(TIMEOUT).current_dir("/");
    for variable in ["MCPMON_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "RUST_LOG"] {
        command.env_remove(variable);
    }
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    Ok(Run {
        code: status.code(),
        stdout: String::from_utf8(stdout).context("standard output is no text")?,
        stderr: String::from_utf8(stderr).context("standard error is no text")?,
    })
}
