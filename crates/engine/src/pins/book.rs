//! The book of pins: the accepted sets of files, by their owner. Its size is bounded.

use std::collections::BTreeMap;

use mcpmon_model::{PinKey, ServerId, one_spelling};

use super::{PinnedFile, Pins};

/// Every accepted set, newest last for each key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinBook(BTreeMap<PinKey, BTreeMap<u32, Pins>>);

/// One accepted set, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinSet {
    /// The owner of the pins.
    pub key: PinKey,
    /// Its number among the sets of that key; later ones are higher.
    pub number: u32,
    /// The files.
    pub pins: Pins,
}

/// A set that was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedSet {
    /// The set.
    pub set: PinSet,
    /// Number of the set that it replaces: one of the same files, or the oldest of too many.
    pub replaced: Option<u32>,
}

/// The accepted sets of one key.
#[derive(Clone, Copy, Debug)]
pub enum AcceptedSets<'a> {
    /// Nothing; a first set may be added.
    Nothing,
    /// Nothing, and there is no room.
    NoRoom(PinsFull),
    /// Sets by number; never empty.
    Sets(&'a BTreeMap<u32, Pins>),
    /// Accepted sets, the first of which this launch pinned itself: it may add more, for which there is room.
    OfThisLaunch(&'a BTreeMap<u32, Pins>),
}

impl AcceptedSets<'_> {
    /// Returns the same sets, for the launch that pinned the first of them.
    #[must_use]
    pub fn for_first_launch(self) -> Self {
        match self {
            Self::Sets(sets) if sets.len() < PinBook::MAX_SETS => Self::OfThisLaunch(sets),
            Self::Nothing | Self::NoRoom(_) | Self::Sets(_) | Self::OfThisLaunch(_) => self,
        }
    }
}

/// The reason why nothing more is pinned without approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum PinsFull {
    /// One user has as many pinned packages as one may have.
    #[error("user {0} has {max} pinned packages, the most one user can have", max = PinBook::MAX_OF_USER)]
    User(u32),
    /// There are as many pinned packages as there may be.
    #[error("{max} packages are pinned, the most there can be", max = PinBook::MAX_KEYS)]
    Host,
}

impl PinBook {
    /// Most sets of one key.
    pub const MAX_SETS: usize = 8;
    /// Most keys of one user that are pinned without approval.
    pub const MAX_OF_USER: usize = 256;
    /// Most keys that are pinned without approval.
    pub const MAX_KEYS: usize = 4096;
    /// Most bytes of manifests; beyond, a package is pinned by its digest alone.
    pub const MAX_MANIFESTS: usize = 64 << 20;

    /// Returns the accepted sets of `key`.
    pub fn accepted(&self, key: &PinKey) -> AcceptedSets<'_> {
        match (self.0.get(key), self.full(key.uid)) {
            (Some(sets), _) => AcceptedSets::Sets(sets),
            (None, Some(full)) => AcceptedSets::NoRoom(full),
            (None, None) => AcceptedSets::Nothing,
        }
    }

    /// Returns whether a set is accepted for `key`.
    pub fn contains(&self, key: &PinKey) -> bool {
        self.0.contains_key(key)
    }

    /// Returns the sets that are accepted for the same user under other ids and names.
    pub(super) fn elsewhere<'b>(&'b self, key: &'b PinKey) -> impl Iterator<Item = (&'b PinKey, &'b Pins)> {
        let is_other = move |other: &PinKey| other.uid == key.uid && other != key;
        let others = self.0.iter().filter(move |(other, _)| is_other(other));
        others.flat_map(|(other, sets)| sets.values().map(move |pins| (other, pins)))
    }

    /// Returns whether something is accepted for `key`, or for the same user's server of another id or name that can be the
    /// same: it has the same package or the same id, in any spelling.
    pub fn knows(&self, key: &PinKey) -> bool {
        let is_related = |other: &PinKey| {
            other.server == key.server || one_spelling(&other.name) == one_spelling(&key.name)
        };
        self.contains(key)
            || self
                .0
                .keys()
                .any(|other| other.uid == key.uid && is_related(other))
    }

    /// Returns whether something is accepted for `key`, and that is a program without anything beside it.
    pub(crate) fn is_program_alone(&self, key: &PinKey) -> bool {
        let is_alone =
            |pins: &Pins| pins.script.is_none() && pins.package.is_none() && pins.launcher.is_none();
        self.0.get(key).is_some_and(|sets| sets.values().all(is_alone))
    }

    /// Returns every accepted set.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&PinKey, &BTreeMap<u32, Pins>)> {
        self.0.iter()
    }

    /// Accepts `pins` for `key` from now on.
    pub fn add(&mut self, key: PinKey, pins: Pins) -> AddedSet {
        let pins = pins.with_manifest_within(Self::MAX_MANIFESTS.saturating_sub(self.manifests()));
        let sets = self.0.entry(key.clone()).or_default();
        let number = sets
            .last_key_value()
            .map_or(1, |(last, _)| last.saturating_add(1));
        let same = sets.iter().find(|(_, known)| known.same_files(&pins));
        let oldest = || sets.iter().next().filter(|_| sets.len() >= Self::MAX_SETS);
        let replaced = same.or_else(oldest).map(|(number, _)| *number);
        if let Some(replaced) = replaced {
            sets.remove(&replaced);
        }
        sets.insert(number, pins.clone());
        let set = PinSet { key, number, pins };
        AddedSet { set, replaced }
    }

    /// Accepts `executable` in addition to every file that is accepted at its path.
    pub fn add_executable(&mut self, executable: &PinnedFile) -> Vec<AddedSet> {
        let mut wanted: Vec<(PinKey, Pins)> = Vec::new();
        for (key, sets) in &self.0 {
            for pins in sets
                .values()
                .filter(|pins| pins.executable.path == executable.path)
            {
                let pins = Pins {
                    executable: executable.clone(),
                    ..pins.clone()
                };
                let known = sets.values().any(|known| known.same_files(&pins));
                let listed = |(other, listed): &(PinKey, Pins)| other == key && listed.same_files(&pins);
                if !known && !wanted.iter().rev().take(Self::MAX_SETS).any(listed) {
                    wanted.push((key.clone(), pins));
                }
            }
        }
        wanted
            .into_iter()
            .map(|(key, pins)| self.add(key, pins))
            .collect()
    }

    /// Returns the newest set of `key`, with `launcher` as its launcher; `None` if there is no set.
    pub fn with_launcher(&self, key: &PinKey, launcher: &PinnedFile) -> Option<Pins> {
        let (_, newest) = self.0.get(key)?.last_key_value()?;
        Some(Pins {
            launcher: Some(launcher.clone()),
            ..newest.clone()
        })
    }

    /// Puts a set back as it was stored.
    pub fn restore(&mut self, set: PinSet) {
        let room = Self::MAX_MANIFESTS.saturating_sub(self.manifests());
        let pins = set.pins.with_manifest_within(room);
        self.0.entry(set.key).or_default().insert(set.number, pins);
    }

    /// Forgets all sets of a server, for every package and user. Returns whether there were any.
    pub fn forget(&mut self, server: &ServerId) -> bool {
        let before = self.0.len();
        self.0.retain(|key, _| key.server != *server);
        self.0.len() < before
    }

    /// Returns the users without capacity for another first start.
    pub fn without_room(&self) -> Vec<PinsFull> {
        if self.0.len() >= Self::MAX_KEYS {
            return vec![PinsFull::Host];
        }
        let mut keys: BTreeMap<u32, usize> = BTreeMap::new();
        for key in self.0.keys() {
            *keys.entry(key.uid).or_default() += 1;
        }
        keys.retain(|_, count| *count >= Self::MAX_OF_USER);
        keys.into_keys().map(PinsFull::User).collect()
    }

    fn full(&self, uid: u32) -> Option<PinsFull> {
        let stands = |full: &PinsFull| matches!(full, PinsFull::Host) || *full == PinsFull::User(uid);
        self.without_room().into_iter().find(stands)
    }

    fn manifests(&self) -> usize {
        self.0
            .values()
            .flat_map(BTreeMap::values)
            .map(Pins::manifest_bytes)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, sync::Arc};

    use mcpmon_model::Digest;

    use super::*;
    use crate::pins::PackagePin;

    fn key(name: &str, uid: u32) -> PinKey {
        PinKey {
            server: ServerId::new("x").expect("id"),
            name: name.to_owned(),
            uid,
        }
    }

    fn pins(content: &str) -> Pins {
        Pins {
            executable: PinnedFile {
                path: PathBuf::from("/x"),
                digest: Digest::of(content.as_bytes()),
            },
            script: None,
            package: None,
            launcher: None,
        }
    }

    fn numbers(book: &PinBook, key: &PinKey) -> Vec<u32> {
        match book.accepted(key) {
            AcceptedSets::Sets(sets) | AcceptedSets::OfThisLaunch(sets) => sets.keys().copied().collect(),
            AcceptedSets::Nothing | AcceptedSets::NoRoom(_) => Vec::new(),
        }
    }

    #[test]
    fn the_oldest_of_too_many_and_the_same_again_give_way() {
        let mut book = PinBook::default();
        let own = key("@a/x", 1000);
        for content in 0..8 {
            assert_eq!(book.add(own.clone(), pins(&content.to_string())).replaced, None);
        }
        let again = book.add(own.clone(), pins("4"));
        assert_eq!((again.set.number, again.replaced), (9, Some(5)));
        let ninth = book.add(own.clone(), pins("new"));
        assert_eq!((ninth.set.number, ninth.replaced), (10, Some(1)));
        assert_eq!(numbers(&book, &own), [2, 3, 4, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn a_server_is_forgotten_with_all_its_packages_and_users() {
        let mut book = PinBook::default();
        book.add(key("@a/x", 1000), pins("1"));
        book.add(key("@b/x", 1001), pins("1"));
        let other = PinKey {
            server: ServerId::new("y").expect("id"),
            ..key("y", 1000)
        };
        book.add(other.clone(), pins("1"));
        book.forget(&key("", 0).server);
        assert_eq!((book.0.len(), book.contains(&other)), (1, true));
    }

    #[test]
    fn one_user_cannot_take_the_room_of_another() {
        let mut book = PinBook::default();
        for number in 0..PinBook::MAX_OF_USER {
            assert!(matches!(book.accepted(&key("next", 1000)), AcceptedSets::Nothing));
            book.add(key(&number.to_string(), 1000), pins("1"));
        }
        assert_eq!(book.without_room(), [PinsFull::User(1000)]);
        assert!(matches!(
            book.accepted(&key("next", 1000)),
            AcceptedSets::NoRoom(PinsFull::User(1000))
        ));
        assert!(matches!(book.accepted(&key("0", 1000)), AcceptedSets::Sets(_)));
        assert!(matches!(book.accepted(&key("next", 1001)), AcceptedSets::Nothing));
    }

    #[test]
    fn an_executable_is_added_wherever_its_path_is_pinned() {
        let mut book = PinBook::default();
        let (one, two, other) = (key("one", 1000), key("two", 1001), key("other", 1000));
        for (key, content) in [(&one, "old"), (&one, "older"), (&two, "old")] {
            book.add(key.clone(), pins(content));
        }
        let elsewhere = Pins {
            executable: PinnedFile {
                path: PathBuf::from("/y"),
                ..pins("old").executable
            },
            ..pins("old")
        };
        book.add(other.clone(), elsewhere);
        let new = pins("new").executable;
        let added: Vec<_> = book
            .add_executable(&new)
            .into_iter()
            .map(|added| added.set)
            .collect();
        let set = |key: &PinKey, number| PinSet {
            key: key.clone(),
            number,
            pins: pins("new"),
        };
        assert_eq!(added, [set(&one, 3), set(&two, 2)]);
        assert_eq!(numbers(&book, &one), [1, 2, 3], "the old ones stay");
        assert_eq!(numbers(&book, &other), [1]);
        assert_eq!(book.add_executable(&new), [], "it is accepted already");
    }

    #[test]
    fn there_is_an_end_for_the_host() {
        let mut book = PinBook::default();
        for number in 0..PinBook::MAX_KEYS {
            let uid = u32::try_from(number).expect("small");
            book.add(key("x", uid), pins("1"));
        }
        assert!(matches!(
            book.accepted(&key("x", 9999)),
            AcceptedSets::NoRoom(PinsFull::Host)
        ));
    }

    #[test]
    fn beyond_the_room_for_manifests_a_package_is_pinned_by_its_digest() {
        let mut book = PinBook::default();
        let text: Arc<str> = "x".repeat(PinBook::MAX_MANIFESTS / 2).into();
        let kept = |content: &str, book: &mut PinBook| {
            let package = PackagePin {
                root: PathBuf::from("/x"),
                digest: Digest::of(content.as_bytes()),
                manifest: Some(Arc::clone(&text)),
            };
            let pins = Pins {
                package: Some(package),
                ..pins(content)
            };
            let set = book.add(key(content, 1), pins).set;
            set.pins.package.is_some_and(|package| package.manifest.is_some())
        };
        assert_eq!(
            ["a", "b", "c"].map(|content| kept(content, &mut book)),
            [true, true, false]
        );
    }
}
