//! Trust in the clock, checked before anything is removed for its age: if the clock was set forward, everything looks
//! old.
//!
//! The time since boot does not depend on the clock. If the clock is ahead of what both showed at the last check,
//! nothing is removed for its age until the clock has run regularly for a day: a wrong clock is noticed and corrected
//! before that.

use std::{fs, time::Duration};

use mcpmon_model::Timestamp;
use nix::time::{ClockId, clock_gettime};
use rusqlite::{Connection, OptionalExtension as _, params};

/// The time for which a clock that jumped has to run regularly before it is trusted.
const PROOF: i64 = 24 * HOUR;
/// The time that the clock may gain during one boot, because it is slewed, and both clocks are not read at the same
/// moment.
const DRIFT: i64 = 5 * 60 * SECOND;
/// The time for which a host may be off without doubts about its clock, such as holidays.
const OFF: i64 = 21 * 24 * HOUR;
const HOUR: i64 = 3600 * SECOND;
const SECOND: i64 = 1_000_000_000;

/// The time since boot, and the id of the boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Uptime {
    boot: String,
    nanoseconds: i64,
}

/// The trust in the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Belief {
    /// True if the clock is trusted to tell what is old.
    pub(super) is_believed: bool,
    /// The size of the latest jump.
    pub(super) jump: Option<Duration>,
}

impl Uptime {
    pub(super) fn read() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let nanoseconds = clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |time| {
            time.tv_sec()
                .saturating_mul(SECOND)
                .saturating_add(time.tv_nsec())
        });
        Self {
            boot: boot.trim().to_owned(),
            nanoseconds,
        }
    }
}

/// Checks the clock, and stores both times for the next check.
pub(super) fn look(connection: &Connection, now: Timestamp, uptime: &Uptime) -> rusqlite::Result<Belief> {
    let last = connection
        .prepare_cached("SELECT wall, boot, uptime, doubted FROM clock WHERE only = 1")?
        .query_row([], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, i64>(2)?,
                row.get::<_, i64>(3)?,
            ))
        })
        .optional()?;
    let (doubted, jump) = last.map_or((0, None), |(wall, boot, before, doubted)| {
        let passed = match boot == uptime.boot {
            true => uptime.nanoseconds.saturating_sub(before).max(0),
            false => 0,
        };
        let allowed = passed.saturating_add(if boot == uptime.boot { DRIFT } else { OFF });
        let ahead = now.0.saturating_sub(wall);
        match ahead > allowed {
            true => (PROOF, Some(nanoseconds(ahead.saturating_sub(passed)))),
            false => (doubted.saturating_sub(passed).max(0), None),
        }
    });
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO clock (only, wall, boot, uptime, doubted) VALUES (1, ?1, ?2, ?3, ?4)",
        )?
        .execute(params![now.0, uptime.boot, uptime.nanoseconds, doubted])?;
    Ok(Belief {
        is_believed: doubted == 0,
        jump,
    })
}

fn nanoseconds(count: i64) -> Duration {
    Duration::from_nanos(count.unsigned_abs())
}

#[cfg(test)]
pub(super) fn steady(now: Timestamp) -> Uptime {
    Uptime {
        boot: "steady".to_owned(),
        nanoseconds: now.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    /// Returns whether the clock is trusted at these hours of the clock and of the time since boot.
    fn believed(looks: &[(i64, &str, i64)]) -> Vec<bool> {
        let (_directory, store) = sample::store();
        let look = |&(wall, boot, uptime): &(i64, &str, i64)| {
            let uptime = Uptime {
                boot: boot.to_owned(),
                nanoseconds: uptime * HOUR,
            };
            look(store.connection(), Timestamp(sample::NOON + wall * HOUR), &uptime).unwrap()
        };
        looks.iter().map(look).map(|belief| belief.is_believed).collect()
    }

    #[test]
    fn a_clock_that_goes_on_is_believed_and_one_that_jumps_after_a_day_only() {
        assert_eq!(believed(&[(0, "a", 1), (1, "a", 2), (300, "a", 301)]), [true; 3]);
        let days = 40 * 24;
        let jumped = [
            (0, "a", 1),
            (days, "a", 1),
            (days + 23, "a", 24),
            (days + 24, "a", 25),
        ];
        assert_eq!(believed(&jumped), [true, false, false, true]);
        // The clock is corrected, and set forward again.
        let again = [(0, "a", 1), (days, "a", 1), (1, "a", 2), (days, "a", 3)];
        assert_eq!(believed(&again), [true, false, false, false]);
    }

    #[test]
    fn a_host_that_was_off_for_weeks_is_believed_and_for_longer_after_a_day() {
        assert_eq!(
            believed(&[(0, "a", 100), (500, "b", 0), (501, "b", 1)]),
            [true; 3]
        );
        let long = [(0, "a", 100), (600, "b", 0), (623, "b", 23), (624, "b", 24)];
        assert_eq!(believed(&long), [true, false, false, true]);
    }

    #[test]
    fn a_jump_is_told_once_with_how_far_it_was() {
        let (_directory, store) = sample::store();
        let uptime = steady(Timestamp(0));
        let at = |hours: i64| Timestamp(sample::NOON + hours * HOUR);
        let jump = |hours| look(store.connection(), at(hours), &uptime).unwrap().jump;
        assert_eq!(jump(0), None);
        assert_eq!(jump(960), Some(Duration::from_hours(960)));
        assert_eq!(jump(960), None);
    }
}
