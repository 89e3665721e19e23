//! What a command shows for a store with given events.

use mcpmon_core::model::{DefinitionRecord, Event};

use crate::{
    cli::{
        CliError, Color, Globals,
        output::{Form, Output},
    },
    record::{Destination as _, Entry, Reader, sample},
};

/// Data, and after a line the notes, as plain text of 100 columns.
pub(super) fn shown(
    events: Vec<Event>,
    form: Form,
    command: impl FnOnce(Reader, &mut Output<'_>) -> Result<(), CliError>,
) -> String {
    let (directory, mut store) = sample::store();
    sample::fill(&mut store, events);
    of_store(&directory, form, command)
}

/// The same for a registry.
pub(super) fn shown_definitions(
    records: Vec<DefinitionRecord>,
    form: Form,
    command: impl FnOnce(Reader, &mut Output<'_>) -> Result<(), CliError>,
) -> String {
    let (directory, mut store) = sample::store();
    let entries: Vec<Entry> = records.into_iter().map(Entry::Definition).collect();
    store.keep(&entries).unwrap();
    of_store(&directory, form, command)
}

/// The same for a registry and events under a policy, with what the command came to; `DIR` is where both lie.
pub(super) fn shown_under(
    policy: &str,
    records: Vec<DefinitionRecord>,
    events: Vec<Event>,
    form: Form,
    command: impl FnOnce(&Globals, &mut Output<'_>) -> Result<u8, CliError>,
) -> String {
    let (directory, mut store) = sample::store();
    let entries: Vec<Entry> = records.into_iter().map(Entry::Definition).collect();
    store.keep(&entries).unwrap();
    sample::fill(&mut store, events);
    let config = directory.path().join("policy.yaml");
    std::fs::write(&config, policy).unwrap();
    let globals = Globals {
        config: Some(config),
        db: Some(directory.path().join("mcpmon.db")),
        json: form == Form::Json,
        color: Color::Never,
    };
    let (mut data, mut notes) = (Vec::new(), Vec::new());
    let outcome = command(&globals, &mut Output::plain(&mut data, &mut notes, form));
    let outcome = match outcome {
        Ok(code) => format!("exit {code}"),
        Err(error) => {
            let code = error.report(&mut notes);
            format!("{code:?}")
        }
    };
    let [data, notes] = [data, notes].map(|bytes| String::from_utf8(bytes).unwrap());
    let shown = format!("{data}---\n{notes}{outcome}");
    shown.replace(&directory.path().display().to_string(), "DIR")
}

fn of_store(
    directory: &tempfile::TempDir,
    form: Form,
    command: impl FnOnce(Reader, &mut Output<'_>) -> Result<(), CliError>,
) -> String {
    let reader = Reader::open(&directory.path().join("mcpmon.db")).unwrap();
    let (mut data, mut notes) = (Vec::new(), Vec::new());
    command(reader, &mut Output::plain(&mut data, &mut notes, form)).unwrap();
    let [data, notes] = [data, notes].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(
        form == Form::Json || data.lines().all(|line| line.chars().count() <= 100),
        "{data}"
    );
    format!("{data}---\n{notes}")
}
