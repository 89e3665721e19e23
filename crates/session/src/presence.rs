//! The reachability of the daemon, or of the user's own store, during a session.

use std::time::Duration;

use mcpmon_model::Timestamp;

/// The time before an unreachable daemon is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// The reachability of the shared state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SharedStatePresence {
    /// It can be reached.
    Here,
    /// It cannot be reached; it was tried last at this time.
    Away(Timestamp),
}

impl SharedStatePresence {
    pub(super) const fn is_here(self) -> bool {
        match self {
            Self::Here => true,
            Self::Away(_) => false,
        }
    }

    /// Returns whether it may be tried now.
    pub(super) fn is_due(self, now: Timestamp) -> bool {
        match self {
            Self::Here => true,
            Self::Away(tried) => now.since(tried) >= RETRY,
        }
    }
}
