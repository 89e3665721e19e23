//! `mcpmon approve` and `mcpmon approvals list|show|allow|deny`: decisions of a person about definitions and held
//! calls.

use std::collections::BTreeMap;

use clap::{ArgGroup, Args, Subcommand};
use mcpmon_model::{ApprovalState, CallAnswer, EventKind, HeldCall, ServerId, ServerIdError, Timestamp};
use mcpmon_store::{Filter, Selection, StoreReader, StoredEvent, json, name};
use serde_json::{Map, Value};

use super::{
    callback::Listen,
    held_calls::{self, AllowanceExtent},
};
use crate::{
    app::{
        approval::{ApprovalDecision, ApprovalSubject},
        held_calls::waiting,
    },
    cli::{
        CliError, ErrorKind, Globals, Output,
        change::ChangePlace,
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
    /// Show a call that waits for an answer, whole
    Show {
        /// Its id, as `mcpmon approvals list` has it; the first digits are enough
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Let a held call go on, or accept a definition
    Allow(Allow),
    /// Refuse a held call, or a definition: it stays hidden
    Deny(One),
    /// Take answers to held calls as signed posts, on a loopback address
    Listen(Listen),
}

/// The definition or the held call.
#[derive(Debug, Args)]
pub(in crate::cli) struct One {
    /// The held call, or the definition
    #[arg(value_name = "ID|SERVER:TOOL")]
    subject: String,
    #[command(flatten)]
    socket: Socket,
}

/// The calls that an approval allows, and for how long.
#[derive(Debug, Args)]
pub(in crate::cli) struct Allow {
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    extent: AllowanceExtent,
}

pub(super) const TABLE: Table = Table::new(&[
    Column::whole("TIME (UTC)", 14),
    Column::cut("SUBJECT", 30),
    Column::whole("STATE", 9),
    Column::cut("BY", 12),
    Column::cut("SESSION", 16),
]);

/// The table for lists with held calls.
const LIST: Table = Table::new(&[
    Column::whole("TIME (UTC)", 14),
    Column::whole("ID", 12),
    Column::cut("SUBJECT", 24),
    Column::whole("STATE", 9),
    Column::whole("LEFT", 6),
    Column::cut("BY", 10),
    Column::cut("SESSION", 16),
]);

/// The type of events about approvals.
pub(super) const TYPE: &str = "mcp_approval";

/// Most events that are read.
const LIMIT: u32 = 10_000;

pub(in crate::cli) fn approve(
    options: &Approve,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let subject = match (&options.subject, &options.server) {
        (Some(subject), _) => parse(subject)?,
        (None, Some(server)) => ApprovalSubject {
            server: server.clone(),
            name: None,
        },
        (None, None) => unreachable!("clap asks for one of them"),
    };
    let word = ApprovalDecision::Approve {
        hash: options.hash.clone(),
    };
    let done = ChangePlace::find(output.globals, &options.socket)?.decide(now, subject, word)?;
    told(&done, "is accepted as it is listed", output)
}

fn answer(
    one: &One,
    word: ApprovalDecision,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let what = match word {
        ApprovalDecision::Approve { .. } => "is accepted as it is listed",
        ApprovalDecision::Refuse => "is refused as it is listed",
        ApprovalDecision::Forget => "is forgotten",
    };
    let done = decide(&one.subject, word, output.globals, &one.socket, now)?;
    told(&done, what, output)
}

/// Returns the hash of a definition as it is listed now. Returns `None` if it is not listed, or if several definitions
/// have the name.
pub(super) fn listed_hash(subject: &str, reader: &StoreReader) -> Result<Option<String>, CliError> {
    let Ok(ApprovalSubject { server, name }) = parse(subject) else {
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

/// Carries out a person's decision on the definition of this name or the held call of this id, and returns the names of
/// what was changed.
pub(super) fn decide(
    subject: &str,
    word: ApprovalDecision,
    globals: &Globals,
    socket: &Socket,
    now: Timestamp,
) -> Result<Vec<String>, CliError> {
    let place = ChangePlace::find(globals, socket)?;
    let Some(id) = held_calls::id(subject) else {
        return place.decide(now, parse(subject)?, word);
    };
    let answer = match word {
        ApprovalDecision::Approve { .. } => CallAnswer::Once,
        ApprovalDecision::Refuse | ApprovalDecision::Forget => CallAnswer::Deny,
    };
    Ok(vec![place.answer_call(now, id, answer)?])
}

/// Allows a definition, or a held call.
pub(in crate::cli) fn allow(
    options: &Allow,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let Allow { one, extent } = options;
    if let Some(id) = held_calls::id(&one.subject) {
        return held_calls::allow(id, *extent, &one.socket, now, output);
    }
    if extent.is_given() {
        let error = anyhow::anyhow!(
            "--once, --session and --rule are about a held call, and `{}` is a definition",
            one.subject
        );
        return Err(CliError::new(ErrorKind::Usage, error)
            .with_hint("a definition is accepted as it is listed: leave the option out"));
    }
    answer(one, ApprovalDecision::Approve { hash: None }, now, output)
}

/// Refuses a definition, or a held call.
pub(in crate::cli) fn deny(one: &One, now: Timestamp, output: &mut Output<'_>) -> Result<(), CliError> {
    match held_calls::id(&one.subject) {
        Some(id) => held_calls::deny(id, &one.socket, now, output),
        None => answer(one, ApprovalDecision::Refuse, now, output),
    }
}

pub(in crate::cli) fn told(done: &[String], what: &str, output: &mut Output<'_>) -> Result<(), CliError> {
    for subject in done {
        output.note(&format!("{subject} {what}"))?;
    }
    Ok(())
}

pub(in crate::cli) fn list(
    only_pending: bool,
    reader: &StoreReader,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let mut approvals = latest(told_approvals(reader)?, waiting(reader, now)?);
    if only_pending {
        approvals.retain(|approval| approval.state == ApprovalState::Requested);
    }
    match output.form {
        Form::Json => approvals
            .iter()
            .try_for_each(|approval| output.json(&approval.object(now)))?,
        Form::Table => {
            let rows: Vec<Row> = approvals.iter().map(|approval| approval.row(now)).collect();
            output.table(&LIST, &rows)?;
        }
    }
    listing::note_extent(approvals.len(), false, output)?;
    Ok(output.flush()?)
}

/// Returns the latest decision on each definition and held call, oldest first.
pub(super) fn all(reader: &StoreReader) -> Result<Vec<(ApprovalState, StoredEvent)>, CliError> {
    let latest = latest(told_approvals(reader)?, waiting(reader, time::now())?);
    Ok(latest
        .into_iter()
        .map(|approval| (approval.state, approval.event))
        .collect())
}

fn told_approvals(reader: &StoreReader) -> Result<Vec<StoredEvent>, CliError> {
    let filter = Filter {
        types: vec![TYPE.to_owned()],
        ..Filter::default()
    };
    Ok(reader.events(&filter, LIMIT)?)
}

/// The latest decision on one subject, or on one held call.
struct LatestWord {
    state: ApprovalState,
    event: StoredEvent,
    /// The call, if it still waits.
    held: Option<HeldCall>,
}

/// Returns the latest decision on each subject and held call, oldest first.
fn latest(events: Vec<StoredEvent>, waiting: Vec<HeldCall>) -> Vec<LatestWord> {
    let mut by_subject = BTreeMap::new();
    for event in events {
        if let Some(EventKind::Approval {
            subject,
            state,
            held_call,
            ..
        }) = event.parse_kind()
        {
            by_subject.insert((subject, held_call), (state, event));
        }
    }
    let mut waiting: BTreeMap<String, HeldCall> =
        waiting.into_iter().map(|held| (held.id.clone(), held)).collect();
    let mut latest: Vec<LatestWord> = by_subject
        .into_iter()
        .map(|((_, id), (state, event))| {
            let held = id.as_ref().and_then(|id| waiting.remove(id));
            // A process that was killed does not record that its calls are withdrawn.
            let is_over = state == ApprovalState::Requested && id.is_some() && held.is_none();
            LatestWord {
                state: if is_over { ApprovalState::Withdrawn } else { state },
                event,
                held: held.filter(|_| state == ApprovalState::Requested),
            }
        })
        .collect();
    latest.sort_by_key(|approval| approval.event.seq);
    latest
}

pub(super) fn row((state, event): &(ApprovalState, StoredEvent)) -> Row {
    let text = |field: &str| {
        event
            .data
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    Row::new(
        tone(*state),
        [
            time::short(event.timestamp),
            text("subject"),
            name(state),
            text("by"),
            event.session_id.clone().unwrap_or_default(),
        ],
    )
}

const fn tone(state: ApprovalState) -> Tone {
    match state {
        ApprovalState::Requested => Tone::Notable,
        ApprovalState::Granted | ApprovalState::Withdrawn => Tone::Ordinary,
        ApprovalState::Denied | ApprovalState::TimedOut => Tone::Alarming,
    }
}

impl LatestWord {
    fn text(&self, field: &str) -> String {
        let value = self.event.data.get(field).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    }

    fn row(&self, now: Timestamp) -> Row {
        Row::new(
            tone(self.state),
            [
                time::short(self.event.timestamp),
                self.text("held_call"),
                self.text("subject"),
                name(&self.state),
                self.held
                    .as_ref()
                    .map_or_else(String::new, |held| held_calls::left(held, now)),
                self.text("by"),
                self.event.session_id.clone().unwrap_or_default(),
            ],
        )
    }

    /// Returns the event as JSON, with the call if it still waits.
    fn object(&self, now: Timestamp) -> Map<String, Value> {
        let mut object = json::to_json(&self.event);
        object.insert("state".to_owned(), name(&self.state).into());
        if let Some(held) = &self.held {
            object.insert("waiting".to_owned(), held_calls::object(held, now).into());
        }
        object
    }
}

/// Parses `SERVER:TOOL`. The name of a tool may contain colons; the id may not be empty.
pub(super) fn parse(text: &str) -> Result<ApprovalSubject, CliError> {
    let wrong = |error: anyhow::Error| CliError::new(ErrorKind::Usage, error);
    let (server, item) = text.split_once(':').ok_or_else(|| {
        wrong(anyhow::anyhow!(
            "`{text}` names no definition: expected SERVER:TOOL"
        ))
    })?;
    Ok(ApprovalSubject {
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
                list(pending, &reader, Timestamp(0), output)
            })
        };
        insta::assert_snapshot!(shown(false), @"
        TIME (UTC)      ID  SUBJECT  STATE      LEFT  BY      SESSION
        11-20 12:00:00      files:b  requested        mcpmon  s1
        11-20 12:00:01      files:a  granted          ann     s1
        11-20 12:00:02      files:c  timed_out        mcpmon  s1
        ---
        ");
        insta::assert_snapshot!(shown(true), @"
        TIME (UTC)      ID  SUBJECT  STATE      LEFT  BY      SESSION
        11-20 12:00:00      files:b  requested        mcpmon  s1
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
