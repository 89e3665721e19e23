//! Attempts to reach an address, for every path that a workload can try, and their outcomes.

mod datagram;
mod path;
mod peer;
mod stream;

use std::{
    net::{IpAddr, SocketAddr},
    os::fd::{AsRawFd as _, OwnedFd},
};

use nix::{
    errno::Errno,
    libc,
    sys::socket::{SockaddrStorage, bind, setsockopt, sockopt},
};
use serde::{Deserialize, Serialize};

use self::path::Carrier;
pub use self::{
    path::{Coverage, Means, PATHS, Path, Written},
    peer::Peer,
};
use crate::sys::{Device, Operation, Polling, RingError, socket, submit};

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The other side received it.
    Reached,
    /// `EPERM` from the call that names the address, and the other side received nothing.
    Refused,
    /// `EPERM`, although the other side received something.
    Leaked,
    /// The calls succeeded, but the other side received nothing.
    Lost,
    /// The kernel lacks a feature that the path needs; the error number of the preparation.
    Unsupported(i32),
    /// The call that names the address failed in another way; its error number.
    Failed(i32),
}

/// The target of an attempt.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The address in question.
    pub address: SocketAddr,
    /// An address of the same family that is always allowed.
    pub aside: SocketAddr,
    /// The peer that listens on the port of both addresses.
    pub peer: &'a Peer,
    /// The address to which the socket is bound first.
    pub source: Option<IpAddr>,
    /// The device to which the socket is bound first.
    pub device: Option<Device>,
}

/// The reason why an attempt did not go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// A call failed before the address was named.
    Preparation(Errno),
    /// The call that names the address failed.
    Call(Errno),
    /// No call failed, but nothing came of the attempt.
    Silence,
}

/// Content of the datagram that goes to the tested address.
const WANTED: &[u8] = b"wanted";
/// Content of datagrams that go to an allowed address.
const ASIDE: &[u8] = b"aside";
/// Content of a datagram whose arrival shows that everything sent before it has arrived.
const MARK: &[u8] = b"mark";

impl Path {
    /// Tries the path and returns the outcome.
    #[must_use]
    pub fn attempt(self, target: Target<'_>) -> Outcome {
        self.outcome(target, self.arrival())
    }

    /// Tries a path that ends in a datagram, without a timeout: a datagram that stays within this host has arrived when
    /// a datagram that is sent to `mark` after it has.
    #[must_use]
    pub fn attempt_within_host(self, target: Target<'_>, mark: SocketAddr) -> Outcome {
        self.outcome(target, Arrival::Before(mark))
    }

    fn outcome(self, target: Target<'_>, arrival: Arrival) -> Outcome {
        match self.call(target) {
            Ok(()) if arrival.happens(target.peer) => Outcome::Reached,
            Ok(()) => Outcome::Lost,
            Err(Trouble::Preparation(error)) => Outcome::Unsupported(error as i32),
            Err(Trouble::Call(Errno::EPERM)) if self.anything_left(target.peer) => Outcome::Leaked,
            Err(Trouble::Call(Errno::EPERM)) => Outcome::Refused,
            Err(Trouble::Call(error)) => Outcome::Failed(error as i32),
            Err(Trouble::Silence) => Outcome::Lost,
        }
    }

    fn call(self, target: Target<'_>) -> Result<(), Trouble> {
        match self.means {
            Means::Tcp => stream::connect(target, libc::IPPROTO_TCP),
            Means::TcpNonBlocking => stream::connect_without_waiting(target),
            Means::FastOpenSend => stream::send_fast(target, libc::IPPROTO_TCP),
            Means::FastOpenConnect => stream::connect_fast(target),
            Means::Mptcp => stream::connect(target, libc::IPPROTO_MPTCP),
            Means::MptcpFastOpen => stream::send_fast(target, libc::IPPROTO_MPTCP),
            Means::UdpConnect => datagram::connect_and_send(target, libc::IPPROTO_UDP),
            Means::UdpSend => datagram::send(target, libc::IPPROTO_UDP),
            Means::UdpSendAside => datagram::send_while_connected_aside(target),
            Means::UdpMessage => datagram::send_message(target),
            Means::UdpMessages => datagram::send_messages(target),
            Means::UdpLiteSend => datagram::send(target, libc::IPPROTO_UDPLITE),
            Means::UdpLiteConnect => datagram::connect_and_send(target, libc::IPPROTO_UDPLITE),
            Means::RingConnect => stream::connect_by_ring(target, Polling::Caller),
            Means::RingConnectPolled => stream::connect_by_ring(target, Polling::Kernel),
            Means::RingSend => datagram::send_by_ring(target),
            Means::Ping => datagram::connect_ping(target),
            Means::PingSend => datagram::send_ping(target),
            Means::Raw => datagram::send_raw(target, libc::IPPROTO_UDP),
            Means::RawWithHeader => datagram::send_raw(target, libc::IPPROTO_RAW),
        }
    }

    /// Returns the sign that the attempt got through. Nothing answers a ping socket that only connects, so there is no
    /// sign for it.
    const fn arrival(self) -> Arrival {
        match self.means.carrier() {
            Carrier::Stream => Arrival::Connection,
            Carrier::Datagram => Arrival::Datagram,
            Carrier::None => Arrival::Unseen,
        }
    }

    /// Returns whether anything arrived. Loopback delivers within the sending call, so anything that has not arrived
    /// yet never will.
    fn anything_left(self, peer: &Peer) -> bool {
        match self.means.carrier() {
            Carrier::Stream => peer.has_connection(),
            Carrier::Datagram => peer.has_received(WANTED),
            Carrier::None => false,
        }
    }
}

/// The sign that an attempt got through.
#[derive(Clone, Copy)]
enum Arrival {
    Connection,
    Datagram,
    /// A datagram that arrives before a marking datagram, which is sent to this address now.
    Before(SocketAddr),
    Unseen,
}

impl Arrival {
    /// Waits for the sign, and returns whether it came.
    fn happens(self, peer: &Peer) -> bool {
        match self {
            Self::Connection => peer.accepts_connection(),
            Self::Datagram => peer.receives(WANTED),
            Self::Before(mark) => datagram::mark(mark).is_err() || peer.receives_before(WANTED, MARK),
            Self::Unseen => true,
        }
    }
}

/// Runs one operation through io_uring.
fn by_ring(
    polling: Polling,
    operation: Operation<'_>,
    socket: &OwnedFd,
    target: SocketAddr,
) -> Result<(), Trouble> {
    submit(polling, operation, socket, target).map_err(|error| match error {
        RingError::Setup(error) => Trouble::Preparation(error),
        RingError::Operation(error) => Trouble::Call(error),
    })
}

/// Opens a socket of the target's family, bound to the target's source address and device if it has them.
fn open(target: Target<'_>, kind: i32, protocol: i32) -> Result<OwnedFd, Trouble> {
    let family = if target.address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let socket = socket(family, kind, protocol).map_err(Trouble::Preparation)?;
    if let Some(device) = target.device {
        setsockopt(&socket, sockopt::BindToDevice, &device.name().into()).map_err(Trouble::Preparation)?;
    }
    if let Some(source) = target.source {
        let source = SockaddrStorage::from(SocketAddr::from((source, 0)));
        bind(socket.as_raw_fd(), &source).map_err(Trouble::Preparation)?;
    }
    Ok(socket)
}
