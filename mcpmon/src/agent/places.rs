//! Room for so many at a time, and for so many of one user: taken and given back in one step each.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The room. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    most_of_user: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Of users who have any.
    of_user: BTreeMap<u32, usize>,
}

/// A place that is taken, until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    uid: u32,
}

impl Places {
    /// Room for `most`, of one user for `most_of_user`.
    pub(super) fn new(most: usize, most_of_user: usize) -> Self {
        Self(Arc::new(Shared {
            most,
            most_of_user,
            taken: Mutex::default(),
        }))
    }

    /// A place for one of `uid`; `None` where there is none left.
    pub(super) fn take(&self, uid: u32) -> Option<Place> {
        let mut taken = self.lock();
        if taken.all >= self.0.most {
            return None;
        }
        let of_user = taken.of_user.entry(uid).or_default();
        if *of_user >= self.0.most_of_user {
            return None;
        }
        *of_user += 1;
        taken.all += 1;
        Some(Place {
            places: self.clone(),
            uid,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        // No step of ours leaves it half changed.
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.all -= 1;
        if let Some(of_user) = taken.of_user.get_mut(&self.uid) {
            *of_user -= 1;
            if *of_user == 0 {
                taken.of_user.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use super::*;

    #[test]
    fn a_user_has_so_many_and_all_have_so_many() {
        let places = Places::new(3, 2);
        let first = places.take(1).expect("the first");
        let second = places.take(1).expect("the second");
        assert!(places.take(1).is_none(), "one too many of a user");
        let other = places.take(2).expect("another user's");
        assert!(places.take(3).is_none(), "one too many of all");
        drop(first);
        let again = places.take(3).expect("given back");
        assert!(places.take(1).is_none(), "taken by another user");
        drop((second, other, again));
        assert!(places.lock().of_user.is_empty() && places.lock().all == 0);
    }

    #[test]
    fn many_at_once_get_no_more_than_there_is() {
        const THREADS: u32 = 16;
        let places = Places::new(100, 7);
        for _ in 0..200 {
            let start = Barrier::new(THREADS as usize);
            let held: Vec<Place> = thread::scope(|scope| {
                let takers: Vec<_> = (0..THREADS)
                    .map(|number| {
                        let (places, start) = (&places, &start);
                        scope.spawn(move || {
                            start.wait();
                            places.take(number % 2)
                        })
                    })
                    .collect();
                takers
                    .into_iter()
                    .filter_map(|taker| taker.join().expect("no panic"))
                    .collect()
            });
            assert_eq!(held.len(), 14, "eight asked for each of two users");
        }
    }
}
