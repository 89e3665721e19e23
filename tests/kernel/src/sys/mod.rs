//! System calls that have no safe wrapper elsewhere. All unsafe code of these tests is here.

#![expect(
    unsafe_code,
    reason = "raw system calls: fork, sockets of rare protocols, interface requests"
)]

mod bpf;
mod device;
mod netlink;
mod process;
mod ring;

use std::{
    io::IoSlice,
    net::SocketAddr,
    os::fd::{AsRawFd, FromRawFd as _, OwnedFd},
};

use nix::{
    errno::Errno,
    libc,
    sys::socket::{SockaddrLike as _, SockaddrStorage},
};

pub use self::{
    bpf::{OnlyProgram, detach_pinned},
    device::{Device, add_loopback_address, raise_loopback},
    netlink::{allow_subflows, announce},
    process::{Fork, end_thread, fork},
    ring::{Operation, Polling, RingError, submit},
};

/// Opens a socket of any family, type and protocol, closed on exec.
///
/// # Errors
/// Returns the errors of socket(2).
pub fn socket(family: i32, kind: i32, protocol: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: the call takes no pointers, and the returned descriptor belongs to this function alone.
    unsafe {
        let descriptor = Errno::result(libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol))?;
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}

/// Sets a socket option for which there is no safe wrapper.
///
/// # Errors
/// Returns the errors of setsockopt(2).
pub fn set_option(socket: &impl AsRawFd, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
    let length = libc::socklen_t::try_from(value.len()).expect("options are short");
    // SAFETY: the pointer and the length are those of `value`, which the kernel only reads.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), length) };
    Errno::result(done).map(drop)
}

/// Sends one datagram to each address, and returns the number of sent datagrams.
///
/// # Errors
/// Returns the errors of sendmmsg(2), which fails only if the first message does.
pub fn send_each(socket: &OwnedFd, messages: &[(&[u8], SocketAddr)]) -> Result<usize, Errno> {
    let mut addresses: Vec<SockaddrStorage> = messages.iter().map(|(_, target)| (*target).into()).collect();
    let mut contents: Vec<IoSlice<'_>> = messages.iter().map(|(bytes, _)| IoSlice::new(bytes)).collect();
    let mut headers: Vec<libc::mmsghdr> = addresses
        .iter_mut()
        .zip(&mut contents)
        .map(|(address, content)| libc::mmsghdr {
            msg_hdr: header(address, content),
            msg_len: 0,
        })
        .collect();
    let count = u32::try_from(headers.len()).expect("a handful of messages");
    // SAFETY: each header points into `addresses` and `contents`, which outlive the call.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, 0) };
    Errno::result(sent).map(|sent| usize::try_from(sent).unwrap_or_default())
}

/// Returns a message of one part. `IoSlice` has the layout of `iovec` by its documentation.
fn header(address: &mut SockaddrStorage, content: &mut IoSlice<'_>) -> libc::msghdr {
    // SAFETY: `msghdr` is plain data; all zeros is the empty message.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_namelen = address.len();
    header.msg_name = std::ptr::from_mut(address).cast();
    header.msg_iov = std::ptr::from_mut(content).cast();
    header.msg_iovlen = 1;
    header
}
