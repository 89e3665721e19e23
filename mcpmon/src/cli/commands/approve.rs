//! `mcpmon approve` and `mcpmon approvals list|allow|deny`: a person's word on definitions.

use std::collections::BTreeMap;

use clap::{ArgGroup, Args, Subcommand};
use mcpmon_model::{ApprovalState, EventKind, ServerId, ServerIdError, Timestamp};
use mcpmon_store::{Filter, Reader, Selection, StoredEvent, json, name};

use crate::{
    agent::approval::{Subject, Word},
    cli::{
        CliError, ErrorKind, Globals, Output,
        change::Place,
        daemon::Socket,
        listing,
        output::Form,
        table::{Column, Row, Table, Tone},
        time,
    },
};

/// Accept definitions as they were listed last: they are pinned so, and shown again
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).args(["subject", "server"]))]
pub(in crate::cli) struct Approve {
    /// One definition
    #[arg(value_name = "SERVER:TOOL")]
    pub(super) subject: Option<String>,
    /// Everything this server lists; needs --all
    #[arg(long, value_name = "ID", value_parser = server_id, requires = "all")]
    pub(super) server: Option<ServerId>,
    /// Everything the server lists
    #[arg(long, requires = "server")]
    all: bool,
    /// Only if this is the definition's hash as it is listed; the first digits are enough
    #[arg(long, value_name = "HASH", conflicts_with_all = ["server", "all"])]
    hash: Option<String>,
    #[command(flatten)]
    pub(super) socket: Socket,
}

/// Approvals that a person is asked for
#[derive(Debug, Args)]
pub(in crate::cli) struct Approvals {
    #[command(subcommand)]
    pub(in crate::cli) command: Command,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List what a person was asked, and what became of it
    List {
        /// Only what waits for an answer
        #[arg(long)]
        pending: bool,
    },
    /// Accept a definition
    Allow(One),
    /// Refuse a definition: it stays hidden
    Deny(One),
}

/// The definition.
#[derive(Debug, Args)]
pub(in crate::cli) struct One {
    /// The definition
    #[arg(value_name = "SERVER:TOOL")]
    subject: String,
    #[command(flatten)]
    socket: Socket,
}

pub(super) const TABLE: Table = Table::new(&[
    Column::whole("TIME (UTC)", 14),
    Column::cut("SUBJECT", 30),
    Column::whole("STATE", 9),
    Column::cut("BY", 12),
    Column::cut("SESSION", 16),
]);

/// The type of the events that tell of approvals.
pub(super) const TYPE: &str = "mcp_approval";

/// Events that are looked through.
const LIMIT: u32 = 10_000;

pub(in crate::cli) fn approve(
    options: &Approve,
    globals: &Globals,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let subject = match (&options.subject, &options.server) {
        (Some(subject), _) => parse(subject)?,
        (None, Some(server)) => Subject {
            server: server.clone(),
            name: None,
        },
        (None, None) => unreachable!("clap asks for one of them"),
    };
    let word = Word::Approve {
        hash: options.hash.clone(),
    };
    let done = Place::find(globals, &options.socket)?.decide(now, subject, word)?;
    told(&done, "is accepted as it is listed", output)
}

pub(in crate::cli) fn answer(
    one: &One,
    word: Word,
    globals: &Globals,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let what = match word {
        Word::Approve { .. } => "is accepted as it is listed",
        Word::Refuse => "is refused as it is listed",
        Word::Forget => "is forgotten",
    };
    let done = decide(&one.subject, word, globals, &one.socket, now)?;
    told(&done, what, output)
}

/// The hash of a definition as it is listed now; `None` if it is not listed, or more than one definition has the name.
pub(super) fn listed_hash(subject: &str, reader: &Reader) -> Result<Option<String>, CliError> {
    let Ok(Subject { server, name }) = parse(subject) else {
        return Ok(None);
    };
    let records = reader.definitions(&Selection {
        server: Some(server.to_string()),
        item: name,
        ..Selection::default()
    })?;
    Ok(match records.as_slice() {
        [record] => Some(record.seen.hash.to_string()),
        _ => None,
    })
}

/// Carries out a person's word on the definition of this name, and returns what it was carried out for.
pub(super) fn decide(
    subject: &str,
    word: Word,
    globals: &Globals,
    socket: &Socket,
    now: Timestamp,
) -> Result<Vec<String>, CliError> {
    Place::find(globals, socket)?.decide(now, parse(subject)?, word)
}

pub(in crate::cli) fn told(done: &[String], what: &str, output: &mut Output<'_>) -> Result<(), CliError> {
    for subject in done {
        output.note(&format!("{subject} {what}"))?;
    }
    Ok(())
}

pub(in crate::cli) fn list(
    only_pending: bool,
    reader: &Reader,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let mut approvals = all(reader)?;
    if only_pending {
        approvals.retain(|(state, _)| *state == ApprovalState::Requested);
    }
    match output.form {
        Form::Json => approvals
            .iter()
            .try_for_each(|(_, event)| output.json(&json::to_json(event)))?,
        Form::Table => output.table(&TABLE, &approvals.iter().map(row).collect::<Vec<_>>())?,
    }
    listing::note_extent(approvals.len(), false, output)?;
    Ok(output.flush()?)
}

/// What a person was asked, and what became of it, oldest first.
pub(super) fn all(reader: &Reader) -> Result<Vec<(ApprovalState, StoredEvent)>, CliError> {
    let filter = Filter {
        types: vec![TYPE.to_owned()],
        ..Filter::default()
    };
    Ok(latest(reader.events(&filter, LIMIT)?))
}

/// The latest word on each subject, oldest first.
fn latest(events: Vec<StoredEvent>) -> Vec<(ApprovalState, StoredEvent)> {
    let mut by_subject = BTreeMap::new();
    for event in events {
        if let Some(EventKind::Approval { subject, state, .. }) = event.parse_kind() {
            by_subject.insert(subject, (state, event));
        }
    }
    let mut latest: Vec<_> = by_subject.into_values().collect();
    latest.sort_by_key(|(_, event)| event.seq);
    latest
}

pub(super) fn row((state, event): &(ApprovalState, StoredEvent)) -> Row {
    let tone = match state {
        ApprovalState::Requested => Tone::Notable,
        ApprovalState::Granted => Tone::Ordinary,
        ApprovalState::Denied | ApprovalState::TimedOut => Tone::Alarming,
    };
    let text = |field: &str| {
        let value = event.data.get(field).and_then(serde_json::Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    Row::new(
        tone,
        [
            time::short(event.timestamp),
            text("subject"),
            name(state),
            text("by"),
            event.session_id.clone().unwrap_or_default(),
        ],
    )
}

/// `SERVER:TOOL`; the name of a tool may hold colons, an id may not be empty.
pub(super) fn parse(text: &str) -> Result<Subject, CliError> {
    let wrong = |error: anyhow::Error| CliError::new(ErrorKind::Usage, error);
    let (server, item) = text.split_once(':').ok_or_else(|| {
        wrong(anyhow::anyhow!(
            "`{text}` names no definition: expected SERVER:TOOL"
        ))
    })?;
    Ok(Subject {
        server: ServerId::new(server).map_err(|error| wrong(error.into()))?,
        name: Some(item.to_owned()),
    })
}

fn server_id(text: &str) -> Result<ServerId, ServerIdError> {
    ServerId::new(text)
}

#[cfg(test)]
mod tests {
    use mcpmon_store::sample;

    use super::*;
    use crate::cli::commands::scene;

    #[test]
    fn the_latest_word_on_each_subject() {
        let events = || {
            vec![
                sample::approval("files:a", "mcpmon", ApprovalState::Requested),
                sample::approval("files:b", "mcpmon", ApprovalState::Requested),
                sample::at(1, sample::approval("files:a", "ann", ApprovalState::Granted)),
                sample::at(2, sample::approval("files:c", "mcpmon", ApprovalState::TimedOut)),
            ]
        };
        let shown = |pending| {
            scene::shown(events(), Form::Table, |reader, output| {
                list(pending, &reader, output)
            })
        };
        insta::assert_snapshot!(shown(false), @"
        TIME (UTC)      SUBJECT  STATE      BY      SESSION
        11-20 12:00:00  files:b  requested  mcpmon  s1
        11-20 12:00:01  files:a  granted    ann     s1
        11-20 12:00:02  files:c  timed_out  mcpmon  s1
        ---
        ");
        insta::assert_snapshot!(shown(true), @"
        TIME (UTC)      SUBJECT  STATE      BY      SESSION
        11-20 12:00:00  files:b  requested  mcpmon  s1
        ---
        ");
    }

    #[test]
    fn a_subject_is_a_server_and_a_name() {
        let subject = parse("files:ns:read").unwrap();
        assert_eq!(
            (subject.server.as_str(), subject.name.as_deref()),
            ("files", Some("ns:read"))
        );
        for wrong in ["files", ":read", "a b:read"] {
            assert_eq!(parse(wrong).unwrap_err().kind, ErrorKind::Usage, "{wrong}");
        }
    }
}
