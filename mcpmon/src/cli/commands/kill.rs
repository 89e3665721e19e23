//! `mcpmon kill`: stop every call and connection of a session, or of the host.

use clap::{ArgGroup, Args};
use mcpmon_model::{SessionId, Timestamp};

use crate::cli::{CliError, Output, change::ChangePlace, daemon::Socket};

/// Stop every MCP call, and every connection of MCP servers, of a session or of the host
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("scope").required(true).args(["session", "all"]))]
pub(in crate::cli) struct Options {
    /// The session, as `mcpmon events --json` calls it
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// The whole host; without a daemon, all sessions of this user
    #[arg(long)]
    all: bool,
    /// Let it go on
    #[arg(long)]
    off: bool,
    #[command(flatten)]
    socket: Socket,
}

pub(in crate::cli) fn run(
    options: &Options,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let session = options.session.as_deref().map(SessionId::new);
    let what = match &session {
        Some(session) => format!("session {}", session.as_str()),
        None => "every session".to_owned(),
    };
    let place = ChangePlace::find(output.globals, &options.socket)?;
    place.kill(now, session.clone(), options.off)?;
    output.note(&match (options.off, &place) {
        (true, _) if session.is_none() => "every session goes on that is not stopped by its name".to_owned(),
        (true, _) => format!("{what} goes on"),
        (false, ChangePlace::Daemon(_)) => format!("{what} is stopped: no call passes, no server connects"),
        (false, ChangePlace::Store(_)) => format!(
            "{what} is stopped: no call passes a wrapper. Without a daemon connections go on, and any process of yours can lift it"
        ),
    })?;
    Ok(())
}
