//! The standard error of a server. Each byte goes to the standard error of this process unchanged, at the pace of its
//! reader; a copy of the latest bytes goes to an observer, for which nothing waits.

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd as _, OwnedFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::{pipe2, read, write},
};

/// Bytes read at a time.
const MAX_READ_BYTES: usize = 16 << 10;
/// Most bytes that wait for the observer.
const MAX_WAITING_BYTES: usize = 256 << 10;
/// Stack size of the thread, which does little but system calls.
const STACK_BYTES: usize = 64 << 10;

/// The descriptor to which a server writes its standard error.
#[derive(Debug)]
pub struct ServerStderr(pub(super) OwnedFd);

/// Bytes that a server wrote and the observer has not taken yet.
#[derive(Debug)]
pub struct StderrCopies(Arc<SharedCopies>);

#[derive(Debug, Default)]
struct SharedCopies {
    waiting: Mutex<WaitingCopy>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct WaitingCopy {
    skipped: u64,
    bytes: VecDeque<u8>,
    is_closed: bool,
}

/// A copy of what a server wrote.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StderrCopy {
    /// Number of bytes before these that the observer missed.
    pub skipped: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl ServerStderr {
    /// Makes a pipe for a server, and forwards in a thread everything that is written to it, until no process has it
    /// open. If there is no descriptor or thread for that, the server gets this process's standard error itself, and
    /// there are no copies.
    ///
    /// # Errors
    /// Returns an error if this process's standard error cannot be duplicated.
    pub fn open() -> io::Result<(Self, Option<StderrCopies>)> {
        match Self::forwarded() {
            Ok((stderr, copies)) => Ok((stderr, Some(copies))),
            Err(_) => Ok((Self(io::stderr().as_fd().try_clone_to_owned()?), None)),
        }
    }

    fn forwarded() -> io::Result<(Self, StderrCopies)> {
        let (source, sink) = pipe2(OFlag::O_CLOEXEC)?;
        let shared = Arc::new(SharedCopies::default());
        let copies = StderrCopies(Arc::clone(&shared));
        let named = thread::Builder::new()
            .name("stderr".to_owned())
            .stack_size(STACK_BYTES);
        named.spawn(move || {
            pass_on(&source, &shared);
            shared.close();
        })?;
        Ok((Self(sink), copies))
    }
}

impl StderrCopies {
    /// Waits for the next copy. Returns `None` at the end.
    pub fn next_copy(&self) -> Option<StderrCopy> {
        let is_empty = |waiting: &mut WaitingCopy| waiting.bytes.is_empty() && !waiting.is_closed;
        let waited = self.0.changed.wait_while(self.0.lock(), is_empty);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner);
        let copy = StderrCopy {
            skipped: std::mem::take(&mut waiting.skipped),
            bytes: std::mem::take(&mut waiting.bytes).into(),
        };
        (!copy.bytes.is_empty()).then_some(copy)
    }
}

impl SharedCopies {
    fn lock(&self) -> MutexGuard<'_, WaitingCopy> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a copy. If there is too much, the oldest bytes are dropped.
    fn add(&self, bytes: &[u8]) {
        let mut waiting = self.lock();
        waiting.bytes.extend(bytes);
        let surplus = waiting.bytes.len().saturating_sub(MAX_WAITING_BYTES);
        waiting.bytes.drain(..surplus);
        waiting.skipped += surplus as u64;
        self.changed.notify_one();
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }
}

fn pass_on(source: &OwnedFd, copies: &SharedCopies) {
    let mut buffer = vec![0; MAX_READ_BYTES];
    let mut is_read = true;
    loop {
        let count = match read(source, &mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(Errno::EINTR) => continue,
            Err(_) => return,
        };
        let bytes = &buffer[..count];
        copies.add(bytes);
        // If the reader is gone, the server's pipe is still read to the end: closing it could end the server.
        is_read = is_read && write_all(bytes);
    }
}

/// Writes to standard error. Returns false if its reader is gone.
fn write_all(mut bytes: &[u8]) -> bool {
    let stderr = io::stderr();
    while !bytes.is_empty() {
        match write(&stderr, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::EINTR) => {}
            // A client may have set its pipe to non-blocking mode.
            Err(Errno::EAGAIN) => {
                let mut ready = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
                let _woken = poll(&mut ready, PollTimeout::NONE);
            }
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn an_observer_that_is_late_has_the_latest_and_learns_how_much_it_missed() {
        let copies = StderrCopies(Arc::default());
        let (first, second) = (vec![b'1'; MAX_WAITING_BYTES - 3], vec![b'2'; 10]);
        copies.0.add(&first);
        copies.0.add(&second);
        let copy = copies.next_copy().unwrap();
        assert_eq!((copy.skipped, copy.bytes.len()), (7, MAX_WAITING_BYTES));
        assert!(copy.bytes.ends_with(&second));
        copies.0.add(b"next");
        copies.0.close();
        let expected = StderrCopy {
            skipped: 0,
            bytes: b"next".to_vec(),
        };
        assert_eq!(copies.next_copy(), Some(expected));
        assert_eq!(copies.next_copy(), None);
    }

    #[test]
    fn the_copies_end_with_the_pipe() {
        let (stderr, copies) = ServerStderr::open().unwrap();
        let copies = copies.unwrap();
        std::fs::File::from(stderr.0).write_all(b"passed on\n").unwrap();
        assert_eq!(copies.next_copy().unwrap().bytes, b"passed on\n");
        assert_eq!(copies.next_copy(), None, "nothing comes after the end");
    }
}
