//! The cost that a wrapper adds to an MCP server's pipes: a client and an echo server with a direct connection, with
//! plain relays, with mcpmon and with other programs, interleaved in every round.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "starts programs, and looks at the clock"
)]

mod contender;
mod conversation;
mod daemon;
mod echo;
mod floor;
mod inner;
mod listing;
mod memory;
mod report;
mod round;
mod strict;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use mcpmon_bench::{
    report::Output,
    site::{Site, absolute},
};

use self::{contender::Contender, daemon::Daemon, report::Report};

/// Cost of a wrapped server, as ratios to plain relays in the same round.
#[derive(Debug, Parser)]
#[command(name = "bench-stdio", disable_version_flag = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure
    Run(Options),
    /// The far side: a server that answers with as much text as it is asked for
    Echo,
    /// Floor: one thread that polls
    Relay(Behind),
    /// Floor: a thread for each direction
    Threads(Behind),
}

#[derive(Debug, clap::Args)]
struct Behind {
    /// The server's command
    #[arg(required = true, last = true)]
    command: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct Options {
    /// The program to measure
    #[arg(long, value_name = "FILE")]
    mcpmon: PathBuf,
    /// kvlar, where it is to be measured too
    #[arg(long, value_name = "FILE")]
    kvlar: Option<PathBuf>,
    /// Assay, where it is to be measured too
    #[arg(long, value_name = "FILE")]
    assay: Option<PathBuf>,
    /// Rounds; each measures every contender once
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Calls of 300 bytes for each measurement; the larger ones are fewer
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(100..))]
    calls: u32,
    #[command(flatten)]
    output: Output,
}

fn main() -> Result<ExitCode> {
    match Cli::parse().command {
        Command::Run(options) => run(&options),
        Command::Echo => echo::serve().map(|()| ExitCode::SUCCESS),
        Command::Relay(behind) => floor::relay(&behind.command),
        Command::Threads(behind) => floor::threads(&behind.command),
    }
}

fn run(options: &Options) -> Result<ExitCode> {
    let site = Site::new()?;
    let daemon = Daemon::start(&absolute(&options.mcpmon)?, contender::MCPMON_POLICY, &site)?;
    let contenders = Contender::all(options, daemon.as_ref(), &site)?;
    let rounds = (0..options.rounds)
        .map(|_| round::measure(&contenders, options.calls))
        .collect::<Result<Vec<_>>>()?;
    let report = Report::new(&rounds, &round::growth(&contenders)?, &inner::measure(&site)?);
    options.output.finish(&report)
}
