//! Egress lists: one of each server that restricts its process tree, and their strictest union.
//!
//! Nothing is allowed implicitly under `default: deny`, loopback and DNS neither: a server that uses the
//! local stub resolver needs `allow: ["127.0.0.53:53"]`.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use super::{
    Compilation, CompileError, LIST_PENDING, RuleKind, TableVerdict,
    merge::{Merge, Ranges},
};
use crate::{
    Cidr, Egress, EgressDefault, Policy, Server,
    network::{EgressDestination, Target},
};

/// The stance of an entry on a destination; the later one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stance {
    Allow,
    Deny,
}

/// The stances of all servers, by the server's position among the restricted ones.
#[derive(Clone, Debug, Default)]
struct Stances(BTreeMap<usize, Stance>);

impl Merge for Stances {
    fn merge(&mut self, other: &Self) {
        for (server, stance) in &other.0 {
            let mine = self.0.entry(*server).or_insert(*stance);
            *mine = (*mine).max(*stance);
        }
    }
}

/// A server with an egress list that can refuse something.
struct RestrictedServer<'a> {
    place: usize,
    server: &'a Server,
    egress: &'a Egress,
    rule: u32,
}

impl RestrictedServer<'_> {
    fn denies(&self, stances: &Stances) -> bool {
        match stances.0.get(&self.place) {
            Some(Stance::Deny) => true,
            Some(Stance::Allow) => false,
            None => self.egress.default == EgressDefault::Deny,
        }
    }

    fn entries(&self) -> impl Iterator<Item = (Stance, &EgressDestination)> {
        let allowed = self.egress.allow.iter().map(|endpoint| (Stance::Allow, endpoint));
        let denied = self.egress.deny.iter().map(|endpoint| (Stance::Deny, endpoint));
        allowed.chain(denied)
    }
}

/// Adds the lists of all servers, and the one for processes not judged yet.
pub(super) fn compile(policy: &Policy, compilation: &mut Compilation<'_>) -> Result<(), CompileError> {
    let mut restricted = Vec::new();
    for server in &policy.servers {
        let Some(egress) = server.egress.as_ref().filter(|egress| can_refuse(egress)) else {
            continue;
        };
        let kind = RuleKind::Egress(server.id.clone());
        restricted.push(RestrictedServer {
            place: restricted.len(),
            server,
            egress,
            rule: compilation.rule(&kind, &format!("{}.egress", server.id))?,
        });
    }
    for server in &restricted {
        let list = compilation.egress_list(&server.server.id)?;
        add_list(list, std::slice::from_ref(server), compilation)?;
    }
    add_list(LIST_PENDING, &restricted, compilation)
}

const fn can_refuse(egress: &Egress) -> bool {
    matches!(egress.default, EgressDefault::Deny) || !egress.deny.is_empty()
}

/// Adds `list`, which refuses what any of `servers` refuses.
fn add_list(
    list: u32,
    servers: &[RestrictedServer<'_>],
    compilation: &mut Compilation<'_>,
) -> Result<(), CompileError> {
    let mut ranges = Ranges::new();
    if servers
        .iter()
        .any(|server| server.egress.default == EgressDefault::Deny)
    {
        for everything in [
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        ] {
            ranges.say(Cidr::truncated(everything, 0), &[], &Stances::default());
        }
    }
    for server in servers {
        for (stance, endpoint) in server.entries() {
            let statement = Stances(BTreeMap::from([(server.place, stance)]));
            let ports = endpoint.port.as_slice();
            match &endpoint.target {
                Target::Range(range) => ranges.say(*range, ports, &statement),
                Target::Name(name) => {
                    for address in compilation.resolve(server.rule, name) {
                        ranges.say(Cidr::host(address), ports, &statement);
                    }
                    // DNS answers to other processes allow nothing.
                    if stance == Stance::Deny {
                        for address in compilation.follow(server.rule, name) {
                            ranges.say(Cidr::host(address), ports, &statement);
                        }
                    }
                }
            }
        }
    }
    let verdict = |stances: &Stances| TableVerdict {
        deny_host: servers
            .iter()
            .find(|server| server.denies(stances))
            .map_or(0, |server| server.rule),
        ..TableVerdict::default()
    };
    ranges.try_each(|range, by_port| compilation.insert(list, range, by_port, verdict))
}
