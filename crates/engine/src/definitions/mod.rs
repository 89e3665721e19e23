//! Offers of servers: every listed definition, its relation to its pin, and the state of the lists it came
//! in. The size is bounded, and only the latest state is kept.

mod entry;
mod offer;
mod standing;

use std::collections::BTreeMap;

use mcpmon_model::{DefinitionKey, DefinitionKind, DefinitionRecord, DerivedId, PinKey, ServerId, Timestamp};
use mcpmon_policy::{
    Admission, Policy,
    rules::{SpellingGlob, Spellings},
};

pub(super) use self::{
    entry::{Approval, DefinitionEntry, Sight, SightReport},
    offer::{DefinitionsFull, Offer, Page, ReadList},
    standing::{DefinitionStanding, PinStanding},
};
use super::{admission, admission_named, own_names::OwnNames};

/// Servers whose definitions are kept.
const MAX_SERVERS: usize = 4096;

/// Everything that is offered, by server.
#[derive(Debug, Default)]
pub(super) struct DefinitionBook(BTreeMap<PinKey, Offers>);

/// The offer of one server.
#[derive(Debug, Default)]
pub(super) struct Offers {
    offers: [Offer; KINDS],
    /// The names that permit it, and the id that its start found; `None` for a server that only a model named.
    pub(super) own: Option<OwnNames>,
    started_as: Option<DerivedId>,
    /// The admission of the server under the policy in force.
    pub(super) admission: Admission,
    /// A definition for which the whole server is refused.
    pub(super) poisoned: Option<(DefinitionKind, String)>,
    /// Names that this server's name resembles, each reported once.
    pub(super) resembles: Vec<String>,
    /// Number that changes whenever the offers may have changed.
    changes: u64,
}

const KINDS: usize = 7;

impl Offers {
    /// Returns the offer of a server that was not seen.
    pub(super) fn of_stranger(server: &ServerId, policy: &Policy) -> Self {
        Self {
            admission: admission(policy, server),
            ..Self::default()
        }
    }

    /// Finds the names of the server under this policy, and its admission by them.
    fn name(&mut self, identity: &PinKey, policy: &Policy) {
        let own = OwnNames::of(policy, identity).started_as(policy, self.started_as.as_ref());
        self.admission = admission_named(policy, own.with_given(&identity.server));
        self.own = Some(own);
    }

    /// Notes the id that its start found: that of its declaration, or the one that follows from its program.
    pub(super) fn starts_as(&mut self, identity: &PinKey, derived: &DerivedId, policy: &Policy) {
        self.started_as = Some(derived.clone());
        self.name(identity, policy);
    }

    /// Returns whether a rule that permits something means this server, which its client calls `given`.
    pub(super) fn is_permitted_by(&self, glob: &SpellingGlob, given: &ServerId) -> bool {
        match &self.own {
            Some(own) => own.are_meant(glob),
            None => glob.names(&Spellings::new(given.as_str(), given.as_str())),
        }
    }

    pub(super) const fn of(&self, kind: DefinitionKind) -> &Offer {
        &self.offers[index(kind)]
    }

    pub(super) const fn of_mut(&mut self, kind: DefinitionKind) -> &mut Offer {
        &mut self.offers[index(kind)]
    }

    /// Returns a number that changes whenever the offers may have changed.
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns every definition.
    pub(super) fn entries(&self) -> impl Iterator<Item = &DefinitionEntry> {
        self.offers.iter().flat_map(Offer::entries)
    }

    /// Judges every definition again, by `policy`.
    pub(super) fn renew(&mut self, identity: &PinKey, now: Timestamp, policy: &Policy) {
        self.changes += 1;
        self.name(identity, policy);
        for entry in self.offers.iter_mut().flat_map(Offer::entries_mut) {
            entry.stand(now, policy);
        }
        self.note_poisoned(policy);
    }

    /// Finds the definition, if any, for which the whole server is refused. It need not be listed any more: what
    /// this process saw of its server it does not forget.
    pub(super) fn note_poisoned(&mut self, policy: &Policy) {
        let poisoned = self
            .entries()
            .find(|entry| entry.is_inspected() && entry.standing.refuses_server(policy))
            .map(|entry| (entry.record.key.kind, entry.record.key.name.clone()));
        self.poisoned = poisoned;
    }
}

const fn index(kind: DefinitionKind) -> usize {
    match kind {
        DefinitionKind::Tool => 0,
        DefinitionKind::Prompt => 1,
        DefinitionKind::Resource => 2,
        DefinitionKind::Template => 3,
        DefinitionKind::Instructions => 4,
        DefinitionKind::Skill => 5,
        DefinitionKind::App => 6,
    }
}

impl DefinitionBook {
    /// Returns the offer of `identity`; `None` if it was not seen.
    pub(super) fn get(&self, identity: &PinKey) -> Option<&Offers> {
        self.0.get(identity)
    }

    pub(super) fn get_mut(&mut self, identity: &PinKey) -> Option<&mut Offers> {
        let offers = self.0.get_mut(identity)?;
        offers.changes += 1;
        Some(offers)
    }

    /// Notes that a complete list of `kind` came again unchanged: only the time and the number of its list change.
    pub(super) fn listed_again(&mut self, identity: &PinKey, kind: DefinitionKind, now: Timestamp) {
        if let Some(offers) = self.0.get_mut(identity) {
            offers.of_mut(kind).listed_again(now);
        }
    }

    /// Creates the offers of `identity` if necessary; `None` if there is no room.
    pub(super) fn open(&mut self, identity: &PinKey, policy: &Policy) -> Option<&mut Offers> {
        if !self.knows_or_makes(identity, policy) {
            return None;
        }
        self.get_mut(identity)
    }

    /// Creates the offers of `identity` if necessary. Returns whether they exist.
    pub(super) fn knows_or_makes(&mut self, identity: &PinKey, policy: &Policy) -> bool {
        if self.0.contains_key(identity) {
            return true;
        }
        let has_room = self.0.len() < MAX_SERVERS;
        if has_room {
            let mut offers = Offers::default();
            offers.name(identity, policy);
            self.0.insert(identity.clone(), offers);
        }
        has_room
    }

    /// Takes what earlier runs, or other processes, recorded.
    pub(super) fn load(&mut self, records: Vec<DefinitionRecord>, policy: &Policy) {
        for record in records {
            let Some(offers) = self.open(&record.key.identity, policy) else {
                continue;
            };
            offers.of_mut(record.key.kind).load(record, policy);
        }
    }

    /// Judges every definition again.
    pub(super) fn renew(&mut self, now: Timestamp, policy: &Policy) {
        for (identity, offers) in &mut self.0 {
            offers.renew(identity, now, policy);
        }
    }

    /// Returns every definition.
    pub(super) fn entries(&self) -> impl Iterator<Item = &DefinitionEntry> {
        self.0.values().flat_map(Offers::entries)
    }

    /// Returns the number of servers and tools; it only grows.
    pub(super) fn extent(&self) -> usize {
        let tools = self
            .0
            .values()
            .map(|offers| offers.of(DefinitionKind::Tool).len());
        self.0.len() + tools.sum::<usize>()
    }

    /// Returns every identity under which `server` was seen.
    pub(super) fn identities(&self, server: &ServerId) -> impl Iterator<Item = &PinKey> {
        self.0.keys().filter(move |identity| identity.server == *server)
    }

    /// Returns every server.
    pub(super) fn servers(&self) -> impl Iterator<Item = &ServerId> {
        self.0.keys().map(|identity| &identity.server)
    }

    pub(super) fn entry_mut(&mut self, key: &DefinitionKey) -> Option<&mut DefinitionEntry> {
        self.get_mut(&key.identity)?.of_mut(key.kind).get_mut(&key.name)
    }

    /// Forgets the definitions of a server, or those of one name. Returns their keys.
    pub(super) fn forget(&mut self, server: &ServerId, name: Option<&str>) -> Vec<DefinitionKey> {
        let of_server = self
            .0
            .iter_mut()
            .filter(|(identity, _)| identity.server == *server);
        of_server
            .flat_map(|(_, offers)| {
                offers.changes += 1;
                offers.offers.iter_mut()
            })
            .flat_map(|offer| offer.forget(name))
            .collect()
    }
}
