//! The time of one run of the connection program, by the kernel's own clock: free of the work that TCP does
//! around it.

use anyhow::{Context as _, Result, ensure};
use aya::sys::{Stats, enable_stats};
use mcpmon_bench::median;
use nix::sched::CpuSet;

use crate::{
    loopback::Loopback,
    setting::{Setting, WithSensor},
};

/// Passes over the settings, and connects of each: short ones, so that the median is free of interruptions.
const PASSES: u32 = 25;
const CONNECTS: u32 = 400;

/// Nanoseconds of a run of `connect4` under each setting: the median over passes of their means. Two readings
/// of the clock are part of it, some 40 ns.
pub(crate) fn measure(loopback: &Loopback, processors: CpuSet) -> Result<Vec<(Setting, f64)>> {
    // Measured apart from the connects: keeping these statistics costs time itself.
    let _enabled = enable_stats(Stats::RunTime).context("the kernel keeps no statistics of programs")?;
    let mut sensor = WithSensor::start(processors)?;
    let mut runs = Vec::new();
    for setting in Setting::ALL {
        sensor.install(setting, loopback.address())?;
        let passes = (0..PASSES)
            .map(|_| pass(&sensor, loopback))
            .collect::<Result<Vec<_>>>()?;
        runs.push((setting, median(&passes)));
    }
    sensor.stop()?;
    Ok(runs)
}

fn pass(sensor: &WithSensor, loopback: &Loopback) -> Result<f64> {
    let (runs_before, time_before) = sensor.runs()?;
    loopback.measure(CONNECTS)?;
    let (runs_after, time_after) = sensor.runs()?;
    let runs = runs_after - runs_before;
    ensure!(
        runs >= u64::from(CONNECTS),
        "the program ran {runs} times for {CONNECTS} connects"
    );
    Ok((time_after - time_before).as_nanos() as f64 / runs as f64)
}
