//! Uses of files by a call, gathered within bounds: a call that names more is not checked in part.

use std::collections::HashSet;

use super::FileAccess;

/// Paths of one call that are checked, and their bytes.
const MAX_USES: usize = 1 << 15;
const MAX_BYTES: usize = 2 << 20;

/// A path, with the access to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Use {
    pub(super) path: String,
    pub(super) access: FileAccess,
}

/// Paths in the order in which they were found, each once.
#[derive(Debug, Default)]
pub(super) struct Uses {
    known: HashSet<Use>,
    found: Vec<Use>,
    bytes: usize,
    is_cut: bool,
}

impl Uses {
    pub(super) fn add(&mut self, path: String, access: FileAccess) {
        self.bytes = self.bytes.saturating_add(path.len());
        if self.is_cut || self.bytes > MAX_BYTES || self.found.len() == MAX_USES {
            self.is_cut = true;
            return;
        }
        let one = Use { path, access };
        if self.known.insert(one.clone()) {
            self.found.push(one);
        }
    }

    /// Notes that something was not read that may name more paths.
    pub(super) const fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Returns whether there may be more paths than were found.
    pub(super) const fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Use> {
        self.found.iter()
    }
}
