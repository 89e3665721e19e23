//! The check of a server's files, in a thread of its own. `T` is its result.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use nix::{fcntl::OFlag, unistd::pipe2};

/// A check of the server's files, by this process or by the daemon, that runs outside of the relay's thread.
pub struct Verification<T> {
    measure: Box<dyn FnOnce() -> T + Send>,
    holds: HoldUntil,
    begins: CheckStart,
}

/// The time at which the server's files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckStart {
    /// At the start of the server: its files are known already.
    AtOnce,
    /// The files are read when the server begins to speak: only then the serving process is known.
    WithFirstWord,
}

/// The messages that wait for the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldUntil {
    /// Every message of the server: the check may find that the server must not run.
    FirstMessage,
    /// No message: the result is only recorded.
    Nothing,
}

impl<T> std::fmt::Debug for Verification<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verification").finish_non_exhaustive()
    }
}

impl<T> Verification<T> {
    /// A check that runs `measure` once, in a thread of its own.
    pub fn new(begins: CheckStart, holds: HoldUntil, measure: impl FnOnce() -> T + Send + 'static) -> Self {
        Self {
            measure: Box::new(measure),
            holds,
            begins,
        }
    }
}

/// The progress of the check of the server's files.
pub(super) enum FileCheck<T> {
    Due(Verification<T>),
    Running {
        measuring: Measuring<T>,
        done: OwnedFd,
        holds: HoldUntil,
    },
    Done,
}

/// The work of a check.
pub(super) enum Measuring<T> {
    Thread(JoinHandle<T>),
    /// Done by the relay itself, because no thread could be started.
    Finished(T),
}

impl<T: Send + 'static> FileCheck<T> {
    /// Starts the check, if there is one and it can start.
    pub(super) fn new(verification: Option<Verification<T>>) -> io::Result<Self> {
        let at_once = verification
            .as_ref()
            .is_some_and(|verification| verification.begins == CheckStart::AtOnce);
        let mut check = verification.map_or(Self::Done, Self::Due);
        if at_once {
            check.begin()?;
        }
        Ok(check)
    }

    /// Returns whether the check has not begun.
    pub(super) const fn is_due(&self) -> bool {
        matches!(self, Self::Due(_))
    }

    /// Returns a descriptor that is readable when the check is done.
    pub(super) fn done(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Running { done, .. } => Some(done.as_fd()),
            Self::Due(_) | Self::Done => None,
        }
    }

    /// Returns whether the server's messages wait for the check.
    pub(super) fn holds_back(&self) -> bool {
        match self {
            Self::Running { holds, .. } => *holds == HoldUntil::FirstMessage,
            Self::Due(_) | Self::Done => false,
        }
    }

    /// Begins the check, unless it has begun.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        match std::mem::replace(self, Self::Done) {
            Self::Due(Verification { measure, holds, .. }) => {
                let (done, tell) = pipe2(OFlag::O_CLOEXEC)?;
                let work = Arc::new(Mutex::new(Some((measure, tell))));
                let taken = Arc::clone(&work);
                let thread = std::thread::Builder::new().name("verify".to_owned());
                let started =
                    thread.spawn(move || run(&taken).expect("the relay takes it only without a thread"));
                let measuring = match started {
                    Ok(thread) => Measuring::Thread(thread),
                    Err(error) => Measuring::Finished(run(&work).ok_or(error)?),
                };
                *self = Self::Running {
                    measuring,
                    done,
                    holds,
                };
            }
            begun @ (Self::Running { .. } | Self::Done) => *self = begun,
        }
        Ok(())
    }

    /// Waits for a running check and returns its result.
    pub(super) fn finish(&mut self) -> Option<T> {
        let Self::Running { measuring, .. } = std::mem::replace(self, Self::Done) else {
            return None;
        };
        Some(match measuring {
            Measuring::Thread(thread) => thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Measuring::Finished(found) => found,
        })
    }
}

/// The measurement, and the descriptor that is closed when it is done.
type Work<T> = (Box<dyn FnOnce() -> T + Send>, OwnedFd);

/// Runs the measurement, unless it was run before.
fn run<T>(work: &Mutex<Option<Work<T>>>) -> Option<T> {
    let taken = work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (measure, tell) = taken?;
    let found = measure();
    drop(tell);
    Some(found)
}
