//! One look at everything a relay waits for.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use super::sink::Sink;

/// What is waited for. What is `None` is not looked at: a side that has hung up and is not to be read would let
/// no wait last.
#[derive(Debug)]
pub(super) struct Ports<'f> {
    pub(super) control: BorrowedFd<'f>,
    pub(super) signals: BorrowedFd<'f>,
    pub(super) client: Option<BorrowedFd<'f>>,
    pub(super) server: Option<BorrowedFd<'f>>,
    pub(super) checked: Option<BorrowedFd<'f>>,
    pub(super) to_client: Option<&'f Sink>,
    pub(super) to_server: Option<&'f Sink>,
}

/// What there is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ready {
    pub(super) control: bool,
    pub(super) signals: bool,
    pub(super) client: bool,
    pub(super) server: bool,
    pub(super) checked: bool,
    pub(super) to_client: Hearing,
    pub(super) to_server: Hearing,
}

/// What a side that is written to can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Hearing {
    /// Nothing that is of interest.
    #[default]
    Still,
    /// Take more.
    Ready,
    /// Nothing, ever.
    Gone,
}

impl Ports<'_> {
    /// Waits until there is something to do, or the time is over.
    pub(super) fn poll(&self, timeout: PollTimeout) -> io::Result<Ready> {
        // With no event asked for, a signal descriptor reports nothing: it stands for whatever is absent.
        let absent = || PollFd::new(self.signals, PollFlags::empty());
        let mut ports = [
            PollFd::new(self.control, PollFlags::POLLIN),
            PollFd::new(self.signals, PollFlags::POLLIN),
            absent(),
            absent(),
            absent(),
            absent(),
            absent(),
        ];
        for (slot, port) in ports[2..]
            .iter_mut()
            .zip([self.client, self.server, self.checked])
        {
            if let Some(port) = port {
                *slot = PollFd::new(port, PollFlags::POLLIN);
            }
        }
        for (slot, sink) in ports[5..].iter_mut().zip([self.to_client, self.to_server]) {
            if let Some(sink) = sink {
                let waits = sink.waiting() > 0;
                let flags = if waits {
                    PollFlags::POLLOUT
                } else {
                    PollFlags::empty()
                };
                *slot = PollFd::new(sink.as_fd(), flags);
            }
        }
        match poll(&mut ports, timeout) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Ok(Ready::default()),
            Err(errno) => return Err(errno.into()),
        }
        let events = ports.map(|port| port.revents().unwrap_or(PollFlags::empty()));
        let [control, signals, client, server, checked, to_client, to_server] = events;
        Ok(Ready {
            control: !control.is_empty(),
            signals: !signals.is_empty(),
            client: !client.is_empty(),
            server: !server.is_empty(),
            checked: !checked.is_empty(),
            to_client: Hearing::of(to_client),
            to_server: Hearing::of(to_server),
        })
    }
}

impl Hearing {
    fn of(events: PollFlags) -> Self {
        if events.intersects(PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL) {
            Self::Gone
        } else if events.contains(PollFlags::POLLOUT) {
            Self::Ready
        } else {
            Self::Still
        }
    }
}
