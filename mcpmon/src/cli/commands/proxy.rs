//! `mcpmon proxy`: the LLM proxy without a daemon.

use std::{collections::BTreeMap, io, net::SocketAddr, path::PathBuf};

use clap::Args;
use mcpmon_config::{LocalConfig, Search};
use mcpmon_session::JudgeError;

use crate::{
    app::{
        control::DEFAULT_SOCKET,
        proxy::{self, HostError, ProxyError, ProxyStatus, StandaloneOptions},
    },
    cli::{CliError, ErrorKind, Globals, Output},
};

/// Stand between agents and models: judge the tool calls that models ask for, before an agent runs them
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    /// The address to listen on, instead of `proxy.listen`
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// The socket of a daemon
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
        let lines = addresses(status);
        let (mut data, mut notes) = (io::stdout().lock(), io::stderr().lock());
        let mut output = Output::new(&mut data, &mut notes, globals);
        told = output.text(&lines).and_then(|()| output.flush());
    })
    .map_err(explain)?;
    Ok(told?)
}

/// Returns the addresses for agents and clients. They do not contain the token, because output may be logged.
fn addresses(status: &ProxyStatus) -> Vec<String> {
    let session = if status.token { "/s/TOKEN" } else { "" };
    let base = format!("http://{}{session}", status.listen);
    let mut lines = vec![
        format!("listening: {status}"),
        format!("set for agents: ANTHROPIC_BASE_URL={base}/anthropic OPENAI_BASE_URL={base}/openai/v1"),
    ];
    let servers = status.servers.iter();
    lines.extend(servers.map(|server| format!("MCP server {server}: {base}/mcp/{server}")));
    if status.token {
        lines.push("TOKEN: the content of `proxy.token_file`".to_owned());
    }
    lines
}

/// Starts a log on standard error with the messages of the proxy or daemon itself; `RUST_LOG` can ask for more.
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
        ProxyError::Host(_) | ProxyError::Scrape(_) | ProxyError::Start(_) => (ErrorKind::Environment, None),
    };
    let told = CliError::new(kind, error);
    match hint {
        Some(hint) => told.with_hint(hint),
        None => told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_such_as_a_client_can_use() {
        let status = |token| ProxyStatus {
            listen: SocketAddr::from(([127, 0, 0, 1], 8484)),
            listen_unix: None,
            mode: "embedded".to_owned(),
            token,
            reserved: None,
            providers: vec!["openai".to_owned()],
            bodies: None,
            sessions: 0,
            servers: vec![mcpmon_model::ServerId::new("docs").expect("an id")],
            conversations: 0,
        };
        insta::assert_snapshot!(addresses(&status(false)).join("\n"), @r"
        listening: http://127.0.0.1:8484, embedded, for openai
        set for agents: ANTHROPIC_BASE_URL=http://127.0.0.1:8484/anthropic OPENAI_BASE_URL=http://127.0.0.1:8484/openai/v1
        MCP server docs: http://127.0.0.1:8484/mcp/docs
        ");
        insta::assert_snapshot!(addresses(&status(true)).join("\n"), @r"
        listening: http://127.0.0.1:8484, embedded, with a token, for openai
        set for agents: ANTHROPIC_BASE_URL=http://127.0.0.1:8484/s/TOKEN/anthropic OPENAI_BASE_URL=http://127.0.0.1:8484/s/TOKEN/openai/v1
        MCP server docs: http://127.0.0.1:8484/s/TOKEN/mcp/docs
        TOKEN: the content of `proxy.token_file`
        ");
    }
}
