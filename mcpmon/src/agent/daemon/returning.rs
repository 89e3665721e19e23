//! The return from a standby store to the daemon's own, tried while the daemon runs.

use std::time::{Duration, Instant};

use super::{
    Daemon,
    standby::{ReturnError, Returned, Standby},
};

/// What events and `mcpmon status` call it.
pub(super) const STORE_FILE: &str = "store file";
/// How often it is tried.
const RETURN_INTERVAL: Duration = Duration::from_secs(5);

/// The way back to the own store.
#[derive(Debug)]
pub(super) struct Returning {
    standby: Standby,
    /// When it was tried last.
    tried: Instant,
    is_under_way: bool,
}

impl Returning {
    pub(super) fn new(standby: Standby) -> Self {
        Self {
            standby,
            tried: Instant::now(),
            is_under_way: false,
        }
    }
}

impl Daemon {
    /// To be called about once a second.
    pub(super) fn look_after_return(&mut self) {
        let is_due = |returning: &&mut Returning| {
            !returning.is_under_way && returning.tried.elapsed() >= RETURN_INTERVAL
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

    /// What came of it.
    pub(super) fn take_returned(&mut self, returned: Result<Returned, ReturnError>) {
        match returned {
            Ok(Returned { sole, events }) => {
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
                returning.is_under_way = false;
                returning.tried = Instant::now();
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
