//! A workload's work in another process: one connection attempt, made by a relative of the workload or by a
//! program it executes.

use std::{
    env,
    io::{Read as _, Write as _},
    net::{SocketAddr, UdpSocket},
    os::unix::net::UnixStream,
    path::Path,
    process::{Command, ExitCode},
    thread,
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::{
    sys::wait::waitpid,
    unistd::{Pid, getppid, setsid},
};

use crate::sys::{Fork, end_thread, fork};

/// First argument that turns the test program into one that tries a connection.
const ARGUMENT: &str = "--connect";
/// Answer to an attempt that goes through.
pub const REACHED: u8 = 0;
/// Answer to one that is refused: `EPERM`.
pub const REFUSED: u8 = 1;

/// Exit status of such a program that could not even try.
const BROKEN: u8 = 255;

/// The relative of a workload that makes the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relative {
    /// The workload itself.
    Itself,
    /// A second thread of it.
    Thread,
    /// A second thread, after the first has ended.
    LastThread,
    /// A child.
    Child,
    /// A grandchild in a session of its own whose parent has ended: a daemon.
    Orphan,
    /// A process with the workload's parent as its own.
    Sibling,
    /// A child the workload waits for as after vfork(2).
    Vforked,
    /// Another program, started by `posix_spawn`.
    Program,
}

/// All of them.
pub const RELATIVES: [Relative; 8] = [
    Relative::Itself,
    Relative::Thread,
    Relative::Child,
    Relative::Orphan,
    Relative::Sibling,
    Relative::Vforked,
    Relative::Program,
    // Last, because it ends the workload's first thread in a child's place.
    Relative::LastThread,
];

/// Error number of connecting to `target`, 0 where it goes through.
///
/// # Errors
/// Returns an error if it fails without an error number.
pub fn connect(target: SocketAddr) -> Result<u8> {
    let local = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(local).context("cannot open a socket")?;
    match socket.connect(target) {
        Ok(()) => Ok(0),
        Err(error) => Ok(u8::try_from(error.raw_os_error().context("no error number")?)?),
    }
}

impl Relative {
    /// Has this relative of the calling process connect; as [`connect`].
    ///
    /// # Errors
    /// Returns an error if the relative cannot be made or says nothing.
    pub fn connect(self, target: SocketAddr) -> Result<u8> {
        match self {
            Self::Itself => connect(target),
            Self::Thread => thread::spawn(move || connect(target)).join().map_err(panicked)?,
            Self::Program => run(Path::new("/proc/self/exe"), target),
            Self::Child => in_process(Fork::Plain, |line| say(line, connect(target))),
            Self::Vforked => in_process(Fork::Waiting, |line| say(line, connect(target))),
            Self::Sibling => in_process(Fork::SameParent, |line| say(line, connect(target))),
            Self::Orphan => in_process(Fork::Plain, |line| orphan(line, target)),
            Self::LastThread => in_process(Fork::Plain, |line| last_thread(line, target)),
        }
    }
}

/// Runs `program`, which must be this one by whatever name, and has it connect; as [`connect`].
///
/// # Errors
/// Returns an error if it cannot be run.
pub fn run(program: &Path, target: SocketAddr) -> Result<u8> {
    let mut command = Command::new(program);
    let status = command
        .arg(ARGUMENT)
        .arg(target.to_string())
        .status()
        .context("cannot run a program")?;
    let code = u8::try_from(
        status
            .code()
            .with_context(|| format!("the program ended with {status}"))?,
    )?;
    ensure!(code != BROKEN, "the program could not try");
    Ok(code)
}

/// Exit status of this program where it was started to connect.
#[must_use]
pub fn from_arguments() -> Option<ExitCode> {
    let mut arguments = env::args().skip(1);
    if arguments.next()? != ARGUMENT {
        return None;
    }
    let target: Option<SocketAddr> = arguments.next().and_then(|target| target.parse().ok());
    let code = target.and_then(|target| connect(target).ok());
    Some(ExitCode::from(code.unwrap_or(BROKEN)))
}

/// Runs `work` in a new process and takes the one byte it writes.
fn in_process(how: Fork, work: impl FnOnce(UnixStream) -> i32) -> Result<u8> {
    let (mut ours, theirs) = UnixStream::pair().context("cannot make a socket pair")?;
    let child = fork(how, || work(theirs)).context("cannot fork")?;
    let mut code = [0];
    ours.read_exact(&mut code)
        .context("the new process says nothing")?;
    if how != Fork::SameParent {
        // A sibling is its parent's to wait for.
        waitpid(child, None).context("cannot wait")?;
    }
    Ok(code[0])
}

fn say(mut line: UnixStream, code: Result<u8>) -> i32 {
    match code {
        Ok(code) => i32::from(line.write_all(&[code]).is_err()),
        Err(_) => 1,
    }
}

/// Ends at once, so that its child loses its parent before it connects.
fn orphan(line: UnixStream, target: SocketAddr) -> i32 {
    let parent = Pid::this();
    let forked = fork(Fork::Plain, || {
        if setsid().is_err() {
            return 1;
        }
        while getppid() == parent {
            thread::yield_now();
        }
        say(line, connect(target))
    });
    i32::from(forked.is_err())
}

/// Leaves the process to a second thread.
fn last_thread(line: UnixStream, target: SocketAddr) -> i32 {
    let first = Pid::this();
    thread::spawn(move || {
        let ended = || match std::fs::read_to_string(format!("/proc/self/task/{first}/stat")) {
            Ok(stat) => stat.contains(") Z"),
            Err(_) => true,
        };
        while !ended() {
            thread::yield_now();
        }
        say(line, connect(target))
    });
    end_thread()
}

fn panicked<T>(_panic: T) -> anyhow::Error {
    anyhow::anyhow!("the thread panicked")
}

/// Checks that every relative of the calling process is answered `code`.
///
/// # Errors
///
/// Returns an error if one is not.
pub fn all_relatives(target: SocketAddr, code: u8) -> Result<()> {
    for relative in RELATIVES {
        let found = relative
            .connect(target)
            .with_context(|| format!("{relative:?}"))?;
        if found != code {
            bail!("{relative:?} is answered {found} for {target}, not {code}");
        }
    }
    Ok(())
}
