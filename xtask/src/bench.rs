//! `cargo xtask bench`: what mcpmon costs, as ratios to the same work without it in the same run.

use std::process::ExitCode;

use anyhow::Result;

use crate::{
    build_ebpf, run,
    shell::{self, step},
};

/// What to measure.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    /// connect(2) with the kernel programs attached; needs root
    Connect(Options),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Exit with 1 where a target is missed by more than the noise
    #[arg(long)]
    gate: bool,
    /// Rounds to take medians over
    #[arg(long, default_value_t = 40)]
    rounds: u32,
}

/// Builds with optimisation, and measures.
pub(crate) fn run(bench: &Bench) -> Result<ExitCode> {
    match bench {
        Bench::Connect(options) => connect(options),
    }
}

fn connect(Options { gate, rounds }: &Options) -> Result<ExitCode> {
    build_ebpf::run()?;
    step("build the benchmark", || {
        let package = ["build", "--locked", "--release", "--package", "mcpmon-bench"];
        shell::run(shell::cargo().args(package))
    })?;
    let output = shell::target().join("bench-connect.json");
    let mut bench = shell::command(shell::target().join("release/bench-connect"));
    bench
        .args(["--rounds", &rounds.to_string(), "--output"])
        .arg(&output);
    if *gate {
        bench.arg("--gate");
    }
    run::as_root(bench)
}
