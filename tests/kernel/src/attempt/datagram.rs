//! Paths that end in a datagram, and the ping socket.

use std::{
    io::{self, IoSlice},
    net::{Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
};

use nix::{
    errno::Errno,
    libc,
    poll::{PollFd, PollFlags, poll},
    sys::socket::{self, MsgFlags, SockaddrStorage},
};

use super::{ASIDE, MARK, Target, Trouble, WANTED, by_ring, open, peer::TIMEOUT};
use crate::sys::{Operation, Polling, send_each};

pub(super) fn send(target: Target<'_>, protocol: i32) -> Result<(), Trouble> {
    let socket = open(target, libc::SOCK_DGRAM, protocol)?;
    send_to(&socket, target.address)
}

pub(super) fn connect_and_send(target: Target<'_>, protocol: i32) -> Result<(), Trouble> {
    let socket = open(target, libc::SOCK_DGRAM, protocol)?;
    connect_to(&socket, target.address).map_err(Trouble::Call)?;
    socket::send(socket.as_raw_fd(), WANTED, MsgFlags::empty())
        .map(drop)
        .map_err(Trouble::Call)
}

pub(super) fn send_while_connected_aside(target: Target<'_>) -> Result<(), Trouble> {
    let socket = open(target, libc::SOCK_DGRAM, libc::IPPROTO_UDP)?;
    connect_to(&socket, target.aside).map_err(Trouble::Preparation)?;
    send_to(&socket, target.address)
}

pub(super) fn send_message(target: Target<'_>) -> Result<(), Trouble> {
    let socket = open(target, libc::SOCK_DGRAM, libc::IPPROTO_UDP)?;
    let address = SockaddrStorage::from(target.address);
    socket::sendmsg(
        socket.as_raw_fd(),
        &[IoSlice::new(WANTED)],
        &[],
        MsgFlags::empty(),
        Some(&address),
    )
    .map(drop)
    .map_err(Trouble::Call)
}

/// Sends three messages in one call. A call stops in front of a message that fails, and the next call returns its
/// error.
pub(super) fn send_messages(target: Target<'_>) -> Result<(), Trouble> {
    let socket = open(target, libc::SOCK_DGRAM, libc::IPPROTO_UDP)?;
    let messages = [
        (ASIDE, target.aside),
        (WANTED, target.address),
        (ASIDE, target.aside),
    ];
    let mut rest = &messages[..];
    while !rest.is_empty() {
        let sent = send_each(&socket, rest).map_err(Trouble::Call)?;
        rest = &rest[sent..];
    }
    Ok(())
}

pub(super) fn send_by_ring(target: Target<'_>) -> Result<(), Trouble> {
    let socket = open(target, libc::SOCK_DGRAM, libc::IPPROTO_UDP)?;
    by_ring(Polling::Caller, Operation::Send(WANTED), &socket, target.address)
}

pub(super) fn connect_ping(target: Target<'_>) -> Result<(), Trouble> {
    let protocol = if target.address.is_ipv4() {
        libc::IPPROTO_ICMP
    } else {
        libc::IPPROTO_ICMPV6
    };
    let socket = open(target, libc::SOCK_DGRAM, protocol)?;
    connect_to(&socket, target.address).map_err(Trouble::Call)
}

/// Sends an echo request to the target, and another one to an allowed address. The replies come in the order of the
/// requests, because both go over the loopback interface.
pub(super) fn send_ping(target: Target<'_>) -> Result<(), Trouble> {
    const WANTED_NUMBER: u8 = 1;
    const ASIDE_NUMBER: u8 = 2;
    let (protocol, kind) = match target.address {
        SocketAddr::V4(_) => (libc::IPPROTO_ICMP, 8),
        SocketAddr::V6(_) => (libc::IPPROTO_ICMPV6, 128),
    };
    let socket = open(target, libc::SOCK_DGRAM, protocol)?;
    let send = |number, address| {
        // Type, code, checksum and identifier (both filled in by the kernel), sequence number.
        let request = [kind, 0, 0, 0, 0, 0, 0, number];
        let address = SockaddrStorage::from(address);
        socket::sendto(socket.as_raw_fd(), &request, &address, MsgFlags::empty()).map_err(Trouble::Call)
    };
    send(WANTED_NUMBER, target.address)?;
    send(ASIDE_NUMBER, target.aside)?;
    let mut waited = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    if poll(&mut waited, TIMEOUT).map_err(Trouble::Preparation)? == 0 {
        return Err(Trouble::Preparation(Errno::ETIMEDOUT));
    }
    let mut answer = [0; 8];
    socket::recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty()).map_err(Trouble::Preparation)?;
    match answer[7] {
        WANTED_NUMBER => Ok(()),
        _ => Err(Trouble::Silence),
    }
}

/// Sends a UDP datagram made by hand, with an IP header made by hand if `protocol` requires one.
pub(super) fn send_raw(target: Target<'_>, protocol: i32) -> Result<(), Trouble> {
    let SocketAddr::V4(to) = target.address else {
        return Err(Trouble::Preparation(Errno::EAFNOSUPPORT));
    };
    let socket = open(target, libc::SOCK_RAW, protocol)?;
    let length = u16::try_from(8 + WANTED.len()).expect("a short message");
    let mut packet = Vec::new();
    if protocol == libc::IPPROTO_RAW {
        // Version and header length, service, then the fields that the kernel fills in: length, identifier, checksum
        // and source.
        packet.extend([0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, 0]);
        packet.extend(to.ip().octets());
    }
    // Source, destination, length, no checksum.
    for field in [9, to.port(), length, 0] {
        packet.extend(field.to_be_bytes());
    }
    packet.extend(WANTED);
    let address = SockaddrStorage::from(SocketAddr::from((*to.ip(), 0)));
    socket::sendto(socket.as_raw_fd(), &packet, &address, MsgFlags::empty())
        .map(drop)
        .map_err(Trouble::Call)
}

/// Sends a datagram to `address` whose arrival shows that everything sent before it has arrived.
pub(super) fn mark(address: SocketAddr) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
    socket.send_to(MARK, address).map(drop)
}

fn connect_to(socket: &OwnedFd, address: SocketAddr) -> Result<(), Errno> {
    socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(address))
}

fn send_to(socket: &OwnedFd, address: SocketAddr) -> Result<(), Trouble> {
    let address = SockaddrStorage::from(address);
    socket::sendto(socket.as_raw_fd(), WANTED, &address, MsgFlags::empty())
        .map(drop)
        .map_err(Trouble::Call)
}
