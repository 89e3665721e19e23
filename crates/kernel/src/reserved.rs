//! Reserved addresses: while this stays in the kernel, only root binds a TCP socket to them.

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use aya::maps::{HashMap, MapData, MapError};
use mcpmon_common::{
    address::words,
    reserved::{ALL4, ALL6, ReservedAddress, UNSPECIFIED4, UNSPECIFIED6, mapped},
};

use super::sys;

/// The table of reserved addresses.
#[derive(Debug)]
pub struct ReservedAddresses {
    keys: HashMap<MapData, ReservedAddress, u32>,
}

/// The reason why addresses cannot be reserved.
#[derive(Debug, thiserror::Error)]
pub enum ReserveError {
    /// The kernel does not name network namespaces.
    #[error("this kernel does not name network namespaces (SO_NETNS_COOKIE, from 5.14)")]
    Unsupported(#[source] io::Error),
    /// The table cannot be written.
    #[error("the kernel's table of reserved addresses cannot be written")]
    Table(#[from] MapError),
}

impl ReservedAddresses {
    pub(super) const fn new(keys: HashMap<MapData, ReservedAddress, u32>) -> Self {
        Self { keys }
    }

    /// Reserves `addresses` of this process's network namespace, and no others.
    ///
    /// # Errors
    /// Returns an error if the kernel is too old, or the table cannot be written.
    pub fn replace(&mut self, addresses: &[SocketAddr]) -> Result<(), ReserveError> {
        let mut wanted = BTreeSet::new();
        if !addresses.is_empty() {
            let network = sys::network_cookie().map_err(ReserveError::Unsupported)?;
            wanted.extend(addresses.iter().flat_map(|address| keys(network, *address)));
        }
        for key in &wanted {
            self.keys.insert(key, 0, 0)?;
        }
        let reserved: Vec<ReservedAddress> = self.keys.keys().collect::<Result<_, _>>()?;
        for key in reserved.iter().filter(|key| !wanted.contains(key)) {
            self.keys.remove(key)?;
        }
        Ok(())
    }
}

/// Returns the keys of all addresses to which a socket could be bound to get connections to `address`.
fn keys(network: u64, address: SocketAddr) -> Vec<ReservedAddress> {
    let addresses = match address.ip().to_canonical() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => vec![ALL4, UNSPECIFIED6],
        IpAddr::V4(address) => vec![mapped(address.octets()), UNSPECIFIED4, UNSPECIFIED6],
        // It may get IPv4 connections too.
        IpAddr::V6(address) if address.is_unspecified() => vec![ALL4, ALL6],
        IpAddr::V6(address) => vec![words(address.octets()), UNSPECIFIED6],
    };
    let port = address.port().into();
    let key = |address| ReservedAddress {
        network,
        address,
        port,
    };
    addresses.into_iter().map(key).collect()
}
