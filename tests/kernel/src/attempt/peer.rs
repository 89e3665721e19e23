//! The peer of attempts: listening sockets for every protocol on one port.

use std::{
    net::{Ipv6Addr, SocketAddr, TcpListener, UdpSocket},
    os::fd::{AsFd, AsRawFd as _, OwnedFd},
};

use anyhow::{Context as _, Result};
use nix::{
    errno::Errno,
    libc,
    poll::{PollFd, PollFlags, poll},
    sys::socket::{self, Backlog, SockaddrStorage},
};

use crate::sys::socket as open;

/// Milliseconds that a packet may take to arrive, on a slow emulated machine.
pub(super) const TIMEOUT: u16 = 10_000;

/// Sockets bound to one port of every address, IPv4 included.
#[derive(Debug)]
pub struct Peer {
    stream: TcpListener,
    datagrams: Vec<UdpSocket>,
}

impl Peer {
    /// Listens on `port` in the current network namespace.
    ///
    /// # Errors
    /// Returns an error if a socket cannot be bound.
    pub fn listen(port: u16) -> Result<Self> {
        let stream = bound(libc::SOCK_STREAM, libc::IPPROTO_TCP, port).context("cannot listen on TCP")?;
        socket::listen(&stream, Backlog::MAXCONN).context("cannot listen on TCP")?;
        let mut datagrams = vec![
            bound(libc::SOCK_DGRAM, libc::IPPROTO_UDP, port)
                .context("cannot listen on UDP")?
                .into(),
        ];
        match bound(libc::SOCK_DGRAM, libc::IPPROTO_UDPLITE, port) {
            Ok(socket) => datagrams.push(UdpSocket::from(socket)),
            Err(Errno::EPROTONOSUPPORT) => {}
            Err(error) => return Err(error).context("cannot listen on UDP-Lite"),
        }
        Ok(Self {
            stream: stream.into(),
            datagrams,
        })
    }

    /// Waits for a connection and accepts it.
    #[must_use]
    pub fn accepts_connection(&self) -> bool {
        ready([&self.stream]) && self.has_connection()
    }

    /// Returns whether a connection is waiting, and accepts it.
    #[must_use]
    pub fn has_connection(&self) -> bool {
        self.stream.accept().is_ok()
    }

    /// Waits for a datagram with this content, and discards others.
    #[must_use]
    pub fn receives(&self, content: &[u8]) -> bool {
        while ready(&self.datagrams) {
            if self.has_received(content) {
                return true;
            }
        }
        false
    }

    /// Waits for a datagram with the content of `mark`, and returns whether one with `content` came before it. Also
    /// returns true if the mark does not come, because nothing is known then.
    #[must_use]
    pub fn receives_before(&self, content: &[u8], mark: &[u8]) -> bool {
        let mut found = false;
        while ready(&self.datagrams) {
            for received in self.datagrams.iter().flat_map(waiting) {
                found |= received == content;
                if received == mark {
                    return found;
                }
            }
        }
        true
    }

    /// Returns whether a datagram with this content is waiting, and discards all waiting datagrams.
    #[must_use]
    pub fn has_received(&self, content: &[u8]) -> bool {
        let received = self.datagrams.iter().flat_map(waiting);
        received.fold(false, |found, received| found | (received == content))
    }
}

fn bound(kind: i32, protocol: i32, port: u16) -> Result<OwnedFd, Errno> {
    let socket = open(libc::AF_INET6, kind | libc::SOCK_NONBLOCK, protocol)?;
    let address = SockaddrStorage::from(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)));
    socket::bind(socket.as_raw_fd(), &address)?;
    Ok(socket)
}

/// Returns the waiting datagrams.
fn waiting(socket: &UdpSocket) -> impl Iterator<Item = Vec<u8>> {
    std::iter::from_fn(|| {
        let mut buffer = vec![0; 64];
        let length = socket.recv(&mut buffer).ok()?;
        buffer.truncate(length);
        Some(buffer)
    })
}

/// Waits until one of the sockets can be read.
fn ready<'a, S: AsFd + 'a>(sockets: impl IntoIterator<Item = &'a S>) -> bool {
    let waited = sockets
        .into_iter()
        .map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN));
    poll(&mut waited.collect::<Vec<_>>(), TIMEOUT).is_ok_and(|ready| ready > 0)
}
