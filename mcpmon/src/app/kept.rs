//! State that the daemon keeps in the kernel, as another process reads it.

use std::{path::Path, time::Duration};

use mcpmon_kernel::{
    notes::read_pinned,
    pinned::{PinError, View},
};

use super::{handover::Handover, selftest};

/// The state that is kept in one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Programs that are kept attached.
    pub programs: Vec<String>,
    /// Sets that other versions keep.
    pub others: Vec<String>,
    /// Version of the latest daemon that used it.
    pub version: Option<String>,
    /// The time since which the programs are attached without a gap, RFC 3339.
    pub since: Option<String>,
    /// The time since a daemon's last sign of life.
    pub silence: Option<Duration>,
}

/// Reads a directory. Returns `None` if nothing is kept there.
///
/// # Errors
/// Returns an error if the directory cannot be read, or others could change it.
pub fn look(directory: &Path) -> Result<Option<Kept>, PinError> {
    let Some(view) = View::of(directory)? else {
        return Ok(None);
    };
    let Some(set) = view.current else {
        return Ok((!view.sets.is_empty()).then(|| Kept {
            programs: Vec::new(),
            others: view.sets,
            version: None,
            since: None,
            silence: None,
        }));
    };
    let (notes, silence) = read_pinned(&set).unwrap_or_default();
    let handover = Handover::parse(&notes);
    Ok(Some(Kept {
        programs: set.programs(),
        others: view.sets.into_iter().filter(|name| !set.is_named(name)).collect(),
        version: handover.as_ref().map(|handover| handover.version.clone()),
        since: handover.map(|handover| handover.since),
        silence: silence.map(Duration::from_nanos),
    }))
}

/// Returns whether the kernel refuses a connection to the address that only the self-test uses.
pub fn is_refusing() -> bool {
    selftest::is_refusing()
}
