//! Requests to the running daemon.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{CliError, ErrorKind};
use crate::app::control::{self, AskError, DEFAULT_SOCKET, DaemonAnswer, DaemonRequest};

/// The socket of the daemon to ask.
#[derive(Clone, Debug, Args)]
pub(super) struct Socket {
    /// Control socket of the daemon
    #[arg(long = "socket", value_name = "FILE", default_value = DEFAULT_SOCKET)]
    pub(super) path: PathBuf,
}

/// Sends a request, and turns a failure into an error with a remedy.
pub(super) fn ask(socket: &Path, request: &DaemonRequest) -> Result<DaemonAnswer, CliError> {
    match control::request(socket, request) {
        Ok(DaemonAnswer::Error(message)) => Err(CliError::new(ErrorKind::Refused, anyhow::anyhow!(message))),
        Ok(answer) => Ok(answer),
        Err(error) => Err(explain(error)),
    }
}

pub(super) fn explain(error: AskError) -> CliError {
    let hint = match &error {
        AskError::NotRunning(_) => Some(
            "start it: `sudo mcpmon daemon`, or `sudo systemctl start mcpmon`; meanwhile the kernel refuses what it was told to before, where that is kept, nothing new is judged, and only what passes a wrapper or a proxy is seen",
        ),
        AskError::Permission(_) => Some("run the command with sudo, or join the group mcpmon"),
        AskError::Silent => Some("it may be starting still; otherwise see its log, and restart it"),
        AskError::Refused(_) | AskError::Io(_) | AskError::Answer(_) => None,
    };
    let told = CliError::new(ErrorKind::Environment, error);
    match hint {
        Some(hint) => told.with_hint(hint),
        None => told,
    }
}

/// Returns the error for an answer that does not belong to the request.
pub(super) fn unexpected() -> CliError {
    CliError::new(
        ErrorKind::Environment,
        anyhow::anyhow!("the daemon answered something else than was asked; is it of another version?"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_daemon_wrappers_and_proxies_go_on() {
        let error = explain(AskError::NotRunning("/run/mcpmon.sock".into()));
        let hint = error.hints.join("\n");
        assert!(hint.contains("nothing new is judged, and only what passes a wrapper or a proxy is seen"));
    }
}
