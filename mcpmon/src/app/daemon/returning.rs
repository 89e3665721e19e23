//! The return from a standby store to the daemon's own store, tried while the daemon runs.

use std::time::{Duration, Instant};

use super::{
    Daemon,
    standby::{ReturnError, ReturnedStore, Standby},
};

/// The name of this component in events and `mcpmon status`.
pub(super) const STORE_FILE: &str = "store file";
/// The interval of attempts.
const RETURN_INTERVAL: Duration = Duration::from_secs(5);
/// The longest interval, used if the store can be opened but attempts fail: each of them may have copied much.
const MAX_RETURN_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// The attempts to return to the own store.
#[derive(Debug)]
pub(super) struct StoreReturn {
    standby: Standby,
    /// The time of the last attempt.
    tried: Instant,
    /// The time until the next attempt.
    interval: Duration,
    is_under_way: bool,
}

impl StoreReturn {
    pub(super) fn new(standby: Standby) -> Self {
        Self {
            standby,
            tried: Instant::now(),
            interval: RETURN_INTERVAL,
            is_under_way: false,
        }
    }

    fn note_failure(&mut self, error: &ReturnError) {
        self.is_under_way = false;
        self.tried = Instant::now();
        match error {
            // An attempt at a store that cannot be opened costs little, so the interval stays as it is.
            ReturnError::Unusable(_) => {}
            ReturnError::OtherDecisions | ReturnError::Copy(_) => {
                self.interval = (self.interval * 2).min(MAX_RETURN_INTERVAL);
            }
        }
    }
}

impl Daemon {
    /// Starts an attempt if it is time for one. Is called about once a second.
    pub(super) fn look_after_return(&mut self) {
        let is_due = |returning: &&mut StoreReturn| {
            !returning.is_under_way && returning.tried.elapsed() >= returning.interval
        };
        let Some(returning) = self.returning.as_mut().filter(is_due) else {
            return;
        };
        returning.is_under_way = true;
        let (standby, location) = (returning.standby.clone(), self.location.clone());
        let returned = self.returned.clone();
        tokio::task::spawn_blocking(move || {
            // The receiver is gone when the daemon stops.
            drop(returned.blocking_send(standby.give_back(&location)));
        });
    }

    /// Handles the outcome of an attempt.
    pub(super) fn take_returned(&mut self, returned: Result<ReturnedStore, ReturnError>) {
        match returned {
            Ok(ReturnedStore { sole, events }) => {
                self.sole = sole;
                self.returning = None;
                tracing::info!(events, store = %self.location.path().display(), "returned to the store");
                let reason = format!(
                    "the daemon writes {} again; events taken over from the standby store: {events}",
                    self.location.path().display()
                );
                self.note_with(STORE_FILE, None, Some(reason));
            }
            Err(error) => {
                let Some(returning) = &mut self.returning else {
                    return;
                };
                returning.note_failure(&error);
                tracing::debug!(%error, "the store cannot be used yet");
                if matches!(error, ReturnError::OtherDecisions) {
                    let trouble = format!(
                        "{}; the store can be written again: {error}",
                        returning.standby.trouble
                    );
                    self.note(STORE_FILE, Some(trouble));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_store::{Adoption, sample};

    use super::*;
    use crate::app::daemon::DaemonError;

    #[test]
    fn what_can_be_opened_and_not_filled_is_tried_less_and_less_often() {
        let mut returning = StoreReturn::new(Standby::default());
        let unusable = ReturnError::Unusable(DaemonError::EngineEnded);
        returning.note_failure(&unusable);
        assert_eq!(returning.interval, RETURN_INTERVAL);
        let (directory, mut store) = sample::store();
        let missing = directory.path().join("standby.db");
        let copy = Adoption::new(&missing).copy_records(&mut store).unwrap_err();
        let copy = ReturnError::Copy(copy);
        returning.note_failure(&copy);
        assert_eq!(returning.interval, 2 * RETURN_INTERVAL);
        returning.note_failure(&unusable);
        assert_eq!(returning.interval, 2 * RETURN_INTERVAL);
        for _ in 0..10 {
            returning.note_failure(&copy);
        }
        assert_eq!(returning.interval, MAX_RETURN_INTERVAL);
    }
}
