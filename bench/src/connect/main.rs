//! The cost that the kernel programs add to `connect(2)`: TCP connects over loopback without the programs, with empty
//! and with long lists, and with an event for each, interleaved in every round.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "connects, and looks at the clock"
)]

mod loopback;
mod program;
mod report;
mod setting;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use mcpmon_bench::report::Output;
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

use self::{
    loopback::Loopback,
    report::{Report, Round},
    setting::{Setting, WithSensor},
};

/// Cost of connect(2) with mcpmon, as ratios to the same round without.
#[derive(Debug, Parser)]
#[command(name = "bench-connect", disable_version_flag = true)]
struct Options {
    /// Rounds; each measures every setting once, and the one without mcpmon twice
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Connects for each measurement
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    connects: u32,
    #[command(flatten)]
    output: Output,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let processors = stay_on_one_cpu()?;
    let loopback = Loopback::listen()?;
    loopback.measure(options.connects)?;
    let orders = Order::BOTH.into_iter().cycle();
    let rounds = orders
        .take(options.rounds as usize)
        .map(|order| round(&loopback, options.connects, order, processors))
        .collect::<Result<Vec<_>>>()?;
    let report = Report::new(
        &rounds,
        options.connects,
        &program::measure(&loopback, processors)?,
    );
    options.output.finish(&report)
}

/// Keeps the connects on one processor, because times on different processors cannot be compared. Returns the
/// processors that the reader may use.
fn stay_on_one_cpu() -> Result<CpuSet> {
    let own = Pid::from_raw(0);
    let allowed = sched_getaffinity(own).context("could not ask for the processors to run on")?;
    let last = (0..CpuSet::count())
        .rev()
        .find(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    let mut one = CpuSet::new();
    one.set(last.context("no processor to run on")?)?;
    sched_setaffinity(own, &one).context("could not stay on one processor")?;
    Ok(allowed)
}

/// The order in which a round measures the settings. It alternates, so that a drift favours none of them.
#[derive(Clone, Copy, Debug)]
enum Order {
    Up,
    Down,
}

impl Order {
    const BOTH: [Self; 2] = [Self::Up, Self::Down];

    fn settings(self) -> [Setting; 3] {
        let mut settings = Setting::ALL;
        match self {
            Self::Up => {}
            Self::Down => settings.reverse(),
        }
        settings
    }
}

/// Measures without the sensor, with each setting, and without again. The second measurement shows a drift during the
/// round.
fn round(loopback: &Loopback, connects: u32, order: Order, processors: CpuSet) -> Result<Round> {
    let before = loopback.measure(connects)?;
    let mut sensor = WithSensor::start(processors)?;
    let mut with = Vec::new();
    for setting in order.settings() {
        sensor.install(setting, loopback.address())?;
        with.push((setting, loopback.measure(connects)?));
    }
    sensor.stop()?;
    Ok(Round {
        before,
        with,
        after: loopback.measure(connects)?,
    })
}
