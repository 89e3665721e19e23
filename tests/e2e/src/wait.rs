//! Waiting for a condition, with an end.

use std::{
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The longest wait for anything on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks until there is something.
///
/// # Errors
/// Returns an error if a look fails, or nothing comes within [`PATIENCE`]; `what` says what was waited for.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            bail!("waited {} s for {what}, in vain", PATIENCE.as_secs());
        }
        thread::sleep(PAUSE);
    }
}

/// Waits until a descriptor can be read, or is at its end.
///
/// # Errors
/// Returns an error if neither comes within [`PATIENCE`]; `what` says what was waited for.
pub fn readable(what: &str, descriptor: impl AsFd) -> Result<()> {
    let mut polled = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
    let patience = PollTimeout::try_from(PATIENCE).context("a limit that poll takes")?;
    if poll(&mut polled, patience)? == 0 {
        bail!("waited {} s for {what}, in vain", PATIENCE.as_secs());
    }
    Ok(())
}
