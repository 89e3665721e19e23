//! Connections that were opened before the rules, and the rule that now refuses one.

use std::net::{IpAddr, Ipv4Addr};

use super::{LIST_HOST, RULE_CANARY, TableVerdict, Tables};

impl Tables {
    /// Returns the rule that refuses a connection of a process, as the kernel would find it: the rules for the host first,
    /// those for agents, then those of the lists to which the process is held.
    pub fn refusal(&self, address: IpAddr, port: u16, is_agent: bool, lists: &[u32]) -> Option<u32> {
        let meant = [Some(address), embedded(address).map(IpAddr::V4)];
        meant.into_iter().flatten().find_map(|address| {
            let rule = self.refusal_as_written(address, port, is_agent, lists);
            rule.filter(|rule| *rule != RULE_CANARY)
        })
    }

    fn refusal_as_written(&self, address: IpAddr, port: u16, is_agent: bool, lists: &[u32]) -> Option<u32> {
        let TableVerdict {
            deny_host,
            deny_agents,
            ..
        } = self.lookup(LIST_HOST, address, port);
        let of_agents = if is_agent { deny_agents } else { 0 };
        let of_list = |list: &u32| self.lookup(*list, address, port).deny_host;
        let own = lists.iter().filter(|list| **list != LIST_HOST).map(of_list);
        [deny_host, of_agents]
            .into_iter()
            .chain(own)
            .find(|rule| *rule != 0)
    }
}

/// Returns the IPv4 address in that of a translator (`64:ff9b::/96`) or a relay (`2002::/16`).
fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let [a, b, c, d, e, f, g, h] = address.segments();
    let (high, low) = match (a, b) {
        (0x64, 0xff9b) if [c, d, e, f] == [0; 4] => (g, h),
        (0x2002, high) => (high, c),
        _ => return None,
    };
    Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
}
