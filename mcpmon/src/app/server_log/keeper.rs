//! The wrapper's thread that keeps the server's standard error.

use std::{
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use mcpmon_model::Timestamp;
use mcpmon_session::clock;
use mcpmon_stdio::StderrCopies;

use super::{
    LogDirectory, LogEntry, ServerRun,
    lines::{LineSplitter, SafeLine},
    ring::RunLog,
};

/// The time within which the last output of a server must reach the client and the disk.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Passes the server's standard error on, and keeps a copy.
#[derive(Debug)]
pub(in crate::app) struct LogKeeper {
    /// Disconnected when everything is kept.
    done: Receiver<()>,
}

impl LogKeeper {
    /// Starts the thread that keeps `copies`. Without copies or a thread, no log is kept.
    pub(in crate::app) fn start(
        copies: Option<StderrCopies>,
        directory: Option<PathBuf>,
        run: ServerRun,
    ) -> Self {
        let (ends, done) = channel::<()>();
        let Some(copies) = copies else {
            tracing::warn!(
                "the server's standard error is not kept: there is no thread or descriptor for it"
            );
            return Self { done };
        };
        let named = thread::Builder::new().name("server log".to_owned());
        let started = named.spawn(move || {
            if let Some(directory) = directory {
                keep(&directory, &run, &copies);
            }
            // Also if nothing is kept: the client must get the last output.
            while copies.next_copy().is_some() {}
            drop(ends);
        });
        if let Err(error) = started {
            tracing::warn!(%error, "the server's standard error is not kept");
        }
        Self { done }
    }

    /// Waits until the last output of a server that has ended was passed on and kept.
    pub(in crate::app) fn finish(self) {
        if self.done.recv_timeout(TIMEOUT) == Err(RecvTimeoutError::Timeout) {
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
        // Taken before the search for secrets, which takes time.
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

/// The lines on their way to a log.
struct LineRecorder<'l> {
    log: &'l mut RunLog,
    /// The time at which the latest bytes arrived.
    at: Timestamp,
    /// Bytes that were not kept and that the log does not mention yet.
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
        // The disk may be full; there may be space again for a later line.
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
