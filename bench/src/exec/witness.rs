//! Servers that report when they run: a native program and a script, started and watched to their end.

use std::{
    fs::{self, File},
    io::ErrorKind,
    net::UdpSocket,
    os::unix::{fs::FileExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    daemon::Daemon,
    json::text,
    program,
    servers::{self, change},
};
use nix::{
    sys::memfd::{MFdFlags, memfd_create},
    time::{ClockId, clock_gettime},
};

const NATIVE: &str = include_str!("witness.c");
const SCRIPT: &str = include_str!("witness.py");
/// The time for which a server runs while it is pinned.
const LONG: Duration = Duration::from_secs(30);

/// A server on the disk.
#[derive(Debug)]
pub(crate) struct Server {
    /// The id.
    pub(crate) name: String,
    file: PathBuf,
    /// A file with the original content.
    original: PathBuf,
    /// The interpreter, if the server is a script.
    interpreter: Option<PathBuf>,
}

impl Server {
    /// Makes a static program.
    pub(crate) fn native(directory: &Path) -> Result<Self> {
        let server = Self::at(directory, None);
        let source = directory.join("witness.c");
        fs::write(&source, NATIVE)?;
        let status = Command::new("cc")
            .args(["-O1", "-static", "-o"])
            .args([&server.original, &source])
            .status()
            .context("cannot run cc")?;
        ensure!(status.success(), "cc ended with {status}");
        server.restore()?;
        Ok(server)
    }

    /// Makes a Python script.
    pub(crate) fn script(directory: &Path) -> Result<Self> {
        let server = Self::at(directory, Some(python()?));
        fs::write(&server.original, SCRIPT)?;
        server.restore()?;
        Ok(server)
    }

    fn at(directory: &Path, interpreter: Option<PathBuf>) -> Self {
        let name = servers::name();
        Self {
            file: directory.join(&name),
            original: directory.join(format!("{name}.original")),
            name,
            interpreter,
        }
    }

    /// Copies the program to a name that is not a server's.
    pub(crate) fn ordinary(&self, directory: &Path) -> Result<PathBuf> {
        let ordinary = directory.join("ordinary");
        program::copy(&self.original, &ordinary)?;
        Ok(ordinary)
    }

    /// Restores the original content.
    pub(crate) fn restore(&self) -> Result<()> {
        let new = self.file.with_extension("new");
        program::copy(&self.original, &new)?;
        Ok(fs::rename(&new, &self.file)?)
    }

    /// Appends a byte that changes only the hash.
    pub(crate) fn change(&self) -> Result<()> {
        change(&self.file)
    }

    /// Returns the command that starts the server.
    pub(crate) fn command(&self) -> Command {
        let Some(interpreter) = &self.interpreter else {
            return Command::new(&self.file);
        };
        let mut command = Command::new(interpreter);
        command.arg(&self.file);
        command
    }

    /// Starts the server, and waits until the daemon has pinned it.
    pub(crate) fn pin(&self, daemon: &Daemon, witness: &Witness) -> Result<()> {
        witness.pin(self.command(), daemon, &self.name)
    }
}

/// Returns the Python interpreter itself, because `python3` on the search path may be a script that looks for it.
fn python() -> Result<PathBuf> {
    let said = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .context("cannot run python3")?;
    ensure!(said.status.success(), "python3 ended with {}", said.status);
    Ok(String::from_utf8(said.stdout)?.trim_end().into())
}

/// The file and the socket by which servers report that they run.
#[derive(Debug)]
pub(crate) struct Witness {
    file: File,
    mailbox: UdpSocket,
}

/// The times of a start in milliseconds, counted from before the call that makes the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// The time of the first act; `None` if the server did nothing.
    pub(crate) act: Option<f64>,
    /// The time from the first act to the last.
    pub(crate) ran: f64,
    /// True if the server sent a datagram.
    pub(crate) sent: bool,
    /// The time of the server's end.
    pub(crate) ended: f64,
    /// True if the server was killed.
    pub(crate) is_killed: bool,
}

impl Witness {
    pub(crate) fn new() -> Result<Self> {
        let file = memfd_create("bench-exec", MFdFlags::MFD_CLOEXEC).context("no memory for a file")?;
        let mailbox = UdpSocket::bind(("127.0.0.1", 0))?;
        mailbox.set_nonblocking(true)?;
        Ok(Self {
            file: file.into(),
            mailbox,
        })
    }

    /// Starts a server that runs for this time.
    pub(crate) fn start(&self, mut command: Command, time: Duration) -> Result<Child> {
        self.file.write_all_at(&[0; 16], 0)?;
        let port = self.mailbox.local_addr()?.port();
        command
            .args([port.to_string(), time.as_micros().to_string()])
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::from(self.file.try_clone()?));
        command.spawn().with_context(|| format!("{command:?}"))
    }

    /// Starts a server, and waits until the daemon has pinned it under its name.
    pub(crate) fn pin(&self, command: Command, daemon: &Daemon, name: &str) -> Result<()> {
        let mut first = self.start(command, LONG)?;
        let started = daemon.start_of(name, 1)?;
        first.kill()?;
        first.wait()?;
        ensure!(text(&started, "pin") == "pinned", "it is not pinned: {started}");
        Ok(())
    }

    /// Starts a server that runs for this time, and waits for its end.
    pub(crate) fn watch(&self, command: Command, time: Duration) -> Result<Start> {
        let started = now()?;
        let status = self.start(command, time)?.wait()?;
        let ended = now()?;
        Ok(Start {
            act: self.act_since(started)?,
            ran: self.ran()?,
            sent: self.empty()? > 0,
            ended: milliseconds(ended.saturating_sub(started)),
            is_killed: status.signal() == Some(9),
        })
    }

    /// Returns the milliseconds from `started` to the first act of the latest start; `None` if it has not acted yet.
    pub(crate) fn act_since(&self, started: Duration) -> Result<Option<f64>> {
        let first = self.clock(0)?;
        Ok((!first.is_zero()).then(|| milliseconds(first.saturating_sub(started))))
    }

    fn ran(&self) -> Result<f64> {
        Ok(milliseconds(self.clock(8)?.saturating_sub(self.clock(0)?)))
    }

    fn clock(&self, place: u64) -> Result<Duration> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, place)?;
        Ok(Duration::from_nanos(u64::from_le_bytes(bytes)))
    }

    /// Returns the number of datagrams that came since the last call.
    fn empty(&self) -> Result<usize> {
        let mut came = 0;
        loop {
            match self.mailbox.recv(&mut [0; 16]) {
                Ok(_) => came += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(came),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Returns the time of the clock that servers use.
pub(crate) fn now() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_MONOTONIC)?.into())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_runs_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let witness = Witness::new().unwrap();
        for server in [
            Server::native(directory.path()).unwrap(),
            Server::script(directory.path()).unwrap(),
        ] {
            let start = witness.watch(server.command(), Duration::from_millis(2)).unwrap();
            assert!(start.act.is_some_and(|act| act < start.ended), "{start:?}");
            assert!(start.ran >= 1.0 && start.sent && !start.is_killed, "{start:?}");
            let mut silent = Command::new("/bin/true");
            silent.env_clear();
            let start = witness.watch(silent, Duration::ZERO).unwrap();
            assert!(start.act.is_none() && !start.sent, "{start:?}");
        }
    }
}
