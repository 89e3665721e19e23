//! The host-wide list: declared servers, watch and deny rules, and the self-test's address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{
    Compilation, CompileError, LIST_HOST, RuleKind, TableVerdict,
    merge::{Merge, Ranges},
};
use crate::{Cidr, HostName, NetworkRule, Policy, RemoteHost, RuleAction, Scope, Server, Transport};

/// Addresses on which nothing listens. They are always refused, so that a self-test can observe the refusal.
pub const CANARY: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(127, 255, 255, 254)),
    IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0x6d63, 0x706d, 0x6f6e)),
];

/// The first rule for each purpose, by its rank among the rules.
#[derive(Clone, Debug, Default)]
struct Slots {
    deny_host: Option<RankedRange>,
    deny_agents: Option<RankedRange>,
    watch: Option<RankedRange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RankedRange {
    rank: usize,
    number: u32,
}

impl Merge for Slots {
    fn merge(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.deny_host, other.deny_host),
            (&mut self.deny_agents, other.deny_agents),
            (&mut self.watch, other.watch),
        ] {
            *mine = mine.iter().copied().chain(theirs).min();
        }
    }
}

impl Slots {
    fn of(kind: &RuleKind, ranked: RankedRange) -> Self {
        let mut slots = Self::default();
        match kind {
            RuleKind::Watch | RuleKind::Server(_) | RuleKind::Bypass => slots.watch = Some(ranked),
            RuleKind::Deny(Scope::Host) | RuleKind::Canary | RuleKind::Egress(_) | RuleKind::Kill => {
                slots.deny_host = Some(ranked);
            }
            RuleKind::Deny(Scope::Agents) | RuleKind::DeniedServer(_) => slots.deny_agents = Some(ranked),
        }
        slots
    }

    /// Returns the slots for an address that only DNS answers to other processes contain: rules refuse it for agents
    /// and their processes only, and it gets no name in reports, because anyone could have given it that name.
    fn of_followed(&self) -> Option<Self> {
        let refuses = self.deny_host.or(self.deny_agents)?;
        Some(Self {
            deny_agents: Some(refuses),
            ..Self::default()
        })
    }

    fn verdict(&self) -> TableVerdict {
        let number = |slot: Option<RankedRange>| slot.map_or(0, |ranked| ranked.number);
        TableVerdict {
            deny_host: number(self.deny_host),
            deny_agents: number(self.deny_agents),
            watch: number(self.watch),
        }
    }
}

/// One rule, of any origin.
struct HostRule<'a> {
    kind: RuleKind,
    name: &'a str,
    hosts: &'a [HostName],
    ranges: Vec<Cidr>,
    ports: &'a [u16],
}

/// Adds the host list.
///
/// Declared servers come before the rules of `network`: a rule that watches everything must not hide that a connection
/// goes to a server.
pub(super) fn compile(policy: &Policy, compilation: &mut Compilation<'_>) -> Result<(), CompileError> {
    let canary = HostRule {
        kind: RuleKind::Canary,
        name: "self-test",
        hosts: &[],
        ranges: CANARY.map(Cidr::host).to_vec(),
        ports: &[],
    };
    let servers = policy.servers.iter().flat_map(|server| of_server(policy, server));
    let configured = policy.network.rules.iter().map(of_network_rule);

    let mut ranges = Ranges::new();
    for (rank, rule) in std::iter::once(canary)
        .chain(servers)
        .chain(configured)
        .enumerate()
    {
        let number = compilation.rule(&rule.kind, rule.name)?;
        let statement = Slots::of(&rule.kind, RankedRange { rank, number });
        for range in &rule.ranges {
            ranges.say(*range, rule.ports, &statement);
        }
        for name in rule.hosts {
            for address in compilation.resolve(number, name) {
                ranges.say(Cidr::host(address), rule.ports, &statement);
            }
            let Some(statement) = statement.of_followed() else {
                continue;
            };
            for address in compilation.follow(number, name) {
                ranges.say(Cidr::host(address), rule.ports, &statement);
            }
        }
    }
    ranges.try_each(|range, by_port| compilation.insert(LIST_HOST, range, by_port, Slots::verdict))
}

fn of_server<'a>(policy: &Policy, server: &'a Server) -> Vec<HostRule<'a>> {
    let Transport::Remote { host, port, .. } = &server.transport else {
        return Vec::new();
    };
    let mut kinds = vec![RuleKind::Server(server.id.clone())];
    if policy.server_policy.denies(&server.id) {
        kinds.push(RuleKind::DeniedServer(server.id.clone()));
    }
    let (hosts, ranges) = match host {
        RemoteHost::Name(name) => (std::slice::from_ref(name), Vec::new()),
        RemoteHost::Address(address) => (<&[HostName]>::default(), vec![Cidr::host(*address)]),
    };
    let rule = |kind| HostRule {
        kind,
        name: server.id.as_str(),
        hosts,
        ranges: ranges.clone(),
        ports: std::slice::from_ref(port),
    };
    kinds.into_iter().map(rule).collect()
}

fn of_network_rule(rule: &NetworkRule) -> HostRule<'_> {
    HostRule {
        kind: match rule.action {
            RuleAction::Watch => RuleKind::Watch,
            RuleAction::Deny => RuleKind::Deny(rule.scope),
        },
        name: &rule.name,
        hosts: &rule.hosts,
        ranges: rule.cidrs.clone(),
        ports: &rule.ports,
    }
}
