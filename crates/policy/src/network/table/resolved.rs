//! Addresses of names at this time.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use crate::{
    Cidr, HostName, Policy, RemoteHost, Server, Transport,
    network::{
        EgressDestination, OnBypass, RuleAction, Target,
        followed::{Sighting, Sightings},
    },
};

/// Addresses of names: those that the daemon resolved itself, and those in DNS answers to other processes. IPv4-mapped
/// addresses are kept as IPv4.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedNames {
    own: BTreeMap<HostName, BTreeSet<IpAddr>>,
    followed: Sightings,
}

impl ResolvedNames {
    /// Returns an empty set.
    pub const fn new() -> Self {
        Self {
            own: BTreeMap::new(),
            followed: Sightings::new(),
        }
    }

    /// Returns the same with other followed addresses.
    #[must_use]
    pub fn with_followed(self, followed: Sightings) -> Self {
        Self { followed, ..self }
    }

    /// Adds addresses of `name`.
    pub fn add(&mut self, name: &HostName, addresses: impl IntoIterator<Item = IpAddr>) {
        self.own
            .entry(name.clone())
            .or_default()
            .extend(addresses.into_iter().map(|address| address.to_canonical()));
    }

    /// Returns every name with each address that the daemon resolved itself.
    pub fn iter(&self) -> impl Iterator<Item = (&HostName, IpAddr)> {
        self.own
            .iter()
            .flat_map(|(name, addresses)| std::iter::repeat(name).zip(addresses.iter().copied()))
    }

    /// Returns the addresses of `name` that the daemon resolved itself, in order; none if it has not been resolved.
    pub fn addresses<'a>(&'a self, name: &HostName) -> impl Iterator<Item = IpAddr> + use<'a> {
        self.own.get(name).into_iter().flatten().copied()
    }

    /// Returns the addresses of `name` that are only in answers to other processes, in order.
    pub fn followed<'a>(&'a self, name: &HostName) -> impl Iterator<Item = (IpAddr, Sighting)> + use<'a> {
        let own = self.own.get(name);
        let followed = self.followed.get(name).into_iter().flatten();
        followed
            .filter(move |(address, _)| own.is_none_or(|own| !own.contains(address)))
            .map(|(address, sighting)| (*address, *sighting))
    }

    /// Returns every followed address.
    pub const fn sightings(&self) -> &Sightings {
        &self.followed
    }
}

/// Returns the addresses that no followed name refuses: those that the daemon itself resolved for names that the policy
/// allows, and the single addresses that a server may reach.
pub(super) fn spared(policy: &Policy, resolved: &ResolvedNames) -> BTreeSet<IpAddr> {
    let refusing = refusing_names(policy);
    let names = names(policy);
    let meant = names
        .difference(&refusing)
        .flat_map(|name| resolved.addresses(name));
    let egress = policy.servers.iter().filter_map(|server| server.egress.as_ref());
    let allowed = egress.flat_map(|egress| &egress.allow);
    let single = allowed.filter_map(|endpoint| match &endpoint.target {
        Target::Range(range) => (*range == Cidr::host(range.address())).then(|| range.address()),
        Target::Name(_) => None,
    });
    meant.chain(single).collect()
}

/// Returns every name that `policy` needs resolved.
pub fn names(policy: &Policy) -> BTreeSet<HostName> {
    let rules = policy.network.rules.iter().flat_map(|rule| &rule.hosts);
    let servers = policy.servers.iter().filter_map(remote_name);
    let egress = policy.servers.iter().filter_map(|server| server.egress.as_ref());
    let endpoints = egress.flat_map(|egress| egress.allow.iter().chain(&egress.deny));
    let models = policy.network.bypass.models.iter().flat_map(|model| &model.hosts);
    rules
        .chain(servers)
        .chain(models)
        .chain(endpoints.filter_map(endpoint_name))
        .cloned()
        .collect()
}

/// Returns those of [`names`] by which something is refused: without an address, nothing is.
pub fn refusing_names(policy: &Policy) -> BTreeSet<HostName> {
    let rules = policy.network.rules.iter();
    let rules = rules
        .filter(|rule| rule.action == RuleAction::Deny)
        .flat_map(|rule| &rule.hosts);
    let servers = policy.servers.iter();
    let servers = servers
        .filter(|server| policy.server_policy.denies(&server.id))
        .filter_map(remote_name);
    let egress = policy.servers.iter().filter_map(|server| server.egress.as_ref());
    let endpoints = egress.flat_map(|egress| &egress.deny);
    let bypass = &policy.network.bypass;
    let models = bypass.models.iter().filter(|_| bypass.action == OnBypass::Deny);
    rules
        .chain(servers)
        .chain(models.flat_map(|model| &model.hosts))
        .chain(endpoints.filter_map(endpoint_name))
        .cloned()
        .collect()
}

fn remote_name(server: &Server) -> Option<&HostName> {
    match &server.transport {
        Transport::Remote {
            host: RemoteHost::Name(name),
            ..
        } => Some(name),
        Transport::Remote {
            host: RemoteHost::Address(_),
            ..
        }
        | Transport::Stdio { .. } => None,
    }
}

const fn endpoint_name(endpoint: &EgressDestination) -> Option<&HostName> {
    match &endpoint.target {
        Target::Name(name) => Some(name),
        Target::Range(_) => None,
    }
}
