//! Children that are awaited with a limit: one may be stopped, frozen or traced, and would be awaited for ever.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd},
    process::{Child, ExitStatus},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use super::sys;

/// The time in which a canary has to end: hundreds of times as long as it takes.
pub const CANARY_LIMIT: Duration = Duration::from_secs(5);

/// The time in which a killed process has to end.
const KILL_LIMIT: Duration = CANARY_LIMIT;

/// Waits for the end of a child. One that does not end in time is killed. Where the kernel lets nobody open processes,
/// there is no limit.
///
/// # Errors
/// Returns the kernel's error, and [`io::ErrorKind::TimedOut`] if the child did not end in time.
pub fn wait(mut child: Child, limit: Duration) -> io::Result<ExitStatus> {
    // A sandbox around this process may forbid that.
    let Ok(process) = sys::open_process(child.id()) else {
        return child.wait();
    };
    if has_ended(process.as_fd(), limit)? {
        return child.wait();
    }
    child.kill()?;
    // A call of the kernel may keep it alive still; it is not awaited then.
    let end = match has_ended(process.as_fd(), KILL_LIMIT)? {
        true => child.wait().map(|_| "and was killed")?,
        false => "and does not end although it was killed",
    };
    let cause = format!(
        "process {} did not end within {limit:?}, {end}: something stops, freezes or traces it",
        child.id()
    );
    Err(io::Error::new(io::ErrorKind::TimedOut, cause))
}

fn has_ended(process: BorrowedFd<'_>, limit: Duration) -> io::Result<bool> {
    let mut awaited = [PollFd::new(process, PollFlags::POLLIN)];
    let started = Instant::now();
    loop {
        let left = limit.saturating_sub(started.elapsed());
        match poll(
            &mut awaited,
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
        ) {
            // The limit holds for all attempts together: signals may come again and again.
            Err(Errno::EINTR) => {}
            outcome => return Ok(outcome? > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn who_does_not_end_in_time_is_killed() {
        let child = Command::new("sleep").arg("1000").spawn().expect("sleep");
        let id = child.id();
        let error = wait(child, Duration::from_millis(1)).expect_err("it sleeps");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(
            error.to_string().contains("within 1ms, and was killed"),
            "{error}"
        );
        assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
    }

    #[test]
    fn who_ends_is_awaited() {
        let child = Command::new("false").spawn().expect("false");
        assert_eq!(wait(child, CANARY_LIMIT).expect("it ends").code(), Some(1));
    }
}
