//! `mcpmon proxy`: the LLM proxy without a daemon.

use std::{collections::BTreeMap, io, net::SocketAddr, path::PathBuf};

use clap::Args;

use crate::{
    agent::{
        control::DEFAULT_SOCKET,
        proxy::{self, HostError, ProxyError, StandaloneOptions},
    },
    cli::{CliError, ErrorKind, Globals, Output},
    config::{LocalConfig, Search},
    judge::JudgeError,
};

/// Stand between agents and models: judge the tool calls that models ask for, before an agent runs them
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    /// Where to listen, instead of `proxy.listen`
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Where a daemon would listen
    #[arg(long, value_name = "FILE", default_value = DEFAULT_SOCKET)]
    socket: PathBuf,
    /// Also look for a configuration in ./mcpmon.yaml
    #[arg(long)]
    allow_local_config: bool,
}

pub(in crate::cli) fn run(options: Options, globals: &Globals) -> Result<(), CliError> {
    start_log();
    let local = match options.allow_local_config {
        true => LocalConfig::Allow,
        false => LocalConfig::Ignore,
    };
    let options = StandaloneOptions {
        gateways: Vec::new(),
        search: Search::of_process(globals.config.clone(), local),
        store: globals.db.clone(),
        socket: options.socket,
        listen: options.listen,
        token: None,
        providers: BTreeMap::new(),
    };
    let mut told = Ok(());
    proxy::run(options, |status| {
        let base = format!("http://{}", status.listen);
        let mut lines = vec![
            format!("listening: {status}"),
            format!("set for agents: ANTHROPIC_BASE_URL={base}/anthropic OPENAI_BASE_URL={base}/openai/v1"),
        ];
        let servers = status.servers.iter();
        lines.extend(servers.map(|server| format!("MCP server {server}: {base}/mcp/{server}")));
        let (mut data, mut notes) = (io::stdout().lock(), io::stderr().lock());
        let mut output = Output::new(&mut data, &mut notes, globals);
        told = output.text(&lines).and_then(|()| output.flush());
    })
    .map_err(explain)?;
    Ok(told?)
}

/// To standard error: what happens to the proxy, or the daemon, itself, unless `RUST_LOG` asks for more.
pub(in crate::cli) fn start_log() {
    use std::io::IsTerminal as _;
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .init();
}

pub(in crate::cli) fn explain(error: ProxyError) -> CliError {
    let (kind, hint) = match &error {
        ProxyError::Config(_) | ProxyError::Judge(JudgeError::Config(_)) => {
            (ErrorKind::Usage, Some("check it with `mcpmon policy check FILE`"))
        }
        ProxyError::Disabled => (
            ErrorKind::Usage,
            Some("set `proxy.mode: embedded` in the configuration"),
        ),
        ProxyError::Open(_) => (ErrorKind::Usage, None),
        ProxyError::Host(HostError::Start(_)) => (
            ErrorKind::Environment,
            Some("listen elsewhere with --listen ADDRESS:PORT"),
        ),
        ProxyError::Judge(_) => (ErrorKind::Environment, Some("name another store with --db FILE")),
        ProxyError::Host(_) | ProxyError::Start(_) => (ErrorKind::Environment, None),
    };
    let told = CliError::new(kind, error);
    match hint {
        Some(hint) => told.with_hint(hint),
        None => told,
    }
}
