//! The costs of starts: the time that the programs at exec and the daemon add, the time for which a changed server runs
//! on each rung, the room in the ring of processes, and the cost of large packages.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "starts programs, and looks at the clock"
)]

mod packages;
mod report;
mod ring;
mod rungs;
mod site;
mod start;
mod witness;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use mcpmon_bench::report::Output;

use self::report::{Report, Rungs, Starts};

/// Cost of starts with mcpmon, and how long a changed server runs. Needs root, and `mcpmon` beside it.
#[derive(Debug, Parser)]
#[command(name = "bench-exec", disable_version_flag = true)]
struct Options {
    /// Measure this only; several times for several
    #[arg(long = "part", value_name = "PART")]
    parts: Vec<Part>,
    /// Rounds; each measures every setting once
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Starts for each measurement of the cost of one
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,
    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The cost of a start
    Start,
    /// The time for which a changed server runs
    Rungs,
    /// The room in the ring of processes
    Ring,
    /// The cost of a package's files
    Packages,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let is_wanted = |part| options.parts.is_empty() || options.parts.contains(&part);
    let host = site::host()?;
    let mut report = Report::default();
    if is_wanted(Part::Start) {
        let (rounds, programs) = start::measure(&host, options.rounds, options.starts)?;
        report.starts = Some(Starts::new(&rounds, options.starts, programs));
    }
    if is_wanted(Part::Rungs) {
        report.rungs = Some(Rungs::new(&rungs::measure(&host, options.rounds)?));
    }
    if is_wanted(Part::Ring) {
        report.ring = Some(ring::measure(&host)?);
    }
    if is_wanted(Part::Packages) {
        report.packages = Some(packages::measure(&host)?);
    }
    options.output.finish(&report)
}
