//! State that the kernel keeps of a daemon, seen by a process that is none.

use std::{path::Path, time::Duration};

use mcpmon_kernel::{
    notes::read_pinned,
    pinned::{PinError, View},
};

use super::{handover::Handover, selftest};

/// The kept content of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Programs that are attached by what is kept.
    pub programs: Vec<String>,
    /// Sets of other versions.
    pub others: Vec<String>,
    /// Version of the daemon that was the last to work with it.
    pub version: Option<String>,
    /// Since when the programs are attached without a gap, RFC 3339.
    pub since: Option<String>,
    /// The time since a daemon gave its last sign of life.
    pub silence: Option<Duration>,
}

/// Looks into a directory; `None` where nothing is kept there.
///
/// # Errors
/// Returns an error if it cannot be read, or others could change it.
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

/// Returns whether the kernel refuses the address that it refuses for the self-test alone.
pub fn is_refusing() -> bool {
    selftest::is_refusing()
}
