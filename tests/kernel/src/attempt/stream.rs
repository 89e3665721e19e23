//! Paths that end in a connection.

use std::{
    net::SocketAddr,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
};

use nix::{
    errno::Errno,
    libc,
    poll::{PollFd, PollFlags, poll},
    sys::socket::{self, MsgFlags, SockaddrStorage, setsockopt, sockopt},
};

use super::{Target, Trouble, WANTED, by_ring, open, peer::TIMEOUT};
use crate::sys::{Operation, Polling};

pub(super) fn connect(target: Target<'_>, protocol: i32) -> Result<(), Trouble> {
    let socket = open(target, libc::SOCK_STREAM, protocol)?;
    connect_to(&socket, target.address)
}

pub(super) fn connect_without_waiting(target: Target<'_>) -> Result<(), Trouble> {
    let socket = open(target, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, libc::IPPROTO_TCP)?;
    match connect_to(&socket, target.address) {
        Err(Trouble::Call(Errno::EINPROGRESS)) => {}
        done => return done,
    }
    let mut ready = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
    if poll(&mut ready, TIMEOUT).map_err(Trouble::Call)? == 0 {
        return Err(Trouble::Call(Errno::ETIMEDOUT));
    }
    match socket::getsockopt(&socket, sockopt::SocketError).map_err(Trouble::Preparation)? {
        0 => Ok(()),
        error => Err(Trouble::Call(Errno::from_raw(error))),
    }
}

pub(super) fn send_fast(target: Target<'_>, protocol: i32) -> Result<(), Trouble> {
    let socket = open(target, libc::SOCK_STREAM, protocol)?;
    let address = SockaddrStorage::from(target.address);
    let flags = MsgFlags::from_bits_retain(libc::MSG_FASTOPEN);
    match socket::sendto(socket.as_raw_fd(), WANTED, &address, flags) {
        Ok(_) => Ok(()),
        // An unsupported operation says nothing about the address.
        Err(error @ Errno::EOPNOTSUPP) => Err(Trouble::Preparation(error)),
        Err(error) => Err(Trouble::Call(error)),
    }
}

pub(super) fn connect_fast(target: Target<'_>) -> Result<(), Trouble> {
    let socket = open(target, libc::SOCK_STREAM, libc::IPPROTO_TCP)?;
    setsockopt(&socket, sockopt::TcpFastOpenConnect, &true).map_err(Trouble::Preparation)?;
    connect_to(&socket, target.address)?;
    socket::send(socket.as_raw_fd(), WANTED, MsgFlags::empty())
        .map(drop)
        .map_err(Trouble::Call)
}

pub(super) fn connect_by_ring(target: Target<'_>, polling: Polling) -> Result<(), Trouble> {
    let socket = open(target, libc::SOCK_STREAM, libc::IPPROTO_TCP)?;
    by_ring(polling, Operation::Connect, &socket, target.address)
}

fn connect_to(socket: &OwnedFd, address: SocketAddr) -> Result<(), Trouble> {
    socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(address)).map_err(Trouble::Call)
}
