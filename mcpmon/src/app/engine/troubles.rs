//! Troubles: components that are degraded now. A trouble is over if it did not occur again for a while.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{FILE_WATCH, crowded::CrowdedServers};

/// Components that do not work, with the cause.
pub(crate) type Degraded = BTreeMap<String, String>;

/// The time without trouble after which a component counts as restored.
const QUIET: Duration = Duration::from_mins(1);

/// Recent troubles of each component.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    latest: BTreeMap<String, EngineTrouble>,
    pub(super) crowded: CrowdedServers,
}

#[derive(Debug)]
struct EngineTrouble {
    cause: String,
    at: Instant,
}

impl Troubles {
    /// Notes a trouble. The cause stays that of the first one until the component is restored, so that a flood of
    /// troubles is one change of state.
    pub(super) fn note(&mut self, now: Instant, component: &str, cause: &str) {
        match self.latest.get_mut(component) {
            Some(trouble) => trouble.at = now,
            None => {
                let trouble = EngineTrouble {
                    cause: cause.to_owned(),
                    at: now,
                };
                self.latest.insert(component.to_owned(), trouble);
            }
        }
    }

    /// Returns the degraded components at `now`.
    pub(super) fn at(&mut self, now: Instant) -> Degraded {
        self.latest
            .retain(|_, trouble| now.saturating_duration_since(trouble.at) < QUIET);
        let latest = self.latest.iter();
        let mut degraded: Degraded = latest
            .map(|(component, trouble)| (component.clone(), trouble.cause.clone()))
            .collect();
        if let Some(cause) = self.crowded.cause(now) {
            degraded.entry(FILE_WATCH.to_owned()).or_insert(cause);
        }
        degraded
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::ServerId;

    use super::*;

    #[test]
    fn a_component_is_degraded_until_it_was_quiet_for_a_while() {
        let start = Instant::now();
        let mut troubles = Troubles::default();
        assert_eq!(troubles.at(start), Degraded::new());
        troubles.note(start, "process table", "lost");
        troubles.note(start + QUIET / 2, "process table", "lost again");
        let lost = Degraded::from([("process table".to_owned(), "lost".to_owned())]);
        assert_eq!(troubles.at(start + QUIET), lost);
        assert_eq!(troubles.at(start + QUIET / 2 + QUIET), Degraded::new());
    }

    #[test]
    fn files_that_are_not_watched_are_no_trouble_of_a_minute() {
        let start = Instant::now();
        let mut troubles = Troubles::default();
        let server = || ServerId::new("big").expect("id");
        let starts = |troubles: &mut Troubles, at, is_crowded| {
            troubles.crowded.note(at, server(), 7, is_crowded);
        };
        starts(&mut troubles, start, true);
        let told = troubles.at(start);
        assert!(told[FILE_WATCH].contains("big of user 7,"), "{told:?}");
        assert_eq!(troubles.at(start + 2 * QUIET), told, "it still is so");
        starts(&mut troubles, start + 3 * QUIET, true);
        assert_eq!(troubles.at(start + 3 * QUIET), told, "the next start is no news");
        troubles.note(start + 4 * QUIET, FILE_WATCH, "no inotify instance");
        assert_eq!(troubles.at(start + 4 * QUIET)[FILE_WATCH], "no inotify instance");
        assert_eq!(troubles.at(start + 5 * QUIET), told);
        starts(&mut troubles, start + 6 * QUIET, false);
        assert_eq!(troubles.at(start + 6 * QUIET), Degraded::new());
    }
}
