//! TCP connects to a listener of this process, timed one by one.

use std::{
    net::{SocketAddr, SocketAddrV4, TcpListener},
    os::fd::AsRawFd as _,
    time::Instant,
};

use anyhow::{Context as _, Result};
use mcpmon_bench::median;
use nix::{
    libc,
    sys::socket::{
        self, AddressFamily, SockFlag, SockType, SockaddrIn, connect, setsockopt, sockopt::Linger,
    },
};

/// A listener on the loopback interface.
#[derive(Debug)]
pub(crate) struct Loopback {
    listener: TcpListener,
    address: SocketAddrV4,
}

impl Loopback {
    pub(crate) fn listen() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("could not listen on loopback")?;
        match listener.local_addr()? {
            SocketAddr::V4(address) => Ok(Self { listener, address }),
            SocketAddr::V6(address) => anyhow::bail!("asked for an IPv4 listener and got {address}"),
        }
    }

    pub(crate) const fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// Returns the median time of connect(2), in nanoseconds. Only that call is timed, not accepting and closing.
    pub(crate) fn measure(&self, connects: u32) -> Result<f64> {
        let address = SockaddrIn::from(self.address);
        // A reset leaves no TIME_WAIT socket behind; these would use up the ports.
        let reset = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        let mut samples = Vec::new();
        for _ in 0..connects {
            let client = socket::socket(
                AddressFamily::Inet,
                SockType::Stream,
                SockFlag::SOCK_CLOEXEC,
                None,
            )?;
            setsockopt(&client, Linger, &reset)?;
            let start = Instant::now();
            connect(client.as_raw_fd(), &address).context("a connect that nothing forbids failed")?;
            samples.push(start.elapsed().as_nanos() as f64);
            drop(self.listener.accept().context("could not accept")?);
        }
        Ok(median(&samples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connects_are_timed() {
        let loopback = Loopback::listen().unwrap();
        assert!(loopback.measure(3).unwrap() > 0.0);
    }
}
