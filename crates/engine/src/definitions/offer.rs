//! The definitions of one kind that a server offers, and the lists that contain them: pages, changes, absence.

use std::{collections::BTreeMap, sync::Arc};

use mcpmon_model::{
    Definition, DefinitionKey, DefinitionKind, DefinitionRecord, Digest, PinKey, RawJson, SessionId,
    Timestamp,
};
use mcpmon_policy::Policy;

use super::{DefinitionEntry, Sight, entry::Place};
use crate::skills;

/// Longest definition that is read, bytes as written.
const MAX_DEFINITION: usize = 1 << 20;
/// Longest name that is read, bytes.
const MAX_NAME: usize = 1 << 10;
/// Most canonical text that is kept of one kind, bytes: this much of what is listed, and as much again of accepted or
/// first versions that differ from what is listed.
const MAX_TEXT: usize = 32 << 20;

/// All definitions of one kind.
#[derive(Debug, Default)]
pub(crate) struct Offer {
    entries: BTreeMap<String, DefinitionEntry>,
    /// Canonical text of what is listed, bytes.
    text: usize,
    /// Canonical text of other versions that are kept with the listed ones, bytes: at most as much.
    beside: usize,
    /// Number of the list that is being read, or was read last.
    round: u64,
    /// Number of announced changes of the list.
    epoch: u64,
    /// Number of parts that have begun.
    part: u64,
    /// Number of items of the list so far.
    items: usize,
    /// The session whose list is being read, from its first page on; `None` between lists, and if pages are missing.
    reading: Option<Option<SessionId>>,
    /// True if something in the latest list did not fit.
    is_overfull: bool,
}

/// The reason why a definition is not kept, and therefore cannot be offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DefinitionsFull {
    /// The list is too long.
    #[error("a server may offer {most} of a kind (`mcp.limits.max_tools`)")]
    Items {
        /// The limit.
        most: usize,
    },
    /// Too many names were offered since the start.
    #[error("{most} different ones were offered already")]
    Names {
        /// The limit.
        most: usize,
    },
    /// All definitions together are too long.
    #[error("all of a kind may have {} MiB", MAX_TEXT >> 20)]
    Text,
    /// The definition is too long.
    #[error("one may have {} MiB", MAX_DEFINITION >> 20)]
    Length,
    /// Its name is too long.
    #[error("a name may have {MAX_NAME} bytes")]
    Name,
}

/// The context of a page: server, list, time and settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    /// The time it arrived.
    pub(crate) now: Timestamp,
    /// The server.
    pub(crate) identity: &'a PinKey,
    /// The kind of its definitions.
    pub(crate) kind: DefinitionKind,
    /// The generation of patterns and neighbours: a definition inspected under another one is inspected
    /// again.
    pub(crate) generation: u64,
    /// The policy in force.
    pub(crate) policy: &'a Policy,
    /// True if the page is a part that was requested by its URI, and no page of the list.
    pub(crate) is_part: bool,
}

impl Page<'_> {
    fn first_sight(&self, name: &str, definition: Definition) -> DefinitionEntry {
        DefinitionEntry::loaded(DefinitionRecord {
            key: DefinitionKey {
                identity: self.identity.clone(),
                kind: self.kind,
                name: name.to_owned(),
            },
            seen: definition,
            pinned: None,
            approved_by: None,
            first_seen: self.now,
            last_seen: self.now,
            findings: Arc::default(),
            hidden: false,
        })
    }
}

impl Offer {
    pub(crate) fn get(&self, name: &str) -> Option<&DefinitionEntry> {
        self.entries.get(name)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut DefinitionEntry> {
        self.entries.get_mut(name)
    }

    /// Returns the names of the skills whose directory contains `uri`; none if the offer is not of skills.
    pub(crate) fn names_around(&self, uri: &str) -> impl Iterator<Item = &str> {
        let names = self.entries.keys().map(String::as_str);
        names.filter(move |name| skills::contains(name, uri))
    }

    /// Returns the entries of the skills whose directory contains `uri`, as they were last listed.
    pub(crate) fn around(&self, uri: &str) -> impl Iterator<Item = &str> {
        let entries = self
            .entries
            .iter()
            .filter(move |(name, _)| skills::contains(name, uri));
        entries.map(|(_, entry)| &*entry.record.seen.canonical)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &DefinitionEntry> {
        self.entries.values()
    }

    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = &mut DefinitionEntry> {
        self.entries.values_mut()
    }

    /// Returns the names that are listed.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries
            .iter()
            .filter(|(_, entry)| entry.is_listed())
            .map(|(name, _)| name.as_str())
    }

    /// Takes the listed definitions that are not registered yet, and marks them as registered.
    pub(crate) fn take_unregistered(&mut self) -> impl Iterator<Item = (&str, Digest)> {
        let entries = self.entries.iter_mut();
        entries.filter_map(|(name, entry)| Some((name.as_str(), entry.unregistered()?)))
    }

    /// Marks everything as not registered.
    pub(crate) fn unregister(&mut self) {
        self.entries_mut().for_each(DefinitionEntry::unregister);
    }

    /// Returns whether something in the latest list did not fit.
    pub(crate) const fn is_overfull(&self) -> bool {
        self.is_overfull
    }

    /// Returns whether `entry` was listed since the server last announced a change of the list.
    pub(crate) fn is_fresh(&self, entry: &DefinitionEntry) -> bool {
        entry.is_listed() && entry.place().epoch == self.epoch
    }

    /// Returns whether a definition without a pin came after pinned ones: in a later list, or in a later run.
    pub(crate) fn is_latecomer(&self, entry: &DefinitionEntry) -> bool {
        let is_before = |other: &DefinitionEntry| match (other.born, entry.born) {
            (0, 0) => other.record.first_seen < entry.record.first_seen,
            (other, own) => other < own,
        };
        let is_unpinned = entry.record.pinned.is_none();
        is_unpinned
            && self
                .entries()
                .any(|other| other.record.pinned.is_some() && is_before(other))
    }

    /// Notes that the server announced a change of its list.
    pub(crate) const fn changed(&mut self) {
        self.epoch += 1;
    }

    pub(super) fn load(&mut self, record: DefinitionRecord, policy: &Policy) {
        if let Some(entry) = self.entries.get_mut(&record.key.name) {
            return entry.merge(record);
        }
        if self.entries.len() < most_names(policy) {
            self.text += record.seen.canonical.len();
            self.entries
                .insert(record.key.name.clone(), DefinitionEntry::loaded(record));
        }
    }

    pub(super) fn forget(&mut self, name: Option<&str>) -> Vec<DefinitionKey> {
        let of_name = self
            .entries
            .values_mut()
            .filter(|entry| name.is_none_or(|name| entry.record.key.name == name));
        of_name
            .map(|entry| {
                entry.forget_pin();
                entry.record.key.clone()
            })
            .collect()
    }

    /// Begins a page: the first page of a list, or (`continued`) a later one.
    pub(crate) fn begin(&mut self, session: Option<&SessionId>, continued: bool) {
        self.beside = self.entries().map(DefinitionEntry::beside).sum();
        if continued {
            // If the pages of two clients are mixed, no absence can be concluded.
            if self
                .reading
                .as_ref()
                .is_some_and(|reading| reading.as_ref() != session)
            {
                self.reading = None;
            }
            return;
        }
        self.round += 1;
        self.items = 0;
        self.is_overfull = false;
        self.reading = Some(session.cloned());
    }

    /// Begins a part that was requested by its URI: the list that was read last stays as it was.
    pub(crate) fn begin_part(&mut self) {
        self.beside = self.entries().map(DefinitionEntry::beside).sum();
        self.items = 0;
        self.part += 1;
        self.round = self.round.max(1);
    }

    /// Returns whether the list that was read last is complete and has `items` items, and everything that is listed is
    /// in it.
    pub(crate) fn is_all_of(&self, items: usize) -> bool {
        let listed = self.entries().filter(|entry| entry.is_listed());
        let mut of_last = listed.map(|entry| entry.place().round == self.round);
        let count = of_last.by_ref().take_while(|is_of_last| *is_of_last).count();
        count == items && of_last.next().is_none() && self.reading.is_none() && !self.is_overfull
    }

    /// Notes that the last list, which was [complete](Self::is_all_of), came again unchanged.
    pub(crate) fn listed_again(&mut self, now: Timestamp) {
        self.round += 1;
        let place = Place {
            round: self.round,
            epoch: self.epoch,
            part: self.part,
        };
        for entry in self.entries.values_mut().filter(|entry| entry.is_listed()) {
            entry.seen_at(place, now);
        }
    }

    /// Notes an item of the page. An item whose text is new is parsed; the caller then gives the findings to its entry.
    pub(crate) fn note(&mut self, page: &Page<'_>, name: &str, raw: RawJson<'_>) -> Sight {
        self.items += 1;
        let place = Place {
            round: self.round,
            epoch: self.epoch,
            part: self.part,
        };
        if let Some(entry) = self.entries.get_mut(name) {
            let is_of_same = !page.is_part || entry.place().part == self.part;
            if entry.place().round == self.round && is_of_same {
                return entry.repeated(raw, page.generation);
            }
            if self.items <= page.policy.limits.max_tools && entry.is_written(raw.as_str(), page.generation) {
                entry.seen_at(place, page.now);
                return Sight::Same;
            }
        }
        let definition = match self.admit(page.policy, name, raw) {
            Ok(definition) => definition,
            Err(full) => {
                self.is_overfull = true;
                if let Some(entry) = self.entries.get_mut(name) {
                    entry.gone();
                }
                return Sight::Refused(full);
            }
        };
        let Some(entry) = self.entries.get_mut(name) else {
            let mut entry = page.first_sight(name, definition);
            entry.born = place.round;
            entry.seen_at(place, page.now);
            entry.written(raw.as_str(), page.generation);
            self.entries.insert(name.to_owned(), entry);
            return Sight::New;
        };
        entry.seen_at(place, page.now);
        entry.written(raw.as_str(), page.generation);
        let is_changed = entry.baseline().hash != definition.hash;
        let before = is_changed.then(|| Box::new(entry.baseline().clone()));
        entry.replace(definition);
        before.map_or(Sight::Unchanged, Sight::Changed)
    }

    /// Parses the definition written as `raw`, if it fits.
    fn admit(
        &mut self,
        policy: &Policy,
        name: &str,
        raw: RawJson<'_>,
    ) -> Result<Definition, DefinitionsFull> {
        let most = policy.limits.max_tools;
        if self.items > most {
            return Err(DefinitionsFull::Items { most });
        }
        if name.len() > MAX_NAME {
            return Err(DefinitionsFull::Name);
        }
        if raw.as_str().len() > MAX_DEFINITION {
            return Err(DefinitionsFull::Length);
        }
        let known = self.entries.get(name);
        let most = most_names(policy);
        if known.is_none() && self.entries.len() >= most {
            return Err(DefinitionsFull::Names { most });
        }
        let definition = Definition::of(raw);
        let length = known.map_or(0, |entry| entry.record.seen.canonical.len());
        let text = self.text - length + definition.canonical.len();
        let beside = self.beside + known.map_or(0, |entry| entry.left_by(&definition));
        if text > MAX_TEXT || beside > MAX_TEXT {
            return Err(DefinitionsFull::Text);
        }
        (self.text, self.beside) = (text, beside);
        Ok(definition)
    }

    /// Ends the page. At the end of a complete list, what was in an earlier list and is not in this one is gone.
    pub(crate) fn end(&mut self, identity_member: &str, more: bool) -> ReadList {
        let mut ended = ReadList::default();
        if more || self.reading.take().is_none() {
            return ended;
        }
        let round = self.round;
        let mut rests: BTreeMap<Digest, String> = BTreeMap::new();
        for (name, entry) in &mut self.entries {
            if entry.is_listed() && entry.place().round < round {
                entry.gone();
                ended.gone.push(name.clone());
                let rest = entry.record.seen.digest_apart_from(identity_member);
                rest.map(|rest| rests.insert(rest, name.clone()));
            }
        }
        if ended.gone.is_empty() {
            return ended;
        }
        let born = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.born == round && entry.is_listed());
        let renamed = born.filter_map(|(name, entry)| {
            let rest = entry.record.seen.digest_apart_from(identity_member)?;
            Some((name.clone(), rests.get(&rest)?.clone()))
        });
        ended.renamed = renamed.collect();
        ended
    }
}

/// The result of reading a whole list.
#[derive(Debug, Default)]
pub(crate) struct ReadList {
    /// The names that are gone.
    pub(crate) gone: Vec<String>,
    /// The names that replaced others with the same content: the new name and the old one.
    pub(crate) renamed: Vec<(String, String)>,
}

/// Returns the most names of a kind that are remembered, including those that are no longer listed.
const fn most_names(policy: &Policy) -> usize {
    policy.limits.max_tools.saturating_mul(2)
}
