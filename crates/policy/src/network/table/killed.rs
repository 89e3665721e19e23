//! The list that refuses everything, there while a person has stopped something.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, Ipv6Addr},
};

use mcpmon_model::{Kills, NameGlob};

use super::{CompileError, LIST_KILLED, Numbering, RangeEntry, RuleInfo, RuleKind, TableVerdict, Tables};
use crate::{Mode, Policy, RuleAction, ServerPolicy, network::OnBypass};

/// Name of its rule in events.
const NAME: &str = "kill_switch";

/// Returns the policy by which addresses are refused while `kills` apply, with everything enforced.
///
/// If the host is stopped, all declared remote servers are refused to agents. What the policy itself only observes is
/// only reported.
pub fn under(policy: &Policy, kills: &Kills) -> Policy {
    let mut policy = policy.clone();
    if policy.mode == Mode::Observe || !policy.network.enforce {
        for rule in &mut policy.network.rules {
            rule.action = RuleAction::Watch;
        }
        for server in &mut policy.servers {
            server.egress = None;
        }
        policy.network.bypass.action = OnBypass::Alert;
        policy.server_policy = ServerPolicy::None;
    }
    if kills.host.is_some() {
        policy.server_policy = ServerPolicy::Denylist(vec![NameGlob::new("*")]);
    }
    policy
}

impl Tables {
    /// Adds the list that refuses everything.
    ///
    /// # Errors
    /// Returns an error if no rule number is left.
    pub fn add_killed(&mut self, numbering: &mut Numbering) -> Result<(), CompileError> {
        let number = numbering.rule(&RuleKind::Kill, NAME)?;
        self.rules.insert(
            number,
            RuleInfo {
                name: NAME.to_owned(),
                kind: RuleKind::Kill,
                remote_names: BTreeMap::new(),
            },
        );
        let refused = RangeEntry {
            verdict: TableVerdict {
                deny_host: number,
                ..TableVerdict::default()
            },
            ports: 0,
        };
        self.v4.insert((LIST_KILLED, Ipv4Addr::UNSPECIFIED, 0), refused);
        self.v6.insert((LIST_KILLED, Ipv6Addr::UNSPECIFIED, 0), refused);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::network::table::LIST_HOST;

    #[test]
    fn everything_is_refused_in_its_list_and_nothing_elsewhere() {
        let mut tables = Tables::default();
        tables.add_killed(&mut Numbering::default()).expect("a number");
        for address in ["192.0.2.1", "127.0.0.1", "2001:db8::1", "::1"] {
            let address: IpAddr = address.parse().expect("an address");
            let verdict = tables.lookup(LIST_KILLED, address, 443);
            assert_eq!(tables.rules[&verdict.deny_host].kind, RuleKind::Kill, "{address}");
            assert_eq!(tables.lookup(LIST_HOST, address, 443), TableVerdict::default());
        }
    }
}
