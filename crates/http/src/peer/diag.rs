//! Look-up of one TCP socket by its addresses: sock_diag(7).

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsRawFd as _, OwnedFd},
    sync::{Mutex, PoisonError},
};

use nix::{
    libc,
    sys::{
        socket::{
            AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recvfrom, sendto,
            setsockopt, socket as open, sockopt::ReceiveTimeout,
        },
        time::{TimeVal, TimeValLike as _},
    },
};

/// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`.
const BY_FAMILY: u16 = 20;
/// States in which a process has the connection open, including half-closed ones: `TCP_ESTABLISHED`, `TCP_FIN_WAIT1`,
/// `TCP_FIN_WAIT2`, `TCP_CLOSE_WAIT` of `net/tcp_states.h`.
const HELD: [u8; 4] = [1, 4, 5, 8];
/// `INET_DIAG_NOCOOKIE`: the cookie of the socket is unknown.
const NO_COOKIE: [u8; 8] = [0xff; 8];
/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Bytes of `struct inet_diag_msg`.
const ANSWER: usize = 72;
/// Longest answer that is read, bytes: attributes follow the fixed part.
const MAX_BYTES: usize = 2048;
/// Longest wait for the kernel, milliseconds.
const TIMEOUT: i64 = 200;

/// A socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Socket {
    /// Its user.
    pub(super) uid: u32,
    /// Its inode.
    pub(super) inode: u32,
}

/// A netlink socket, kept open between requests: opening one takes longer than a request.
#[derive(Debug, Default)]
pub(super) struct Kernel(Mutex<Option<OwnedFd>>);

impl Kernel {
    /// Returns the socket that is connected from `local` to `remote`. Returns `None` if there is none.
    ///
    /// # Errors
    /// Returns an error if the kernel gives no valid answer.
    pub(super) fn socket(&self, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Socket>> {
        // A panic meanwhile leaves `None`.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // If an answer was missed, the next one could be to an earlier request, so the netlink socket is not kept then.
        let asked = kept
            .take()
            .and_then(|netlink| Some((ask(&netlink, local, remote).ok()?, netlink)));
        let (found, netlink) = match asked {
            Some(asked) => asked,
            None => {
                let netlink = way()?;
                (ask(&netlink, local, remote)?, netlink)
            }
        };
        *kept = Some(netlink);
        Ok(found)
    }
}

fn way() -> io::Result<OwnedFd> {
    let netlink = open(
        AddressFamily::Netlink,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )?;
    setsockopt(&netlink, ReceiveTimeout, &TimeVal::milliseconds(TIMEOUT))?;
    Ok(netlink)
}

fn ask(netlink: &OwnedFd, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Socket>> {
    let kernel = NetlinkAddr::new(0, 0);
    let question = question(local, remote);
    sendto(netlink.as_raw_fd(), &question, &kernel, MsgFlags::empty())?;
    let mut room = [0; MAX_BYTES];
    read(receive(netlink, &mut room)?, local, remote)
}

/// Receives a message from the kernel; other senders are ignored.
fn receive<'r>(netlink: &OwnedFd, room: &'r mut [u8]) -> io::Result<&'r [u8]> {
    let (length, from) = recvfrom::<NetlinkAddr>(netlink.as_raw_fd(), room)?;
    match from.is_some_and(|from| from.pid() == 0) {
        true => Ok(&room[..length]),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Builds `struct nlmsghdr` and `struct inet_diag_req_v2`.
fn question(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let family = match local {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    let mut body = vec![
        u8::try_from(family).unwrap_or_default(),
        u8::try_from(libc::IPPROTO_TCP).unwrap_or_default(),
        0,
        0,
    ];
    body.extend(u32::MAX.to_ne_bytes()); // in any state
    body.extend(local.port().to_be_bytes());
    body.extend(remote.port().to_be_bytes());
    body.extend(octets(local.ip()));
    body.extend(octets(remote.ip()));
    body.extend(0_u32.to_ne_bytes()); // at any interface
    body.extend(NO_COOKIE);
    let length = u32::try_from(HEADER + body.len()).unwrap_or_default();
    let mut question = length.to_ne_bytes().to_vec();
    question.extend(BY_FAMILY.to_ne_bytes());
    question.extend(
        u16::try_from(libc::NLM_F_REQUEST)
            .unwrap_or_default()
            .to_ne_bytes(),
    );
    question.extend([0; 8]); // sequence and port: one question, one answer
    question.extend(body);
    question
}

fn octets(address: IpAddr) -> [u8; 16] {
    let mut octets = [0; 16];
    match address {
        IpAddr::V4(address) => octets[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => octets = address.octets(),
    }
    octets
}

/// Reads the answer. The kernel may answer with a listener on the address, which is not the wanted socket.
fn read(bytes: &[u8], local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Socket>> {
    let cut = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let kind = array(bytes, 4).map(u16::from_ne_bytes).ok_or_else(cut)?;
    if i32::from(kind) == libc::NLMSG_ERROR {
        let errno = array(bytes, HEADER).map(i32::from_ne_bytes).ok_or_else(cut)?;
        return match errno.saturating_neg() {
            libc::ENOENT => Ok(None),
            errno => Err(io::Error::from_raw_os_error(errno)),
        };
    }
    let message = bytes.get(HEADER..HEADER + ANSWER).ok_or_else(cut)?;
    if kind != BY_FAMILY {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let ends = (address(message, 4, 8), address(message, 6, 24));
    if !HELD.contains(&message[1]) || ends != (Some(local), Some(remote)) {
        return Ok(None);
    }
    let number = |at| array(message, at).map(u32::from_ne_bytes).ok_or_else(cut);
    let (uid, inode) = (number(64)?, number(68)?);
    // For a socket that no process has open, the kernel does not report the user.
    Ok((inode != 0).then_some(Socket { uid, inode }))
}

/// Returns the address and port of one end; an IPv4-mapped address is converted.
fn address(message: &[u8], port: usize, address: usize) -> Option<SocketAddr> {
    let ip = match i32::from(*message.first()?) {
        libc::AF_INET => IpAddr::from(Ipv4Addr::from(array::<4>(message, address)?)),
        libc::AF_INET6 => IpAddr::from(Ipv6Addr::from(array::<16>(message, address)?)).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(array(message, port)?)))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(&[]; "nothing")]
    #[test_case(&[0; 15]; "less than a head")]
    #[test_case(&[0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]; "half an error")]
    #[test_case(&[0, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1]; "half an answer")]
    fn what_is_cut_is_no_answer(bytes: &[u8]) {
        let end: SocketAddr = "127.0.0.1:1".parse().expect("an address");
        let error = read(bytes, end, end).expect_err("it is cut");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
