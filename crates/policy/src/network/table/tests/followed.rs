//! Addresses that are only in DNS answers to other processes: they are refused, for agents and servers, with no other
//! effect.

use mcpmon_model::Timestamp;
use proptest::{collection::vec, prelude::*, sample::select};
use test_case::test_case;

use super::{
    super::*,
    EVERYTHING,
    agreement::{NAMES, PORTS, addresses, policies},
    deny, host, ip, policy, resolved, restricted, watch,
};
use crate::{
    EgressDefault, NetworkRule, Scope,
    network::followed::{Sighting, Sightings},
};

const FOLLOWED: &str = "198.51.100.7";

#[test_case("bad", "bad.example.com" => (0, 1, 0); "refused for agents where a rule refuses for everyone")]
#[test_case("few", "few.example.com" => (0, 1, 0); "refused for agents where a rule refuses for them")]
#[test_case("seen", "seen.example.com" => (0, 0, 0); "no report goes by a name that others gave")]
#[test_case("bad", "other.example.com" => (0, 0, 0); "of a name that no rule has")]
fn a_followed_address_refuses_for_agents(rule: &str, name: &str) -> (usize, usize, usize) {
    let rules = [
        named(deny("bad", Scope::Host, &[], EVERYTHING), "bad.example.com"),
        named(deny("few", Scope::Agents, &[], EVERYTHING), "few.example.com"),
        named(watch("seen", &[], EVERYTHING), "seen.example.com"),
    ];
    let names = resolved(&[]).with_followed(followed(&[(name, FOLLOWED)]));
    let tables = compile(&policy(rules.to_vec()), &names, &mut Numbering::default()).expect("tables");
    let verdict = tables.lookup(LIST_HOST, ip(FOLLOWED), 443);
    let is = |number: u32| usize::from(tables.rules.get(&number).is_some_and(|info| info.name == rule));
    if verdict.deny_agents != 0 {
        let known = &tables.rules[&verdict.deny_agents].remote_names[&ip(FOLLOWED)];
        assert_eq!(known.as_str(), name);
    }
    (is(verdict.deny_host), is(verdict.deny_agents), is(verdict.watch))
}

#[test]
fn what_the_agent_itself_was_told_holds_as_before() {
    let rule = named(deny("bad", Scope::Host, &[], EVERYTHING), "bad.example.com");
    let names = resolved(&[("bad.example.com", FOLLOWED)]);
    let both = names
        .clone()
        .with_followed(followed(&[("bad.example.com", FOLLOWED)]));
    let compiled =
        |names| compile(&policy(vec![rule.clone()]), names, &mut Numbering::default()).expect("tables");
    assert_eq!(compiled(&names), compiled(&both));
    assert_eq!(
        both.followed(&host("bad.example.com")).count(),
        0,
        "it is not told twice"
    );
}

#[test_case(&[], &["bad.example.com"] => true; "refused by name")]
#[test_case(&["bad.example.com"], &[] => false; "allowed by name")]
#[test_case(&["198.51.100.7:22"], &["bad.example.com"] => false; "an address that is allowed")]
#[test_case(&["198.51.100.0/24"], &["bad.example.com"] => true; "in a range that is allowed")]
fn a_server_is_refused_what_its_list_refuses(allow: &[&str], denied: &[&str]) -> bool {
    let mut policy = policy(Vec::new());
    policy.servers = vec![restricted("files", EgressDefault::Allow, allow, denied)];
    let names = resolved(&[]).with_followed(followed(&[("bad.example.com", FOLLOWED)]));
    let tables = compile(&policy, &names, &mut Numbering::default()).expect("tables");
    tables
        .egress
        .values()
        .any(|list| tables.lookup(*list, ip(FOLLOWED), 443).deny_host != 0)
}

#[test]
fn nothing_is_allowed_by_what_others_were_told() {
    let mut policy = policy(Vec::new());
    policy.servers = vec![restricted(
        "files",
        EgressDefault::Deny,
        &["api.example.com"],
        &[],
    )];
    let names = resolved(&[]).with_followed(followed(&[("api.example.com", FOLLOWED)]));
    let tables = compile(&policy, &names, &mut Numbering::default()).expect("tables");
    let list = tables.egress.values().next().expect("a list");
    assert_ne!(tables.lookup(*list, ip(FOLLOWED), 443).deny_host, 0);
}

#[test]
fn a_name_that_is_meant_to_be_reached_keeps_its_addresses() {
    let rules = [
        named(deny("bad", Scope::Agents, &[], EVERYTHING), "bad.example.com"),
        named(watch("good", &[], EVERYTHING), "good.example.com"),
    ];
    let names = resolved(&[("good.example.com", FOLLOWED)]).with_followed(followed(&[
        ("bad.example.com", FOLLOWED),
        ("bad.example.com", "198.51.100.8"),
    ]));
    let tables = compile(&policy(rules.to_vec()), &names, &mut Numbering::default()).expect("tables");
    assert_eq!(tables.lookup(LIST_HOST, ip(FOLLOWED), 443).deny_agents, 0);
    assert_ne!(tables.lookup(LIST_HOST, ip("198.51.100.8"), 443).deny_agents, 0);
}

proptest! {
    #[test]
    fn followed_addresses_only_refuse_and_only_for_agents_and_servers(
        policy in policies(),
        told in vec((select(vec!["one.example.com", "two.example.com", "none.example.com"]), addresses()), 0..6),
        asked in vec(addresses(), 1..8),
        port in select(PORTS),
    ) {
        let own = resolved(&NAMES);
        let pairs: Vec<(&str, String)> = told.iter().map(|(name, address)| (*name, address.to_string())).collect();
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, address)| (*name, address.as_str())).collect();
        let more = own.clone().with_followed(followed(&pairs));
        let mut numbering = Numbering::default();
        let before = compile(&policy, &own, &mut numbering).expect("small");
        let after = compile(&policy, &more, &mut numbering).expect("small");
        for address in asked {
            let (was, is) = (before.lookup(LIST_HOST, address, port), after.lookup(LIST_HOST, address, port));
            prop_assert_eq!((was.deny_host, was.watch), (is.deny_host, is.watch));
            prop_assert!(was.deny_agents == 0 || is.deny_agents != 0);
            let lists = before.egress.values().chain([&LIST_PENDING]);
            for list in lists {
                let (was, is) = (before.lookup(*list, address, port), after.lookup(*list, address, port));
                prop_assert!(was.deny_host == 0 || is.deny_host != 0, "{address} is refused no more");
            }
            let is_told = told.iter().any(|(_, followed)| *followed == address);
            if !is_told {
                prop_assert_eq!(was, is, "{} was not told", address);
            }
        }
    }
}

fn named(rule: NetworkRule, name: &str) -> NetworkRule {
    NetworkRule {
        hosts: vec![host(name)],
        ..rule
    }
}

fn followed(pairs: &[(&str, &str)]) -> Sightings {
    let mut sightings = Sightings::new();
    for (name, address) in pairs {
        let sighting = Sighting {
            server: ip("192.0.2.53"),
            at: Timestamp(0),
        };
        sightings
            .entry(host(name))
            .or_default()
            .insert(ip(address), sighting);
    }
    sightings
}
