//! Addresses of names at this time.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use crate::{
    HostName, Policy, RemoteHost, Server, Transport,
    network::{Endpoint, OnBypass, RuleAction, Target},
};

/// Addresses of names. IPv4-mapped addresses are kept as IPv4.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedNames(BTreeMap<HostName, BTreeSet<IpAddr>>);

impl ResolvedNames {
    /// Nothing resolved yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Adds addresses of `name`.
    pub fn add(&mut self, name: &HostName, addresses: impl IntoIterator<Item = IpAddr>) {
        self.0
            .entry(name.clone())
            .or_default()
            .extend(addresses.into_iter().map(|address| address.to_canonical()));
    }

    /// Every name with an address of it.
    pub fn iter(&self) -> impl Iterator<Item = (&HostName, IpAddr)> {
        self.0
            .iter()
            .flat_map(|(name, addresses)| std::iter::repeat(name).zip(addresses.iter().copied()))
    }

    /// Addresses of `name`, in order; none where it has not been resolved.
    pub fn addresses<'a>(&'a self, name: &HostName) -> impl Iterator<Item = IpAddr> + use<'a> {
        self.0.get(name).into_iter().flatten().copied()
    }
}

/// Every name `policy` needs resolved.
#[must_use]
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

/// The names among [`names`] that something is refused by: without an address, nothing is.
#[must_use]
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

const fn endpoint_name(endpoint: &Endpoint) -> Option<&HostName> {
    match &endpoint.target {
        Target::Name(name) => Some(name),
        Target::Range(_) => None,
    }
}
