//! Paths that end in a datagram, and the ping socket.

use std::{
    io::{self, IoSlice},
    net::{Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::{AsRawFd as _, OwnedFd},
};

use nix::{
    errno::Errno,
    libc,
    sys::socket::{self, MsgFlags, SockaddrStorage},
};

use super::{ASIDE, MARK, Target, Trouble, WANTED, by_ring, open};
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

/// The call stops in front of a message that fails; its error comes with the next call.
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

/// Sends what tells that everything before it has arrived.
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
