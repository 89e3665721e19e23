//! The sensor with the measured lists.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddrV4},
    time::Duration,
};

use anyhow::Result;
use mcpmon_bench::reader::Reader;
use mcpmon_kernel::{
    addresses::{AddressTables, Enforcement},
    sensor::{Attached, Sensor},
};
use mcpmon_policy::{
    Cidr, NetworkPolicy, NetworkRule, Policy, RuleAction, Scope,
    network::table::{Numbering, ResolvedNames, compile},
};
use nix::sched::CpuSet;
use serde::Serialize;

/// The number of entries of a long list.
const ENTRIES: u32 = 10_000;

/// The lists in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Setting {
    /// No lists: the hook runs, and its look-up finds nothing.
    EmptyLists,
    /// 10,000 refused addresses, without the address of the connects.
    LongLists,
    /// The same addresses, and the address of the connects is watched.
    Event,
}

impl Setting {
    pub(crate) const ALL: [Self; 3] = [Self::EmptyLists, Self::LongLists, Self::Event];

    /// Returns the network rules for connects to `address`.
    fn rules(self, address: SocketAddrV4) -> Vec<NetworkRule> {
        match self {
            Self::EmptyLists => Vec::new(),
            Self::LongLists => vec![refused()],
            Self::Event => vec![refused(), watched(address)],
        }
    }
}

fn refused() -> NetworkRule {
    let first = u32::from(Ipv4Addr::new(198, 18, 0, 0));
    let addresses = (first..first + ENTRIES).map(|address| IpAddr::V4(Ipv4Addr::from(address)));
    rule(RuleAction::Deny, addresses.map(Cidr::host).collect(), Vec::new())
}

fn watched(address: SocketAddrV4) -> NetworkRule {
    rule(
        RuleAction::Watch,
        vec![Cidr::host(IpAddr::V4(*address.ip()))],
        vec![address.port()],
    )
}

fn rule(action: RuleAction, cidrs: Vec<Cidr>, ports: Vec<u16>) -> NetworkRule {
    NetworkRule {
        name: format!("bench-{action:?}"),
        action,
        scope: Scope::Host,
        hosts: Vec::new(),
        cidrs,
        ports,
    }
}

/// An attached sensor.
pub(crate) struct WithSensor {
    attached: Attached,
    addresses: AddressTables,
    reader: Reader,
    events_expected: bool,
}

impl WithSensor {
    /// Attaches a sensor, with a reader that may run on any of `processors`, as the daemon's may.
    pub(crate) fn start(processors: CpuSet) -> Result<Self> {
        let Sensor {
            rings,
            addresses,
            attached,
            ..
        } = Sensor::start(&[])?;
        Ok(Self {
            attached,
            addresses,
            reader: Reader::start(rings, processors),
            events_expected: false,
        })
    }

    pub(crate) fn install(&mut self, setting: Setting, address: SocketAddrV4) -> Result<()> {
        let network = NetworkPolicy {
            rules: setting.rules(address),
            ..NetworkPolicy::default()
        };
        let policy = Policy {
            network,
            ..Policy::default()
        };
        let tables = compile(&policy, &ResolvedNames::default(), &mut Numbering::default())?;
        self.addresses.install(&tables, Enforcement::Enforce)?;
        self.events_expected |= setting == Setting::Event;
        Ok(())
    }

    /// Returns the number of runs of the program that judges connects, and their total time.
    pub(crate) fn runs(&self) -> Result<(u64, Duration)> {
        Ok(self.attached.runs("connect4")?)
    }

    /// Detaches the sensor, and checks that the expected events were there.
    pub(crate) fn stop(self) -> Result<()> {
        drop(self.attached);
        let read = self.reader.stop()?;
        if self.events_expected && read == 0 {
            anyhow::bail!("no event came: what was measured is not what was meant");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_event_concerns_the_address_connected_to() {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 4000);
        let concerned = |setting: Setting| {
            let rules = setting.rules(address);
            rules
                .iter()
                .flat_map(|rule| &rule.cidrs)
                .any(|cidr| cidr.contains(IpAddr::V4(*address.ip())))
        };
        assert_eq!(Setting::ALL.map(concerned), [false, false, true]);
        assert_eq!(refused().cidrs.len(), ENTRIES as usize);
    }
}
