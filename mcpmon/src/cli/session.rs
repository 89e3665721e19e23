//! A session that a command line names.

use mcpmon_core::model::SessionId;

use super::{CliError, ErrorKind};
use crate::record::{Filter, Reader, SessionSummary};

/// Sessions that are named where there is none of that name.
const KNOWN: u32 = 5;

/// The id of a session that is named by it, or as it was called: then the newest that was.
pub(super) fn id(reader: &Reader, named: &str) -> Result<String, CliError> {
    let known = reader.sessions(u32::MAX)?;
    let is_called = |summary: &&SessionSummary| SessionId::new(&*summary.id).is_called(named);
    Ok(match known.iter().rfind(is_called) {
        Some(newest) if known.iter().all(|summary| summary.id != named) => newest.id.clone(),
        Some(_) | None => named.to_owned(),
    })
}

/// What the store has on a session, see [`id`]: its summary, or what its events tell where it was forgotten.
pub(super) fn find(reader: &Reader, named: &str) -> Result<SessionSummary, CliError> {
    let id = &*id(reader, named)?;
    let known = reader.sessions(u32::MAX)?.into_iter();
    if let Some(summary) = known.into_iter().find(|summary| summary.id == id) {
        return Ok(summary);
    }
    let filter = Filter {
        session: Some(id.to_owned()),
        ..Filter::default()
    };
    match (
        reader.events_after(0, &filter, 1)?.first(),
        reader.events(&filter, 1)?.last(),
    ) {
        (Some(first), Some(last)) => Ok(SessionSummary {
            id: id.to_owned(),
            agent: None,
            started: first.timestamp,
            ended: Some(last.timestamp),
            servers: Vec::new(),
        }),
        _ => Err(unknown(reader, id)?),
    }
}

/// There is no such session; some others are named.
pub(super) fn unknown(reader: &Reader, id: &str) -> Result<CliError, CliError> {
    let error = anyhow::anyhow!("there is no session `{id}`");
    let mut error = CliError::new(ErrorKind::Refused, error);
    for known in reader.sessions(KNOWN)? {
        error = error.with_hint(format!("there is `{}`", known.id));
    }
    Ok(error)
}
