//! Connection attempts in another process, made by a relative of a workload or by a program that it executes.

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

/// The first argument that makes the test program try one connection and end.
const ARGUMENT: &str = "--connect";
/// The answer to an attempt that goes through.
pub const REACHED: u8 = 0;
/// The answer to an attempt that is refused: `EPERM`.
pub const REFUSED: u8 = 1;

/// Exit status of a test program that could not even try to connect.
const BROKEN: u8 = 255;

/// The relative of a workload that makes the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relative {
    /// The workload itself.
    Itself,
    /// A second thread of the workload.
    Thread,
    /// A second thread, after the first has ended.
    LastThread,
    /// A child.
    Child,
    /// A grandchild in a new session whose parent has ended: a daemon.
    Orphan,
    /// A process with the same parent as the workload.
    Sibling,
    /// A child that the workload waits for as after vfork(2).
    Vforked,
    /// Another program, started by `posix_spawn`.
    Program,
}

/// All relatives.
pub const RELATIVES: [Relative; 8] = [
    Relative::Itself,
    Relative::Thread,
    Relative::Child,
    Relative::Orphan,
    Relative::Sibling,
    Relative::Vforked,
    Relative::Program,
    // Last, because it ends the first thread of a child in the workload's place.
    Relative::LastThread,
];

/// Connects to `target`, and returns the error number; 0 if the connection goes through.
///
/// # Errors
/// Returns an error if the attempt fails without an error number.
pub fn connect(target: SocketAddr) -> Result<u8> {
    let local = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(local).context("cannot open a socket")?;
    match socket.connect(target) {
        Ok(()) => Ok(0),
        Err(error) => Ok(u8::try_from(error.raw_os_error().context("no error number")?)?),
    }
}

impl Relative {
    /// Lets this relative of the calling process connect, and returns the result of [`connect`].
    ///
    /// # Errors
    /// Returns an error if the relative cannot be made or does not answer.
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

/// Runs `program`, which must be a copy of or a link to this program, lets it connect, and returns the result of
/// [`connect`].
///
/// # Errors
/// Returns an error if the program cannot be run.
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

/// Connects if this program was started to do so, and returns the exit status; `None` if it was not.
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

/// Runs `work` in a new process and returns the one byte that it writes.
fn in_process(how: Fork, work: impl FnOnce(UnixStream) -> i32) -> Result<u8> {
    let (mut ours, theirs) = UnixStream::pair().context("cannot make a socket pair")?;
    let child = fork(how, || work(theirs)).context("cannot fork")?;
    let mut code = [0];
    ours.read_exact(&mut code)
        .context("the new process says nothing")?;
    if how != Fork::SameParent {
        // Only its parent can wait for a sibling.
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

/// Starts a child and ends at once, so that the child loses its parent before it connects.
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

/// Ends the first thread, and leaves the process to a second one.
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

/// Checks that every relative of the calling process gets the answer `code`.
///
/// # Errors
/// Returns an error if one gets another answer.
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
