//! Rule by rule, at the front door.

mod agreement;
mod followed;

use mcpmon_model::NameGlob;
use test_case::test_case;

use super::*;
use crate::{Egress, EgressDefault, NetworkRule, RemoteHost, RuleAction, Server, ServerPolicy, Transport};

const EVERYTHING: &[u16] = &[];

#[test_case("203.0.113.7", 443 => "block/tls"; "a watched port inside a denied range is denied and watched")]
#[test_case("203.0.113.7", 80 => "block/-"; "its other ports are denied")]
#[test_case("203.0.113.8", 443 => "block/-"; "its neighbour is denied")]
#[test_case("203.0.114.7", 443 => "-/-"; "outside")]
fn a_longer_prefix_does_not_hide_a_shorter_one(address: &str, port: u16) -> String {
    let tables = compiled(&[
        watch("tls", &["203.0.113.7"], &[443]),
        deny("block", Scope::Host, &["203.0.113.0/24"], EVERYTHING),
    ]);
    host_names(&tables, address, port)
}

#[test_case("10.1.1.1", 1 => "wide/first"; "watch and deny are independent")]
#[test_case("10.1.1.1", 2 => "wide/second"; "the first rule that has the port")]
#[test_case("10.1.1.1", 3 => "wide/-"; "neither port")]
#[test_case("10.2.0.1", 2 => "-/second"; "outside of the range")]
fn ports_overlap(address: &str, port: u16) -> String {
    let tables = compiled(&[
        watch("first", &["10.1.1.0/24"], &[1]),
        watch("second", &["10.0.0.0/8"], &[1, 2]),
        deny("wide", Scope::Host, &["10.1.0.0/16"], EVERYTHING),
        deny("narrow", Scope::Host, &["10.1.1.1"], EVERYTHING),
    ]);
    host_names(&tables, address, port)
}

#[test_case("2001:db8::1", 53 => "v6/dns"; "port")]
#[test_case("2001:db8::1", 54 => "v6/-"; "other port")]
#[test_case("2001:db9::1", 53 => "-/-"; "outside")]
#[test_case("192.0.2.9", 1 => "mapped/-"; "a mapped range is an IPv4 range")]
#[test_case("::ffff:192.0.2.9", 1 => "mapped/-"; "a mapped address is an IPv4 address")]
#[test_case("192.0.3.9", 1 => "-/-"; "outside of the mapped range")]
fn families(address: &str, port: u16) -> String {
    let tables = compiled(&[
        watch("dns", &["2001:db8::1"], &[53]),
        deny("v6", Scope::Host, &["2001:db8::/32"], EVERYTHING),
        deny("mapped", Scope::Host, &["::ffff:192.0.2.0/120"], EVERYTHING),
    ]);
    host_names(&tables, address, port)
}

#[test_case(&[] => (false, false, false); "the self-test's address alone is nothing")]
#[test_case(&[watch("w", &["10.0.0.0/8"], EVERYTHING)] => (false, false, false); "watched")]
#[test_case(&[deny("d", Scope::Host, &["10.0.0.0/8"], &[25])] => (true, false, false); "a port for everyone")]
#[test_case(&[deny("d", Scope::Host, &["127.0.0.0/8"], EVERYTHING)] => (true, false, false); "around the self-test's address")]
#[test_case(&[deny("d", Scope::Agents, &["2001:db8::/32"], &[25])] => (false, true, false); "a port for agents")]
fn refusals_are_known_by_whom_they_concern(rules: &[NetworkRule]) -> (bool, bool, bool) {
    let found = compiled(rules).refusals();
    (found.host, found.agents, found.lists)
}

#[test_case("203.0.113.9", false, false => "everyone"; "for everyone")]
#[test_case("::ffff:203.0.113.9", false, false => "everyone"; "mapped")]
#[test_case("64:ff9b::203.0.113.9", false, false => "everyone"; "through a translator")]
#[test_case("2002:cb00:7109::1", false, false => "everyone"; "through a relay")]
#[test_case("2003:cb00:7109::1", false, false => "-"; "its neighbour")]
#[test_case("198.51.100.1", false, false => "-"; "of agents, by another")]
#[test_case("198.51.100.1", true, false => "agents"; "of agents")]
#[test_case("192.0.2.1", true, false => "-"; "of a list, by another")]
#[test_case("192.0.2.1", false, true => "files.egress"; "of a list")]
#[test_case("192.0.2.2", true, true => "-"; "allowed by the list")]
#[test_case("127.255.255.254", true, false => "-"; "the self-test's address")]
fn open_connections_are_refused_by(address: &str, is_agent: bool, is_listed: bool) -> String {
    let mut policy = policy(vec![
        deny("everyone", Scope::Host, &["203.0.113.0/24"], EVERYTHING),
        deny("agents", Scope::Agents, &["198.51.100.0/24"], EVERYTHING),
    ]);
    policy.servers = vec![restricted("files", EgressDefault::Deny, &["192.0.2.2"], &[])];
    let tables = compile(&policy, &ResolvedNames::default(), &mut Numbering::default()).expect("small");
    let lists = [0, tables.egress[&id("files")]];
    let lists = if is_listed { lists.as_slice() } else { &[] };
    let rule = tables.refusal(ip(address), 443, is_agent, lists);
    name(&tables, rule.unwrap_or_default()).to_owned()
}

#[test]
fn scopes_have_slots_of_their_own() {
    let tables = compiled(&[
        deny("agents", Scope::Agents, &["198.51.100.0/24"], EVERYTHING),
        deny("all", Scope::Host, &["198.51.100.1"], &[25]),
    ]);
    let names = |port| {
        let verdict = tables.lookup(LIST_HOST, ip("198.51.100.1"), port);
        [verdict.deny_host, verdict.deny_agents].map(|rule| name(&tables, rule))
    };
    assert_eq!(names(25), ["all", "agents"]);
    assert_eq!(names(80), ["-", "agents"]);
}

#[test]
fn the_canary_is_refused_without_any_rule() {
    let tables = compiled(&[]);
    for address in CANARY {
        let verdict = tables.lookup(LIST_HOST, address, 9);
        assert_eq!(verdict.deny_host, RULE_CANARY, "{address}");
    }
    assert_eq!(
        tables.lookup(LIST_HOST, ip("127.255.255.253"), 9),
        TableVerdict::default()
    );
    assert_eq!(tables.rules.keys().copied().collect::<Vec<_>>(), [RULE_CANARY]);
    assert!(tables.egress.is_empty());
}

#[test]
fn the_canary_wins_over_a_rule_around_it() {
    let tables = compiled(&[
        watch("local", &["127.0.0.0/8"], EVERYTHING),
        deny("no loopback", Scope::Host, &["127.0.0.0/8"], EVERYTHING),
    ]);
    assert_eq!(host_names(&tables, "127.255.255.254", 9), "self-test/local");
    assert_eq!(host_names(&tables, "127.0.0.1", 9), "no loopback/local");
}

#[test]
fn a_declared_server_is_watched_at_its_port_before_any_rule() {
    let mut policy = policy(vec![watch("all", &["0.0.0.0/0"], EVERYTHING)]);
    policy.servers = vec![remote("weather", "mcp.example.com", 443)];
    let tables = compile(
        &policy,
        &resolved(&[("mcp.example.com", "192.0.2.1")]),
        &mut Numbering::default(),
    )
    .expect("tables");
    assert_eq!(host_names(&tables, "192.0.2.1", 443), "-/weather");
    assert_eq!(host_names(&tables, "192.0.2.1", 444), "-/all");
    let watch = tables.lookup(LIST_HOST, ip("192.0.2.1"), 443).watch;
    let info = &tables.rules[&watch];
    assert_eq!(info.kind, RuleKind::Server(id("weather")));
    assert_eq!(info.remote_names[&ip("192.0.2.1")].as_str(), "mcp.example.com");
}

#[test]
fn a_denied_server_is_refused_for_agents_only() {
    let mut policy = policy(Vec::new());
    policy.servers = vec![
        remote("weather", "192.0.2.1", 443),
        remote("files", "192.0.2.2", 443),
    ];
    policy.server_policy = ServerPolicy::Denylist(vec![NameGlob::new("wea*")]);
    let tables = compile(&policy, &ResolvedNames::default(), &mut Numbering::default()).expect("tables");
    let kind = |address, port| {
        let verdict = tables.lookup(LIST_HOST, ip(address), port);
        assert_eq!(verdict.deny_host, 0, "{address}");
        tables.rules.get(&verdict.deny_agents).map(|rule| &rule.kind)
    };
    assert_eq!(
        kind("192.0.2.1", 443),
        Some(&RuleKind::DeniedServer(id("weather")))
    );
    assert_eq!(kind("192.0.2.1", 80), None);
    assert_eq!(kind("192.0.2.2", 443), None);
}

#[test_case("192.0.2.1", 443 => "-"; "allowed")]
#[test_case("192.0.2.1", 80 => "s.egress"; "another port of an allowed destination")]
#[test_case("198.51.100.1", 1 => "-"; "an allowed range")]
#[test_case("198.51.100.9", 1 => "s.egress"; "a denied address in it")]
#[test_case("198.51.100.10", 22 => "s.egress"; "a denied port in it")]
#[test_case("198.51.100.10", 23 => "-"; "the next port")]
#[test_case("127.0.0.1", 53 => "s.egress"; "loopback is not allowed implicitly")]
#[test_case("::1", 53 => "s.egress"; "loopback of the other family")]
#[test_case("127.0.0.53", 53 => "-"; "the stub resolver where it is listed")]
fn egress_of_default_deny(address: &str, port: u16) -> String {
    let mut policy = policy(Vec::new());
    policy.servers = vec![restricted(
        "s",
        EgressDefault::Deny,
        &["api.example.com:443", "[198.51.100.0/24]", "127.0.0.53:53"],
        &["198.51.100.9", "[198.51.100.0/25]:22"],
    )];
    let names = resolved(&[("api.example.com", "192.0.2.1")]);
    let tables = compile(&policy, &names, &mut Numbering::default()).expect("tables");
    let verdict = tables.lookup(tables.egress[&id("s")], ip(address), port);
    name(&tables, verdict.deny_host).to_owned()
}

#[test]
fn a_list_that_refuses_nothing_is_no_list() {
    let mut policy = policy(Vec::new());
    policy.servers = vec![restricted("s", EgressDefault::Allow, &["192.0.2.1"], &[])];
    let tables = compile(&policy, &ResolvedNames::default(), &mut Numbering::default()).expect("tables");
    assert!(tables.egress.is_empty());
    assert!(tables.v4.keys().all(|(list, ..)| *list == LIST_HOST));
}

#[test_case("192.0.2.1" => "-"; "both allow")]
#[test_case("192.0.2.2" => "a.egress"; "only the first denies")]
#[test_case("192.0.2.3" => "b.egress"; "only the second allows not")]
fn pending_processes_get_the_strictest_union(address: &str) -> String {
    let mut policy = policy(Vec::new());
    policy.servers = vec![
        restricted("a", EgressDefault::Allow, &[], &["192.0.2.2"]),
        restricted("b", EgressDefault::Deny, &["192.0.2.1", "192.0.2.2"], &[]),
    ];
    let tables = compile(&policy, &ResolvedNames::default(), &mut Numbering::default()).expect("tables");
    let verdict = tables.lookup(LIST_PENDING, ip(address), 443);
    name(&tables, verdict.deny_host).to_owned()
}

#[test]
fn numbers_survive_reloads() {
    let mut numbering = Numbering::default();
    let mut compile_with = |rules: Vec<NetworkRule>, servers: &[&str]| {
        let mut policy = policy(rules);
        policy.servers = servers
            .iter()
            .map(|name| restricted(name, EgressDefault::Deny, &[], &[]))
            .collect();
        compile(&policy, &ResolvedNames::default(), &mut numbering).expect("tables")
    };
    let first = compile_with(vec![watch("a", &["192.0.2.1"], EVERYTHING)], &["x", "y"]);
    let second = compile_with(
        vec![
            watch("b", &["192.0.2.2"], EVERYTHING),
            watch("a", &["192.0.2.3"], EVERYTHING),
        ],
        &["y"],
    );
    let third = compile_with(vec![watch("c", &["192.0.2.1"], EVERYTHING)], &["x", "y"]);

    let number = |tables: &Tables, address| tables.lookup(LIST_HOST, ip(address), 1).watch;
    assert_eq!(number(&first, "192.0.2.1"), number(&second, "192.0.2.3"));
    let added = number(&second, "192.0.2.2");
    assert!(!first.rules.contains_key(&added));
    let newest = number(&third, "192.0.2.1");
    assert!(!first.rules.contains_key(&newest) && !second.rules.contains_key(&newest));
    assert_eq!(first.egress, third.egress);
    assert_eq!(first.egress[&id("y")], second.egress[&id("y")]);
}

#[test]
fn ten_thousand_entries_share_one_port_set() {
    let ranges: Vec<String> = (0..10_000_u32)
        .map(|host| Ipv4Addr::from_bits(0x0a00_0000 + 2 * host).to_string())
        .collect();
    let ranges: Vec<&str> = ranges.iter().map(String::as_str).collect();
    let tables = compiled(&[
        watch("many", &ranges, &[443, 8443]),
        deny("block", Scope::Host, &["10.0.0.0/16"], EVERYTHING),
    ]);
    assert_eq!(tables.v4.len(), 10_000 + 2);
    assert_eq!(tables.ports.len(), 2);
    assert_eq!(host_names(&tables, "10.0.78.30", 443), "block/many");
    assert_eq!(host_names(&tables, "10.0.78.31", 443), "block/-");
    let of_one = tables.v4.keys().filter(|(_, _, prefix)| *prefix == 32).count();
    assert_eq!(tables.v4.len() - of_one, 1);
}

#[test]
fn too_many_addresses_are_an_error_that_says_how_many() {
    let mut names = ResolvedNames::default();
    let all = (0..=u32::try_from(MAX_ENTRIES).expect("small")).map(|n| IpAddr::V4(Ipv4Addr::from_bits(n)));
    names.add(&host("big.example.com"), all);
    let mut rule = watch("big", &[], EVERYTHING);
    rule.hosts = vec![host("big.example.com")];
    let error = compile(&policy(vec![rule]), &names, &mut Numbering::default()).expect_err("full");
    assert_eq!(
        error,
        CompileError::TooManyEntries {
            table: "IPv4",
            needed: MAX_ENTRIES + 1,
            max: MAX_ENTRIES
        }
    );
}

#[test]
fn too_many_ports_are_an_error_that_says_how_many() {
    let every_port: Vec<u16> = (1..=u16::MAX).collect();
    let rules = [
        watch("a", &["192.0.2.1"], &every_port),
        watch("b", &["192.0.2.2"], &every_port),
        watch("c", &["192.0.2.3"], &every_port),
    ];
    let policy = policy(rules.to_vec());
    let error = compile(&policy, &ResolvedNames::default(), &mut Numbering::default()).expect_err("full");
    assert_eq!(
        error,
        CompileError::TooManyEntries {
            table: "port",
            needed: 3 * 65_535,
            max: MAX_PORT_ENTRIES
        }
    );
}

#[test]
fn names_without_an_address_are_told() {
    let mut policy = policy(vec![NetworkRule {
        hosts: vec![host("known.example.com"), host("unknown.example.com")],
        ..watch("names", &[], EVERYTHING)
    }]);
    policy.servers = vec![
        remote("weather", "mcp.example.com", 443),
        restricted(
            "files",
            EgressDefault::Deny,
            &["api.example.com"],
            &["bad.example.com:1"],
        ),
    ];
    let addresses = resolved(&[("known.example.com", "::ffff:192.0.2.1")]);
    let tables = compile(&policy, &addresses, &mut Numbering::default()).expect("tables");
    let unresolved = tables.unresolved.iter().map(HostName::as_str);
    assert_eq!(
        unresolved.collect::<Vec<_>>(),
        [
            "api.example.com",
            "bad.example.com",
            "mcp.example.com",
            "unknown.example.com"
        ]
    );
    assert_eq!(host_names(&tables, "192.0.2.1", 443), "-/names");
}

#[test]
fn names_that_refuse_are_told_apart() {
    let mut policy = policy(vec![
        NetworkRule {
            hosts: vec![host("watched.example.com")],
            ..watch("watch", &[], EVERYTHING)
        },
        NetworkRule {
            hosts: vec![host("denied.example.com")],
            ..deny("deny", Scope::Agents, &[], EVERYTHING)
        },
    ]);
    policy.servers = vec![
        remote("weather", "mcp.example.com", 443),
        remote("banned", "banned.example.com", 443),
        restricted(
            "files",
            EgressDefault::Deny,
            &["api.example.com"],
            &["bad.example.com:1"],
        ),
    ];
    policy.server_policy = ServerPolicy::Denylist(vec![NameGlob::new("banned")]);
    let refusing = refusing_names(&policy);
    let refusing: Vec<&str> = refusing.iter().map(HostName::as_str).collect();
    assert_eq!(
        refusing,
        ["bad.example.com", "banned.example.com", "denied.example.com"]
    );
}

fn policy(rules: Vec<NetworkRule>) -> Policy {
    let mut policy = Policy::default();
    policy.network.rules = rules;
    policy
}

fn compiled(rules: &[NetworkRule]) -> Tables {
    compile(
        &policy(rules.to_vec()),
        &ResolvedNames::default(),
        &mut Numbering::default(),
    )
    .expect("tables")
}

fn watch(name: &str, ranges: &[&str], ports: &[u16]) -> NetworkRule {
    NetworkRule {
        name: name.to_owned(),
        action: RuleAction::Watch,
        scope: Scope::Host,
        hosts: Vec::new(),
        cidrs: ranges.iter().map(|range| range.parse().expect("range")).collect(),
        ports: ports.to_vec(),
    }
}

fn deny(name: &str, scope: Scope, ranges: &[&str], ports: &[u16]) -> NetworkRule {
    NetworkRule {
        action: RuleAction::Deny,
        scope,
        ..watch(name, ranges, ports)
    }
}

fn remote(name: &str, target: &str, port: u16) -> Server {
    Server {
        id: id(name),
        transport: Transport::Remote {
            server_type: mcpmon_model::ServerType::Http,
            url: format!("https://{target}:{port}/mcp"),
            host: target
                .parse()
                .map_or_else(|_| RemoteHost::Name(host(target)), RemoteHost::Address),
            port,
            tls_fingerprint: None,
        },
        env_allow: Vec::new(),
        env_deny: Vec::new(),
        on_change: None,
        processes: None,
        sandbox: Default::default(),
        egress: None,
    }
}

fn restricted(name: &str, default: EgressDefault, allow: &[&str], deny: &[&str]) -> Server {
    let endpoints = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("endpoint")).collect();
    Server {
        transport: Transport::Stdio {
            command: "server".to_owned(),
            args: Vec::new(),
        },
        egress: Some(Egress {
            default,
            allow: endpoints(allow),
            deny: endpoints(deny),
        }),
        ..remote(name, "192.0.2.200", 1)
    }
}

fn resolved(pairs: &[(&str, &str)]) -> ResolvedNames {
    let mut resolved = ResolvedNames::default();
    for (name, address) in pairs {
        resolved.add(&host(name), [ip(address)]);
    }
    resolved
}

/// `DENY/WATCH` by rule name.
fn host_names(tables: &Tables, address: &str, port: u16) -> String {
    let verdict = tables.lookup(LIST_HOST, ip(address), port);
    format!(
        "{}/{}",
        name(tables, verdict.deny_host),
        name(tables, verdict.watch)
    )
}

fn name(tables: &Tables, rule: u32) -> &str {
    tables.rules.get(&rule).map_or("-", |info| &info.name)
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("address")
}

fn host(text: &str) -> HostName {
    text.parse().expect("name")
}

fn id(text: &str) -> ServerId {
    ServerId::new(text).expect("id")
}
