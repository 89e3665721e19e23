//! The thread of a wrapper that keeps what its server writes to standard error.

use std::{
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use mcpmon_model::Timestamp;
use mcpmon_session::clock;
use mcpmon_stdio::{ServerStderr, StderrCopies};

use super::{
    LogDirectory, LogEntry, ServerRun,
    lines::{LineSplitter, SafeLine},
    ring::RunLog,
};

/// The time that the last words of a server have to reach a client that reads, and the disk.
const PATIENCE: Duration = Duration::from_secs(1);

/// Passes the standard error of a server on, and keeps it.
#[derive(Debug)]
pub(in crate::agent) struct LogKeeper {
    /// Closed once everything is kept.
    done: Receiver<()>,
}

impl LogKeeper {
    /// Starts it. Where no log can be kept, the standard error is passed on all the same.
    ///
    /// # Errors
    /// Returns an error if there is no thread.
    pub(in crate::agent) fn start(
        stderr: ServerStderr,
        directory: Option<PathBuf>,
        run: ServerRun,
    ) -> std::io::Result<Self> {
        let copies = stderr.pass_on()?;
        let (ends, done) = channel::<()>();
        let named = thread::Builder::new().name("server log".to_owned());
        named.spawn(move || {
            if let Some(directory) = directory {
                keep(&directory, &run, &copies);
            }
            // Also where nothing is kept: a client is to have the last words.
            while copies.next_copy().is_some() {}
            drop(ends);
        })?;
        Ok(Self { done })
    }

    /// Waits until the last words of a server that has ended have been passed on and are kept.
    pub(in crate::agent) fn finish(self) {
        if self.done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            tracing::debug!("not all of the server's standard error was read or kept");
        }
    }
}

fn keep(directory: &std::path::Path, run: &ServerRun, copies: &StderrCopies) {
    let mut log = match RunLog::create(directory, run) {
        Ok(log) => log,
        Err(error) => {
            tracing::warn!(%error, directory = %directory.display(), "the server's standard error is not kept");
            return;
        }
    };
    LogDirectory::own(directory.to_owned()).prune(clock::now());
    let mut kept = LineRecorder {
        log: &mut log,
        at: run.started,
        lost: 0,
    };
    let mut lines = LineSplitter::default();
    while let Some(copy) = copies.next_copy() {
        // Before the search for secrets, which takes its time.
        kept.at = clock::now();
        if copy.skipped > 0 {
            lines.skip(|line| kept.add(line));
            kept.lost += copy.skipped;
        }
        lines.push(&copy.bytes, |line| kept.add(line));
    }
    lines.finish(|line| kept.add(line));
    kept.tell_lost();
}

/// Lines on their way to a log.
struct LineRecorder<'l> {
    log: &'l mut RunLog,
    /// The time at which the latest bytes came.
    at: Timestamp,
    /// Bytes that are not kept, and of which the log does not tell yet.
    lost: u64,
}

impl LineRecorder<'_> {
    fn add(&mut self, line: SafeLine) {
        self.tell_lost();
        let SafeLine { text, is_cut } = line;
        let length = text.len() as u64;
        let line = LogEntry::Line {
            at: self.at,
            text,
            is_cut,
        };
        // A full disk: there may be capacity again for a later one.
        if self.log.add(&line).is_err() {
            self.lost += length;
        }
    }

    fn tell_lost(&mut self) {
        let skipped = LogEntry::Skipped {
            at: self.at,
            bytes: self.lost,
        };
        if self.lost > 0 && self.log.add(&skipped).is_ok() {
            self.lost = 0;
        }
    }
}
