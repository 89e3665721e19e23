//! The counters of the kernel programs.

use std::io;

use aya::maps::{MapData, PerCpuArray};
use mcpmon_common::event::Counter;

/// The kernel's counters, summed over CPUs.
#[expect(missing_debug_implementations, reason = "aya's typed maps have none")]
pub struct Counters {
    pub(super) values: PerCpuArray<MapData, u64>,
}

impl Counters {
    /// Returns one counter.
    ///
    /// # Errors
    /// Returns an error if the map cannot be read.
    pub fn get(&self, counter: Counter) -> io::Result<u64> {
        let values = self.values.get(&(counter as u32), 0).map_err(io::Error::other)?;
        Ok(values.iter().sum())
    }

    /// Returns all counters, by name.
    ///
    /// # Errors
    /// Returns an error if the map cannot be read.
    pub fn all(&self) -> io::Result<Vec<(&'static str, u64)>> {
        (0u32..)
            .zip(Counter::NAMES)
            .map(|(index, name)| {
                let values = self.values.get(&index, 0).map_err(io::Error::other)?;
                Ok((name, values.iter().sum()))
            })
            .collect()
    }
}
