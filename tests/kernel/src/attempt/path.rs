//! The table of paths: the calls, the written forms of an address, and the expected behaviour on each kernel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mcpmon_common::{address::Form, event::Hook};

use crate::kernel::{Kernel, Protocol};

/// A way of reaching an address, and the form in which the address is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The calls.
    pub means: Means,
    /// The form in which the address is written.
    pub written: Written,
}

/// The calls by which a workload reaches an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// TCP connect(2).
    Tcp,
    /// TCP connect(2) on a non-blocking socket.
    TcpNonBlocking,
    /// `sendto` with `MSG_FASTOPEN`: connects and sends at once.
    FastOpenSend,
    /// `TCP_FASTOPEN_CONNECT`: connects with the first write.
    FastOpenConnect,
    /// Multipath TCP connect(2).
    Mptcp,
    /// Multipath TCP with `MSG_FASTOPEN`.
    MptcpFastOpen,
    /// UDP connect(2), then send(2).
    UdpConnect,
    /// UDP sendto(2).
    UdpSend,
    /// UDP sendto(2) on a socket connected elsewhere.
    UdpSendAside,
    /// UDP sendmsg(2).
    UdpMessage,
    /// UDP sendmmsg(2), the address in the middle of three.
    UdpMessages,
    /// UDP-Lite sendto(2).
    UdpLiteSend,
    /// UDP-Lite connect(2), then send(2).
    UdpLiteConnect,
    /// TCP connect through io_uring.
    RingConnect,
    /// TCP connect through io_uring, taken off the queue by a kernel thread.
    RingConnectPolled,
    /// UDP sendmsg through io_uring.
    RingSend,
    /// connect(2) of an unprivileged ICMP socket.
    Ping,
    /// An echo request through an unprivileged ICMP socket, by sendto(2).
    PingSend,
    /// A whole UDP datagram through a raw socket.
    Raw,
    /// A whole UDP datagram through a raw socket, with an IP header that the sender writes.
    RawWithHeader,
}

/// The form in which an address is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// IPv4-mapped IPv6.
    Mapped,
    /// Behind the NAT64 prefix.
    Nat64,
    /// As a 6to4 address.
    SixToFour,
}

/// The expected behaviour of a path whose address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// The attempt is refused.
    Closed,
    /// The packet is dropped, and the call does not report it.
    Dropped,
    /// The hooks on this kernel do not see the attempt: a gap that the documentation lists.
    Open(&'static str),
    /// The kernel lacks a feature that the path needs.
    Absent(&'static str),
}

/// All paths.
pub const PATHS: [Path; 42] = {
    use Means::*;
    use Written::*;
    [
        path(Tcp, V4),
        path(Tcp, V6),
        path(Tcp, Mapped),
        path(Tcp, Nat64),
        path(Tcp, SixToFour),
        path(TcpNonBlocking, V4),
        path(TcpNonBlocking, V6),
        path(FastOpenSend, V4),
        path(FastOpenSend, V6),
        path(FastOpenSend, Mapped),
        path(FastOpenConnect, V4),
        path(FastOpenConnect, Mapped),
        path(Mptcp, V4),
        path(Mptcp, V6),
        path(Mptcp, Mapped),
        path(MptcpFastOpen, V4),
        path(UdpConnect, V4),
        path(UdpConnect, V6),
        path(UdpConnect, Mapped),
        path(UdpSend, V4),
        path(UdpSend, V6),
        path(UdpSend, Mapped),
        path(UdpSend, Nat64),
        path(UdpSend, SixToFour),
        path(UdpSendAside, V4),
        path(UdpSendAside, V6),
        path(UdpMessage, V4),
        path(UdpMessages, V4),
        path(UdpMessages, V6),
        path(UdpLiteSend, V4),
        path(UdpLiteConnect, V4),
        path(UdpLiteConnect, V6),
        path(RingConnect, V4),
        path(RingConnectPolled, V4),
        path(RingSend, V4),
        path(RingSend, V6),
        path(Ping, V4),
        path(Ping, V6),
        path(PingSend, V4),
        path(PingSend, V6),
        path(Raw, V4),
        path(RawWithHeader, V4),
    ]
};

const fn path(means: Means, written: Written) -> Path {
    Path { means, written }
}

impl Path {
    /// Returns the expected behaviour on `kernel` if the address is refused.
    #[must_use]
    pub fn coverage(self, kernel: &Kernel) -> Coverage {
        let has = |v4, v6| kernel.has(if self.written == Written::V4 { v4 } else { v6 });
        match self.means {
            Means::Mptcp | Means::MptcpFastOpen if !has(Protocol::Mptcp, Protocol::Mptcp6) => {
                Coverage::Absent("no Multipath TCP")
            }
            Means::MptcpFastOpen if kernel.release < (6, 2) => {
                Coverage::Absent("no fast open for Multipath TCP before 6.2")
            }
            Means::UdpLiteSend | Means::UdpLiteConnect if !has(Protocol::UdpLite, Protocol::UdpLite6) => {
                Coverage::Absent("no UDP-Lite")
            }
            Means::Ping if kernel.release < (6, 1) => {
                Coverage::Open("ping sockets pass no hook in connect(2) before 6.1; what they send does")
            }
            // `ping_v6_sendmsg` ignores errors of sending the packet.
            Means::PingSend if self.written != Written::V4 => Coverage::Dropped,
            Means::Tcp
            | Means::TcpNonBlocking
            | Means::FastOpenSend
            | Means::FastOpenConnect
            | Means::Mptcp
            | Means::MptcpFastOpen
            | Means::UdpConnect
            | Means::UdpSend
            | Means::UdpSendAside
            | Means::UdpMessage
            | Means::UdpMessages
            | Means::UdpLiteSend
            | Means::UdpLiteConnect
            | Means::RingConnect
            | Means::RingConnectPolled
            | Means::RingSend
            | Means::Ping
            | Means::PingSend
            | Means::Raw
            | Means::RawWithHeader => Coverage::Closed,
        }
    }
}

/// The kind of traffic that the other side sees.
pub(super) enum Carrier {
    Stream,
    Datagram,
    None,
}

impl Means {
    pub(super) const fn carrier(self) -> Carrier {
        match self {
            Self::Tcp
            | Self::TcpNonBlocking
            | Self::FastOpenSend
            | Self::FastOpenConnect
            | Self::Mptcp
            | Self::MptcpFastOpen
            | Self::RingConnect
            | Self::RingConnectPolled => Carrier::Stream,
            Self::UdpConnect
            | Self::UdpSend
            | Self::UdpSendAside
            | Self::UdpMessage
            | Self::UdpMessages
            | Self::UdpLiteSend
            | Self::UdpLiteConnect
            | Self::RingSend
            | Self::Raw
            | Self::RawWithHeader => Carrier::Datagram,
            Self::Ping | Self::PingSend => Carrier::None,
        }
    }

    /// Returns whether the packets have the port that the call names.
    #[must_use]
    pub const fn has_port(self) -> bool {
        !matches!(self, Self::PingSend)
    }

    /// Returns the hook at which the kernel sees the address.
    #[must_use]
    pub const fn hook(self) -> Hook {
        match self {
            Self::UdpSend
            | Self::UdpSendAside
            | Self::UdpMessage
            | Self::UdpMessages
            | Self::UdpLiteSend
            | Self::RingSend => Hook::Send,
            Self::Tcp
            | Self::TcpNonBlocking
            | Self::FastOpenSend
            | Self::FastOpenConnect
            | Self::Mptcp
            | Self::MptcpFastOpen
            | Self::UdpConnect
            | Self::RingConnect
            | Self::RingConnectPolled
            | Self::Ping => Hook::Connect,
            // UDP-Lite has no `pre_connect` operation, and a connected send names no address. The other means have no
            // hook in any call.
            Self::UdpLiteConnect | Self::PingSend | Self::Raw | Self::RawWithHeader => Hook::Packet,
        }
    }
}

impl Written {
    /// Returns an address in this form, derived from the given address of the form's family.
    #[must_use]
    pub fn write(self, v4: Ipv4Addr, v6: Ipv6Addr) -> IpAddr {
        let [a, b, c, d] = v4.octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        match self {
            Self::V4 => v4.into(),
            Self::V6 => v6.into(),
            Self::Mapped => v4.to_ipv6_mapped().into(),
            Self::Nat64 => Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low).into(),
            Self::SixToFour => Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1).into(),
        }
    }

    /// Returns the address of the two that the rules are applied to.
    #[must_use]
    pub const fn judged(self, v4: Ipv4Addr, v6: Ipv6Addr) -> IpAddr {
        match self {
            Self::V6 => IpAddr::V6(v6),
            Self::V4 | Self::Mapped | Self::Nat64 | Self::SixToFour => IpAddr::V4(v4),
        }
    }

    /// Returns the form that the record has.
    #[must_use]
    pub const fn form(self) -> Form {
        match self {
            Self::V4 | Self::V6 => Form::Plain,
            Self::Mapped => Form::Mapped,
            Self::Nat64 => Form::Nat64,
            Self::SixToFour => Form::SixToFour,
        }
    }
}
