//! Errors: reasons why a program gave up on a record. Refusals never depend on any of these.

use mcpmon_common::event::Counter;

/// A failure, named by its consequence.
#[derive(Clone, Copy)]
pub(crate) enum Error {
    /// A kernel or user address could not be read.
    Read,
    /// The process table has no room: a process is not tracked.
    ProcessTableFull,
}

impl Error {
    /// Returns the counter that reports it to the daemon.
    #[inline(always)]
    pub(crate) const fn counter(self) -> Counter {
        match self {
            Self::Read => Counter::ReadFailed,
            Self::ProcessTableFull => Counter::ProcessTableFull,
        }
    }

    /// Returns the text for a developer.
    #[cfg(feature = "kernel-log")]
    #[inline(always)]
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Read => "an address cannot be read",
            Self::ProcessTableFull => "the process table is full",
        }
    }
}
