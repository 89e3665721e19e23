//! `mcpmon release-held`: the process beside the daemon by which nothing stays stopped when the daemon is gone or stands
//! still.
//!
//! The kernel stops starts for the daemon to judge them, and cannot let another process go by itself. This process
//! notices the daemon's end by a pipe, and its silence by the time until which the gate is open. A server that nobody has
//! compared yet is killed then, as at an end in order; everything else goes on.

use std::{
    io,
    os::{fd::AsFd as _, unix::process::CommandExt as _},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use mcpmon_common::gate::Hold;
use mcpmon_kernel::{
    gate::{GateDescriptors, SharedHolds},
    pinned::{PinDirectory, PinError},
};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{SigSet, Signal},
    unistd::setsid,
};

use super::host;

/// The verb.
pub(crate) const VERB: &str = "release-held";
/// The interval at which the daemon's silence is looked for.
const LOOK: Duration = Duration::from_secs(5);
/// The time without a word, beyond that for which the gate is open, that is silence. A daemon that is silent at two looks
/// counts as gone: ten seconds after its last word at the earliest, of which none were slept by the host.
const SILENCE: Duration = Duration::from_secs(3);
/// The time within which a stop that a program of the kernel has begun is noted.
const LAST_STOP: Duration = Duration::from_millis(100);

/// Starts it for this process. Its end of the pipe is the child's input, and closes with this process.
///
/// # Errors
/// Returns an error if it does not start.
pub(crate) fn start(gate: GateDescriptors) -> io::Result<Child> {
    // Not `current_exe`: after an upgrade that path names another file. The tables take the place of the streams that it
    // does not have.
    Command::new("/proc/self/exe")
        .arg0("mcpmon")
        .arg(VERB)
        .stdin(Stdio::piped())
        .stdout(gate.switch)
        .stderr(gate.holds)
        .spawn()
}

/// Runs it, to the daemon's end.
///
/// # Errors
/// Returns an error if the streams are not those of [`start`].
pub(crate) fn run() -> io::Result<()> {
    // A service manager and a terminal signal whole groups, this process too, when the daemon is to end.
    SigSet::all().thread_block()?;
    // It leads a group already where somebody else started it.
    let _leads = setsid();
    let gate = GateDescriptors {
        switch: io::stdout().as_fd().try_clone_to_owned()?,
        holds: io::stderr().as_fd().try_clone_to_owned()?,
    };
    let mut holds = SharedHolds::new(gate)
        .map_err(|error| io::Error::other(format!("this is a part of `mcpmon daemon`: {error}")))?;
    let mut was_silent = false;
    while !has_ended()? {
        let is_silent = holds.silence()?.is_some_and(|silence| silence >= SILENCE);
        if is_silent && was_silent {
            release(&mut holds);
        }
        was_silent = is_silent;
    }
    holds.close()?;
    release(&mut holds);
    thread::sleep(LAST_STOP);
    release(&mut holds);
    Ok(())
}

/// Waits for the daemon's end for one interval.
fn has_ended() -> io::Result<bool> {
    let stdin = io::stdin();
    let mut daemon = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(LOOK).map_err(io::Error::other)?;
    // Nobody writes: it is readable only at its end.
    Ok(poll(&mut daemon, timeout)? > 0)
}

fn release(holds: &mut SharedHolds) {
    for hold in holds.take() {
        let signal = match hold.flags & Hold::FLAG_SERVER {
            0 => Signal::SIGCONT,
            _ => Signal::SIGKILL,
        };
        // One that cannot be signalled has ended.
        drop(host::signal(host::process_id(hold.process), signal));
    }
}

/// Lets everything go that is noted as stopped in what is kept in a directory, before that is removed: nothing is compared
/// any more. Returns the reasons why something may stay stopped.
///
/// # Errors
/// Returns an error if the directory cannot be read.
pub(crate) fn let_kept_go(directory: &PinDirectory) -> Result<Vec<String>, PinError> {
    let mut kept = SharedHolds::pinned(directory)?;
    let mut faults: Vec<String> = kept.errors.iter().map(ToString::to_string).collect();
    let closed = kept.holds.iter_mut().filter_map(|holds| holds.close().err());
    faults.extend(closed.map(|error| error.to_string()));
    let_go(&mut kept.holds, &mut faults);
    if !kept.holds.is_empty() {
        thread::sleep(LAST_STOP);
        let_go(&mut kept.holds, &mut faults);
    }
    Ok(faults)
}

fn let_go(kept: &mut [SharedHolds], faults: &mut Vec<String>) {
    for hold in kept.iter_mut().flat_map(SharedHolds::take) {
        let process = host::process_id(hold.process);
        if !host::is_alive(process) {
            continue;
        }
        if let Err(error) = host::signal(process, Signal::SIGCONT) {
            faults.push(format!("process {} stays stopped: {error}", process.pid));
        }
    }
}
