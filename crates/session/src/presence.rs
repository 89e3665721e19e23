//! The presence of the daemon, or of the user's own store, in the middle of a session.

use std::time::Duration;

use mcpmon_model::Timestamp;

/// How long a daemon that is away is left alone.
const RETRY: Duration = Duration::from_secs(5);

/// Whether what is shared can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SharedStatePresence {
    /// It can.
    Here,
    /// It cannot; when it was tried last.
    Away(Timestamp),
}

impl SharedStatePresence {
    pub(super) const fn is_here(self) -> bool {
        match self {
            Self::Here => true,
            Self::Away(_) => false,
        }
    }

    /// Whether it is time to try again.
    pub(super) fn is_due(self, now: Timestamp) -> bool {
        match self {
            Self::Here => true,
            Self::Away(tried) => now.since(tried) >= RETRY,
        }
    }
}
