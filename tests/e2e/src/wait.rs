//! Waits for a condition, with a time limit.

use std::{
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The longest wait for anything, even on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Calls `look` until it returns a value.
///
/// # Errors
/// Returns an error if `look` fails, or returns nothing within [`TIMEOUT`]; `what` names in it what was expected.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            bail!("waited {} s for {what}, in vain", TIMEOUT.as_secs());
        }
        thread::sleep(PAUSE);
    }
}

/// Waits until a descriptor can be read, or is at its end.
///
/// # Errors
/// Returns an error if neither happens within [`TIMEOUT`]; `what` names in it what was expected.
pub fn readable(what: &str, descriptor: impl AsFd) -> Result<()> {
    let mut polled = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
    let patience = PollTimeout::try_from(TIMEOUT).context("a limit that poll takes")?;
    if poll(&mut polled, patience)? == 0 {
        bail!("waited {} s for {what}, in vain", TIMEOUT.as_secs());
    }
    Ok(())
}
