//! A reader that empties the rings of a sensor as the daemon does.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use anyhow::{Result, anyhow};
use mcpmon_kernel::rings::Rings;
use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};

/// A thread that reads until it is stopped.
#[derive(Debug)]
pub struct Reader {
    thread: JoinHandle<Result<u64>>,
    stopped: Arc<AtomicBool>,
}

impl Reader {
    /// Starts the reader on any of `processors`.
    #[must_use]
    pub fn start(rings: Rings, processors: CpuSet) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let stopped = Arc::clone(&stopped);
            move || {
                sched_setaffinity(Pid::from_raw(0), &processors)?;
                read(rings, &stopped)
            }
        });
        Self { thread, stopped }
    }

    /// Stops the reader, and returns the number of records that it read.
    ///
    /// # Errors
    /// Returns an error if reading failed.
    pub fn stop(self) -> Result<u64> {
        self.stopped.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_panic| anyhow!("the reader of the rings panicked"))?
    }
}

fn read(mut rings: Rings, stopped: &AtomicBool) -> Result<u64> {
    let mut records = 0;
    while !stopped.load(Ordering::Relaxed) {
        rings.wait(None)?;
        rings.drain(|_| records += 1);
    }
    Ok(records)
}
