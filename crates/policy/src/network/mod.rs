//! Addresses to be watched and refused, as configured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod bypass;
pub mod followed;
pub mod table;

use std::{fmt, net::IpAddr, str::FromStr, time::Duration};

pub use bypass::{Bypass, ModelHost, OnBypass};

/// The `network` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// True if refusals are carried out in the kernel.
    pub enforce: bool,
    /// Watch entries, then deny entries, each in the order of the file.
    pub rules: Vec<NetworkRule>,
    /// Further command names that count as agents.
    pub agents: Vec<String>,
    /// The interval at which names are resolved again.
    pub resolve_interval: Duration,
    /// The handling of sessions that have a proxy but connect to a model directly.
    pub bypass: Bypass,
}

impl Default for NetworkPolicy {
    fn default() -> Self {
        Self {
            enforce: true,
            rules: Vec::new(),
            agents: Vec::new(),
            resolve_interval: super::DEFAULT_RESOLVE_INTERVAL,
            bypass: Bypass::default(),
        }
    }
}

impl NetworkPolicy {
    /// Combines two sections by the stricter settings.
    pub(super) fn tightened_by(&self, other: &Self) -> Self {
        let rules = other.rules.iter().filter(|rule| !self.rules.contains(rule));
        let agents = other.agents.iter().filter(|agent| !self.agents.contains(agent));
        Self {
            enforce: self.enforce || other.enforce,
            rules: self.rules.iter().chain(rules).cloned().collect(),
            agents: self.agents.iter().chain(agents).cloned().collect(),
            resolve_interval: self.resolve_interval.min(other.resolve_interval),
            bypass: self.bypass.tightened_by(&other.bypass),
        }
    }
}

/// One `watch` or `deny` entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkRule {
    /// Its name: what events and tables call it.
    pub name: String,
    /// The effect of the rule.
    pub action: RuleAction,
    /// The processes that a refusal applies to.
    pub scope: Scope,
    /// Names, to be resolved.
    pub hosts: Vec<HostName>,
    /// Ranges.
    pub cidrs: Vec<Cidr>,
    /// Ports; empty for all.
    pub ports: Vec<u16>,
}

/// The effect of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleAction {
    /// Reports.
    Watch,
    /// Refuses, and reports.
    Deny,
}

/// The processes whose connections are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Those of every process of the host.
    #[default]
    Host,
    /// Those of agents and whatever they start.
    Agents,
}

/// A range of addresses. Host bits are zero, and an IPv4-mapped range is an IPv4 range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

/// The reason why a text is not a valid range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// No address in front of the slash.
    #[error(
        "`{0}` is no IP address or range (expected for example `203.0.113.0/24`, `2001:db8::/32` or `192.0.2.1`)"
    )]
    Address(String),
    /// The prefix length is no number, or too large.
    #[error("`/{prefix}` is no prefix length for {address}: it goes from 0 to {max}")]
    Prefix {
        /// The text after the slash.
        prefix: String,
        /// The address.
        address: IpAddr,
        /// Largest prefix length of its family.
        max: u8,
    },
    /// Bits are set after the prefix.
    #[error("{address}/{prefix} has bits set behind its prefix: did you mean {meant}?")]
    HostBits {
        /// The address.
        address: IpAddr,
        /// The prefix length.
        prefix: u8,
        /// The range it lies in.
        meant: Cidr,
    },
}

impl Cidr {
    /// Returns the range of one address.
    pub fn host(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self {
            address,
            prefix: if address.is_ipv4() { 32 } else { 128 },
        }
    }

    /// Returns the first address.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the prefix length in bits of the address's own family.
    pub const fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Returns whether `address` is in the range; an IPv4-mapped address counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(base), IpAddr::V4(v4)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                (v4.to_bits() ^ base.to_bits()) & mask == 0
            }
            (IpAddr::V6(base), IpAddr::V6(v6)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                (v6.to_bits() ^ base.to_bits()) & mask == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }

    fn truncated(address: IpAddr, prefix: u8) -> Self {
        let address = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                IpAddr::V4((v4.to_bits() & mask).into())
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                IpAddr::V6((v6.to_bits() & mask).into())
            }
        };
        Self { address, prefix }
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (address_text, prefix_text) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let Ok(address) = address_text.parse::<IpAddr>() else {
            return Err(CidrError::Address(text.to_owned()));
        };
        let Some(prefix_text) = prefix_text else {
            return Ok(Self::host(address));
        };
        let max = if address.is_ipv4() { 32 } else { 128 };
        let bad = || CidrError::Prefix {
            prefix: prefix_text.to_owned(),
            address,
            max,
        };
        let prefix = prefix_text
            .parse::<u8>()
            .ok()
            .filter(|prefix| *prefix <= max && !prefix_text.starts_with('+'));
        let prefix = prefix.ok_or_else(bad)?;
        let range = Self::truncated(address, prefix);
        if range.address != address {
            return Err(CidrError::HostBits {
                address,
                prefix,
                meant: range,
            });
        }
        match (address.to_canonical(), prefix) {
            (IpAddr::V4(v4), 96..) if address.is_ipv6() => Ok(Self {
                address: v4.into(),
                prefix: prefix - 96,
            }),
            _ => Ok(range),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// A DNS name: lower case, without the final dot, letters, digits, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

/// The reason why a text is not a valid host name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostNameError {
    /// Longer than 253 characters, or an empty or overlong label.
    #[error("`{0}` is no host name: labels have 1 to 63 characters, the whole at most 253")]
    Length(String),
    /// A character DNS names do not have.
    #[error("`{name}` is no host name: it contains {character:?}{hint}")]
    Character {
        /// The text.
        name: String,
        /// The first bad character.
        character: char,
        /// The probable intention.
        hint: &'static str,
    },
}

impl HostName {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostName {
    type Err = HostNameError;

    fn from_str(text: &str) -> Result<Self, HostNameError> {
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if let Some(character) = name
            .chars()
            .find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')))
        {
            let hint = match character {
                '*' => " (a wildcard cannot be resolved: list the names, or use `cidrs`)",
                ':' => " (ports go into `ports`)",
                '/' => " (give the host of a URL only, or use `cidrs` for a range)",
                _ => "",
            };
            return Err(HostNameError::Character {
                name: text.to_owned(),
                character,
                hint,
            });
        }
        if name.len() > 253 || name.split('.').any(|label| label.is_empty() || label.len() > 63) {
            return Err(HostNameError::Length(text.to_owned()));
        }
        Ok(Self(name))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A destination of an egress list: `HOST`, `HOST:PORT`, `CIDR`, or `[CIDR]:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EgressDestination {
    /// The target.
    pub target: Target,
    /// Port; `None` for all.
    pub port: Option<u16>,
}

/// The target of a destination.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// To be resolved.
    Name(HostName),
    /// A range.
    Range(Cidr),
}

/// The reason why a text is not a valid destination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The range.
    #[error(transparent)]
    Cidr(#[from] CidrError),
    /// The name.
    #[error(transparent)]
    Host(#[from] HostNameError),
    /// The text after the colon.
    #[error("`{0}` is no port: expected a number from 1 to 65535")]
    Port(String),
}

impl FromStr for EgressDestination {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let (target, port) = split_port(text)?;
        let bare = target
            .strip_prefix('[')
            .and_then(|t| t.strip_suffix(']'))
            .unwrap_or(target);
        let looks_numeric = bare.contains([':', '/']) || bare.parse::<IpAddr>().is_ok();
        let target = if looks_numeric {
            Target::Range(bare.parse()?)
        } else {
            Target::Name(bare.parse()?)
        };
        Ok(Self { target, port })
    }
}

/// Splits a `:PORT` off the end; the colons of a bare IPv6 address are part of the address.
fn split_port(text: &str) -> Result<(&str, Option<u16>), EndpointError> {
    let Some((target, port)) = text.rsplit_once(':') else {
        return Ok((text, None));
    };
    if target.contains(':') && !target.ends_with(']') {
        return Ok((text, None));
    }
    match port.parse::<u16>() {
        Ok(port) if port != 0 => Ok((target, Some(port))),
        Ok(_) | Err(_) => Err(EndpointError::Port(port.to_owned())),
    }
}

impl fmt::Display for EgressDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.target, self.port) {
            (Target::Name(name), None) => write!(f, "{name}"),
            (Target::Name(name), Some(port)) => write!(f, "{name}:{port}"),
            (Target::Range(range), None) => write!(f, "{range}"),
            (Target::Range(range), Some(port)) => write!(f, "[{range}]:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("192.0.2.1" => "192.0.2.1/32")]
    #[test_case("203.0.113.0/24" => "203.0.113.0/24")]
    #[test_case("0.0.0.0/0" => "0.0.0.0/0")]
    #[test_case("2001:db8::/32" => "2001:db8::/32")]
    #[test_case("::ffff:10.0.0.0/104" => "10.0.0.0/8"; "mapped range is v4")]
    #[test_case("::ffff:10.0.0.1" => "10.0.0.1/32"; "mapped address is v4")]
    #[test_case("::/0" => "::/0")]
    #[test_case("10.0.0.1/8" => "10.0.0.1/8 has bits set behind its prefix: did you mean 10.0.0.0/8?")]
    #[test_case("10.0.0.0/33" => "`/33` is no prefix length for 10.0.0.0: it goes from 0 to 32")]
    #[test_case("10.0.0.0/" => "`/` is no prefix length for 10.0.0.0: it goes from 0 to 32")]
    fn ranges(text: &str) -> String {
        text.parse::<Cidr>()
            .map_or_else(|error| error.to_string(), |range| range.to_string())
    }

    #[test_case("api.example.com" => "api.example.com")]
    #[test_case("API.example.com.:443" => "api.example.com:443")]
    #[test_case("10.0.0.0/8" => "10.0.0.0/8")]
    #[test_case("10.0.0.1:53" => "[10.0.0.1/32]:53")]
    #[test_case("2001:db8::1" => "2001:db8::1/128"; "bare v6 has no port")]
    #[test_case("[2001:db8::/32]:443" => "[2001:db8::/32]:443")]
    #[test_case("example.com:0" => "`0` is no port: expected a number from 1 to 65535")]
    #[test_case("*.example.com" => "`*.example.com` is no host name: it contains '*' (a wildcard cannot be resolved: list the names, or use `cidrs`)")]
    fn endpoints(text: &str) -> String {
        text.parse::<EgressDestination>()
            .map_or_else(|error| error.to_string(), |endpoint| endpoint.to_string())
    }

    #[test]
    fn containment_at_the_edges() {
        let range: Cidr = "203.0.112.0/23".parse().expect("range");
        for (address, inside) in [
            ("203.0.111.255", false),
            ("203.0.112.0", true),
            ("203.0.113.255", true),
            ("203.0.114.0", false),
            ("::ffff:203.0.113.1", true),
        ] {
            assert_eq!(
                range.contains(address.parse().expect("address")),
                inside,
                "{address}"
            );
        }
    }
}
