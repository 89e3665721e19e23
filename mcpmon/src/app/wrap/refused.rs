//! Answers to the client of a server that may not run, so that the client can show its user the reason.

use mcpmon_model::{Denial, ServerId};
use mcpmon_protocol::filter::stdio::StdioFilter;
use mcpmon_session::Session;
use mcpmon_stdio::{ClientSide, RelayProcess};

use super::{WrapError, clock, limits};

/// If the policy refused to start the server, tells its client so until the client leaves. Returns `error` unchanged.
pub(super) fn instead(error: WrapError, process: Box<RelayProcess>, judge: Session) -> WrapError {
    let filter = StdioFilter::new(limits(judge.policy().limits));
    judge.close(clock::now());
    if let WrapError::Denied { server, denial } = &error {
        match ClientSide::of_process(process) {
            Ok(client) => turn_away(client, filter, server, denial),
            Err(error) => tracing::warn!(%error, "cannot answer the client of a refused server"),
        }
    }
    error
}

/// Answers all requests of the client with the denial, until it leaves.
pub(super) fn turn_away(client: ClientSide, filter: StdioFilter, server: &ServerId, denial: &Denial) {
    let told = Denial {
        reason: format!("the MCP server {server} may not run: {}", denial.reason),
        ..denial.clone()
    };
    if let Err(error) = client.turn_away(filter, clock::now, &told) {
        tracing::warn!(%error, "stopped answering the client of a refused server");
    }
}
