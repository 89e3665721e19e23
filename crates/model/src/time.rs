//! Wall-clock instants as values: the core never asks for the time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the time since `earlier`; zero if the clock was set back.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0).try_into().unwrap_or(0))
    }
}
