//! The end of a process, and its reproduction in another process.

use std::process::ExitCode;

use nix::{
    sys::{
        resource::{Resource, setrlimit},
        signal::{SigSet, Signal, raise},
        wait::WaitStatus,
    },
    unistd::Pid,
};

use super::sys;

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It exited with this status.
    Exited(u8),
    /// It was killed by this signal.
    Killed(Signal),
}

impl ProcessEnd {
    /// Returns the process and its end from a status of `wait(2)`.
    pub(super) fn of(status: WaitStatus) -> Option<(Pid, Self)> {
        match status {
            // The kernel keeps eight bits of the status.
            WaitStatus::Exited(pid, code) => Some((pid, Self::Exited(code.to_le_bytes()[0]))),
            WaitStatus::Signaled(pid, signal, _) => Some((pid, Self::Killed(signal))),
            WaitStatus::Stopped(..)
            | WaitStatus::PtraceEvent(..)
            | WaitStatus::PtraceSyscall(_)
            | WaitStatus::Continued(_)
            | WaitStatus::StillAlive => None,
        }
    }

    /// Ends this process the same way: immediately by the signal, or by returning the status.
    pub fn repeat(self) -> ExitCode {
        match self {
            Self::Exited(code) => ExitCode::from(code),
            Self::Killed(signal) => {
                // A core dump of this program would not explain the crash of the other.
                let _limited = setrlimit(Resource::RLIMIT_CORE, 0, 0);
                sys::restore_default(signal);
                let _unblocked = SigSet::from(signal).thread_unblock();
                let _raised = raise(signal);
                // The convention of shells, in case the signal did not end this process.
                ExitCode::from(128_u8.wrapping_add((signal as i32).to_le_bytes()[0]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    const PID: Pid = Pid::from_raw(7);

    #[test_case(WaitStatus::Exited(PID, 3) => Some((PID, ProcessEnd::Exited(3))); "a status")]
    #[test_case(WaitStatus::Signaled(PID, Signal::SIGSEGV, true) => Some((PID, ProcessEnd::Killed(Signal::SIGSEGV))); "a signal")]
    #[test_case(WaitStatus::Stopped(PID, Signal::SIGSTOP) => None; "stopped is no end")]
    #[test_case(WaitStatus::StillAlive => None; "alive")]
    fn ends(status: WaitStatus) -> Option<(Pid, ProcessEnd)> {
        ProcessEnd::of(status)
    }
}
