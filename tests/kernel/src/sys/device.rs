//! Network devices of the current namespace: creates them, gives them addresses, and brings them up.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddrV4},
    os::fd::AsRawFd as _,
};

use nix::{errno::Errno, libc, sys::socket::SockaddrIn};

use super::{
    netlink::{attribute, request},
    socket,
};

/// A device, by its name, which is shorter than `IFNAMSIZ`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device(&'static str);

impl Device {
    const LOOPBACK: Self = Self("lo");
    /// One end of a pair of devices, in the namespace in which [`Device::make_pair`] was called.
    pub const PAIR: Self = Self("mcpmon-pair");

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// Makes [`Device::PAIR`], whose other end is in this namespace too.
    ///
    /// # Errors
    /// Returns the errors of rtnetlink(7): `EOPNOTSUPP` if the kernel has no such devices.
    pub fn make_pair() -> Result<(), Errno> {
        const INFO: u16 = libc::IFLA_LINKINFO;
        /// `IFLA_INFO_KIND` of linux/if_link.h.
        const KIND: u16 = 1;
        let kind = attribute(KIND, b"veth");
        let attributes = [
            attribute(libc::IFLA_IFNAME, Self::PAIR.0.as_bytes()),
            attribute(INFO, &kind),
        ]
        .concat();
        let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        // An empty `ifinfomsg` means any family and a new device.
        let message = [&[0; 16], attributes.as_slice()].concat();
        request(libc::NETLINK_ROUTE, libc::RTM_NEWLINK, flags, &message)
    }

    /// Brings the device up.
    ///
    /// # Errors
    /// Returns the errors of netdevice(7).
    pub fn raise(self) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).map_err(io::Error::other)?;
        control(libc::AF_INET, libc::SIOCSIFFLAGS, &mut request)
    }

    /// Sets the device's first address, with a network mask of this address only.
    ///
    /// # Errors
    /// Returns the errors of netdevice(7).
    pub fn set_address(self, address: Ipv4Addr) -> io::Result<()> {
        for (code, value) in [
            (libc::SIOCSIFADDR, address),
            (libc::SIOCSIFNETMASK, Ipv4Addr::BROADCAST),
        ] {
            let mut request = self.request();
            let value: &libc::sockaddr_in = &SockaddrIn::from(SocketAddrV4::new(value, 0)).into();
            // SAFETY: the socket interface defines `sockaddr_in` as a `sockaddr` of the same size.
            request.ifr_ifru.ifru_addr = unsafe { *std::ptr::from_ref(value).cast() };
            control(libc::AF_INET, code, &mut request)?;
        }
        Ok(())
    }

    fn request(self) -> libc::ifreq {
        // SAFETY: `ifreq` is plain data; all zeros is a request that names no interface.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (slot, byte) in request.ifr_name.iter_mut().zip(self.0.bytes()) {
            // `c_char` is signed on some architectures only.
            *slot = libc::c_char::from_ne_bytes([byte]);
        }
        request
    }
}

/// Brings up the loopback interface.
///
/// # Errors
/// Returns the errors of netdevice(7).
pub fn raise_loopback() -> io::Result<()> {
    Device::LOOPBACK.raise()
}

/// Adds an address to the loopback interface.
///
/// # Errors
/// Returns the errors of netdevice(7).
pub fn add_loopback_address(address: Ipv6Addr) -> io::Result<()> {
    /// `in6_ifreq` of linux/ipv6.h.
    #[repr(C)]
    struct Request {
        address: [u8; 16],
        prefix: u32,
        interface: i32,
    }
    let mut request = Device::LOOPBACK.request();
    control(libc::AF_INET6, libc::SIOCGIFINDEX, &mut request)?;
    let mut request = Request {
        address: address.octets(),
        prefix: 128,
        // SAFETY: SIOCGIFINDEX filled this member.
        interface: unsafe { request.ifr_ifru.ifru_ifindex },
    };
    control(libc::AF_INET6, libc::SIOCSIFADDR, &mut request)
}

/// Makes the ioctl `code`, for which the kernel reads and fills a `T`.
fn control<T>(family: i32, code: libc::c_ulong, request: &mut T) -> io::Result<()> {
    let socket = socket(family, libc::SOCK_DGRAM, 0)?;
    // SAFETY: each caller passes the structure that its code takes.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), code as _, std::ptr::from_mut(request)) };
    Errno::result(done)?;
    Ok(())
}
