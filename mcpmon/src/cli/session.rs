//! Sessions that are named on a command line.

use mcpmon_model::SessionId;
use mcpmon_store::{Filter, SessionSummary, StoreReader};

use super::{CliError, ErrorKind};

/// Most known sessions that an error names.
const KNOWN: u32 = 5;

/// Returns the id of the session with this id or name; of several with the same name, that of the newest.
pub(super) fn id(reader: &StoreReader, named: &str) -> Result<String, CliError> {
    Ok(chosen(&reader.session_ids()?, named))
}

/// Returns the ids under which events record the session that a command line names, if it names one. There can be
/// several, because layers may know the session's root process by different names.
pub(super) fn ids(reader: &StoreReader, named: Option<&str>) -> Result<Vec<String>, CliError> {
    let Some(named) = named else {
        return Ok(Vec::new());
    };
    let known = reader.session_ids()?;
    let id = chosen(&known, named);
    let session = SessionId::new(&*id);
    let is_other = |other: &String| *other != id && SessionId::new(&**other).is_of_same_root(&session);
    let others: Vec<String> = known.into_iter().filter(is_other).collect();
    Ok([vec![id], others].concat())
}

fn chosen(known: &[String], named: &str) -> String {
    let is_called = |id: &&String| SessionId::new(&***id).is_called(named);
    match known.iter().rfind(is_called) {
        Some(newest) if known.iter().all(|id| id != named) => newest.clone(),
        Some(_) | None => named.to_owned(),
    }
}

/// Returns the store's summary of a session, see [`id`], or one built from its events if it was forgotten.
pub(super) fn find(reader: &StoreReader, named: &str) -> Result<SessionSummary, CliError> {
    let ids = ids(reader, Some(named))?;
    let known = reader.sessions(u32::MAX)?.into_iter();
    if let Some(summary) = known.into_iter().find(|summary| ids.contains(&summary.id)) {
        return Ok(summary);
    }
    let id = ids.first().map_or(named, String::as_str).to_owned();
    let filter = Filter {
        sessions: ids,
        ..Filter::default()
    };
    match (
        reader.events_after(0, &filter, 1)?.first(),
        reader.events(&filter, 1)?.last(),
    ) {
        (Some(first), Some(last)) => Ok(SessionSummary {
            id,
            agent: None,
            started: first.timestamp,
            ended: Some(last.timestamp),
            servers: Vec::new(),
        }),
        _ => Err(unknown(reader, &id)?),
    }
}

/// Returns the error that there is no such session, with the names of some others.
pub(super) fn unknown(reader: &StoreReader, id: &str) -> Result<CliError, CliError> {
    let error = anyhow::anyhow!("there is no session `{id}`");
    let mut error = CliError::new(ErrorKind::Refused, error);
    for known in reader.sessions(KNOWN)? {
        error = error.with_hint(format!("there is `{}`", known.id));
    }
    Ok(error)
}
