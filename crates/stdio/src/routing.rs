//! Signals passed on to the server: those sent to the wrapper and not to the whole process group, whose
//! signals the server gets already as a member.

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

/// For how long a signal to this process may be the same one that the watcher tells of. The kernel reaches every
/// member of a group before the watcher can tell; the rest is scheduling.
const SAME: Duration = Duration::from_secs(1);

/// The signals that came to the relaying process itself, and their times since some start.
#[derive(Debug, Default)]
pub(super) struct SignalRouting {
    seen: [Option<Duration>; PASSED_ON.len()],
}

impl SignalRouting {
    /// The signal came to this process: to the group, that is, for nobody else knows this process.
    pub(super) fn came_here(&mut self, now: Duration, signal: Signal) {
        if let Some(seen) = self.seen_mut(signal) {
            *seen = Some(now);
        }
    }

    /// The signal came to the watcher. Whether it is to be passed on.
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
