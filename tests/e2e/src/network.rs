//! Loopback addresses that no other test uses, and attempts to connect to them.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::atomic::{AtomicU8, Ordering},
};

use anyhow::{Context as _, Result};

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: Ipv4Addr,
    port: u16,
}

impl Listener {
    /// Opens a socket on an address of 127.77.0.0/16 that is new in this process, and most likely on this host.
    ///
    /// # Errors
    /// Returns an error if no socket can be opened.
    pub fn open() -> Result<Self> {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let [_, _, _, process] = std::process::id().to_be_bytes();
        let address = Ipv4Addr::new(127, 77, process, NEXT.fetch_add(1, Ordering::Relaxed));
        let socket =
            TcpListener::bind((address, 0)).with_context(|| format!("cannot listen on {address}"))?;
        let port = socket.local_addr()?.port();
        Ok(Self {
            socket,
            address,
            port,
        })
    }

    /// Waits for the next connection and returns it.
    ///
    /// # Errors
    /// Returns an error if no connection can be accepted.
    pub fn accept(&self) -> Result<TcpStream> {
        let (stream, _) = self.socket.accept()?;
        stream.set_read_timeout(Some(crate::wait::TIMEOUT))?;
        Ok(stream)
    }

    /// Returns the address.
    #[must_use]
    pub const fn ip(&self) -> Ipv4Addr {
        self.address
    }

    /// Returns the address and port.
    #[must_use]
    pub const fn target(&self) -> SocketAddr {
        SocketAddr::new(std::net::IpAddr::V4(self.address), self.port)
    }

    /// Returns address and port, written as an IPv4-mapped IPv6 address.
    #[must_use]
    pub const fn mapped(&self) -> SocketAddr {
        SocketAddr::new(std::net::IpAddr::V6(self.address.to_ipv6_mapped()), self.port)
    }

    /// Returns a command by which bash connects to this socket; its exit status is 0 if it can.
    #[must_use]
    pub fn bash(&self) -> String {
        format!("exec 3<>/dev/tcp/{}/{}", self.address, self.port)
    }
}

/// The outcome of an attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The attempt connected.
    Connected,
    /// The attempt was not permitted.
    Refused,
}

/// Connects from this process.
///
/// # Errors
/// Returns an error if the attempt fails for another reason than a refusal.
pub fn connect(target: SocketAddr) -> Result<Attempt> {
    match TcpStream::connect(target) {
        Ok(_) => Ok(Attempt::Connected),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Attempt::Refused),
        Err(error) => Err(error).with_context(|| format!("cannot connect to {target}")),
    }
}
