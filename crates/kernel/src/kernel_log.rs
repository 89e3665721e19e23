//! The log of the kernel programs, for their developers: it exists only in an object that was built with it.

use std::{fmt, io};

use aya::Ebpf;
use aya_log::EbpfLogger;
use log::{Level, Log, Metadata, Record};

use super::{sensor::OBJECT, sys};

/// The map of the log, as aya-log names it.
pub(super) const MAP: &str = "AYA_LOGS";

/// Returns whether the object that this program was built with has a log.
pub fn is_built_in() -> bool {
    is_in(OBJECT)
}

/// Returns whether an object has a log: the name of its map is among the object's symbols.
fn is_in(object: &[u8]) -> bool {
    object.windows(MAP.len()).any(|window| window == MAP.as_bytes())
}

/// The log of loaded programs.
pub struct KernelLog(EbpfLogger<Lines>);

impl fmt::Debug for KernelLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelLog").finish_non_exhaustive()
    }
}

impl KernelLog {
    /// Takes the log out of an object. Returns `None` if the object was built without one.
    pub(super) fn take(ebpf: &mut Ebpf) -> Option<Self> {
        EbpfLogger::init_with_logger(ebpf, Lines).ok().map(Self)
    }

    /// Writes each line as it comes, and does not return without an error.
    ///
    /// # Errors
    /// Returns an error if waiting for lines fails.
    pub async fn follow(self) -> io::Result<()> {
        let mut lines = sys::awaited(self.0)?;
        loop {
            let mut ready = lines.readable_mut().await?;
            ready.get_inner_mut().flush();
            ready.clear_ready();
        }
    }
}

/// Writes the programs' lines to this process's log, under the target `kernel`.
#[derive(Clone, Copy, Debug)]
struct Lines;

impl Log for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let line = record.args();
        match record.level() {
            Level::Error => tracing::error!(target: "kernel", "{line}"),
            Level::Warn => tracing::warn!(target: "kernel", "{line}"),
            Level::Info => tracing::info!(target: "kernel", "{line}"),
            Level::Debug => tracing::debug!(target: "kernel", "{line}"),
            Level::Trace => tracing::trace!(target: "kernel", "{line}"),
        }
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_with_a_log_is_told_from_one_without() {
        assert!(is_in(b"\x7fELF\0COUNTERS\0AYA_LOGS\0"));
        assert!(!is_in(b"\x7fELF\0COUNTERS\0"));
        assert!(!is_in(b""));
    }
}
