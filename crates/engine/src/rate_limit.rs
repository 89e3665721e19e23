//! Rate limit of a server: a token bucket that fills with time and that every call takes from.

use std::time::Duration;

use mcpmon_model::Timestamp;
use mcpmon_policy::RateLimit;

/// One call, in the thousandths in which buckets are counted.
const CALL: u64 = 1000;
/// Longest time by which a call can be counted after a later one. If it is longer, the clock was set back.
const MAX_DISORDER: Duration = Duration::from_mins(1);

/// The level of a bucket when a call was last taken from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BucketLevel {
    /// The time of that call.
    pub(super) at: Timestamp,
    /// Thousandths of a call.
    pub(super) left: u64,
}

impl BucketLevel {
    /// Counts a call that left the bucket at `level`. Calls of several processes are not counted in the order of their
    /// times: a call of an earlier time takes one call out of this level.
    pub(super) fn count(&mut self, level: Self) {
        if level.at > self.at {
            *self = level;
            return;
        }
        self.left = self.left.saturating_sub(CALL);
    }

    /// Has the bucket fill from `now` on if the clock was set back: otherwise, it would not fill until the clock is where
    /// it was.
    pub(super) fn follow(&mut self, now: Timestamp) {
        if self.at.since(now) > MAX_DISORDER {
            self.at = now;
        }
    }
}

/// Takes one call out of a bucket that was never used (`None`) or held `level`. Returns the new level.
///
/// # Errors
/// Returns an error if the bucket holds less than a call: the time until it holds one. Nothing is taken then.
pub(super) fn take(level: Option<BucketLevel>, limit: RateLimit, now: Timestamp) -> Result<u64, Duration> {
    let most = u64::from(limit.burst) * CALL;
    let held = level.map_or(most, |level| {
        let gained = now.since(level.at).as_nanos() * u128::from(limit.per_minute) / 60_000_000;
        let gained = u64::try_from(gained).unwrap_or(u64::MAX);
        level.left.saturating_add(gained).min(most)
    });
    held.checked_sub(CALL).ok_or_else(|| {
        let missing = CALL - held;
        match limit.per_minute {
            0 => Duration::MAX,
            rate => Duration::from_nanos(missing * 60_000_000 / u64::from(rate)),
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn bucket(limit: RateLimit) -> impl FnMut(i64) -> bool {
        let mut level: Option<BucketLevel> = None;
        move |nanoseconds| {
            let at = Timestamp(nanoseconds);
            if let Some(level) = &mut level {
                level.follow(at);
            }
            let taken = take(level, limit, at);
            if let Ok(left) = taken {
                let after = BucketLevel { at, left };
                match &mut level {
                    None => level = Some(after),
                    Some(level) => level.count(after),
                }
            }
            taken.is_ok()
        }
    }

    #[test]
    fn a_burst_passes_and_then_as_many_as_the_rate_allows() {
        let mut call = bucket(RateLimit {
            per_minute: 60,
            burst: 3,
        });
        let passed: Vec<bool> = [
            0,
            0,
            0,
            0,
            SECOND / 2,
            SECOND,
            SECOND,
            10 * SECOND,
            10 * SECOND,
            10 * SECOND,
            10 * SECOND,
        ]
        .map(&mut call)
        .into();
        assert_eq!(
            passed,
            [
                true, true, true, false, false, true, false, true, true, true, false
            ]
        );
    }

    #[test]
    fn a_refusal_says_how_long_to_wait() {
        let limit = RateLimit {
            per_minute: 30,
            burst: 1,
        };
        let level = BucketLevel {
            at: Timestamp(0),
            left: 0,
        };
        assert_eq!(
            take(Some(level), limit, Timestamp(SECOND)),
            Err(Duration::from_secs(1))
        );
        assert_eq!(take(Some(level), limit, Timestamp(2 * SECOND)), Ok(0));
    }

    #[test]
    fn a_call_that_is_counted_late_takes_one_out() {
        let mut call = bucket(RateLimit {
            per_minute: 1,
            burst: 3,
        });
        let passed = [SECOND, SECOND - 3, SECOND - 1, SECOND - 2].map(&mut call);
        assert_eq!(passed, [true, true, true, false]);
    }

    #[test]
    fn a_clock_that_is_set_back_fills_nothing_and_filling_goes_on() {
        let mut call = bucket(RateLimit {
            per_minute: 60,
            burst: 2,
        });
        const HOUR: i64 = 3600 * SECOND;
        let passed = [HOUR, 0, 0, SECOND, SECOND, 0].map(&mut call);
        assert_eq!(passed, [true, true, false, true, false, false]);
        let emptied = [2 * HOUR, 2 * HOUR, 0, SECOND].map(&mut call);
        assert_eq!(emptied, [true, true, false, true]);
    }

    proptest! {
        #[test]
        fn no_order_of_calls_passes_more_than_rate_and_burst(
            mut times in prop::collection::vec((0..60 * SECOND, 0..9 * SECOND), 1..200),
            per_minute in 1_u32..200, burst in 1_u32..50,
        ) {
            times.sort_unstable();
            let mut call = bucket(RateLimit { per_minute, burst });
            let passed = times.iter().filter(|(counted, earlier)| call(counted - earlier)).count();
            prop_assert!(passed <= (per_minute * 70 / 60 + burst) as usize, "{passed}");
        }
    }
}
