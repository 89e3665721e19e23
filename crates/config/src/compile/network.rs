//! Compilation of the `network` section: rules over addresses.

use std::time::Duration;

use mcpmon_policy::{Bypass, NetworkPolicy, NetworkRule, RuleAction, Scope};

use crate::{
    load::{KeyMistake, KeyPath, check_name},
    raw,
};

/// Shortest `network.resolve_interval`: DNS servers refuse clients that ask too often.
const MIN_RESOLVE_INTERVAL: Duration = Duration::from_secs(1);

/// Compiles the `network` section.
pub(super) fn compile(raw: &raw::Network, bypass: Bypass, mistakes: &mut Vec<KeyMistake>) -> NetworkPolicy {
    let section = KeyPath::root().key("network");
    let mut rules = Vec::with_capacity(raw.watch.len() + raw.deny.len());
    for (index, entry) in raw.watch.iter().enumerate() {
        let rule = watch(entry);
        check(&rule, &section.key("watch").index(index), mistakes);
        rules.push(rule);
    }
    for (index, entry) in raw.deny.iter().enumerate() {
        let rule = deny(entry);
        check(&rule, &section.key("deny").index(index), mistakes);
        rules.push(rule);
    }
    for (index, agent) in raw.agents.iter().enumerate() {
        check_name(agent, section.key("agents").index(index), mistakes);
    }
    if raw.resolve_interval.0.0 < MIN_RESOLVE_INTERVAL {
        mistakes.push(KeyMistake::new(
            section.key("resolve_interval"),
            "too short: resolvers would refuse to answer; expected at least `1s`",
        ));
    }
    NetworkPolicy {
        enforce: raw.enforce,
        rules,
        agents: raw.agents.clone(),
        resolve_interval: raw.resolve_interval.0.0,
        bypass,
    }
}

fn watch(raw: &raw::Watch) -> NetworkRule {
    NetworkRule {
        name: raw.name.clone(),
        action: RuleAction::Watch,
        scope: Scope::Host,
        hosts: raw.hosts.iter().map(|host| host.0.clone()).collect(),
        cidrs: raw.cidrs.iter().map(|range| range.0).collect(),
        ports: raw.ports.iter().map(|port| port.0).collect(),
    }
}

fn deny(raw: &raw::Deny) -> NetworkRule {
    NetworkRule {
        name: raw.name.clone(),
        action: RuleAction::Deny,
        scope: raw.scope,
        hosts: raw.hosts.iter().map(|host| host.0.clone()).collect(),
        cidrs: raw.cidrs.iter().map(|range| range.0).collect(),
        ports: raw.ports.iter().map(|port| port.0).collect(),
    }
}

fn check(rule: &NetworkRule, path: &KeyPath, mistakes: &mut Vec<KeyMistake>) {
    check_name(&rule.name, path.key("name"), mistakes);
    if rule.hosts.is_empty() && rule.cidrs.is_empty() {
        mistakes.push(KeyMistake::new(
            path.clone(),
            "no address is given: list `hosts` or `cidrs` (`0.0.0.0/0` and `::/0` for every address)",
        ));
    }
}
