//! One clock for all processes of a run, for the time stamps of events.

use anyhow::Result;
use nix::time::{ClockId, clock_gettime};

/// Returns the nanoseconds since a fixed moment, which is the same for all processes.
pub(super) fn now() -> Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    Ok(u64::try_from(time.tv_sec())? * 1_000_000_000 + u64::try_from(time.tv_nsec())?)
}
