//! The commands for developers: `cargo xtask COMMAND`. One file for each command.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "I/O shell")]

mod bench;
mod build_ebpf;
mod ci;
mod collector;
mod day;
mod demo;
mod dist;
mod eval;
mod fuzz;
mod packages;
mod privilege;
mod prometheus;
mod python;
mod real_servers;
mod redteam;
mod rules;
mod run;
mod shell;
mod test;
#[cfg(test)]
mod tidy;
mod unpacked;
mod vm;

use std::{ffi::OsString, process::ExitCode};

use clap::{Parser, Subcommand};

use crate::shell::{Environment, say};

#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    about = "Builds, runs, tests and measures mcpmon",
    disable_version_flag = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build the kernel programs, after preparing whatever their build needs
    BuildEbpf(build_ebpf::BuildOptions),
    /// Build mcpmon and run it; as root where the command needs it
    Run {
        /// Arguments of mcpmon, after `--`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// See it work: a real MCP server launched and connected to, and an address refused by the kernel
    Demo(demo::Options),
    /// Run every test, after preparing whatever the tests need
    Test,
    /// Run the kernel tests on other kernels, in QEMU under software emulation
    Vm(vm::VmArgs),
    /// Look for bytes that break a decoder or a filter
    Fuzz(fuzz::FuzzArgs),
    /// Measure detection on folders of labelled items
    Eval {
        /// Build with optimisation: only then is the speed what users get
        #[arg(long)]
        release: bool,
        /// Options of the measurement: `--corpus DIR`, `--part`, `--signals`, `--json`, `--show`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<OsString>,
    },
    /// Run attacks and near misses through the core and the real wrapper, and print what became of each
    Redteam {
        /// Options of the suite: `--only TEXT`, `--core`, `--json`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<OsString>,
    },
    /// Perform honest actions of ordinary days before servers behind mcpmon, and print what each client got
    Day {
        /// Options of the suite: `--only NAME`, `--config NAME`, `--slice`, `--json`, `--list`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<OsString>,
    },
    /// Write the pages of `docs/rules`, one for each rule that reads texts
    Rules,
    /// Measure what mcpmon costs
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Make what a release consists of: static binaries, packages, a container image, a bill of materials, checksums
    Dist(dist::DistArgs),
    /// Write the container image of a release with any binary, and with the libraries it needs, for tests
    Image(dist::ImageArgs),
    /// Let many hosts send their events to one real collector: throughput, loss and memory
    Fleet(bench::FleetOptions),
    /// Run the checks of CI: format, lints, documentation, dependencies, tests
    Ci,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::BuildEbpf(options) => build_ebpf::run_with(options).map(|object| {
            shell::print(object.display());
            ExitCode::SUCCESS
        }),
        Command::Run { arguments } => run::run(&arguments),
        Command::Demo(options) => demo::run(&options),
        Command::Test => test::run().map(|()| ExitCode::SUCCESS),
        Command::Vm(args) => vm::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Fuzz(args) => fuzz::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Eval { release, options } => eval::run(&options, release),
        Command::Redteam { options } => redteam::run(&options),
        Command::Day { options } => day::run(&options),
        Command::Rules => rules::run().map(|()| ExitCode::SUCCESS),
        Command::Bench(bench) => bench::run(&bench),
        Command::Dist(args) => dist::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Image(args) => dist::image(&args).map(|()| ExitCode::SUCCESS),
        Command::Fleet(options) => bench::fleet(&options),
        Command::Ci => ci::run().map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| {
        say(format_args!("error: {error:#}"));
        let environment = error.chain().any(|cause| cause.is::<Environment>());
        ExitCode::from(if environment { 3 } else { 1 })
    })
}
