//! The compiled tables against a reading of every rule.

use mcpmon_model::NameGlob;
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::{super::*, host, name, policy, remote, resolved};
use crate::{
    Egress, EgressDefault, NetworkRule, RemoteHost, RuleAction, Server, ServerPolicy, Transport,
    network::{EgressDestination, Target},
};

proptest! {
    #[test]
    fn lookup_agrees_with_reading_every_rule(
        policy in policies(),
        addresses in vec(addresses(), 1..8),
        port in select(PORTS),
    ) {
        let names = resolved(&NAMES);
        let tables = compile(&policy, &names, &mut Numbering::default()).expect("small");
        for address in addresses {
            let verdict = tables.lookup(LIST_HOST, address, port);
            for (slot, rule) in [
                (Slot::DenyHost, verdict.deny_host),
                (Slot::DenyAgents, verdict.deny_agents),
                (Slot::Watch, verdict.watch),
            ] {
                let expected = naive_host(&policy, &names, slot, address, port);
                prop_assert_eq!(tables.rules.get(&rule).map(|info| info.kind.clone()), expected.0, "{}", address);
                prop_assert_eq!(name(&tables, rule), expected.1, "{}", address);
            }
            let mut pending = None;
            for server in &policy.servers {
                let egress = server.egress.as_ref().expect("every server has a list");
                let expected = naive_egress(egress, &names, address, port).then(|| server.id.clone());
                let list = tables.egress.get(&server.id);
                let verdict = list.map_or_else(TableVerdict::default, |list| tables.lookup(*list, address, port));
                prop_assert_eq!(refusing(&tables, verdict), expected.clone(), "{}", address);
                pending = pending.or(expected);
            }
            prop_assert_eq!(refusing(&tables, tables.lookup(LIST_PENDING, address, port)), pending, "{}", address);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    DenyHost,
    DenyAgents,
    Watch,
}

/// Kind and name of the first rule that speaks for a slot, found by trying them all.
fn naive_host(
    policy: &Policy,
    names: &ResolvedNames,
    slot: Slot,
    address: IpAddr,
    port: u16,
) -> (Option<RuleKind>, &'static str) {
    let covers = |hosts: &[HostName], ranges: &[Cidr], ports: &[u16]| {
        let by_name = hosts
            .iter()
            .flat_map(|name| names.addresses(name))
            .any(|known| known == address);
        (by_name || ranges.iter().any(|range| range.contains(address)))
            && (ports.is_empty() || ports.contains(&port))
    };
    if slot == Slot::DenyHost && CANARY.contains(&address) {
        return (Some(RuleKind::Canary), "self-test");
    }
    for server in &policy.servers {
        let Transport::Remote {
            host: RemoteHost::Address(own),
            port: own_port,
            ..
        } = &server.transport
        else {
            continue;
        };
        let kind = match slot {
            Slot::Watch => Some(RuleKind::Server(server.id.clone())),
            Slot::DenyAgents if policy.server_policy.denies(&server.id) => {
                Some(RuleKind::DeniedServer(server.id.clone()))
            }
            Slot::DenyAgents | Slot::DenyHost => None,
        };
        if kind.is_some() && covers(&[], &[Cidr::host(*own)], &[*own_port]) {
            return (
                kind,
                SERVERS
                    .iter()
                    .find(|name| **name == server.id.as_str())
                    .expect("known"),
            );
        }
    }
    for rule in &policy.network.rules {
        let (kind, own_slot) = match (rule.action, rule.scope) {
            (RuleAction::Watch, _) => (RuleKind::Watch, Slot::Watch),
            (RuleAction::Deny, Scope::Host) => (RuleKind::Deny(Scope::Host), Slot::DenyHost),
            (RuleAction::Deny, Scope::Agents) => (RuleKind::Deny(Scope::Agents), Slot::DenyAgents),
        };
        if own_slot == slot && covers(&rule.hosts, &rule.cidrs, &rule.ports) {
            return (
                Some(kind),
                RULES.iter().find(|name| **name == rule.name).expect("known"),
            );
        }
    }
    (None, "-")
}

fn naive_egress(egress: &Egress, names: &ResolvedNames, address: IpAddr, port: u16) -> bool {
    let covers = |endpoint: &EgressDestination| {
        endpoint.port.is_none_or(|own| own == port)
            && match &endpoint.target {
                Target::Name(name) => names.addresses(name).any(|known| known == address),
                Target::Range(range) => range.contains(address),
            }
    };
    if egress.deny.iter().any(covers) {
        return true;
    }
    !egress.allow.iter().any(covers) && egress.default == EgressDefault::Deny
}

fn refusing(tables: &Tables, verdict: TableVerdict) -> Option<ServerId> {
    assert_eq!((verdict.deny_agents, verdict.watch), (0, 0));
    let RuleKind::Egress(server) = &tables.rules.get(&verdict.deny_host)?.kind else {
        panic!("an egress list names a rule of another kind");
    };
    Some(server.clone())
}

pub(super) const PORTS: &[u16] = &[22, 53, 443];
const RULES: &[&str] = &["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"];
const SERVERS: &[&str] = &["s0", "s1", "s2", "s3"];
pub(super) const NAMES: [(&str, &str); 3] = [
    ("one.example.com", "10.0.0.1"),
    ("one.example.com", "2001:db8::1"),
    ("two.example.com", "127.255.255.254"),
];

/// Few addresses that share many prefixes.
pub(super) fn addresses() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        4 => (0..8_u32).prop_map(|host| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 | host))),
        2 => (0..8_u128).prop_map(|host| IpAddr::V6(Ipv6Addr::from_bits((0x2001_0db8 << 96) | host))),
        1 => select(CANARY.to_vec()),
        1 => any::<IpAddr>().prop_map(|address| address.to_canonical()),
    ]
}

fn ranges() -> impl Strategy<Value = Cidr> {
    (addresses(), prop_oneof![0..6_u8, Just(64)]).prop_map(|(address, bits)| {
        let longest = Cidr::host(address).prefix();
        Cidr::truncated(address, longest.saturating_sub(bits))
    })
}

fn hosts() -> impl Strategy<Value = HostName> {
    select(vec!["one.example.com", "two.example.com", "none.example.com"]).prop_map(host)
}

pub(super) fn policies() -> impl Strategy<Value = Policy> {
    let rule = (
        select(vec![RuleAction::Watch, RuleAction::Deny]),
        select(vec![Scope::Host, Scope::Agents]),
        vec(hosts(), 0..2),
        vec(ranges(), 0..4),
        vec(select(PORTS), 0..3),
    );
    let endpoint = || {
        let target = prop_oneof![ranges().prop_map(Target::Range), hosts().prop_map(Target::Name)];
        let endpoint = (target, option::of(select(PORTS)));
        vec(
            endpoint.prop_map(|(target, port)| EgressDestination { target, port }),
            0..4,
        )
    };
    let egress = (
        select(vec![EgressDefault::Allow, EgressDefault::Deny]),
        endpoint(),
        endpoint(),
    );
    let server = (egress, addresses(), select(PORTS));
    (vec(rule, 0..RULES.len()), vec(server, 0..SERVERS.len())).prop_map(|(rules, servers)| {
        let rules = rules.into_iter().zip(RULES);
        let rules = rules.map(|((action, scope, hosts, cidrs, ports), name)| NetworkRule {
            name: (*name).to_owned(),
            action,
            scope,
            hosts,
            cidrs,
            ports,
        });
        let mut policy = policy(rules.collect());
        policy.server_policy = ServerPolicy::Denylist(vec![NameGlob::new("s1")]);
        let servers = servers.into_iter().zip(SERVERS);
        policy.servers = servers
            .map(|(((default, allow, deny), address, port), name)| Server {
                egress: Some(Egress { default, allow, deny }),
                ..remote(name, &address.to_string(), port)
            })
            .collect();
        policy
    })
}
