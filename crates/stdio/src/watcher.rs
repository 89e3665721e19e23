//! The watcher: the process that the client started. It passes signals on to the relaying process, ends like that, and
//! leaves no process behind. If the watcher is killed, the relaying process notices, and ends too.

use std::{
    fs::OpenOptions,
    io,
    os::fd::{AsFd as _, OwnedFd},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{SigSet, SigmaskHow, Signal, raise},
    unistd::{ForkResult, Pid, dup2_stdin, dup2_stdout, pipe2, read, write},
};

use super::{
    end::ProcessEnd,
    family::{Family, blocked},
    routing::{PASSED_ON, SignalRouting},
    sys,
};

/// The time before memory is given back: during the start, the other process and the server need the processor.
const SETTLED: Duration = Duration::from_secs(1);

/// The role of this process after the division.
#[derive(Debug)]
pub enum WrapperProcess {
    /// The watcher, which the client knows; the relaying process has ended like this, or cannot be watched.
    Watcher(io::Result<ProcessEnd>),
    /// The relaying process.
    Relay(Box<RelayProcess>),
}

/// The relaying process's view of its watcher and of its own children.
#[derive(Debug)]
pub struct RelayProcess {
    /// Numbers of signals that came to the watcher; its end when the watcher ends.
    control: OwnedFd,
    pub(super) family: Family,
    mask: SigSet,
    routing: SignalRouting,
}

/// A message from the watcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WatcherMessage {
    /// Signals to pass on.
    Signals(Vec<Signal>),
    /// The watcher has ended.
    Gone,
}

/// Divides this process, which must have one thread, into two. In the watcher, it returns after the relaying process
/// has ended.
///
/// # Errors
/// As `fork(2)`, `pipe(2)` and `signalfd(2)`.
pub fn divide() -> io::Result<WrapperProcess> {
    let mask = blocked().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let (control, tell) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    match sys::divide()? {
        ForkResult::Parent { child } => {
            drop(control);
            Ok(WrapperProcess::Watcher(watch(child, &tell)))
        }
        ForkResult::Child => {
            drop(tell);
            sys::share_arenas();
            Ok(WrapperProcess::Relay(Box::new(RelayProcess {
                control,
                family: Family::adopt()?,
                mask,
                routing: SignalRouting::default(),
            })))
        }
    }
}

fn watch(relay: Pid, tell: &OwnedFd) -> io::Result<ProcessEnd> {
    // The relaying process must be the only one that holds the pipes open.
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    drop(nothing);
    let family = Family::adopt()?;
    let mut settles = Some(Instant::now() + SETTLED);
    loop {
        let reaped = Family::reap();
        if let Some((_, end)) = reaped.ended.iter().find(|(pid, _)| *pid == relay) {
            family.kill_all()?;
            return Ok(*end);
        }
        let mut ready = [PollFd::new(family.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, patience(settles)) {
            // From here on, this process only waits.
            Ok(0) => {
                sys::forget_pages();
                settles = None;
                continue;
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        while let Some(signal) = family.next_signal()? {
            pass_on(tell, signal);
        }
    }
}

/// Returns the time until `until`, or an endless one.
fn patience(until: Option<Instant>) -> PollTimeout {
    until.map_or(PollTimeout::NONE, |until| {
        let left = until.saturating_duration_since(Instant::now());
        PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
    })
}

fn pass_on(tell: &OwnedFd, signal: Signal) {
    if !PASSED_ON.contains(&signal) {
        return;
    }
    // The pipe is full only if the relaying process does not read it: thousands of signals wait then.
    let _told = write(tell, &[(signal as i32).to_le_bytes()[0]]);
    if signal == Signal::SIGTSTP {
        // The client's shell waits for this process to stop.
        let _stopped = raise(Signal::SIGSTOP);
    }
}

impl RelayProcess {
    /// Returns the signal mask from before, which the server is to have.
    pub const fn mask(&self) -> SigSet {
        self.mask
    }

    /// Returns the descriptor on which the watcher sends messages.
    pub(super) fn control(&self) -> std::os::fd::BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Reads a message of the watcher; `now` is the time since some start.
    pub(super) fn listen(&mut self, now: Duration) -> io::Result<WatcherMessage> {
        // Signals to the group came here before the watcher could report them, so they are read first.
        self.take_signals(now)?;
        let mut signals = Vec::new();
        let mut numbers = [0; 64];
        loop {
            match read(&self.control, &mut numbers) {
                Ok(0) => return Ok(WatcherMessage::Gone),
                Ok(count) => {
                    let told = numbers[..count].iter().copied().map(i32::from);
                    let known = told.filter_map(|number| Signal::try_from(number).ok());
                    signals.extend(known.filter(|signal| self.routing.came_to_watcher(now, *signal)));
                }
                Err(Errno::EAGAIN) => return Ok(WatcherMessage::Signals(signals)),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Notes the signals that came to this process.
    pub(super) fn take_signals(&mut self, now: Duration) -> io::Result<()> {
        while let Some(signal) = self.family.next_signal()? {
            self.routing.came_here(now, signal);
        }
        Ok(())
    }
}
