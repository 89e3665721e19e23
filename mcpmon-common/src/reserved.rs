//! Reserved addresses: the TCP addresses of the daemon's listeners, which only root may bind a socket to, also while no
//! daemon runs.

use crate::{assert_layout, pod};

/// The key of a reserved address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct ReservedAddress {
    /// Cookie of the network namespace (`SO_NETNS_COOKIE`).
    pub network: u64,
    /// The address in four words of network order: an IPv4 address as `::ffff:a.b.c.d`, or one of [`ALL4`] and [`ALL6`].
    pub address: [u32; 4],
    /// The port.
    pub port: u64,
}

/// All IPv4 addresses.
pub const ALL4: [u32; 4] = mapped([255; 4]);
/// All IPv6 addresses.
pub const ALL6: [u32; 4] = [u32::MAX; 4];
/// The unspecified IPv4 address.
pub const UNSPECIFIED4: [u32; 4] = mapped([0; 4]);
/// The unspecified IPv6 address. A socket that is bound to it may get IPv4 connections too.
pub const UNSPECIFIED6: [u32; 4] = [0; 4];

/// Returns an IPv4 address as `::ffff:a.b.c.d`.
#[inline(always)]
pub const fn mapped(address: [u8; 4]) -> [u32; 4] {
    [0, 0, 0x0000_ffffu32.to_be(), u32::from_ne_bytes(address)]
}

/// Returns the word for all addresses of the family of `address`.
#[inline(always)]
pub const fn all_of(address: [u32; 4]) -> [u32; 4] {
    let [a, b, c, _] = address;
    if a == 0 && b == 0 && c == 0x0000_ffffu32.to_be() {
        ALL4
    } else {
        ALL6
    }
}

assert_layout!(ReservedAddress, size 32, address at 8, port at 24);
pod!(ReservedAddress);
