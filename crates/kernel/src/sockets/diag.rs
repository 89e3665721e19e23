//! Sockets of one network namespace, listed and ended through `NETLINK_SOCK_DIAG` (sock_diag(7)).
//!
//! The crates for this protocol cannot end sockets (`SOCK_DESTROY`), and the few messages here have fixed sizes.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsRawFd as _, OwnedFd},
};

use nix::sys::{
    socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, send, setsockopt,
        socket, sockopt,
    },
    time::{TimeVal, TimeValLike as _},
};

/// Time limit for an answer of the kernel, seconds.
const TIMEOUT: i64 = 5;
/// Bytes of an answer that are read at a time; the kernel sends at most 32 KiB.
const BUFFER: usize = 64 << 10;
/// Most sockets that are listed for one namespace, protocol and family.
pub(super) const MAX_SOCKETS: usize = 1 << 17;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
/// The attribute with `struct tcp_info`.
const INET_DIAG_INFO: u16 = 2;

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Bytes of `struct inet_diag_req_v2`.
const REQUEST: usize = 56;
/// Bytes of `struct inet_diag_msg`.
const MESSAGE: usize = 72;
/// Bytes of `struct inet_diag_sockid`.
const IDENTITY: usize = 48;

/// States of connections that can still carry bytes: `ESTABLISHED`, `SYN_SENT`, `FIN_WAIT1`, `FIN_WAIT2`, `CLOSE_WAIT`,
/// `LAST_ACK`, `CLOSING`. A connected datagram socket is in the first state.
const OPEN_STATES: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;
/// `TCP_LISTEN`.
const LISTEN: u8 = 10;

/// A protocol whose sockets can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Protocol {
    /// `IPPROTO_TCP`.
    Tcp = 6,
    /// `IPPROTO_UDP`.
    Udp = 17,
}

/// The family of a socket; its addresses may be of the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Family {
    /// `AF_INET`.
    V4 = 2,
    /// `AF_INET6`.
    V6 = 10,
}

/// A socket as the kernel lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedSocket {
    pub(super) protocol: Protocol,
    pub(super) family: u8,
    pub(super) is_listening: bool,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) cookie: u64,
    /// Inode in the file system of sockets; 0 if no process holds the socket.
    pub(super) inode: u64,
    pub(super) traffic: Option<Traffic>,
    /// The kernel's identification of the socket, for later requests.
    identity: [u8; IDENTITY],
}

/// Bytes that passed on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Payload bytes that were sent, without retransmissions.
    pub sent: u64,
    /// Payload bytes that were received.
    pub received: u64,
}

/// The kernel's lists of sockets in the namespace in which this was opened.
#[derive(Debug)]
pub(super) struct SocketLists(OwnedFd);

impl SocketLists {
    /// Opens the lists of the calling thread's namespace.
    pub(super) fn open() -> io::Result<Self> {
        let lists = socket(
            AddressFamily::Netlink,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkSockDiag,
        )?;
        setsockopt(&lists, sockopt::ReceiveTimeout, &TimeVal::seconds(TIMEOUT))?;
        // Connected to the kernel, so that no other sender can answer.
        nix::sys::socket::connect(lists.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(Self(lists))
    }

    /// Calls `take` with every socket that is connected or listening.
    ///
    /// # Errors
    /// Returns the kernel's error; `NotFound` if it has no list for this protocol.
    pub(super) fn each(
        &self,
        protocol: Protocol,
        family: Family,
        mut take: impl FnMut(ListedSocket),
    ) -> io::Result<()> {
        let states = match protocol {
            Protocol::Tcp => OPEN_STATES | 1 << LISTEN,
            Protocol::Udp => 1 << 1,
        };
        let request = request(family as u8, protocol, states, &[0; IDENTITY]);
        self.ask(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &request)?;
        let mut left = MAX_SOCKETS;
        self.answers(|bytes| {
            left = left
                .checked_sub(1)
                .ok_or_else(|| io::Error::other(format!("there are more than {MAX_SOCKETS} sockets")))?;
            parse(protocol, bytes).map(&mut take);
            Ok(())
        })
    }

    /// Reads the same socket again. Returns `None` if it has ended.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub(super) fn again(&self, socket: &ListedSocket) -> io::Result<Option<ListedSocket>> {
        let request = request(socket.family, socket.protocol, u32::MAX, &socket.identity);
        self.ask(SOCK_DIAG_BY_FAMILY, NLM_F_ACK, &request)?;
        let mut found = None;
        let answered = self.answers(|bytes| {
            found = parse(socket.protocol, bytes);
            Ok(())
        });
        match answered {
            Err(error) if is_gone(&error) => Ok(None),
            answered => answered.map(|()| found.filter(|now| now.cookie == socket.cookie)),
        }
    }

    /// Ends a socket: its process and its peer get an error. Returns false if it had ended already.
    ///
    /// # Errors
    /// Returns the kernel's error: `EOPNOTSUPP` without `CONFIG_INET_DIAG_DESTROY`.
    pub(super) fn destroy(&self, socket: &ListedSocket) -> io::Result<bool> {
        let request = request(socket.family, socket.protocol, u32::MAX, &socket.identity);
        self.destroy_what(&request)
    }

    /// Checks that the kernel can end sockets, with a request for one that does not exist.
    ///
    /// # Errors
    /// Returns the errors of [`Self::destroy`].
    pub(super) fn can_destroy(&self, protocol: Protocol) -> io::Result<()> {
        let request = request(Family::V4 as u8, protocol, u32::MAX, &[0; IDENTITY]);
        self.destroy_what(&request).map(drop)
    }

    fn destroy_what(&self, request: &[u8; REQUEST]) -> io::Result<bool> {
        self.ask(SOCK_DESTROY, NLM_F_ACK, request)?;
        match self.answers(|_| Ok(())) {
            Err(error) if is_gone(&error) => Ok(false),
            answered => answered.map(|()| true),
        }
    }

    fn ask(&self, kind: u16, flags: u16, request: &[u8; REQUEST]) -> io::Result<()> {
        let mut message = Vec::with_capacity(HEADER + REQUEST);
        let length = u32::try_from(HEADER + REQUEST).map_err(io::Error::other)?;
        message.extend(length.to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        message.extend([0; 8]);
        message.extend(request);
        send(self.0.as_raw_fd(), &message, MsgFlags::empty())?;
        Ok(())
    }

    /// Calls `take` with the body of each message, up to the end of the answer.
    fn answers(&self, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER];
        let mut outcome = Ok(());
        loop {
            let length = recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::MSG_TRUNC)?;
            let mut rest = buffer
                .get(..length)
                .ok_or_else(|| malformed("is longer than the kernel makes one"))?;
            while !rest.is_empty() {
                let (kind, body, next) = split(rest)?;
                rest = next;
                match kind {
                    // If a list ends with an error, its last message contains the error.
                    NLMSG_DONE if body.len() >= 4 => return outcome.and_then(|()| error_of(body)),
                    NLMSG_DONE => return outcome,
                    NLMSG_ERROR => return outcome.and_then(|()| error_of(body)),
                    // After an error of `take`, messages are still read, because the answer has to be read to its end.
                    _ => outcome = outcome.and_then(|()| take(body)),
                }
            }
        }
    }
}

/// Splits one message off: returns its kind, its body, and the remaining bytes.
fn split(bytes: &[u8]) -> io::Result<(u16, &[u8], &[u8])> {
    let length = number::<4>(bytes, 0).map(u32::from_ne_bytes);
    let length = length.and_then(|length| usize::try_from(length).ok());
    let kind = number::<2>(bytes, 4).map(u16::from_ne_bytes);
    let (Some(length), Some(kind)) = (length, kind) else {
        return Err(malformed("is cut short"));
    };
    let body = bytes.get(HEADER..length);
    let body = body.ok_or_else(|| malformed("has a wrong length"))?;
    let next = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Ok((kind, body, next))
}

fn error_of(body: &[u8]) -> io::Result<()> {
    match number::<4>(body, 0).map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(number.saturating_neg())),
        None => Err(malformed("is cut short")),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ESTALE)
}

fn malformed(fault: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("an answer of the kernel about sockets {fault}"),
    )
}

/// Builds a `struct inet_diag_req_v2`.
fn request(family: u8, protocol: Protocol, states: u32, identity: &[u8; IDENTITY]) -> [u8; REQUEST] {
    const WITH_INFO: u8 = 1 << (INET_DIAG_INFO - 1);
    let mut request = [0; REQUEST];
    request[..4].copy_from_slice(&[family, protocol as u8, WITH_INFO, 0]);
    request[4..8].copy_from_slice(&states.to_ne_bytes());
    request[8..].copy_from_slice(identity);
    // Without a cookie, the request matches any.
    if identity[40..] == [0; 8] {
        request[48..].fill(0xff);
    }
    request
}

/// Parses a `struct inet_diag_msg` with its attributes. Returns `None` if it is invalid.
fn parse(protocol: Protocol, body: &[u8]) -> Option<ListedSocket> {
    let [family, state] = number::<2>(body, 0)?;
    let identity = number::<IDENTITY>(body, 4)?;
    let port = |at| number::<2>(&identity, at).map(u16::from_be_bytes);
    let address = |at| address(family, number::<16>(&identity, at)?);
    Some(ListedSocket {
        protocol,
        family,
        is_listening: protocol == Protocol::Tcp && state == LISTEN,
        local: SocketAddr::new(address(4)?, port(0)?),
        remote: SocketAddr::new(address(20)?, port(2)?),
        cookie: u64::from(number::<4>(&identity, 40).map(u32::from_ne_bytes)?)
            | u64::from(number::<4>(&identity, 44).map(u32::from_ne_bytes)?) << 32,
        inode: number::<4>(body, MESSAGE - 4).map(u32::from_ne_bytes)?.into(),
        traffic: attribute(body.get(MESSAGE..)?, INET_DIAG_INFO).and_then(traffic),
        identity,
    })
}

fn address(family: u8, octets: [u8; 16]) -> Option<IpAddr> {
    match family {
        family if family == Family::V4 as u8 => {
            let [a, b, c, d, ..] = octets;
            Some(Ipv4Addr::new(a, b, c, d).into())
        }
        family if family == Family::V6 as u8 => Some(Ipv6Addr::from(octets).into()),
        _ => None,
    }
}

/// Returns the content of an attribute.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    const ATTRIBUTE: usize = 4;
    loop {
        let length = usize::from(u16::from_ne_bytes(number::<2>(bytes, 0)?));
        let content = bytes.get(ATTRIBUTE..length)?;
        if u16::from_ne_bytes(number::<2>(bytes, 2)?) == wanted {
            return Some(content);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

/// Returns `tcpi_bytes_sent` without `tcpi_bytes_retrans`, and `tcpi_bytes_received`; datagram sockets have no such
/// counts.
fn traffic(information: &[u8]) -> Option<Traffic> {
    let value = |at| number::<8>(information, at).map(u64::from_ne_bytes);
    Some(Traffic {
        sent: value(200)?.saturating_sub(value(208)?),
        received: value(128)?,
    })
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn listed() -> Vec<u8> {
        let mut body = vec![0; MESSAGE];
        body[0] = Family::V4 as u8;
        body[1] = 1;
        body[4..8].copy_from_slice(&[0x1f, 0x90, 0x01, 0xbb]);
        body[8..12].copy_from_slice(&[127, 0, 0, 1]);
        body[24..28].copy_from_slice(&[192, 0, 2, 1]);
        body[44..52].copy_from_slice(&7u64.to_ne_bytes());
        body[MESSAGE - 4..].copy_from_slice(&99u32.to_ne_bytes());
        let mut information = vec![0; 232];
        information[128..136].copy_from_slice(&5u64.to_ne_bytes());
        information[200..208].copy_from_slice(&12u64.to_ne_bytes());
        information[208..216].copy_from_slice(&2u64.to_ne_bytes());
        for (kind, content) in [(8u16, vec![0]), (INET_DIAG_INFO, information)] {
            let length = u16::try_from(content.len() + 4).expect("short");
            body.extend(length.to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(&content);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        body
    }

    #[test]
    fn a_socket_is_read_with_its_traffic() {
        let socket = parse(Protocol::Tcp, &listed()).expect("a socket");
        assert_eq!(socket.local, "127.0.0.1:8080".parse().expect("an address"));
        assert_eq!(socket.remote, "192.0.2.1:443".parse().expect("an address"));
        assert_eq!((socket.cookie, socket.inode, socket.is_listening), (7, 99, false));
        let traffic = Traffic {
            sent: 10,
            received: 5,
        };
        assert_eq!(socket.traffic, Some(traffic));
    }

    #[test]
    fn cut_or_strange_bytes_are_no_socket() {
        let whole = listed();
        for length in 0..whole.len() {
            let socket = parse(Protocol::Tcp, &whole[..length]);
            assert_eq!(socket.is_some(), length >= MESSAGE, "{length}");
            assert_eq!(socket.and_then(|socket| socket.traffic), None);
        }
        let mut strange = whole;
        strange[0] = 1;
        assert_eq!(parse(Protocol::Tcp, &strange), None);
        assert_eq!(
            attribute(&[0, 0, 2, 0], INET_DIAG_INFO),
            None,
            "an attribute without a length"
        );
        assert!(
            split(&[8, 0, 0, 0, 3, 0, 0, 0]).is_err(),
            "a message shorter than its header"
        );
    }

    #[test]
    fn a_connection_of_this_process_is_listed() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let lists = SocketLists::open().expect("the kernel has lists");
        let own = stream.local_addr().expect("bound");
        let mut found = Vec::new();
        lists
            .each(Protocol::Tcp, Family::V4, |socket| {
                found.extend(Some(socket).filter(|s| s.local == own))
            })
            .expect("listed");
        let [socket] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(socket.remote, stream.peer_addr().expect("connected"));
        let again = lists.again(socket).expect("asked").expect("it is there");
        assert_eq!(again.cookie, socket.cookie);
        drop((stream, listener));
    }
}
