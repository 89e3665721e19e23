//! The wait of a wrapper for the daemon's comparison of a server's files with its pins.

use std::{
    thread,
    time::{Duration, Instant},
};

use mcpmon_model::Denial;

use super::{
    link::{Link, LinkError},
    protocol::StartedProcess,
};

/// The longest time for the daemon's comparison of a server's files with its pins. No message of the server
/// passes meanwhile.
pub(super) const MAX_COMPARISON: Duration = Duration::from_secs(60);
/// The pause before the question is asked again if the conversation broke off.
const PAUSE: Duration = Duration::from_millis(20);

/// A question to the daemon: whether a server may continue.
#[derive(Debug)]
pub struct Comparison {
    link: Link,
    process: StartedProcess,
    patience: Duration,
}

/// The outcome of the daemon's comparison of a server's files with its pins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComparisonOutcome {
    /// The server may continue.
    Passed,
    /// The daemon refuses it.
    Refused(Denial),
    /// The comparison takes too long.
    Late,
    /// The daemon does not answer, for this reason.
    Unanswered(String),
}

impl Comparison {
    pub(super) const fn new(link: Link, process: StartedProcess) -> Self {
        Self {
            link,
            process,
            patience: MAX_COMPARISON,
        }
    }

    /// Waits for the answer.
    pub fn wait(self) -> ComparisonOutcome {
        let Self {
            link,
            process,
            patience,
        } = self;
        let begun = Instant::now();
        loop {
            let left = patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return ComparisonOutcome::Late;
            }
            match link.fate(process, left) {
                Ok(None) => return ComparisonOutcome::Passed,
                Ok(Some(denial)) => return ComparisonOutcome::Refused(denial),
                // A daemon that is busy is running, so ask again. One that ended is started again, or is found missing
                // the next time.
                Err(LinkError::Io { .. }) => thread::sleep(PAUSE.min(left)),
                Err(error @ (LinkError::NotRunning(_) | LinkError::Refused(_))) => {
                    return ComparisonOutcome::Unanswered(error.to_string());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::BufReader, os::unix::net::UnixListener};

    use super::*;
    use crate::link::tests::{joined, said};

    /// A question with this patience, the daemon's end of the wrapper's connection, and the listener at the daemon's
    /// socket.
    fn question(
        directory: &tempfile::TempDir,
        patience: Duration,
    ) -> (Comparison, std::os::unix::net::UnixStream, UnixListener) {
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let (link, daemon) = joined(&path);
        let process = mcpmon_model::ProcessId { pid: 77, start: 5 }.into();
        let comparison = Comparison {
            link,
            process,
            patience,
        };
        (comparison, daemon, listener)
    }

    #[test]
    fn a_daemon_that_compares_for_too_long_is_late() {
        let directory = tempfile::tempdir().expect("a directory");
        let (comparison, _daemon, listener) = question(&directory, Duration::from_millis(50));
        // The kernel accepts the connection, and no daemon answers.
        assert_eq!(comparison.wait(), ComparisonOutcome::Late);
        let asked = listener.accept().expect("it asked");
        drop(asked);
    }

    #[test]
    fn a_daemon_that_leaves_meanwhile_is_asked_again_until_it_is_known_to_be_gone() {
        let directory = tempfile::tempdir().expect("a directory");
        let (comparison, daemon, listener) = question(&directory, Duration::from_secs(60));
        let path = directory.path().join("socket");
        let compared = thread::scope(|scope| {
            let waits = scope.spawn(|| comparison.wait());
            let (stream, _) = listener.accept().expect("it asks");
            let mut stream = BufReader::new(stream);
            assert!(said(&mut stream).is_some());
            std::fs::remove_file(&path).expect("nobody finds it any more");
            drop((daemon, listener, stream));
            waits.join().expect("it ends")
        });
        let ComparisonOutcome::Unanswered(cause) = compared else {
            panic!("{compared:?}")
        };
        assert!(cause.starts_with("no daemon is listening on "), "{cause}");
    }
}
