//! What the daemon needs to know beside the policy.

use std::{path::PathBuf, time::Duration};

/// Settings that are in force in this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The store.
    pub record: RecordSettings,
}

/// The `record` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    /// Database file, absolute; `None` for the place that whoever runs the store usually takes.
    pub path: Option<PathBuf>,
    /// File that every event is appended to, absolute.
    pub jsonl: Option<PathBuf>,
    /// How long events are kept.
    pub retention: Duration,
    /// How large the database may become, in bytes.
    pub max_size: u64,
}
