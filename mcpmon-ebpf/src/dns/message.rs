//! DNS messages in datagrams: the parts of them that the programs read.

use aya_ebpf::{
    bindings::__sk_buff,
    helpers::generated::{bpf_get_socket_cookie, bpf_skb_load_bytes},
};
use mcpmon_common::dns::{DNS_HEADER, Question};

const ETHERNET_IPV4: u32 = 0x0800u16.to_be() as u32;
const ETHERNET_IPV6: u32 = 0x86ddu16.to_be() as u32;
const UDP: u8 = 17;
const UDP_HEADER: u32 = 8;
/// The port of DNS servers.
const PORT: u16 = 53;

/// The direction of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    FromServer,
}

/// A message to or from a DNS server.
#[derive(Clone, Copy)]
pub(crate) struct Message {
    /// The key that its answer has, too.
    pub(crate) question: Question,
    /// The offset in the packet.
    pub(crate) start: u32,
    /// The length in bytes.
    pub(crate) length: u32,
}

/// Returns the DNS message in a packet; `None` if there is none.
#[inline(always)]
pub(crate) fn of(skb: *mut __sk_buff, direction: Direction) -> Option<Message> {
    // SAFETY: the context is valid for the program's run.
    let (server, family, payload) = match unsafe { (*skb).protocol } {
        ETHERNET_IPV4 => {
            let header = load::<[u32; 5]>(skb, 0)?;
            if header[2].to_ne_bytes()[1] != UDP {
                return None;
            }
            let address = match direction {
                Direction::ToServer => header[4],
                Direction::FromServer => header[3],
            };
            let length = u32::from(header[0].to_ne_bytes()[0] & 0x0f) * 4;
            ([address, 0, 0, 0], 4, length)
        }
        ETHERNET_IPV6 => {
            let header = load::<[u32; 10]>(skb, 0)?;
            // Datagrams with extension headers are ignored: resolvers do not send such.
            if header[1].to_ne_bytes()[2] != UDP {
                return None;
            }
            let address = match direction {
                Direction::ToServer => [header[6], header[7], header[8], header[9]],
                Direction::FromServer => [header[2], header[3], header[4], header[5]],
            };
            (address, 6, 40)
        }
        _ => return None,
    };
    let [source0, source1, destination0, destination1, length0, length1, ..] =
        load::<[u8; UDP_HEADER as usize]>(skb, payload)?;
    let port = match direction {
        Direction::ToServer => u16::from_be_bytes([destination0, destination1]),
        Direction::FromServer => u16::from_be_bytes([source0, source1]),
    };
    if port != PORT {
        return None;
    }
    let start = payload + UDP_HEADER;
    let [id0, id1, flags, ..] = load::<[u8; DNS_HEADER as usize]>(skb, start)?;
    let is_response = flags & 0x80 != 0;
    if is_response != (direction == Direction::FromServer) {
        return None;
    }
    Some(Message {
        question: Question {
            // SAFETY: the context is what the helper wants.
            cookie: unsafe { bpf_get_socket_cookie(skb.cast()) },
            server,
            id: u32::from(u16::from_be_bytes([id0, id1])),
            family,
        },
        start,
        length: u32::from(u16::from_be_bytes([length0, length1])).saturating_sub(UDP_HEADER),
    })
}

/// Returns `length`, bounded by 1 and `MASK` + 1 in a form that every verifier accepts and the compiler cannot remove.
#[inline(always)]
pub(crate) fn bounded<const MASK: u32>(length: u32) -> u32 {
    (core::hint::black_box(length.saturating_sub(1)) & MASK) + 1
}

/// Reads from the packet, which begins with the IP header.
#[inline(always)]
fn load<T: Copy>(skb: *mut __sk_buff, offset: u32) -> Option<T> {
    let mut value = core::mem::MaybeUninit::<T>::uninit();
    // SAFETY: the helper writes the whole value, or fails.
    unsafe {
        let failed = bpf_skb_load_bytes(
            skb.cast(),
            offset,
            value.as_mut_ptr().cast(),
            size_of::<T>() as u32,
        );
        if failed == 0 {
            Some(value.assume_init())
        } else {
            None
        }
    }
}
