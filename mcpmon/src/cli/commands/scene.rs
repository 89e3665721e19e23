//! What a command shows for a store with given events.

use mcpmon_core::model::{DefinitionRecord, Event};

use crate::{
    cli::{
        CliError,
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
