//! Numbers of names of files when they were hashed. A file whose number of names is another one later was written through a name
//! that is not watched, or got one from a package manager; where no watch is on the file itself, its change time counts then.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use nix::sys::stat::FileStat;

/// Files by device and inode.
#[derive(Debug, Default)]
pub struct NameCounts(Mutex<BTreeMap<(u64, u64), NameCount>>);

#[derive(Clone, Copy, Debug)]
struct NameCount {
    names: u64,
    /// True if a watch tells of every write.
    watched: bool,
}

impl NameCounts {
    /// Notes a file as it is hashed.
    pub(super) fn note(&self, stat: &FileStat) {
        let count = NameCount {
            names: names(stat),
            watched: false,
        };
        self.lock().entry((stat.st_dev, stat.st_ino)).or_insert(count);
    }

    /// Notes that a watch is on the file itself.
    pub(super) fn watch(&self, stat: &FileStat) {
        let count = NameCount {
            names: names(stat),
            watched: true,
        };
        self.lock().insert((stat.st_dev, stat.st_ino), count);
    }

    /// Notes that the watches do not tell everything.
    pub(super) fn doubt(&self) {
        for count in self.lock().values_mut() {
            count.watched = false;
        }
    }

    /// Returns whether a file has another number of names by now, and nothing told whether it was written.
    pub(super) fn differ(&self, stat: &FileStat) -> bool {
        let before = self.lock().get(&(stat.st_dev, stat.st_ino)).copied();
        before.is_some_and(|before| !before.watched && before.names != names(stat))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u64, u64), NameCount>> {
        // No step leaves it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(
    clippy::useless_conversion,
    reason = "its type is another one on other architectures"
)]
fn names(stat: &FileStat) -> u64 {
    u64::from(stat.st_nlink)
}
