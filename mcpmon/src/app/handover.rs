//! Notes that a daemon leaves in the kernel for the next one: the meaning of the numbers in the kernel's tables.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use mcpmon_engine::Former;
use mcpmon_model::{InstanceId, ServerId, Timestamp};
use mcpmon_policy::{
    HostName,
    network::{
        followed::{Sighting, Sightings},
        table::{Numbering, ResolvedNames},
    },
};
use serde::{Deserialize, Serialize};

/// The notes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Handover {
    /// Version of the daemon.
    pub(crate) version: String,
    /// The time since which the programs are attached without a gap, RFC 3339.
    pub(crate) since: String,
    /// True if the daemon was stopped in an orderly way.
    pub(crate) stopped: bool,
    /// Numbers of the rules and lists in the kernel's tables.
    pub(crate) numbering: Numbering,
    /// Addresses of names in the tables.
    resolved: BTreeSet<(String, IpAddr)>,
    /// Addresses from DNS answers to other processes: the name, the address, the DNS server and the time.
    followed: Vec<(String, IpAddr, IpAddr, i64)>,
    /// Followed servers by the numbers in entries of processes.
    instances: BTreeMap<u32, Former>,
    /// Servers by the numbers of refused files.
    pub(crate) refused: BTreeMap<u32, ServerId>,
    /// Counters of losses, up to the values that were reported.
    pub(crate) told: BTreeMap<u32, u64>,
}

impl Handover {
    /// Returns new notes, for programs that were attached now.
    pub(crate) fn new(since: String) -> Self {
        Self {
            since,
            ..Self::default()
        }
    }

    /// Parses notes. Returns `None` if `notes` is not valid JSON of this form.
    pub(crate) fn parse(notes: &[u8]) -> Option<Self> {
        serde_json::from_slice(notes).ok()
    }

    pub(crate) fn resolved(&self) -> ResolvedNames {
        let mut resolved = ResolvedNames::new();
        for (name, address) in &self.resolved {
            if let Ok(name) = name.parse::<HostName>() {
                resolved.add(&name, [*address]);
            }
        }
        let mut followed = Sightings::new();
        for (name, address, server, at) in &self.followed {
            let Ok(name) = name.parse::<HostName>() else {
                continue;
            };
            let (server, at) = (*server, Timestamp(*at));
            let of_name = followed.entry(name).or_default();
            of_name.insert(*address, Sighting { server, at });
        }
        resolved.with_followed(followed)
    }

    pub(crate) fn set_resolved(&mut self, resolved: &ResolvedNames) {
        let addresses = resolved.iter();
        self.resolved = addresses
            .map(|(name, address)| (name.to_string(), address))
            .collect();
        let followed = resolved.sightings().iter().flat_map(|(name, addresses)| {
            let line =
                |(address, seen): (&IpAddr, &Sighting)| (name.to_string(), *address, seen.server, seen.at.0);
            addresses.iter().map(line)
        });
        self.followed = followed.collect();
    }

    pub(crate) fn instances(&self) -> BTreeMap<InstanceId, Former> {
        let instances = self.instances.iter();
        instances
            .map(|(number, former)| (InstanceId(*number), former.clone()))
            .collect()
    }

    /// Replaces the followed servers.
    pub(crate) fn set_instances(&mut self, followed: impl Iterator<Item = (InstanceId, Former)>) {
        self.instances = followed.map(|(number, former)| (number.0, former)).collect();
    }

    /// Returns whether a server with this number is noted.
    pub(crate) fn knows(&self, number: InstanceId) -> bool {
        self.instances.contains_key(&number.0)
    }

    /// Returns the number of a server whose file is refused, a new one if necessary.
    pub(crate) fn number(&mut self, server: &ServerId) -> u32 {
        if let Some((number, _)) = self.refused.iter().find(|(_, known)| *known == server) {
            return *number;
        }
        let number = self.refused.keys().next_back().map_or(1, |last| last + 1);
        self.refused.insert(number, server.clone());
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let mut handover = Handover::default();
        let mut resolved = ResolvedNames::new();
        let name: HostName = "api.example.com".parse().expect("a name");
        resolved.add(&name, ["192.0.2.1".parse().expect("an address")]);
        let sighting = Sighting {
            server: "192.0.2.53".parse().expect("an address"),
            at: Timestamp(7),
        };
        let followed = BTreeMap::from([("198.51.100.1".parse().expect("an address"), sighting)]);
        let resolved = resolved.with_followed(BTreeMap::from([(name, followed)]));
        handover.set_resolved(&resolved);
        let server: ServerId = ServerId::new("files").expect("an id");
        assert_eq!((handover.number(&server), handover.number(&server)), (1, 1));
        let former = Former {
            server: server.clone(),
            derived: Some(server.clone()),
            name: "@x/files".to_owned(),
            package: mcpmon_model::Package::parse("npm:@x/files"),
            inside: vec![ServerId::new("outer").expect("an id")],
            uid: 1000,
        };
        handover.set_instances([(InstanceId(7), former.clone())].into_iter());
        let written = serde_json::to_vec(&handover).expect("JSON");
        let read = Handover::parse(&written).expect("notes");
        assert_eq!(read, handover);
        assert_eq!(read.resolved(), resolved);
        assert_eq!(read.instances(), BTreeMap::from([(InstanceId(7), former)]));
        assert!(read.knows(InstanceId(7)) && !read.knows(InstanceId(8)));
        assert_eq!(Handover::parse(b""), None);
        assert_eq!(Handover::parse(b"{"), None);
    }
}
