//! Netlink requests, for network devices and for the path manager of Multipath TCP.

use std::{net::Ipv4Addr, os::fd::AsRawFd as _};

use nix::{
    errno::Errno,
    libc,
    sys::socket::{MsgFlags, recv, send},
};

use super::socket;

/// Bytes of `nlmsghdr`.
const HEADER: usize = 16;
/// Bytes of `genlmsghdr`.
const GENERIC_HEADER: usize = 4;

/// Lets Multipath TCP in this namespace accept as many announced addresses of the other side, and open as many further
/// subflows.
///
/// # Errors
/// Returns the errors of netlink(7).
pub fn allow_subflows(addresses: u32) -> Result<(), Errno> {
    /// `MPTCP_PM_CMD_SET_LIMITS`, `MPTCP_PM_ATTR_RCV_ADD_ADDRS` and `MPTCP_PM_ATTR_SUBFLOWS` of linux/mptcp_pm.h.
    const SET_LIMITS: u8 = 5;
    const ANNOUNCED: u16 = 2;
    const SUBFLOWS: u16 = 3;
    let limit = addresses.to_ne_bytes();
    ask_path_manager(
        SET_LIMITS,
        &[attribute(ANNOUNCED, &limit), attribute(SUBFLOWS, &limit)].concat(),
    )
}

/// Lets Multipath TCP announce `address` on every connection of this namespace.
///
/// # Errors
/// Returns the errors of netlink(7).
pub fn announce(address: Ipv4Addr) -> Result<(), Errno> {
    /// `MPTCP_PM_CMD_ADD_ADDR` and attributes of linux/mptcp_pm.h.
    const ADD_ADDRESS: u8 = 1;
    const ADDRESS: u16 = 1;
    const FAMILY: u16 = 1;
    const ADDRESS4: u16 = 3;
    const FLAGS: u16 = 6;
    const SIGNAL: u32 = 1;
    let family = u16::try_from(libc::AF_INET).expect("a small number");
    let endpoint = [
        attribute(FAMILY, &family.to_ne_bytes()),
        attribute(ADDRESS4, &address.octets()),
        attribute(FLAGS, &SIGNAL.to_ne_bytes()),
    ]
    .concat();
    let nested = ADDRESS | u16::try_from(libc::NLA_F_NESTED).expect("a flag of 16 bits");
    ask_path_manager(ADD_ADDRESS, &attribute(nested, &endpoint))
}

fn ask_path_manager(command: u8, attributes: &[u8]) -> Result<(), Errno> {
    const FAMILY: &[u8] = b"mptcp_pm\0";
    const VERSION: u8 = 1;
    let family = family(FAMILY)?;
    let content = [&[command, VERSION, 0, 0], attributes].concat();
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK;
    request(libc::NETLINK_GENERIC, family, flags, &content)
}

/// Returns the number of a generic netlink family.
fn family(name: &[u8]) -> Result<u16, Errno> {
    let command = u8::try_from(libc::CTRL_CMD_GETFAMILY).expect("a small number");
    let wanted = |number: i32| u16::try_from(number).expect("a small number");
    let content = [
        &[command, 1, 0, 0],
        attribute(wanted(libc::CTRL_ATTR_FAMILY_NAME), name).as_slice(),
    ]
    .concat();
    let kind = wanted(libc::GENL_ID_CTRL);
    let answer = exchange(libc::NETLINK_GENERIC, kind, libc::NLM_F_REQUEST, &content)?;
    if answer.get(4..6) == Some(&wanted(libc::NLMSG_ERROR).to_ne_bytes()) {
        return Err(refusal(&answer).unwrap_or(Errno::EBADMSG));
    }
    let mut attributes = answer.get(HEADER + GENERIC_HEADER..).unwrap_or_default();
    while let [a, b, c, d, rest @ ..] = attributes {
        let length = usize::from(u16::from_ne_bytes([*a, *b]));
        if u16::from_ne_bytes([*c, *d]) == wanted(libc::CTRL_ATTR_FAMILY_ID) {
            let number = rest.first_chunk().ok_or(Errno::EBADMSG)?;
            return Ok(u16::from_ne_bytes(*number));
        }
        attributes = attributes
            .get(length.next_multiple_of(4).max(4)..)
            .unwrap_or_default();
    }
    Err(Errno::ENOENT)
}

/// Sends a request that is answered with an acknowledgement only.
pub(super) fn request(protocol: i32, kind: u16, flags: i32, content: &[u8]) -> Result<(), Errno> {
    let answer = exchange(protocol, kind, flags, content)?;
    // The answer is an `nlmsgerr`: after its header, the negative error number, or 0 for success.
    match answer.get(HEADER..).and_then(|rest| rest.first_chunk()) {
        Some([0, 0, 0, 0]) => Ok(()),
        Some(_) => Err(refusal(&answer).unwrap_or(Errno::EBADMSG)),
        None => Err(Errno::EBADMSG),
    }
}

fn refusal(answer: &[u8]) -> Option<Errno> {
    let error = answer.get(HEADER..)?.first_chunk()?;
    Some(Errno::from_raw(-i32::from_ne_bytes(*error)))
}

/// Sends a message and returns its answer.
fn exchange(protocol: i32, kind: u16, flags: i32, content: &[u8]) -> Result<Vec<u8>, Errno> {
    let length = u32::try_from(HEADER + content.len()).expect("a short message");
    let flags = u16::try_from(flags).expect("flags of netlink have 16 bits");
    let mut message = length.to_ne_bytes().to_vec();
    message.extend([kind.to_ne_bytes(), flags.to_ne_bytes()].concat());
    // Sequence number and sender are zero, because there is one request and one answer.
    message.extend([0; 8]);
    message.extend(content);
    let socket = socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol)?;
    send(socket.as_raw_fd(), &message, MsgFlags::empty())?;
    let mut answer = vec![0; 4096];
    let received = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    answer.truncate(received);
    Ok(answer)
}

/// Returns an `rtattr` with its content, padded to four bytes.
pub(super) fn attribute(kind: u16, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + content.len()).expect("names are short");
    let mut attribute = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    attribute.extend(content);
    attribute.resize(attribute.len().next_multiple_of(4), 0);
    attribute
}
