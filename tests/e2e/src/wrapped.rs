//! A server behind `mcpmon wrap`, and its pipes as a client has them.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read, Write as _},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    thread,
};

use anyhow::{Context as _, Result, anyhow};
use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use tempfile::TempDir;

use crate::{program, wait};

/// The home directory in which a wrapper finds its configuration and keeps its store.
#[derive(Debug)]
pub struct Home(TempDir);

impl Home {
    /// Makes a home without a configuration.
    ///
    /// # Errors
    /// Returns an error if it cannot be made.
    pub fn new() -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("mcpmon-e2e-wrap-")
            .tempdir_in("/var/tmp")?;
        Ok(Self(directory))
    }

    /// Returns the path of a file in the home.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes the wrapper's configuration.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn configure(&self, text: &str) -> Result<()> {
        let path = self.path("config/mcpmon/mcpmon.yaml");
        fs::create_dir_all(path.parent().context("a directory")?)?;
        Ok(fs::write(path, text)?)
    }

    /// Returns the command `mcpmon wrap OPTIONS -- COMMAND`, in a new process group.
    ///
    /// # Errors
    /// Returns an error if the program was not built.
    pub fn wrap(&self, options: &[&str], command: &[&str]) -> Result<Command> {
        let mut wrap = Command::new(program::path()?);
        // No daemon of this host may take part, and the host's store must stay as it is.
        wrap.arg("wrap").arg("--socket").arg(self.path("no-daemon"));
        wrap.arg("--db").arg(self.path("store.db"));
        wrap.args(options).arg("--").args(command);
        wrap.env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env_remove("MCPMON_CONFIG")
            .env_remove("RUST_LOG")
            .process_group(0);
        Ok(wrap)
    }

    /// Starts a wrapper for this command.
    ///
    /// # Errors
    /// Returns an error if it does not start.
    pub fn start(&self, command: &[&str]) -> Result<Wrapped> {
        Wrapped::start(&mut self.wrap(&[], command)?)
    }
}

/// A running wrapper. It is killed at the end.
#[derive(Debug)]
pub struct Wrapped {
    child: Child,
    /// The pipe to the server; `None` once it is closed.
    pub stdin: Option<ChildStdin>,
    /// The pipe from the server; `None` once it is closed.
    pub stdout: Option<BufReader<ChildStdout>>,
    stderr: Option<ChildStderr>,
}

impl Wrapped {
    /// Starts a wrapper.
    ///
    /// # Errors
    /// Returns an error if it does not start.
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self {
            stdin: child.stdin.take(),
            stdout: child.stdout.take().map(BufReader::new),
            stderr: child.stderr.take(),
            child,
        })
    }

    /// Returns the wrapper's process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Sends a line.
    ///
    /// # Errors
    /// Returns an error if the pipe is closed.
    pub fn send(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the pipe is open")?;
        Ok(stdin.write_all(format!("{line}\n").as_bytes())?)
    }

    /// Returns the server's next line, without its end; empty at the end of the server's output.
    ///
    /// # Errors
    /// Returns an error if the line cannot be read, or does not come.
    pub fn line(&mut self) -> Result<String> {
        let stdout = self.stdout.as_mut().context("the pipe is open")?;
        let mut line = Vec::new();
        loop {
            if stdout.buffer().is_empty() {
                wait::readable("a line of the server", stdout.get_ref())?;
            }
            let said = stdout.fill_buf()?;
            let end = said.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(said.len(), |at| at + 1);
            line.extend_from_slice(&said[..taken]);
            stdout.consume(taken);
            if end.is_some() || taken == 0 {
                return Ok(String::from_utf8(line)?.trim_end().to_owned());
            }
        }
    }

    /// Signals the wrapper, which is the process that a client knows.
    ///
    /// # Errors
    /// Returns an error if it has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(self.pid(), signal)?)
    }

    /// Signals the whole process group.
    ///
    /// # Errors
    /// Returns an error if it has ended.
    pub fn signal_group(&self, signal: Signal) -> Result<()> {
        Ok(killpg(self.pid(), signal)?)
    }

    /// Waits until the wrapper ends.
    ///
    /// # Errors
    /// Returns an error if it does not end.
    pub fn ended(&mut self) -> Result<ExitStatus> {
        wait::until("the wrapper's end", || Ok(self.child.try_wait()?))
    }

    /// Reads standard error from now on, in a thread; [`Self::finish`] then returns none of it.
    pub fn errors(&mut self) -> thread::JoinHandle<Result<Vec<u8>>> {
        let stderr = self.stderr.take();
        thread::spawn(|| all_of(stderr))
    }

    /// Closes standard input, reads the rest of the output, and waits until the wrapper ends. Returns the status as a
    /// shell reports it, standard output and standard error.
    ///
    /// # Errors
    /// Returns an error if the wrapper does not end.
    pub fn finish(&mut self) -> Result<(i32, String, String)> {
        let (code, output, errors) = self.finish_bytes()?;
        Ok((code, String::from_utf8(output)?, String::from_utf8(errors)?))
    }

    /// Does the same as [`Self::finish`], for output that may not be text.
    ///
    /// # Errors
    /// Returns an error if the wrapper does not end.
    pub fn finish_bytes(&mut self) -> Result<(i32, Vec<u8>, Vec<u8>)> {
        self.stdin = None;
        // Both streams are read at once, because a server waits while its output is not read.
        let errors = self.errors();
        let output = all_of(self.stdout.take())?;
        let errors = errors
            .join()
            .map_err(|_panic| anyhow!("standard error could not be read"))??;
        let status = self.ended()?;
        let code = status
            .code()
            .or_else(|| status.signal().map(|signal| 128 + signal));
        Ok((code.context("a status")?, output, errors))
    }
}

/// Reads a pipe to its end.
fn all_of(pipe: Option<impl Read>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

impl Drop for Wrapped {
    /// Kills the wrapper; it is no failure if it has ended already.
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns whether no process with this number runs any more. A process that has ended and is not yet waited for does
/// not run.
#[must_use]
pub fn is_gone(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default();
    stat.is_empty() || state.trim_start().starts_with(['Z', 'X'])
}

/// Returns the children of a process.
///
/// # Errors
/// Returns an error if the process is gone.
pub fn children(pid: u32) -> Result<Vec<u32>> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    Ok(text
        .split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect())
}

/// Returns the private memory of a process, KiB: without pages of files, which come and go as they are used.
///
/// # Errors
///
/// Returns an error if the process is gone.
pub fn own_memory(pid: u32) -> Result<u64> {
    memory(pid, "RssAnon:")
}

/// Returns the peak memory of a process, KiB.
///
/// # Errors
/// Returns an error if the process is gone.
pub fn peak_memory(pid: u32) -> Result<u64> {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, size: &str) -> Result<u64> {
    let status = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(size));
    let number = line.and_then(|line| line.split_ascii_whitespace().next());
    Ok(number.context("a size")?.parse()?)
}
