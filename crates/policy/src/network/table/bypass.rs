//! The list of sessions that have a proxy: where models are, which they are to reach through it.

use super::{
    Compilation, CompileError, LIST_PROXIED, RuleKind, TableVerdict,
    merge::{Merge, Ranges},
};
use crate::{
    Cidr,
    network::{Bypass, OnBypass},
};

/// Name of its rule in events.
const NAME: &str = "network.proxy_bypass";

/// A mark: a model is reached at this address.
#[derive(Clone, Copy, Debug, Default)]
struct Model(bool);

impl Merge for Model {
    fn merge(&mut self, other: &Self) {
        self.0 |= other.0;
    }
}

/// Adds the list. A connection of a process that it applies to is reported, and refused if the policy says so.
pub(super) fn compile(bypass: &Bypass, compilation: &mut Compilation<'_>) -> Result<(), CompileError> {
    if bypass.models.is_empty() {
        return Ok(());
    }
    let number = compilation.rule(&RuleKind::Bypass, NAME)?;
    let mut ranges = Ranges::new();
    for model in &bypass.models {
        let mut addresses = model.addresses.clone();
        for name in &model.hosts {
            addresses.extend(compilation.resolve(number, name));
            if bypass.action == OnBypass::Deny {
                addresses.extend(compilation.follow(number, name));
            }
        }
        for address in addresses.into_iter().filter(|address| model.means(*address)) {
            ranges.say(Cidr::host(address), &model.ports, &Model(true));
        }
    }
    let verdict = |Model(is_one): &Model| match (is_one, bypass.action) {
        (false, _) => TableVerdict::default(),
        (true, OnBypass::Alert) => TableVerdict {
            watch: number,
            ..TableVerdict::default()
        },
        (true, OnBypass::Deny) => TableVerdict {
            deny_host: number,
            watch: number,
            ..TableVerdict::default()
        },
    };
    ranges.try_each(|range, by_port| compilation.insert(LIST_PROXIED, range, by_port, verdict))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use test_case::test_case;

    use super::*;
    use crate::{
        ModelHost, Policy,
        network::table::{LIST_HOST, Numbering, ResolvedNames, Tables, compile, names, refusing_names},
    };

    fn model(hosts: &[&str], addresses: &[&str], ports: &[u16]) -> ModelHost {
        ModelHost {
            hosts: hosts.iter().map(|name| name.parse().expect("a name")).collect(),
            addresses: addresses.iter().map(|text| ip(text)).collect(),
            ports: ports.to_vec(),
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn policy(action: OnBypass) -> Policy {
        let mut policy = Policy::default();
        policy.network.bypass = Bypass {
            action,
            models: vec![
                model(&["api.example.com"], &[], &[443]),
                model(&["localhost"], &["192.0.2.9", "127.0.0.1"], &[]),
                model(&[], &["127.0.0.1", "::1"], &[11434]),
            ],
        };
        policy
    }

    fn tables(action: OnBypass) -> Tables {
        let mut resolved = ResolvedNames::new();
        for (name, address) in [("api.example.com", "192.0.2.5"), ("localhost", "::1")] {
            resolved.add(&name.parse().expect("a name"), [ip(address)]);
        }
        compile(&policy(action), &resolved, &mut Numbering::default()).expect("small")
    }

    #[test_case("192.0.2.5", 443 => true; "by name")]
    #[test_case("192.0.2.5", 80 => false; "another port of it")]
    #[test_case("192.0.2.9", 80 => true; "every port")]
    #[test_case("192.0.2.10", 443 => false; "its neighbour")]
    #[test_case("127.0.0.1", 11434 => true; "a model of this host")]
    #[test_case("::1", 11434 => true; "in the other family")]
    #[test_case("127.0.0.1", 8484 => false; "this host, where all ports are meant")]
    #[test_case("::1", 8484 => false; "the same by name")]
    fn models_are_in_the_list(address: &str, port: u16) -> bool {
        let (alert, deny) = (tables(OnBypass::Alert), tables(OnBypass::Deny));
        let said = alert.lookup(LIST_PROXIED, ip(address), port);
        let refused = deny.lookup(LIST_PROXIED, ip(address), port);
        assert_eq!((said.deny_host, said.watch), (0, refused.deny_host));
        assert_eq!(refused.watch, refused.deny_host);
        let everyone = deny.lookup(LIST_HOST, ip(address), port);
        assert_eq!(everyone, TableVerdict::default(), "others are not concerned");
        let kind = deny.rules.get(&refused.deny_host).map(|rule| &rule.kind);
        assert_eq!(kind, (said.watch != 0).then_some(&RuleKind::Bypass));
        said.watch != 0
    }

    #[test]
    fn names_of_models_are_resolved_and_refuse_where_policy_says_so() {
        let all = names(&policy(OnBypass::Alert));
        assert_eq!(all.len(), 2, "{all:?}");
        assert_eq!(refusing_names(&policy(OnBypass::Alert)).len(), 0);
        assert_eq!(refusing_names(&policy(OnBypass::Deny)), all);
        let tables = tables(OnBypass::Alert);
        let verdict = tables.lookup(LIST_PROXIED, ip("192.0.2.5"), 443);
        let name = &tables.rules[&verdict.watch].remote_names[&ip("192.0.2.5")];
        assert_eq!(name.as_str(), "api.example.com");
    }

    #[test]
    fn without_models_there_is_no_list() {
        let tables = compile(
            &Policy::default(),
            &ResolvedNames::new(),
            &mut Numbering::default(),
        )
        .expect("small");
        assert!(tables.v4.keys().all(|(list, ..)| *list != LIST_PROXIED));
    }
}
