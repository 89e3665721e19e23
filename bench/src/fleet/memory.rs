//! The peak resident memory of the programs of a run.

use std::fs;

use anyhow::{Context as _, Result};

/// Peaks in MiB, as far as they were sampled.
#[derive(Debug)]
pub(crate) struct PeakMemory {
    pids: [u32; 2],
    pub(crate) collector: f64,
    pub(crate) engine: f64,
    /// The peak of this process, with all agents.
    pub(crate) own: f64,
}

impl PeakMemory {
    pub(crate) const fn of(pids: [u32; 2]) -> Self {
        Self {
            pids,
            collector: 0.0,
            engine: 0.0,
            own: 0.0,
        }
    }

    pub(crate) fn look(&mut self) -> Result<()> {
        let [collector, engine] = self.pids;
        self.collector = self.collector.max(resident(collector)?);
        self.engine = self.engine.max(resident(engine)?);
        self.own = self.own.max(resident(std::process::id())?);
        Ok(())
    }
}

fn resident(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next());
    let kib: f64 = kib.context("VmRSS in /proc/PID/status")?.parse()?;
    Ok(kib / 1024.0)
}
