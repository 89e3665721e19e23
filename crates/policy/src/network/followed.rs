//! Addresses of refused names, as they are in answers of DNS servers to processes of the host.
//!
//! An attacker who has a process ask his own server can put any address into the answer. So these addresses allow
//! nothing, they are refused for agents and servers only, and their number, kind and lifetime are bounded.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use mcpmon_model::Timestamp;

use crate::HostName;

/// Addresses that are followed of one name.
pub const MAX_FOLLOWED: usize = 64;
/// Addresses that are followed of all names.
pub const MAX_ALL_FOLLOWED: usize = 1024;
/// The shortest time for which an address is followed after the last answer that had it: clients connect later.
pub const MIN_KEPT: Duration = Duration::from_mins(10);
/// The longest time.
pub const MAX_KEPT: Duration = Duration::from_hours(1);

/// An answer of a DNS server to a process of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsAnswer {
    /// The name that was asked for.
    pub name: HostName,
    /// Its addresses, each with the time for which it may be kept.
    pub addresses: Vec<(IpAddr, Duration)>,
    /// The server.
    pub server: IpAddr,
}

/// The answer that first had an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The DNS server that gave the address.
    pub server: IpAddr,
    /// The time.
    pub at: Timestamp,
}

/// The addresses that are followed, by name.
pub type Sightings = BTreeMap<HostName, BTreeMap<IpAddr, Sighting>>;

/// The addresses that are followed, and until when.
#[derive(Clone, Debug, Default)]
pub struct FollowedNames {
    sightings: Sightings,
    until: BTreeMap<(HostName, IpAddr), Timestamp>,
    /// Names with more addresses than are followed.
    full: BTreeSet<HostName>,
}

impl FollowedNames {
    /// Returns the addresses of an earlier daemon, which are kept for the shortest time from `now` on.
    pub fn resumed(sightings: Sightings, now: Timestamp) -> Self {
        let until = after(now, MIN_KEPT);
        let keys = sightings.iter().flat_map(|(name, addresses)| {
            let of_name = addresses.keys().map(|address| (name.clone(), *address));
            of_name.map(|key| (key, until))
        });
        Self {
            until: keys.collect(),
            full: BTreeSet::new(),
            sightings,
        }
    }

    /// Takes in an answer at `now`. Addresses in `spared` are not followed: those of the host and of its DNS servers.
    /// Returns the addresses that are new.
    pub fn learn(&mut self, answer: &DnsAnswer, spared: &BTreeSet<IpAddr>, now: Timestamp) -> Vec<IpAddr> {
        let mut new = Vec::new();
        for (address, lifetime) in &answer.addresses {
            let address = address.to_canonical();
            if !is_public(address) || spared.contains(&address) {
                continue;
            }
            let key = (answer.name.clone(), address);
            let kept = after(now, (*lifetime).clamp(MIN_KEPT, MAX_KEPT));
            if let Some(until) = self.until.get_mut(&key) {
                *until = kept.max(*until);
                continue;
            }
            let of_name = self.sightings.get(&answer.name).map_or(0, BTreeMap::len);
            if of_name >= MAX_FOLLOWED || self.until.len() >= MAX_ALL_FOLLOWED {
                // Followed addresses stay: a flood of answers must not end a refusal.
                self.full.insert(answer.name.clone());
                continue;
            }
            self.until.insert(key, kept);
            let of_name = self.sightings.entry(answer.name.clone()).or_default();
            of_name.insert(
                address,
                Sighting {
                    server: answer.server,
                    at: now,
                },
            );
            new.push(address);
        }
        new
    }

    /// Forgets every name except `wanted`, and addresses that are too old. Returns whether anything was forgotten.
    pub fn forget(&mut self, wanted: &BTreeSet<HostName>, now: Timestamp) -> bool {
        let before = self.until.len();
        self.until
            .retain(|(name, _), until| *until > now && wanted.contains(name));
        let until = &self.until;
        self.sightings.retain(|name, addresses| {
            addresses.retain(|address, _| until.contains_key(&(name.clone(), *address)));
            !addresses.is_empty()
        });
        let sightings = &self.sightings;
        let all = self.until.len();
        self.full.retain(|name| {
            let of_name = sightings.get(name).map_or(0, BTreeMap::len);
            wanted.contains(name) && (of_name >= MAX_FOLLOWED || all >= MAX_ALL_FOLLOWED)
        });
        self.until.len() != before
    }

    /// Returns the followed addresses, by name.
    pub const fn sightings(&self) -> &Sightings {
        &self.sightings
    }

    /// Names with more addresses than are followed.
    pub const fn full(&self) -> &BTreeSet<HostName> {
        &self.full
    }
}

fn after(now: Timestamp, time: Duration) -> Timestamp {
    Timestamp(
        now.0
            .saturating_add(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)),
    )
}

/// Returns whether an address may be that of a host of the Internet, and not of this host or its own network.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => is_public4(v4),
        IpAddr::V6(v6) => is_public6(v6),
    }
}

fn is_public4(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    let is_carriers = first == 100 && second & 0xc0 == 64;
    let is_this_network = first == 0;
    // 240.0.0.0/4 is of no use, and holds the broadcast address.
    let is_reserved = first >= 240;
    !(address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || is_carriers
        || is_this_network
        || is_reserved)
}

fn is_public6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match segments {
        // A translator or a relay reaches the IPv4 address inside.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => is_public4(embedded(high, low)),
        // 2000::/3 is all that is assigned to hosts of the Internet.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use test_case::test_case;

    use super::*;

    const MINUTE: i64 = 60_000_000_000;

    #[test_case("192.0.2.1" => true)]
    #[test_case("100.63.0.1" => true; "below those of carriers")]
    #[test_case("100.64.0.1" => false; "of a carrier")]
    #[test_case("127.0.0.53" => false)]
    #[test_case("::ffff:127.0.0.1" => false; "mapped loopback")]
    #[test_case("::ffff:192.0.2.1" => true; "mapped")]
    #[test_case("0.0.0.0" => false)]
    #[test_case("10.1.2.3" => false)]
    #[test_case("172.16.0.1" => false)]
    #[test_case("192.168.0.1" => false)]
    #[test_case("169.254.169.254" => false; "link-local")]
    #[test_case("224.0.0.251" => false; "a group")]
    #[test_case("255.255.255.255" => false; "everyone")]
    #[test_case("2001:db8::1" => true; "IPv6")]
    #[test_case("::1" => false; "IPv6 loopback")]
    #[test_case("::" => false; "unspecified")]
    #[test_case("fd00::1" => false; "unique local")]
    #[test_case("fe80::1" => false; "IPv6 link-local")]
    #[test_case("ff02::1" => false; "an IPv6 group")]
    #[test_case("64:ff9b::192.0.2.1" => true; "translated")]
    #[test_case("64:ff9b::127.0.0.1" => false; "translated loopback")]
    #[test_case("2002:0a00:0001::1" => false; "private by 6to4")]
    fn public(address: &str) -> bool {
        is_public(ip(address))
    }

    #[test]
    fn an_address_is_kept_for_a_bounded_time() {
        let mut followed = FollowedNames::default();
        let name = host("evil.example");
        let wanted = BTreeSet::from([name.clone()]);
        let short = answer(&[("192.0.2.1", 1)]);
        assert_eq!(
            followed.learn(&short, &BTreeSet::new(), Timestamp(0)),
            [ip("192.0.2.1")]
        );
        let long = answer(&[("192.0.2.2", 1_000_000)]);
        followed.learn(&long, &BTreeSet::new(), Timestamp(0));
        assert!(!followed.forget(&wanted, Timestamp(10 * MINUTE - 1)));
        // Told again, and no news.
        assert_eq!(
            followed.learn(&short, &BTreeSet::new(), Timestamp(MINUTE)),
            [] as [IpAddr; 0]
        );
        assert!(!followed.forget(&wanted, Timestamp(11 * MINUTE - 1)));
        assert!(followed.forget(&wanted, Timestamp(11 * MINUTE)));
        assert_eq!(addresses(&followed), [ip("192.0.2.2")]);
        assert!(followed.forget(&wanted, Timestamp(60 * MINUTE)));
        assert!(followed.sightings().is_empty());
    }

    #[test]
    fn a_name_that_is_not_wanted_any_more_is_forgotten() {
        let mut followed = FollowedNames::default();
        followed.learn(&answer(&[("192.0.2.1", 1)]), &BTreeSet::new(), Timestamp(0));
        let resumed = FollowedNames::resumed(followed.sightings().clone(), Timestamp(0));
        for mut followed in [followed, resumed] {
            assert_eq!(addresses(&followed), [ip("192.0.2.1")]);
            assert!(followed.forget(&BTreeSet::new(), Timestamp(1)));
            assert!(followed.sightings().is_empty());
        }
    }

    #[test]
    fn spared_and_private_addresses_are_not_followed() {
        let mut followed = FollowedNames::default();
        let told = answer(&[
            ("127.0.0.1", 1),
            ("10.0.0.1", 1),
            ("192.0.2.53", 1),
            ("192.0.2.1", 1),
        ]);
        let spared = BTreeSet::from([ip("192.0.2.53")]);
        assert_eq!(followed.learn(&told, &spared, Timestamp(0)), [ip("192.0.2.1")]);
    }

    #[test]
    fn a_flood_ends_no_refusal() {
        let mut followed = FollowedNames::default();
        let wanted = BTreeSet::from([host("evil.example")]);
        followed.learn(&answer(&[("192.0.2.1", 1)]), &BTreeSet::new(), Timestamp(0));
        for number in 0..1000_u32 {
            let address = Ipv4Addr::from_bits(0xc633_6400 + number).to_string();
            followed.learn(&answer(&[(&address, 1)]), &BTreeSet::new(), Timestamp(1));
        }
        assert_eq!(addresses(&followed).len(), MAX_FOLLOWED);
        assert!(addresses(&followed).contains(&ip("192.0.2.1")));
        assert_eq!(followed.full(), &wanted);
        assert!(followed.forget(&wanted, Timestamp(10 * MINUTE)));
        assert!(followed.full().is_empty(), "there is room again");
    }

    proptest! {
        #[test]
        fn bounds_hold_whatever_is_told(
            told in vec((0..40_u8, any::<u32>(), any::<u32>(), 0..100_i64), 0..3000),
        ) {
            let mut followed = FollowedNames::default();
            for (name, address, lifetime, minute) in told {
                let answer = DnsAnswer {
                    name: host(&format!("n{name}.example")),
                    addresses: vec![(Ipv4Addr::from_bits(address).into(), Duration::from_secs(lifetime.into()))],
                    server: ip("192.0.2.53"),
                };
                followed.learn(&answer, &BTreeSet::new(), Timestamp(minute * MINUTE));
            }
            let all: usize = followed.sightings().values().map(BTreeMap::len).sum();
            prop_assert!(all <= MAX_ALL_FOLLOWED);
            prop_assert_eq!(all, followed.until.len());
            for addresses in followed.sightings().values() {
                prop_assert!(addresses.len() <= MAX_FOLLOWED);
                prop_assert!(addresses.keys().all(|address| is_public(*address)));
            }
            let wanted: BTreeSet<HostName> = followed.sightings().keys().cloned().collect();
            followed.forget(&wanted, Timestamp(200 * MINUTE));
            prop_assert!(followed.sightings().is_empty());
        }
    }

    fn addresses(followed: &FollowedNames) -> Vec<IpAddr> {
        followed
            .sightings()
            .values()
            .flat_map(|of_name| of_name.keys().copied())
            .collect()
    }

    fn answer(addresses: &[(&str, u64)]) -> DnsAnswer {
        let address = |(address, seconds): &(&str, u64)| (ip(address), Duration::from_secs(*seconds));
        DnsAnswer {
            name: host("evil.example"),
            addresses: addresses.iter().map(address).collect(),
            server: ip("192.0.2.53"),
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn host(text: &str) -> HostName {
        text.parse().expect("a name")
    }
}
