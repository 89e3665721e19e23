//! `cargo xtask bench`: measures mcpmon as ratios to the same work without it, in the same run.

use std::{
    path::PathBuf,
    process::{Command, ExitCode},
};

use anyhow::Result;

use crate::{
    build_ebpf, collector, run,
    shell::{self, step},
};

/// The layer to measure.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    /// connect(2) with the kernel programs attached; needs root
    Connect(Options),
    /// Starts of programs and servers, how long a changed server runs, and what large packages cost; needs root
    Exec(ExecOptions),
    /// Calls of MCP over HTTP with `mcpmon proxy` between, against a bare reverse proxy
    Http(Options),
    /// Requests to a model with `mcpmon proxy` between, against a bare reverse proxy
    Llm(LlmOptions),
    /// An MCP server's pipes with `mcpmon wrap` between, against plain relays
    Stdio(StdioOptions),
    /// Recording against plain SQLite, hashing against plain SHA-256, and listings of a million events
    Store(Options),
    /// System calls, and writes and reads of a pipe, with the tap; needs root
    Tap(Options),
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

#[derive(Debug, clap::Args)]
pub(crate) struct ExecOptions {
    /// Measure this only: start, rungs, ring or packages; several times for several
    #[arg(long = "part", value_name = "PART")]
    parts: Vec<String>,
    /// Exit with 1 where a target is missed by more than the noise
    #[arg(long)]
    gate: bool,
    /// Rounds to take medians over
    #[arg(long, default_value_t = 20)]
    rounds: u32,
}

#[derive(Debug, clap::Args)]
pub(crate) struct FleetOptions {
    /// Hosts
    #[arg(long, default_value_t = 200)]
    hosts: u32,
    /// Seconds for which they record
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    /// Events that each host records in a second
    #[arg(long, default_value_t = 5)]
    rate: u32,
    /// Exit with 1 where an event is lost, or late
    #[arg(long)]
    gate: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StdioOptions {
    #[command(flatten)]
    common: Options,
    /// Install kvlar and Assay under target/tools, and measure them too
    #[arg(long)]
    peers: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LlmOptions {
    #[command(flatten)]
    common: Options,
    /// Install mitmproxy and LiteLLM under target/tools, and measure them too
    #[arg(long)]
    peers: bool,
}

/// Builds with optimisation, and runs a benchmark.
pub(crate) fn run(bench: &Bench) -> Result<ExitCode> {
    match bench {
        Bench::Connect(options) => in_kernel("connect", options),
        Bench::Exec(options) => exec(options),
        Bench::Http(options) => http(options),
        Bench::Llm(options) => llm(options),
        Bench::Stdio(options) => stdio(options),
        Bench::Store(options) => store(options),
        Bench::Tap(options) => in_kernel("tap", options),
    }
}

/// Runs the benchmark of this name, which loads kernel programs itself.
fn in_kernel(name: &str, options: &Options) -> Result<ExitCode> {
    build_ebpf::run()?;
    build(&["mcpmon-bench"])?;
    let mut bench = shell::command(program(name));
    measured(&mut bench, name, options);
    run::as_root(bench)
}

/// Runs the benchmark of starts, which has its own daemon.
fn exec(ExecOptions { parts, gate, rounds }: &ExecOptions) -> Result<ExitCode> {
    build_ebpf::run()?;
    build(&["mcpmon-bench", "mcpmon"])?;
    let mut bench = shell::command(program("exec"));
    for part in parts {
        bench.args(["--part", part]);
    }
    let (gate, rounds) = (*gate, *rounds);
    measured(&mut bench, "exec", &Options { gate, rounds });
    run::as_root(bench)
}

fn store(options: &Options) -> Result<ExitCode> {
    build_ebpf::run()?;
    build(&["mcpmon-bench", "mcpmon"])?;
    let mut bench = shell::command(program("store"));
    bench.arg("--mcpmon").arg(mcpmon());
    measured(&mut bench, "store", options);
    run::exit_code_of(bench)
}

/// Builds with optimisation, and simulates a fleet.
pub(crate) fn fleet(options: &FleetOptions) -> Result<ExitCode> {
    collector::install()?;
    build(&["mcpmon-bench"])?;
    let mut bench = shell::command(program("fleet"));
    for (option, value) in [
        ("--hosts", options.hosts),
        ("--seconds", options.seconds),
        ("--rate", options.rate),
    ] {
        bench.arg(option).arg(value.to_string());
    }
    finished(&mut bench, "fleet", options.gate);
    run::exit_code_of(bench)
}

fn http(options: &Options) -> Result<ExitCode> {
    run::exit_code_of(against_mcpmon("http", options)?)
}

fn llm(options: &LlmOptions) -> Result<ExitCode> {
    let mut bench = against_mcpmon("llm", &options.common)?;
    if options.peers {
        for peer in &PYTHON_PEERS {
            if let Some(program) = peer.install() {
                bench.arg(peer.option).arg(program);
            }
        }
    }
    run::exit_code_of(bench)
}

fn stdio(options: &StdioOptions) -> Result<ExitCode> {
    let mut bench = against_mcpmon("stdio", &options.common)?;
    if options.peers {
        for peer in &PEERS {
            if let Some(program) = peer.install() {
                bench.arg(peer.option).arg(program);
            }
        }
    }
    run::exit_code_of(bench)
}

/// Prepares the benchmark of this name, which starts mcpmon itself.
fn against_mcpmon(name: &str, options: &Options) -> Result<Command> {
    build_ebpf::run()?;
    build(&["mcpmon-bench", "mcpmon"])?;
    let mut bench = shell::command(program(name));
    bench.arg("run").arg("--mcpmon").arg(mcpmon());
    measured(&mut bench, name, options);
    Ok(bench)
}

fn mcpmon() -> PathBuf {
    shell::target().join("release/mcpmon")
}

fn program(name: &str) -> PathBuf {
    shell::target().join(format!("release/bench-{name}"))
}

/// Runs a benchmark with the number of rounds and the file for its figures.
fn measured(bench: &mut Command, name: &str, Options { gate, rounds }: &Options) {
    bench.args(["--rounds", &rounds.to_string()]);
    finished(bench, name, *gate);
}

/// Adds the file for the figures, and whether a missed target is a failure.
fn finished(bench: &mut Command, name: &str, gate: bool) {
    bench
        .arg("--output")
        .arg(shell::target().join(format!("bench-{name}.json")));
    if gate {
        bench.arg("--gate");
    }
}

/// A program with functions like mcpmon's, from the Rust registry.
#[derive(Debug)]
struct Peer {
    package: &'static str,
    version: &'static str,
    program: &'static str,
    option: &'static str,
}

const PEERS: [Peer; 2] = [
    Peer {
        package: "kvlar-cli",
        version: "0.4.0",
        program: "kvlar",
        option: "--kvlar",
    },
    Peer {
        package: "assay-cli",
        version: "6.21.0",
        program: "assay",
        option: "--assay",
    },
];

impl Peer {
    /// Returns its program. Prints the reason and returns `None` if it cannot be built.
    fn install(&self) -> Option<PathBuf> {
        let root = shell::target().join(format!("tools/{}-{}", self.package, self.version));
        let program = root.join("bin").join(self.program);
        if program.exists() {
            return Some(program);
        }
        let mut install = shell::cargo();
        install.args(["install", self.package, "--locked", "--quiet"]);
        install.args(["--version", &format!("={}", self.version), "--root"]);
        install.arg(&root);
        let what = format!("install {} {}; some minutes", self.package, self.version);
        match step(&what, || shell::run(&mut install)) {
            Ok(()) => Some(program),
            Err(error) => {
                shell::say(format_args!("{} is not measured: {error:#}", self.program));
                None
            }
        }
    }
}

/// A program with functions like mcpmon's, from the Python registry; each has its own environment.
#[derive(Debug)]
struct PythonPeer {
    requirement: &'static str,
    program: &'static str,
    option: &'static str,
}

const PYTHON_PEERS: [PythonPeer; 2] = [
    PythonPeer {
        requirement: "mitmproxy==11.0.2",
        program: "mitmdump",
        option: "--mitmproxy",
    },
    PythonPeer {
        requirement: "litellm[proxy]==1.106.2",
        program: "litellm",
        option: "--litellm",
    },
];

impl PythonPeer {
    /// Returns its program. Prints the reason and returns `None` if it cannot be installed.
    fn install(&self) -> Option<PathBuf> {
        let root = shell::target().join("tools").join(self.program);
        let program = root.join("bin").join(self.program);
        if program.exists() {
            return Some(program);
        }
        let install = || {
            shell::run(shell::command("python3").args(["-m", "venv"]).arg(&root))?;
            let mut pip = shell::command(root.join("bin/pip"));
            shell::run(pip.args(["install", "--quiet", self.requirement]))
        };
        match step(&format!("install {}; some minutes", self.requirement), install) {
            Ok(()) => Some(program),
            Err(error) => {
                shell::say(format_args!("{} is not measured: {error:#}", self.program));
                None
            }
        }
    }
}

pub(crate) fn build(packages: &[&str]) -> Result<()> {
    step("build with optimisation", || {
        let mut build = shell::cargo();
        build.args(["build", "--locked", "--release"]);
        for package in packages {
            build.args(["--package", package]);
        }
        shell::run(&mut build)
    })
}
