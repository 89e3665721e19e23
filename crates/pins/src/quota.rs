//! Quotas of watched directories and files: the kernel counts the watches for all servers as those of one user.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The watches of all servers together, and their limit.
#[derive(Debug, Default)]
pub struct WatchQuota(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    limit: usize,
    all: usize,
    of_user: BTreeMap<u32, usize>,
}

/// The watches of one server, which count for its user. They are released when this is dropped.
#[derive(Debug)]
pub struct WatchShare {
    quota: Arc<WatchQuota>,
    uid: u32,
    taken: Mutex<usize>,
}

/// The necessity of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing else notices the change.
    Must,
    /// A later comparison notices the change too: a quarter of the limit is reserved for necessary watches.
    Spare,
}

impl WatchQuota {
    /// Returns a server's share of `limit` watches; one user may have half of them.
    #[must_use]
    pub fn share(self: &Arc<Self>, limit: usize, uid: u32) -> WatchShare {
        self.lock().limit = limit;
        WatchShare {
            quota: Arc::clone(self),
            uid,
            taken: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        // A poisoned lock is used anyway: no code that holds it can leave the counts half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchShare {
    /// Takes one watch. Returns false if none is left for this need.
    pub(super) fn take(&self, need: Need) -> bool {
        let mut taken = self.quota.lock();
        let limit = match need {
            Need::Must => taken.limit,
            Need::Spare => taken.limit / 4 * 3,
        };
        let own = taken.of_user.get(&self.uid).copied().unwrap_or_default();
        let is_free = taken.all < limit && own < limit / 2;
        if is_free {
            taken.all += 1;
            taken.of_user.insert(self.uid, own + 1);
            *self.own() += 1;
        }
        is_free
    }

    /// Releases one watch.
    pub(super) fn give_back(&self) {
        self.give(1);
        *self.own() -= 1;
    }

    fn give(&self, count: usize) {
        let mut taken = self.quota.lock();
        taken.all -= count;
        if let Some(own) = taken.of_user.get_mut(&self.uid) {
            *own -= count;
            if *own == 0 {
                taken.of_user.remove(&self.uid);
            }
        }
    }

    fn own(&self) -> MutexGuard<'_, usize> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WatchShare {
    fn drop(&mut self) {
        let own = *self.own();
        self.give(own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(share: &WatchShare, need: Need) -> usize {
        std::iter::repeat_with(|| share.take(need))
            .take_while(|taken| *taken)
            .count()
    }

    #[test]
    fn users_share_and_what_must_be_watched_has_room() {
        let quota = Arc::new(WatchQuota::default());
        let first = quota.share(80, 1);
        assert_eq!(taken(&first, Need::Spare), 30);
        assert_eq!(taken(&first, Need::Must), 10, "half is one user's");
        let same_user = quota.share(80, 1);
        assert!(!same_user.take(Need::Must));
        let second = quota.share(80, 2);
        assert_eq!(taken(&second, Need::Spare), 20, "of all");
        assert_eq!(taken(&second, Need::Must), 20);
        drop(first);
        assert!(!second.take(Need::Must), "half is one user's");
        assert_eq!(taken(&same_user, Need::Must), 40);
        same_user.give_back();
        assert!(same_user.take(Need::Must));
        drop((same_user, second));
        let taken = quota.lock();
        assert_eq!((taken.all, taken.of_user.len()), (0, 0));
    }
}
