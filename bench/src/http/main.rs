//! The cost that the MCP proxy adds to a call: a client and a server with a direct connection, with a bare reverse
//! proxy, and with mcpmon, interleaved in every round.

#![expect(
    clippy::disallowed_methods,
    reason = "starts programs, and looks at the clock"
)]

mod contender;
mod question;
mod report;
mod round;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use mcpmon_bench::{proxied::Side, report::Output, site::Site};

use self::report::Report;

/// Cost of the MCP proxy, as ratios to a bare reverse proxy in the same round.
#[derive(Debug, Parser)]
#[command(name = "bench-http", disable_version_flag = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure
    Run(Options),
    #[command(flatten)]
    Side(Side),
}

#[derive(Debug, clap::Args)]
struct Options {
    /// The program to measure
    #[arg(long, value_name = "FILE")]
    mcpmon: PathBuf,
    /// Rounds; each measures every contender once
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Calls for each measurement, one after another; those at a time are as many for each connection
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(32..))]
    requests: u32,
    #[command(flatten)]
    output: Output,
}

fn main() -> Result<ExitCode> {
    match Cli::parse().command {
        Command::Run(options) => run(&options),
        Command::Side(side) => side.serve(question::reply).map(|()| ExitCode::SUCCESS),
    }
}

fn run(options: &Options) -> Result<ExitCode> {
    let site = Site::new()?;
    let contenders = contender::all(options, &site)?;
    let rounds = (0..options.rounds)
        .map(|number| round::measure(&contenders, options.requests, number))
        .collect::<Result<Vec<_>>>()?;
    options.output.finish(&Report::new(&rounds))
}
