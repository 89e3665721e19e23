//! One clock for the processes of a run: an event says when it left.

use anyhow::Result;
use nix::time::{ClockId, clock_gettime};

/// Nanoseconds since some moment, the same for all processes.
pub(super) fn now() -> Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    Ok(u64::try_from(time.tv_sec())? * 1_000_000_000 + u64::try_from(time.tv_nsec())?)
}
