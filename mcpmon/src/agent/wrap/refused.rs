//! A server that may not run: its client is answered in its place, so that it can tell its user why.

use mcpmon_model::{Denial, ServerId};
use mcpmon_protocol::filter::stdio::Filter;
use mcpmon_session::Session;
use mcpmon_stdio::{ClientSide, RelayProcess};

use super::{WrapError, clock, limits};

/// Answers the client of a server that was not started, where that was refused. Gives back why.
pub(super) fn instead(error: WrapError, process: Box<RelayProcess>, judge: Session) -> WrapError {
    let filter = Filter::new(limits(judge.policy().limits));
    judge.close(clock::now());
    if let WrapError::Denied { server, denial } = &error {
        match ClientSide::of_process(process) {
            Ok(client) => turn_away(client, filter, server, denial),
            Err(error) => tracing::warn!(%error, "the client is not answered"),
        }
    }
    error
}

/// Answers whatever the client asks, until it leaves.
pub(super) fn turn_away(client: ClientSide, filter: Filter, server: &ServerId, denial: &Denial) {
    let told = Denial {
        reason: format!("the MCP server {server} may not run: {}", denial.reason),
        ..denial.clone()
    };
    if let Err(error) = client.turn_away(filter, clock::now, &told) {
        tracing::warn!(%error, "the client is not answered any more");
    }
}
