//! Listening sockets that the service manager made ([sd_listen_fds(3)]). It keeps them while the daemon is away, so that no
//! other user can take their addresses.
//!
//! [sd_listen_fds(3)]: https://www.freedesktop.org/software/systemd/man/latest/sd_listen_fds.html

#![expect(unsafe_code, reason = "the descriptors are given by number")]

use std::{
    env, io,
    net::{SocketAddr, TcpListener},
    os::fd::{FromRawFd as _, OwnedFd, RawFd},
    sync::OnceLock,
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::socket::{SockType, getsockopt, sockopt},
};

/// The first descriptor that the service manager passes.
const FIRST: RawFd = 3;
/// Most descriptors that are taken.
const MAX: RawFd = 64;

static LISTENERS: OnceLock<Vec<TcpListener>> = OnceLock::new();

/// Takes the sockets that the service manager passed to this process. To be called once, before any thread is started or
/// file is opened.
pub fn take_listeners() {
    let number = |name| env::var(name).ok()?.parse::<RawFd>().ok();
    let is_ours = number("LISTEN_PID").is_some_and(|pid| pid == nix::unistd::getpid().as_raw());
    let count = number("LISTEN_FDS").filter(|_| is_ours).unwrap_or(0);
    let taken = (FIRST..FIRST + count.clamp(0, MAX)).filter_map(take).collect();
    if LISTENERS.set(taken).is_err() {
        tracing::warn!("the sockets of the service manager were taken before");
    }
}

/// Takes one descriptor, if it is a TCP socket that listens.
fn take(number: RawFd) -> Option<TcpListener> {
    // SAFETY: the service manager passes this descriptor to this process, and nothing else has taken it.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    let prepared = fcntl(&socket, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).is_ok();
    let is_listening = getsockopt(&socket, sockopt::AcceptConn).is_ok_and(|listens| listens)
        && getsockopt(&socket, sockopt::SockType).is_ok_and(|kind| kind == SockType::Stream);
    let listener = TcpListener::from(socket);
    (prepared && is_listening && listener.local_addr().is_ok()).then_some(listener)
}

/// Listens at an address: with the socket of the service manager for it, or a new one.
///
/// # Errors
/// Returns an error if the address is in use, or this process may not listen on it.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let passed = LISTENERS.get().map(Vec::as_slice).unwrap_or_default();
    let is_meant = |listener: &&TcpListener| listener.local_addr().is_ok_and(|bound| bound == address);
    match passed.iter().find(is_meant) {
        // A copy, so that the address stays taken when the proxy stops.
        Some(listener) => listener.try_clone(),
        None => TcpListener::bind(address),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd as _;

    use super::*;

    #[test]
    fn a_listening_socket_is_taken_and_another_descriptor_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let taken = take(listener.into_raw_fd()).expect("it listens");
        assert_eq!(taken.local_addr().expect("bound"), address);
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        assert!(take(one.into_raw_fd()).is_none());
    }
}
