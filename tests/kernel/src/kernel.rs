//! The running kernel's version and features, as it reports them. The expectations of the tests depend on them.

use std::{collections::BTreeSet, fs};

use anyhow::{Context as _, Result};

/// The running kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Major and minor version.
    pub release: (u32, u32),
    protocols: BTreeSet<Protocol>,
}

/// Protocols that a kernel may be built without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// Multipath TCP.
    Mptcp,
    /// Multipath TCP over IPv6.
    Mptcp6,
    /// UDP-Lite.
    UdpLite,
    /// UDP-Lite over IPv6.
    UdpLite6,
    /// SCTP.
    Sctp,
    /// L2TP/IP.
    L2tp,
}

impl Kernel {
    /// Asks the running kernel for its version and protocols.
    ///
    /// # Errors
    /// Returns an error if `/proc` does not have them.
    pub fn running() -> Result<Self> {
        let read = |path| fs::read_to_string(path).with_context(|| format!("cannot read {path}"));
        let release = read("/proc/sys/kernel/osrelease")?;
        Ok(Self {
            release: parse_release(&release).with_context(|| format!("odd kernel release {release:?}"))?,
            protocols: parse_protocols(&read("/proc/net/protocols")?),
        })
    }

    /// Returns whether the kernel was built with this protocol.
    #[must_use]
    pub fn has(&self, protocol: Protocol) -> bool {
        self.protocols.contains(&protocol)
    }
}

fn parse_release(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Parses `/proc/net/protocols`, which has the name of a protocol at the start of each line.
fn parse_protocols(text: &str) -> BTreeSet<Protocol> {
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    names
        .filter_map(|name| match name {
            "MPTCP" => Some(Protocol::Mptcp),
            "MPTCPv6" => Some(Protocol::Mptcp6),
            "UDP-Lite" => Some(Protocol::UdpLite),
            "UDPLITEv6" => Some(Protocol::UdpLite6),
            "SCTP" => Some(Protocol::Sctp),
            "L2TP/IP" => Some(Protocol::L2tp),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_its_first_two_numbers() {
        assert_eq!(parse_release("6.1.0-50-cloud-amd64\n"), Some((6, 1)));
        assert_eq!(parse_release("7.2-rc1"), Some((7, 2)));
        assert_eq!(parse_release("linux"), None);
    }

    #[test]
    fn protocols_are_named_at_the_start_of_a_line() {
        let text =
            "protocol  size sockets\nMPTCPv6   1712  0 1 no 0 yes kernel\nUDP-Lite 1024\nTCP 2 MPTCP\n";
        assert_eq!(
            parse_protocols(text),
            BTreeSet::from([Protocol::Mptcp6, Protocol::UdpLite])
        );
    }
}
