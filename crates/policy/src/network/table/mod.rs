//! Compiles rules and resolved names into the entries the kernel looks up.
//!
//! A longest-prefix look-up returns one entry, so each entry contains the results of all rules for enclosing ranges.

mod bypass;
mod egress;
mod host;
mod killed;
mod merge;
mod numbering;
mod open;
mod resolved;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use mcpmon_model::ServerId;
use serde::{Deserialize, Serialize};

pub use host::CANARY;
pub use killed::under;
pub use numbering::Numbering;
pub use resolved::{ResolvedNames, names, refusing_names};

use self::merge::{ByPort, Merge};
use crate::{Cidr, HostName, Policy, Scope};

/// List number of the host-wide rules.
pub const LIST_HOST: u32 = 0;
/// List number of the strictest union of all egress lists, for processes not judged yet.
pub const LIST_PENDING: u32 = 1;
/// List number of what refuses everything, for the servers of sessions that a person stopped.
pub const LIST_KILLED: u32 = u32::MAX;
/// List number for connections that bypass the proxy, for the processes of sessions that have one.
pub const LIST_PROXIED: u32 = u32::MAX - 1;
/// First number of a server's own egress list.
pub const LIST_FIRST_SERVER: u32 = 2;
/// Rule number of the self-test's address.
pub const RULE_CANARY: u32 = 1;
/// First number of a configured rule.
pub const RULE_FIRST: u32 = 2;
/// Most entries of one address family, over all lists.
pub const MAX_ENTRIES: usize = 1 << 17;
/// Most entries of the port table.
pub const MAX_PORT_ENTRIES: usize = 1 << 17;

/// The tables that the kernel looks up, and the meaning of their entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// List, first address and prefix length of IPv4 ranges.
    pub v4: BTreeMap<(u32, Ipv4Addr, u8), RangeEntry>,
    /// List, first address and prefix length of IPv6 ranges.
    pub v6: BTreeMap<(u32, Ipv6Addr, u8), RangeEntry>,
    /// The verdicts for single ports, by port set and port.
    pub ports: BTreeMap<(u32, u16), TableVerdict>,
    /// Rules by their number.
    pub rules: BTreeMap<u32, RuleInfo>,
    /// List numbers of the servers whose process tree is restricted.
    pub egress: BTreeMap<ServerId, u32>,
    /// Names without an address: their rules have no effect yet.
    pub unresolved: BTreeSet<HostName>,
}

/// The entry for a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RangeEntry {
    /// For ports that the port set does not name.
    pub verdict: TableVerdict,
    /// Port set, 0 where no port differs.
    pub ports: u32,
}

/// The verdict for a destination: rule numbers, 0 for none. Egress lists use `deny_host` only,
/// [`LIST_PROXIED`] `watch` too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableVerdict {
    /// Refused for every process that the list applies to.
    pub deny_host: u32,
    /// Refused for agents and their descendants.
    pub deny_agents: u32,
    /// Reported.
    pub watch: u32,
}

/// The rule with a rule number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleInfo {
    /// Name in events: as configured, a server's id, or `ID.egress`.
    pub name: String,
    /// The kind of the rule, with its source.
    pub kind: RuleKind,
    /// Names of its resolved addresses; the first one, if several share an address.
    pub remote_names: BTreeMap<IpAddr, HostName>,
}

/// The kind of a rule, with its source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleKind {
    /// `network.watch`.
    Watch,
    /// `network.deny`.
    Deny(Scope),
    /// A declared remote server: watched.
    Server(ServerId),
    /// A declared remote server that the server policy denies: refused for agents.
    DeniedServer(ServerId),
    /// The egress list of a server.
    Egress(ServerId),
    /// `network.proxy_bypass`.
    Bypass,
    /// A person stopped the session, or the host: everything is refused.
    Kill,
    /// The self-test's address: refused even where nothing else is enforced.
    Canary,
}

/// The processes that the tables refuse any address, besides the self-test's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessRefusals {
    /// Every process.
    pub host: bool,
    /// Agents.
    pub agents: bool,
    /// The processes of some server or session, or those not judged yet.
    pub lists: bool,
}

/// The reason why rules do not fit into the kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A table would overflow. Counting stops at the first range or port set that does not fit.
    #[error(
        "the network rules need at least {needed} {table} entries, the kernel has room for {max}: use ranges instead of single addresses, or fewer ports per rule"
    )]
    TooManyEntries {
        /// `IPv4`, `IPv6` or `port`.
        table: &'static str,
        /// Entries counted so far.
        needed: usize,
        /// Room.
        max: usize,
    },
    /// Reloads have used every number there is.
    #[error("no rule or list number is left after 2^32 changes of rules: restart the daemon")]
    NumbersUsedUp,
}

/// Compiles the rules of `policy`. A rule that comes first in the file gives its number to a verdict.
///
/// # Errors
/// Returns an error if the kernel's tables are too small; `numbering` stays usable.
pub fn compile(
    policy: &Policy,
    resolved: &ResolvedNames,
    numbering: &mut Numbering,
) -> Result<Tables, CompileError> {
    let mut compilation = Compilation {
        resolved,
        spared: resolved::spared(policy, resolved),
        numbering,
        tables: Tables::default(),
        port_sets: BTreeMap::new(),
    };
    host::compile(policy, &mut compilation)?;
    egress::compile(policy, &mut compilation)?;
    bypass::compile(&policy.network.bypass, &mut compilation)?;
    let Compilation {
        numbering,
        mut tables,
        ..
    } = compilation;
    numbering.forget_all_but(&tables.rules);
    tables.unresolved = names(policy);
    tables
        .unresolved
        .retain(|name| resolved.addresses(name).next().is_none());
    Ok(tables)
}

impl Tables {
    /// Returns the kernel's verdict for `address` and `port` in `list`.
    pub fn lookup(&self, list: u32, address: IpAddr, port: u16) -> TableVerdict {
        let Some(entry) = self.longest_prefix(list, address.to_canonical()) else {
            return TableVerdict::default();
        };
        let own = self.ports.get(&(entry.ports, port));
        own.copied().unwrap_or(entry.verdict)
    }

    fn longest_prefix(&self, list: u32, address: IpAddr) -> Option<RangeEntry> {
        let longest = Cidr::host(address).prefix();
        (0..=longest).rev().find_map(|length| {
            let range = Cidr::truncated(address, length);
            match range.address() {
                IpAddr::V4(first) => self.v4.get(&(list, first, length)).copied(),
                IpAddr::V6(first) => self.v6.get(&(list, first, length)).copied(),
            }
        })
    }

    /// Returns the processes that are refused any address.
    pub fn refusals(&self) -> ProcessRefusals {
        let mut found = ProcessRefusals::default();
        let v4 = self.v4.iter().map(|((list, ..), entry)| (*list, entry));
        let v6 = self.v6.iter().map(|((list, ..), entry)| (*list, entry));
        // Ranges share port sets, which may be long.
        let mut seen = BTreeSet::new();
        for (list, entry) in v4.chain(v6) {
            found.note(list, &entry.verdict);
            if entry.ports != 0 && seen.insert((list, entry.ports)) {
                let of_ports = self.ports.range((entry.ports, 0)..=(entry.ports, u16::MAX));
                of_ports.for_each(|(_, verdict)| found.note(list, verdict));
            }
        }
        found
    }
}

impl ProcessRefusals {
    fn note(&mut self, list: u32, verdict: &TableVerdict) {
        let refuses = !matches!(verdict.deny_host, 0 | RULE_CANARY);
        self.host |= refuses && list == LIST_HOST;
        self.agents |= verdict.deny_agents != 0;
        self.lists |= refuses && list != LIST_HOST;
    }
}

/// Tables in the making.
struct Compilation<'a> {
    resolved: &'a ResolvedNames,
    /// Addresses that no followed name refuses.
    spared: BTreeSet<IpAddr>,
    numbering: &'a mut Numbering,
    tables: Tables,
    /// Port sets by content: ranges with equal ones share a number.
    port_sets: BTreeMap<Vec<(u16, TableVerdict)>, u32>,
}

impl<'a> Compilation<'a> {
    /// Registers a rule and returns its number.
    fn rule(&mut self, kind: &RuleKind, name: &str) -> Result<u32, CompileError> {
        let number = self.numbering.rule(kind, name)?;
        self.tables.rules.entry(number).or_insert_with(|| RuleInfo {
            name: name.to_owned(),
            kind: kind.clone(),
            remote_names: BTreeMap::new(),
        });
        Ok(number)
    }

    /// Registers a server's egress list and returns its number.
    fn egress_list(&mut self, server: &ServerId) -> Result<u32, CompileError> {
        let list = self.numbering.list(server)?;
        self.tables.egress.insert(server.clone(), list);
        Ok(list)
    }

    /// Addresses of a name that `rule` mentions.
    fn resolve(&mut self, rule: u32, name: &HostName) -> impl Iterator<Item = IpAddr> + use<'a> {
        self.name(rule, name, self.resolved.addresses(name).collect())
    }

    /// Returns addresses of a name that `rule` refuses which are only in DNS answers to other processes. They apply to
    /// agents and servers.
    fn follow(&mut self, rule: u32, name: &HostName) -> impl Iterator<Item = IpAddr> + use<'a> {
        let followed = self.resolved.followed(name).map(|(address, _)| address);
        let addresses = followed
            .filter(|address| !self.spared.contains(address))
            .collect();
        self.name(rule, name, addresses)
    }

    /// Notes whose addresses these are.
    fn name(
        &mut self,
        rule: u32,
        name: &HostName,
        addresses: Vec<IpAddr>,
    ) -> impl Iterator<Item = IpAddr> + use<'a> {
        if let Some(info) = self.tables.rules.get_mut(&rule) {
            for address in &addresses {
                info.remote_names.entry(*address).or_insert_with(|| name.clone());
            }
        }
        addresses.into_iter()
    }

    /// Adds the entry of `range`, with its port set.
    fn insert<M: Merge>(
        &mut self,
        list: u32,
        range: Cidr,
        by_port: &ByPort<M>,
        verdict: impl Fn(&M) -> TableVerdict,
    ) -> Result<(), CompileError> {
        let any = verdict(&by_port.any);
        let ports = by_port.ports.iter().map(|(port, said)| (*port, verdict(said)));
        let differing: Vec<_> = ports.filter(|(_, own)| *own != any).collect();
        let entry = RangeEntry {
            verdict: any,
            ports: self.port_set(differing)?,
        };
        let (table, needed) = match range.address() {
            IpAddr::V4(first) => {
                self.tables.v4.insert((list, first, range.prefix()), entry);
                ("IPv4", self.tables.v4.len())
            }
            IpAddr::V6(first) => {
                self.tables.v6.insert((list, first, range.prefix()), entry);
                ("IPv6", self.tables.v6.len())
            }
        };
        within(table, needed, MAX_ENTRIES)
    }

    /// Returns the number of a port set; 0 for an empty one.
    fn port_set(&mut self, set: Vec<(u16, TableVerdict)>) -> Result<u32, CompileError> {
        if set.is_empty() {
            return Ok(0);
        }
        if let Some(number) = self.port_sets.get(&set) {
            return Ok(*number);
        }
        within("port", self.tables.ports.len() + set.len(), MAX_PORT_ENTRIES)?;
        let number = u32::try_from(self.port_sets.len() + 1)
            .expect("a set has an entry, and entries fit into the port table");
        let entries = set.iter().map(|(port, verdict)| ((number, *port), *verdict));
        self.tables.ports.extend(entries);
        self.port_sets.insert(set, number);
        Ok(number)
    }
}

const fn within(table: &'static str, needed: usize, max: usize) -> Result<(), CompileError> {
    if needed > max {
        return Err(CompileError::TooManyEntries { table, needed, max });
    }
    Ok(())
}
