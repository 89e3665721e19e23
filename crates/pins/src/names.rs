//! Link counts of files at the time when they were hashed. If a file has another count later, it may have been written
//! through a name that is not watched, or a package manager may have added a link. Its change time counts then, unless
//! the file itself is watched.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use nix::sys::stat::FileStat;

/// Link counts by device and inode.
#[derive(Debug, Default)]
pub struct NameCounts(Mutex<BTreeMap<(u64, u64), NameCount>>);

#[derive(Clone, Copy, Debug)]
struct NameCount {
    names: u64,
    /// True if a watch notices every write.
    watched: bool,
}

impl NameCounts {
    /// Records a file when it is hashed.
    pub(super) fn note(&self, stat: &FileStat) {
        let count = NameCount {
            names: names(stat),
            watched: false,
        };
        self.lock().entry((stat.st_dev, stat.st_ino)).or_insert(count);
    }

    /// Records that the file itself is watched.
    pub(super) fn watch(&self, stat: &FileStat) {
        let count = NameCount {
            names: names(stat),
            watched: true,
        };
        self.lock().insert((stat.st_dev, stat.st_ino), count);
    }

    /// Records that the watches have missed events.
    pub(super) fn doubt(&self) {
        for count in self.lock().values_mut() {
            count.watched = false;
        }
    }

    /// Returns whether a file has another link count now, and no watch would have noticed a write.
    pub(super) fn differ(&self, stat: &FileStat) -> bool {
        let before = self.lock().get(&(stat.st_dev, stat.st_ino)).copied();
        before.is_some_and(|before| !before.watched && before.names != names(stat))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u64, u64), NameCount>> {
        // A poisoned lock is used anyway: no code that holds it can leave the value half changed.
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
