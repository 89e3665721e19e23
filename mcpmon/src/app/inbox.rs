//! Messages to the engine thread, and the descriptor that wakes it.

use std::{
    io::{self, Read as _, Write as _},
    os::{fd::AsFd as _, fd::BorrowedFd, unix::net::UnixStream},
    sync::Arc,
};

use tokio::sync::mpsc;

/// The sending side; each thread and task that sends to the engine has a clone.
#[derive(Debug)]
pub(crate) struct Sender<M> {
    queue: mpsc::Sender<M>,
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

/// Makes a bounded queue of `capacity` messages.
///
/// # Errors
/// Returns an error if no socket pair can be made.
pub(crate) fn inbox<M>(capacity: usize) -> io::Result<(Sender<M>, Inbox<M>)> {
    let (waker, wakes) = UnixStream::pair()?;
    waker.set_nonblocking(true)?;
    wakes.set_nonblocking(true)?;
    let (sender, queue) = mpsc::channel(capacity);
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
    /// Queues a message and wakes the receiver. If the queue is full, only this task waits.
    pub(crate) async fn send(&self, message: M) -> Result<(), Closed> {
        self.queue.send(message).await.map_err(|_closed| Closed)?;
        self.wake();
        Ok(())
    }

    /// Queues a message from a thread that runs no tasks. If the queue is full, the thread waits.
    pub(crate) fn send_blocking(&self, message: M) -> Result<(), Closed> {
        self.queue.blocking_send(message).map_err(|_closed| Closed)?;
        self.wake();
        Ok(())
    }

    /// Queues a message if there is room for it, else returns it.
    pub(crate) fn try_send(&self, message: M) -> Result<(), mpsc::error::TrySendError<M>> {
        self.queue.try_send(message)?;
        self.wake();
        Ok(())
    }

    fn wake(&self) {
        // If the socket's buffer is full, a wake-up is already pending.
        let _already_awake = (&*self.waker).write(&[1]);
    }
}

impl<M> Inbox<M> {
    /// Returns the descriptor that becomes readable when there is a message.
    pub(crate) fn wakes(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }

    /// Returns the next message, if there is one.
    pub(crate) fn next(&mut self) -> Option<M> {
        self.queue.try_recv().ok()
    }

    /// Reads all pending wake-ups from the descriptor; later messages wake again.
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
        sender.send_blocking(7).expect("open");
        assert!(is_awake(&inbox));
        inbox.acknowledge();
        assert!(!is_awake(&inbox));
        assert_eq!((inbox.next(), inbox.next()), (Some(7), None));
        drop(inbox);
        assert!(sender.send_blocking(8).is_err());
    }

    #[tokio::test]
    async fn a_full_queue_holds_up_whoever_has_something_to_say_and_nobody_else() {
        let (sender, mut inbox) = inbox(1).expect("pair");
        sender.send(1).await.expect("room");
        assert!(sender.try_send(9).is_err());
        let other = async { (inbox.next(), inbox.next()) };
        // Both are tasks of one thread; the second makes room for the message of the first.
        let (sent, taken) = tokio::join!(sender.send(2), other);
        sent.expect("open");
        assert_eq!(taken, (Some(1), None));
        assert_eq!(inbox.next(), Some(2));
    }
}
