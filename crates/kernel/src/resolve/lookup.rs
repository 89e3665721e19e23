//! Look-up of a name's addresses: in the hosts file, then in DNS.

use std::{
    collections::BTreeSet,
    fs::File,
    io::Read as _,
    net::{IpAddr, SocketAddr},
    path::Path,
    time::Duration,
};

use hickory_resolver::{
    Hosts, TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig},
    net::{NetError, runtime::TokioRuntimeProvider},
    proto::{
        op::Query,
        rr::{Name, RData, RecordType},
    },
};
use mcpmon_policy::HostName;

use super::LookupSources;

/// DNS servers to ask.
#[derive(Clone, Debug)]
pub enum NameServers {
    /// The servers of `/etc/resolv.conf`, with its search list.
    System,
    /// These servers, without a search list.
    Servers(Vec<SocketAddr>),
}

/// Time limit for one question to one server; a second attempt has to fit into the time of the name.
const ATTEMPT: Duration = Duration::from_secs(2);

/// Most bytes of the hosts file that are read.
const HOSTS_MAX: u64 = 1 << 20;

/// The answers of both address families.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) v4: FamilyAnswer,
    pub(super) v6: FamilyAnswer,
}

/// The answer of one address family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FamilyAnswer {
    /// These addresses.
    Found(Vec<IpAddr>),
    /// The name has no addresses of this family.
    Nothing,
    /// There was no answer.
    Failed(String),
}

/// The hosts file and the DNS configuration at the start of a round.
pub(super) struct Lookup {
    hosts: Hosts,
    dns: Result<TokioResolver, NetError>,
    timeout: Duration,
}

impl Lookup {
    pub(super) fn new(sources: &LookupSources) -> Self {
        Self {
            hosts: read_hosts(&sources.hosts),
            dns: resolver(&sources.upstream),
            timeout: sources.timeout,
        }
    }

    /// Returns the addresses of `name`. DNS is not asked for a name in the hosts file.
    pub(super) async fn addresses(&self, name: &HostName) -> Answers {
        if let Some(answers) = self.in_hosts(name) {
            return answers;
        }
        let dns = match &self.dns {
            Ok(dns) => dns,
            Err(error) => return Answers::failed(&format!("no DNS server to ask: {error}")),
        };
        let (v4, v6) = tokio::join!(
            self.ask(dns, name, RecordType::A),
            self.ask(dns, name, RecordType::AAAA)
        );
        Answers { v4, v6 }
    }

    async fn ask(&self, dns: &TokioResolver, name: &HostName, record_type: RecordType) -> FamilyAnswer {
        let answered = tokio::time::timeout(self.timeout, dns.lookup(name.as_str(), record_type)).await;
        match answered {
            Ok(Ok(lookup)) => without_sinkholes(name, addresses(&lookup)),
            Ok(Err(error)) if error.is_no_records_found() => FamilyAnswer::Nothing,
            Ok(Err(error)) => FamilyAnswer::Failed(error.to_string()),
            Err(_) => FamilyAnswer::Failed(format!("no answer within {:?}", self.timeout)),
        }
    }

    fn in_hosts(&self, name: &HostName) -> Option<Answers> {
        let name = Name::from_ascii(name.as_str()).ok()?;
        let of = |record_type| {
            let query = Query::query(name.clone(), record_type);
            let found = self.hosts.lookup_static_host(&query);
            found.map_or(FamilyAnswer::Nothing, |lookup| addresses(&lookup))
        };
        let answers = Answers {
            v4: of(RecordType::A),
            v6: of(RecordType::AAAA),
        };
        answers.any_found().then_some(answers)
    }
}

impl Answers {
    fn failed(cause: &str) -> Self {
        let failed = FamilyAnswer::Failed(cause.to_owned());
        Self {
            v4: failed.clone(),
            v6: failed,
        }
    }

    /// Returns whether a family has an address.
    pub(super) const fn any_found(&self) -> bool {
        matches!(self.v4, FamilyAnswer::Found(_)) || matches!(self.v6, FamilyAnswer::Found(_))
    }

    /// Returns the failures; it also counts as one if neither family has an address.
    pub(super) fn failures(&self) -> BTreeSet<String> {
        if self.v4 == FamilyAnswer::Nothing && self.v6 == FamilyAnswer::Nothing {
            return BTreeSet::from(["the name has no address".to_owned()]);
        }
        let failed = |answer: &FamilyAnswer| match answer {
            FamilyAnswer::Failed(cause) => Some(cause.clone()),
            FamilyAnswer::Found(_) | FamilyAnswer::Nothing => None,
        };
        [&self.v4, &self.v6].into_iter().filter_map(failed).collect()
    }
}

fn read_hosts(path: &Path) -> Hosts {
    let mut hosts = Hosts::default();
    let read = File::open(path).and_then(|file| hosts.read_hosts_conf(file.take(HOSTS_MAX)));
    if let Err(error) = read {
        tracing::warn!(path = %path.display(), %error, "hosts file not read: names are asked for in DNS only");
    }
    hosts
}

fn resolver(upstream: &NameServers) -> Result<TokioResolver, NetError> {
    let mut builder = match upstream {
        NameServers::System => TokioResolver::builder_tokio()?,
        NameServers::Servers(servers) => {
            let servers = servers.iter().map(name_server).collect();
            let config = ResolverConfig::from_parts(None, Vec::new(), servers);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        }
    };
    let options = builder.options_mut();
    options.use_hosts_file = ResolveHosts::Never;
    options.timeout = options.timeout.min(ATTEMPT);
    options.attempts = 1;
    builder.build()
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let at_port = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(at_port);
    NameServerConfig::new(address.ip(), true, connections.to_vec())
}

/// Removes the addresses with which blocking DNS servers answer: a rule must not refuse the host's own loopback because
/// a name was answered with it.
fn without_sinkholes(name: &HostName, answer: FamilyAnswer) -> FamilyAnswer {
    let FamilyAnswer::Found(mut found) = answer else {
        return answer;
    };
    if name.as_str().split('.').next_back() == Some("localhost") {
        return FamilyAnswer::Found(found);
    }
    let first = found.first().copied();
    found.retain(|address| !address.is_loopback() && !address.is_unspecified());
    match first {
        Some(sinkhole) if found.is_empty() => FamilyAnswer::Failed(format!(
            "DNS answers with {sinkhole}, which is ignored: if it is meant, write the address itself"
        )),
        Some(_) | None => FamilyAnswer::Found(found),
    }
}

fn addresses(lookup: &hickory_resolver::lookup::Lookup) -> FamilyAnswer {
    let records = lookup.answers().iter();
    let addresses: Vec<IpAddr> = records.filter_map(|record| address(&record.data)).collect();
    if addresses.is_empty() {
        return FamilyAnswer::Nothing;
    }
    FamilyAnswer::Found(addresses)
}

fn address(data: &RData) -> Option<IpAddr> {
    data.ip_addr().map(|address| address.to_canonical())
}
