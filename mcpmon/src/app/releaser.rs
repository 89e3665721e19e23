//! `mcpmon release-held`: the process beside the daemon that resumes stopped processes when the daemon ends or hangs.
//!
//! The kernel programs stop starts so that the daemon can judge them; they cannot resume them. This process notices the
//! daemon's end by a pipe, and a daemon that hangs by the time until which the gate is open. Then it kills each server
//! that is stopped and not compared yet, as an orderly end of the daemon does; it resumes all other stopped processes.

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

/// The subcommand.
pub(crate) const VERB: &str = "release-held";
/// The interval at which it checks whether the daemon is silent.
const LOOK: Duration = Duration::from_secs(5);
/// The time since the gate closed by itself that counts as silence. A daemon that is silent at two checks in a row
/// counts as gone: ten seconds after its last sign of life at the earliest. A sleep of the host alone cannot cause
/// that, because the interval between checks stops meanwhile.
const SILENCE: Duration = Duration::from_secs(3);
/// The time within which a kernel program that has begun to stop a process has noted that.
const LAST_STOP: Duration = Duration::from_millis(100);

/// Starts the process for this daemon. The child's standard input is a pipe whose other end closes with the daemon.
///
/// # Errors
/// Returns an error if the process does not start.
pub(crate) fn start(gate: GateDescriptors) -> io::Result<Child> {
    // Not `current_exe`: after an upgrade that path names another file. The tables are passed as standard output and
    // error, which the child does not use otherwise.
    Command::new("/proc/self/exe")
        .arg0("mcpmon")
        .arg(VERB)
        .stdin(Stdio::piped())
        .stdout(gate.switch)
        .stderr(gate.holds)
        .spawn()
}

/// Runs until the daemon's end.
///
/// # Errors
/// Returns an error if the streams are not those of [`start`].
pub(crate) fn run() -> io::Result<()> {
    // A service manager or a terminal signals the whole process group when the daemon is to end; this process must
    // outlive the daemon.
    SigSet::all().thread_block()?;
    // Fails if this process already leads a group, because it was started by hand.
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

/// Waits for one interval; returns whether the daemon has ended.
fn has_ended() -> io::Result<bool> {
    let stdin = io::stdin();
    let mut daemon = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(LOOK).map_err(io::Error::other)?;
    // The daemon never writes, so the pipe becomes readable only at its end.
    Ok(poll(&mut daemon, timeout)? > 0)
}

fn release(holds: &mut SharedHolds) {
    for hold in holds.take() {
        let signal = match hold.flags & Hold::FLAG_SERVER {
            0 => Signal::SIGCONT,
            _ => Signal::SIGKILL,
        };
        // A process that cannot be signalled has ended.
        drop(host::signal(host::process_id(hold.process), signal));
    }
}

/// Resumes every process that is noted as stopped in the state in this directory, which is about to be removed; no
/// process is compared any more. Returns the reasons why processes may stay stopped.
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
