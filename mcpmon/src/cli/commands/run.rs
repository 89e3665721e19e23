//! `mcpmon run`: runs an agent behind mcpmon.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use mcpmon_config::{LocalConfig, Search};
use mcpmon_store::StoreReader;

use super::{proxy, report, wrap};
use crate::{
    app::{
        control::DEFAULT_SOCKET,
        daemon::DEFAULT_STORE,
        run::{self, RunError, RunOutcome},
    },
    cli::{CliError, ErrorKind, Globals, store},
};

/// Run an agent: its models behind the LLM proxy, everything it starts one session
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    /// The name of the session: letters, digits, `-`, `_` and `.`
    #[arg(long, value_name = "NAME", value_parser = name)]
    session: Option<String>,
    /// Do not wrap the servers that the agent starts with npx, uvx, docker and the like
    #[arg(long)]
    no_shims: bool,
    /// The socket of the daemon
    #[arg(long, value_name = "FILE", default_value = DEFAULT_SOCKET)]
    socket: PathBuf,
    /// Also look for a configuration in ./mcpmon.yaml
    #[arg(long)]
    allow_local_config: bool,
    /// The agent's command, after `--`
    #[arg(required = true, last = true, value_name = "AGENT")]
    command: Vec<OsString>,
}

pub(in crate::cli) fn run(options: Options, globals: &Globals) -> Result<ExitCode, CliError> {
    wrap::start_log();
    let local = match options.allow_local_config {
        true => LocalConfig::Allow,
        false => LocalConfig::Ignore,
    };
    let mut command = options.command.into_iter();
    let options = run::RunOptions {
        search: Search::of_process(globals.config.clone(), local),
        store: globals.db.clone(),
        socket: options.socket,
        config: globals.config.clone(),
        allow_local_config: options.allow_local_config,
        shims: !options.no_shims,
        name: options.session,
        program: command.next().unwrap_or_default(),
        arguments: command.collect(),
    };
    let outcome = run::run(options).map_err(explain)?;
    let mut notes = io::stderr().lock();
    // If standard error is closed, the summary is not wanted.
    let _told = writeln!(notes, "{}", summary(&outcome, globals));
    Ok(outcome.exit_code())
}

fn name(text: &str) -> Result<String, &'static str> {
    match run::is_session_name(text) {
        true => Ok(text.to_owned()),
        false => Err("a session's name has 1 to 64 letters, digits, `-`, `_` and `.`"),
    }
}

/// Returns one line about the session, and the command that shows more.
fn summary(outcome: &RunOutcome, globals: &Globals) -> String {
    let session = outcome.session.as_str();
    let store = match &outcome.store {
        Some(store) => StoreReader::open(store).ok(),
        None => store::open(globals).ok(),
    };
    let counted = store.and_then(|store| report::line(&store, session).ok());
    let mut line = format!("mcpmon: session {session}");
    if let Some(counts) = counted {
        line.push_str(&format!(": {counts}"));
    }
    if outcome.asked == Some(0) {
        line.push_str("; no request to a model came through the proxy");
    }
    if let Some(cause) = &outcome.no_group {
        line.push_str(&format!("; no control group of its own ({cause})"));
    }
    line.push_str(&format!("; mcpmon report {session}"));
    let usual = Path::new(DEFAULT_STORE);
    let named = match &outcome.store {
        Some(store) => Some(store.as_path()).filter(|store| *store != usual),
        None => globals.db.as_deref(),
    };
    if let Some(db) = named {
        line.push_str(&format!(" --db {}", db.display()));
    }
    line
}

fn explain(error: RunError) -> CliError {
    match error {
        RunError::Proxy(error) => proxy::explain(error),
        RunError::Gateway(_) => CliError::new(ErrorKind::Usage, error),
        RunError::Agent { .. } | RunError::NoSession | RunError::Prepare(_) => {
            CliError::new(ErrorKind::Environment, error)
        }
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::SessionId;

    use super::*;
    use crate::cli::Color;

    #[test]
    fn a_session_without_a_request_to_a_model_is_said_to_be_one() {
        let directory = tempfile::tempdir().unwrap();
        let globals = Globals {
            config: None,
            db: Some(directory.path().join("none.db")),
            json: false,
            color: Color::Never,
        };
        let told = |asked| {
            let outcome = RunOutcome {
                session: SessionId::new("s1"),
                code: 0,
                asked,
                no_group: None,
                store: None,
            };
            summary(&outcome, &globals)
        };
        let none = "no request to a model came through the proxy";
        assert!(told(Some(0)).contains(none));
        // The number of requests through the daemon's proxy is not known here.
        assert!(!told(Some(1)).contains(none) && !told(None).contains(none));
    }
}
