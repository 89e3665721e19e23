//! `mcpmon daemon`: the privileged process of the host.

use std::path::PathBuf;

use clap::Args;
use mcpmon_config::{LocalConfig, Search};
use mcpmon_store::SoleError;

use super::proxy;
use crate::{
    app::{
        control::DEFAULT_SOCKET,
        daemon::{self, DaemonError},
    },
    cli::{CliError, ErrorKind, Globals, kernel_state::KernelState},
};

/// Watch and enforce on this host: load the kernel programs and record what servers do
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    /// The socket that clients such as `mcpmon status` ask at
    #[arg(long, value_name = "FILE", default_value = DEFAULT_SOCKET)]
    socket: PathBuf,
    #[command(flatten)]
    kernel: KernelState,
    /// Also look for a configuration in ./mcpmon.yaml
    #[arg(long)]
    allow_local_config: bool,
    /// For development: show the log of the kernel programs, where they were built with one
    #[arg(long)]
    kernel_log: bool,
}

pub(in crate::cli) fn run(options: Options, globals: &Globals) -> Result<(), CliError> {
    proxy::start_log();
    let local = if options.allow_local_config {
        LocalConfig::Allow
    } else {
        LocalConfig::Ignore
    };
    let options = daemon::DaemonOptions {
        search: Search::of_process(globals.config.clone(), local),
        store: globals.db.clone(),
        socket: options.socket,
        bpffs: options.kernel.directory,
        kernel_log: options.kernel_log,
    };
    daemon::run(options).map_err(explain)
}

fn explain(error: DaemonError) -> CliError {
    let (kind, hint) = match &error {
        DaemonError::Config(_) => (ErrorKind::Usage, Some("check it with `mcpmon policy check FILE`")),
        DaemonError::Compile(_) => (ErrorKind::Usage, None),
        DaemonError::NoKernelLog => (
            ErrorKind::Usage,
            Some("build them with `cargo xtask build-ebpf --kernel-log`, and mcpmon after that"),
        ),
        DaemonError::Sensor(_) => (
            ErrorKind::Environment,
            Some("`mcpmon doctor` shows what this host allows, with the remedy for each gap"),
        ),
        DaemonError::Store(_)
        | DaemonError::Sole(SoleError::Access(_))
        | DaemonError::Open(_)
        | DaemonError::Query(_) => (ErrorKind::Environment, Some("name another store with --db FILE")),
        DaemonError::Listen(_) => (
            ErrorKind::Environment,
            Some("name another socket with --socket FILE"),
        ),
        DaemonError::Sole(_)
        | DaemonError::Install(_)
        | DaemonError::Start(_)
        | DaemonError::EngineEnded
        | DaemonError::EngineStuck => (ErrorKind::Environment, None),
    };
    let told = CliError::new(kind, error);
    match hint {
        Some(hint) => told.with_hint(hint),
        None => told,
    }
}
