//! The processes below this one: their ends are collected here, and all of them can be ended.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd},
    process,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl,
        signal::{SigSet, Signal, kill},
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use super::{end::ProcessEnd, routing::PASSED_ON};
use crate::tree::descendants;

/// The longest time for processes that a server left behind to end after they were asked to.
const GRACE: Duration = Duration::from_secs(1);
/// The longest time for a killed process to end; one in an uninterruptible system call can take longer.
const DYING: Duration = Duration::from_secs(2);

/// The descriptors by which a process learns of its children's ends.
#[derive(Debug)]
pub(super) struct Family {
    signals: SignalFd,
}

/// The result of reaping the children once.
#[derive(Debug, Default)]
pub(super) struct ReapedChildren {
    /// The children that ended.
    pub(super) ended: Vec<(Pid, ProcessEnd)>,
    /// True if there are no more children.
    pub(super) childless: bool,
}

impl Family {
    /// Makes this process the parent of its orphaned descendants. The signals of [`blocked`] must be blocked.
    pub(super) fn adopt() -> io::Result<Self> {
        prctl::set_child_subreaper(true)?;
        let signals = SignalFd::with_flags(&blocked(), SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Self { signals })
    }

    /// Returns a descriptor that is readable when a signal has come.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }

    /// Returns the next signal that came.
    pub(super) fn next_signal(&self) -> io::Result<Option<Signal>> {
        let Some(info) = self.signals.read_signal()? else {
            return Ok(None);
        };
        Ok(i32::try_from(info.ssi_signo)
            .ok()
            .and_then(|number| Signal::try_from(number).ok()))
    }

    /// Reaps every child that has ended.
    pub(super) fn reap() -> ReapedChildren {
        let mut reaped = ReapedChildren::default();
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => return reaped,
                Ok(status) => reaped.ended.extend(ProcessEnd::of(status)),
                Err(Errno::EINTR) => {}
                Err(_) => {
                    reaped.childless = true;
                    return reaped;
                }
            }
        }
    }

    /// Ends every descendant. Those that do not end when asked are killed.
    pub(super) fn end_all(&self) -> io::Result<()> {
        self.signal_until_childless(Signal::SIGTERM, GRACE)?;
        self.signal_until_childless(Signal::SIGKILL, DYING)
    }

    /// Kills every descendant.
    pub(super) fn kill_all(&self) -> io::Result<()> {
        self.signal_until_childless(Signal::SIGKILL, DYING)
    }

    /// Signals every descendant once, including those that appear later.
    fn signal_until_childless(&self, signal: Signal, patience: Duration) -> io::Result<()> {
        let deadline = Instant::now() + patience;
        let mut signalled: Vec<u32> = Vec::new();
        while !Self::reap().childless {
            for pid in descendants(process::id()) {
                if !signalled.contains(&pid) {
                    signalled.push(pid);
                    // A process that has ended meanwhile needs no signal.
                    let _gone = kill(Pid::from_raw(pid.cast_signed()), signal);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.wait_for_signal(left)?;
        }
        Ok(())
    }

    fn wait_for_signal(&self, patience: Duration) -> io::Result<()> {
        let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
        let mut ready = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        while self.next_signal()?.is_some() {}
        Ok(())
    }
}

/// Returns the signals that are received through descriptors, and so have to be blocked.
pub(super) fn blocked() -> SigSet {
    PASSED_ON.into_iter().chain([Signal::SIGCHLD]).collect()
}
