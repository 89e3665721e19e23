//! Rates of requests, for each user: a bucket of tokens that fills with time.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Most users whose buckets are kept; full ones are forgotten first.
const MAX_USERS: usize = 4096;

/// A limit of requests for each user.
#[derive(Debug)]
pub(crate) struct Rates {
    per_second: u32,
    burst: u32,
    buckets: Mutex<BTreeMap<u32, Bucket>>,
}

/// The time at which a user's bucket is full again. Each request moves it later by one interval.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    full_at: Instant,
}

impl Rates {
    /// A limit of `per_second` requests, of which `burst` may come at once.
    pub(crate) const fn new(per_second: u32, burst: u32) -> Self {
        Self {
            per_second,
            burst,
            buckets: Mutex::new(BTreeMap::new()),
        }
    }

    /// Counts a request of `owner`.
    ///
    /// # Errors
    /// Returns the time to wait if it comes too early; it is not counted then.
    pub(crate) fn take(&self, owner: u32, now: Instant) -> Result<(), Duration> {
        let interval = Duration::from_secs(1) / self.per_second;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_USERS {
            buckets.retain(|_, bucket| bucket.full_at > now);
        }
        let full_at = buckets.get(&owner).map_or(now, |bucket| bucket.full_at.max(now));
        let next = full_at + interval;
        let most = now + interval * self.burst;
        if next > most {
            return Err(next - most);
        }
        buckets.insert(owner, Bucket { full_at: next });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: u32 = 1000;
    const BOB: u32 = 1001;

    #[test]
    fn a_burst_passes_then_the_rate_applies() {
        let rates = Rates::new(10, 3);
        let now = Instant::now();
        for _ in 0..3 {
            rates.take(ALICE, now).expect("within the burst");
        }
        assert_eq!(rates.take(ALICE, now), Err(Duration::from_millis(100)));
        rates.take(BOB, now).expect("another user's bucket is full");
        let later = now + Duration::from_millis(100);
        rates.take(ALICE, later).expect("one token came back");
        rates.take(ALICE, later).expect_err("it was one");
    }

    #[test]
    fn an_idle_user_gets_no_more_than_a_burst() {
        let rates = Rates::new(10, 3);
        let now = Instant::now();
        rates.take(ALICE, now).expect("the first");
        let later = now + Duration::from_secs(3600);
        let passed = (0..10).filter(|_| rates.take(ALICE, later).is_ok()).count();
        assert_eq!(passed, 3);
    }
}
