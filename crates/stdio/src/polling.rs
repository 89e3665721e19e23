//! Polling of everything that a relay waits for.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags},
};

use super::sink::Sink;

/// The descriptors to wait for. `None` is not polled: a side that has closed its end and is not to be read would end
/// every wait at once.
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

/// The ports that are ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadyPorts {
    pub(super) control: bool,
    pub(super) signals: bool,
    pub(super) client: bool,
    pub(super) server: bool,
    pub(super) checked: bool,
    pub(super) to_client: WriteState,
    pub(super) to_server: WriteState,
}

/// The write state of a side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WriteState {
    /// Nothing has changed.
    #[default]
    Still,
    /// More can be written.
    Ready,
    /// The reader is gone.
    Gone,
}

/// Descriptors that are rarely ready between two messages, behind one epoll descriptor, because each polled descriptor
/// costs time for every message.
#[derive(Debug, Default)]
pub(super) struct RareEvents(Option<PolledPort>);

#[derive(Debug)]
struct PolledPort {
    epoll: Epoll,
    /// True for the sides whose write state is watched: the client and the server.
    hearers: [bool; 2],
}

impl RareEvents {
    /// Returns a descriptor that is readable if anything happened on the other descriptors.
    fn watching(&mut self, ports: &Ports<'_>) -> io::Result<BorrowedFd<'_>> {
        let hearers = [ports.to_client.is_some(), ports.to_server.is_some()];
        // A closed descriptor may live on in another process, and epoll would report it as long.
        self.0.take_if(|watch| watch.hearers != hearers);
        let watch = match self.0.take() {
            Some(watch) => watch,
            None => PolledPort::over(ports, hearers)?,
        };
        Ok(self.0.insert(watch).epoll.0.as_fd())
    }
}

impl PolledPort {
    fn over(ports: &Ports<'_>, hearers: [bool; 2]) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        for port in [ports.control, ports.signals] {
            epoll.add(port, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        }
        for sink in [ports.to_client, ports.to_server].into_iter().flatten() {
            // Without requested events, only errors and hang-ups are reported.
            match epoll.add(sink, EpollEvent::new(EpollFlags::empty(), 0)) {
                // A file or `/dev/null`, which cannot hang up.
                Ok(()) | Err(Errno::EPERM) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Self { epoll, hearers })
    }
}

impl Ports<'_> {
    /// Waits until there is something to do, or the time is over.
    pub(super) fn poll(&self, seldom: &mut RareEvents, timeout: PollTimeout) -> io::Result<ReadyPorts> {
        let waits = |sink: Option<&Sink>| sink.is_some_and(|sink| sink.waiting() > 0);
        if self.checked.is_some() || waits(self.to_client) || waits(self.to_server) {
            return self.look(timeout);
        }
        let seldom = seldom.watching(self)?;
        // The epoll descriptor also takes the places of absent ones.
        let ports = [Some(seldom), self.client, self.server].map(|port| port.unwrap_or(seldom));
        let mut ports = ports.map(|port| PollFd::new(port, PollFlags::POLLIN));
        match poll(&mut ports, timeout) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Ok(ReadyPorts::default()),
            Err(errno) => return Err(errno.into()),
        }
        let [seldom, client, server] = ports.map(|port| port.any().unwrap_or(true));
        if seldom {
            return self.look(PollTimeout::ZERO);
        }
        Ok(ReadyPorts {
            client,
            server,
            ..ReadyPorts::default()
        })
    }

    /// Polls each descriptor.
    fn look(&self, timeout: PollTimeout) -> io::Result<ReadyPorts> {
        // The signal descriptor takes the places of absent ones: without requested events, it reports nothing.
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
            Err(Errno::EINTR) => return Ok(ReadyPorts::default()),
            Err(errno) => return Err(errno.into()),
        }
        let events = ports.map(|port| port.revents().unwrap_or(PollFlags::empty()));
        let [control, signals, client, server, checked, to_client, to_server] = events;
        Ok(ReadyPorts {
            control: !control.is_empty(),
            signals: !signals.is_empty(),
            client: !client.is_empty(),
            server: !server.is_empty(),
            checked: !checked.is_empty(),
            to_client: WriteState::of(to_client),
            to_server: WriteState::of(to_server),
        })
    }
}

impl WriteState {
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
