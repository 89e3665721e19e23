//! `mcpmon wrap`: the command that clients start in front of a server's own.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::Args;
use mcpmon_config::{LocalConfig, Search};
use mcpmon_model::ServerId;
use mcpmon_policy::SandboxMode;

use crate::{
    app::{
        run,
        wrap::{self, RemoteServer, WrapError},
    },
    cli::{CliError, ErrorKind, Globals, remote::RemoteOptions},
};

/// Start an MCP server, or speak with a remote one, and judge and record what it and its client say
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    /// The server's name; derived from the command where it is not given
    #[arg(long, value_name = "ID", value_parser = |id: &str| ServerId::new(id))]
    server: Option<ServerId>,
    /// The socket of the daemon [default: that of `mcpmon run`, or /run/mcpmon/mcpmon.sock]
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// Also look for a configuration in ./mcpmon.yaml
    #[arg(long)]
    allow_local_config: bool,
    /// A remote server, by its URL or its id in the configuration: there is no command then
    #[arg(long, value_name = "URL|ID", conflicts_with = "command")]
    url: Option<String>,
    #[command(flatten)]
    remote: RemoteOptions,
    /// Start the server in a sandbox: `home-readonly` or `strict` [default without a MODE: home-readonly]
    #[arg(
        long,
        value_name = "MODE",
        num_args = 0..=1,
        default_missing_value = "home-readonly",
        conflicts_with = "url"
    )]
    sandbox: Option<SandboxMode>,
    /// The server's command, after `--`
    #[arg(required_unless_present = "url", last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(in crate::cli) fn run(options: Options, globals: &Globals) -> Result<ExitCode, CliError> {
    start_log();
    let inherited = run::inherited();
    let local = match options.allow_local_config || inherited.allow_local_config {
        true => LocalConfig::Allow,
        false => LocalConfig::Ignore,
    };
    let mut search = Search::of_process(globals.config.clone(), local);
    if search.variable.is_none() {
        search.explicit = search.explicit.or(inherited.config);
    }
    let remote = match options.url {
        None => {
            options.remote.refuse_without("--url")?;
            None
        }
        Some(at) => Some(RemoteServer {
            at,
            headers: options.remote.headers()?,
            pin: options.remote.pin(),
            way: options.remote.way(),
        }),
    };
    let mut command = options.command.into_iter();
    let options = wrap::WrapOptions {
        search,
        socket: options.socket.unwrap_or(inherited.socket),
        store: globals.db.clone().or(inherited.db),
        server: options.server,
        program: command.next().unwrap_or_default(),
        arguments: command.collect(),
        remote,
        sandbox: options.sandbox,
    };
    Ok(wrap::run(options, report))
}

/// Prints the reason why a server is not served. Returns the exit status.
fn report(error: WrapError) -> ExitCode {
    explain(error).report(&mut std::io::stderr())
}

/// Starts a log on standard error, which is also the server's or the agent's: it has important messages only, unless
/// `RUST_LOG` asks for more.
pub(in crate::cli) fn start_log() {
    use tracing_subscriber::EnvFilter;
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false);
    match EnvFilter::try_from_default_env() {
        Ok(filter) => log.with_env_filter(filter).init(),
        Err(_) => log.with_max_level(tracing::Level::WARN).init(),
    }
}

fn explain(error: WrapError) -> CliError {
    let (kind, hint) = match &error {
        WrapError::Destination(_) => (ErrorKind::Usage, None),
        WrapError::Denied { denial, .. } => (ErrorKind::Refused, denial.remedy.clone()),
        WrapError::Unjudged { denial, .. } => (ErrorKind::Fault, denial.remedy.clone()),
        // If the store cannot be read, it may be outside of a sandbox around this process.
        WrapError::Judge(_) => (ErrorKind::Fault, wrap::remedy_in_sandbox()),
        WrapError::Relay(_) | WrapError::Setup(_) => (ErrorKind::Fault, None),
        WrapError::Program(_) | WrapError::Start(_) | WrapError::Execute { .. } => {
            (ErrorKind::Environment, None)
        }
    };
    let told = CliError::new(kind, error);
    match hint {
        Some(hint) => told.with_hint(hint),
        None => told,
    }
}
