//! Messages to the engine thread, and the descriptor that wakes it.

use std::{
    io::{self, Read as _, Write as _},
    os::{fd::AsFd as _, fd::BorrowedFd, unix::net::UnixStream},
    sync::{Arc, mpsc},
};

/// The sending side: as many as there are threads that talk to the engine.
#[derive(Debug)]
pub(crate) struct Sender<M> {
    queue: mpsc::SyncSender<M>,
    waker: Arc<UnixStream>,
}

/// The receiving side.
#[derive(Debug)]
pub(crate) struct Inbox<M> {
    queue: mpsc::Receiver<M>,
    wakes: UnixStream,
}

/// The engine has ended, or does not take messages.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the engine thread does not take messages")]
pub(crate) struct Closed;

/// A bounded queue of `capacity` messages.
///
/// # Errors
/// Returns an error if no socket pair can be made.
pub(crate) fn inbox<M>(capacity: usize) -> io::Result<(Sender<M>, Inbox<M>)> {
    let (waker, wakes) = UnixStream::pair()?;
    waker.set_nonblocking(true)?;
    wakes.set_nonblocking(true)?;
    let (sender, queue) = mpsc::sync_channel(capacity);
    Ok((
        Sender {
            queue: sender,
            waker: Arc::new(waker),
        },
        Inbox { queue, wakes },
    ))
}

impl<M> Clone for Sender<M> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            waker: Arc::clone(&self.waker),
        }
    }
}

impl<M> Sender<M> {
    /// Queues a message and wakes the receiver; waits where the queue is full.
    pub(crate) fn send(&self, message: M) -> Result<(), Closed> {
        if self.queue.send(message).is_err() {
            return Err(Closed);
        }
        // A full pipe means that a wake-up is already on its way.
        let _already_awake = (&*self.waker).write(&[1]);
        Ok(())
    }
}

impl<M> Inbox<M> {
    /// Returns the descriptor that becomes readable when there is a message.
    pub(crate) fn wakes(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }

    /// The next message, if there is one.
    pub(crate) fn next(&mut self) -> Option<M> {
        self.queue.try_recv().ok()
    }

    /// Takes the wake-ups off the descriptor; messages that come later wake again.
    pub(crate) fn acknowledge(&mut self) {
        let mut bytes = [0; 64];
        while self.wakes.read(&mut bytes).is_ok_and(|read| read == bytes.len()) {}
    }
}

#[cfg(test)]
mod tests {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    #[test]
    fn a_message_wakes_and_is_taken_once() {
        let (sender, mut inbox) = inbox(4).expect("pair");
        let is_awake = |inbox: &Inbox<u8>| {
            let mut descriptors = [PollFd::new(inbox.wakes(), PollFlags::POLLIN)];
            poll(&mut descriptors, PollTimeout::ZERO).expect("poll") == 1
        };
        assert!(!is_awake(&inbox));
        sender.send(7).expect("open");
        assert!(is_awake(&inbox));
        inbox.acknowledge();
        assert!(!is_awake(&inbox));
        assert_eq!((inbox.next(), inbox.next()), (Some(7), None));
        drop(inbox);
        assert!(sender.send(8).is_err());
    }
}
