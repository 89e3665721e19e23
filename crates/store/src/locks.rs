//! Waiting for a lock of a store that another process or thread holds.

use std::{thread, time::Duration};

/// Attempts before giving up: they take two seconds, and half a second if a caller waits for the result.
const LOOKS: i32 = 343;
const LOOKS_MEANWHILE: i32 = 193;
/// The slack of the kernel's timers, nanoseconds: by default it is as long as most locks are held.
const SLACK: u64 = 1_000;

/// Waits for a moment. Returns whether to try again.
pub(super) fn look_again(looks: i32) -> bool {
    looks_again(looks, LOOKS)
}

/// Waits for a moment. Returns whether to try again, if a caller waits for the result.
pub(super) fn look_again_meanwhile(looks: i32) -> bool {
    looks_again(looks, LOOKS_MEANWHILE)
}

/// Makes the kernel wake this thread on time, because a caller waits for it.
pub(super) fn wake_in_time() {
    if let Err(error) = nix::sys::prctl::set_timerslack(SLACK) {
        tracing::debug!(%error, "waits for the store are longer than they need be");
    }
}

fn looks_again(looks: i32, most: i32) -> bool {
    let is_patient = looks < most;
    if is_patient {
        thread::sleep(pause(looks));
    }
    is_patient
}

/// Returns the pause before another attempt at a lock. SQLite's own first pause is a millisecond, and nearly
/// all locks are held for less.
const fn pause(looks: i32) -> Duration {
    Duration::from_micros(match looks {
        ..100 => 20,
        100..148 => 1_000,
        148.. => 10_000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_looked_at_often_and_waited_for_two_seconds_or_half_a_one() {
        let waited = |looks| (0..looks).map(pause).sum::<Duration>().as_millis();
        assert_eq!((waited(LOOKS), waited(LOOKS_MEANWHILE)), (2000, 500));
        assert_eq!(waited(100), 2, "as often as that at first");
        assert!(looks_again(2, 3) && !looks_again(3, 3));
    }
}
