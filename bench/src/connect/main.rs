//! What the kernel programs add to `connect(2)`: TCP connects over loopback without them, with empty and with
//! long lists, and with an event for each, interleaved in every round.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "connects, and looks at the clock"
)]
#![expect(clippy::print_stdout, reason = "a measurement is its output")]

mod loopback;
mod report;
mod setting;

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result};
use clap::Parser;

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
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Connects for each measurement
    #[arg(long, default_value_t = 3000, value_parser = clap::value_parser!(u32).range(1..))]
    connects: u32,
    /// Write the figures as JSON to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Exit with 1 where a target is missed by more than the noise
    #[arg(long)]
    gate: bool,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let loopback = Loopback::listen()?;
    loopback.measure(options.connects)?;
    let rounds = (0..options.rounds)
        .map(|_| round(&loopback, options.connects))
        .collect::<Result<Vec<_>>>()?;
    let report = Report::new(&rounds, options.connects);
    print!("{report}");
    if let Some(output) = &options.output {
        let json = serde_json::to_string_pretty(&report)?;
        fs::write(output, json + "\n").with_context(|| format!("could not write {}", output.display()))?;
    }
    let failed = options.gate && report.is_missed();
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Without, with each setting, and without again: what drifts during the round shows as noise.
fn round(loopback: &Loopback, connects: u32) -> Result<Round> {
    let before = loopback.measure(connects)?;
    let mut sensor = WithSensor::start()?;
    let mut with = Vec::new();
    for setting in Setting::ALL {
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
