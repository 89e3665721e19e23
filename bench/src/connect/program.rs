//! The time of one run of the program at connect, by the kernel's own clock, without the work of TCP around it.

use anyhow::{Context as _, Result, ensure};
use aya::sys::{Stats, enable_stats};
use mcpmon_bench::median;
use nix::sched::CpuSet;

use crate::{
    loopback::Loopback,
    setting::{Setting, WithSensor},
};

/// The number of passes over the settings, and of connects of each setting in a pass. Passes are short, so that the
/// median is free of interruptions.
const PASSES: u32 = 25;
const CONNECTS: u32 = 400;

/// Returns the time of a run of `connect4` under each setting, in nanoseconds: the median over passes of their means.
/// It includes two readings of the clock, some 40 ns.
pub(crate) fn measure(loopback: &Loopback, processors: CpuSet) -> Result<Vec<(Setting, f64)>> {
    // Measured separately from the connects, because these statistics take time themselves.
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
