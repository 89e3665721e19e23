//! Forwarding of signals to the server: only those that were sent to the wrapper alone. The server gets signals to the
//! whole process group itself, because it is a member.

use std::time::Duration;

use nix::sys::signal::Signal;

/// Signals that are passed on.
pub(super) const PASSED_ON: [Signal; 9] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
    Signal::SIGTSTP,
];

/// The time within which a signal to this process counts as the one that the watcher reports. The kernel signals every
/// member of a group before the watcher can report it; the rest is scheduling.
const SAME: Duration = Duration::from_secs(1);

/// The signals that this process itself received, and the times of the latest ones.
#[derive(Debug, Default)]
pub(super) struct SignalRouting {
    seen: [Option<Duration>; PASSED_ON.len()],
}

impl SignalRouting {
    /// Records a signal to this process. It was sent to the group, because no other program knows this process.
    pub(super) fn came_here(&mut self, now: Duration, signal: Signal) {
        if let Some(seen) = self.seen_mut(signal) {
            *seen = Some(now);
        }
    }

    /// Returns whether a signal to the watcher is to be forwarded.
    pub(super) fn came_to_watcher(&mut self, now: Duration, signal: Signal) -> bool {
        let Some(seen) = self.seen_mut(signal) else {
            return false;
        };
        seen.take().is_none_or(|then| now.saturating_sub(then) > SAME)
    }

    fn seen_mut(&mut self, signal: Signal) -> Option<&mut Option<Duration>> {
        let position = PASSED_ON.iter().position(|known| *known == signal)?;
        self.seen.get_mut(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn what_came_to_the_group_is_not_passed_on() {
        let mut routing = SignalRouting::default();
        assert!(
            routing.came_to_watcher(at(0), Signal::SIGTERM),
            "to the watcher alone"
        );
        routing.came_here(at(10), Signal::SIGTERM);
        assert!(!routing.came_to_watcher(at(11), Signal::SIGTERM), "to the group");
        assert!(
            routing.came_to_watcher(at(12), Signal::SIGTERM),
            "and once more to the watcher"
        );
    }

    #[test]
    fn signals_and_times_are_told_apart() {
        let mut routing = SignalRouting::default();
        routing.came_here(at(0), Signal::SIGTERM);
        assert!(routing.came_to_watcher(at(1), Signal::SIGINT), "another signal");
        assert!(routing.came_to_watcher(at(1_002), Signal::SIGTERM), "long after");
        assert!(
            !routing.came_to_watcher(at(2_000), Signal::SIGSEGV),
            "not one that is passed on"
        );
    }
}
