//! Scenes for tests: the output of a command for a store with given events.

use mcpmon_model::{DefinitionRecord, Event};
use mcpmon_store::{Destination as _, StoreEntry, StoreReader, sample};

use crate::cli::{
    CliError, Color, Globals,
    output::{Form, Output},
};

/// Returns the data, and after a line the notes, as plain text of 100 columns.
pub(super) fn shown(
    events: Vec<Event>,
    form: Form,
    command: impl FnOnce(StoreReader, &mut Output<'_>) -> Result<(), CliError>,
) -> String {
    shown_with(Vec::new(), events, form, command)
}

/// Does the same with further entries in the store.
pub(super) fn shown_with(
    entries: Vec<StoreEntry>,
    events: Vec<Event>,
    form: Form,
    command: impl FnOnce(StoreReader, &mut Output<'_>) -> Result<(), CliError>,
) -> String {
    let (directory, mut store) = sample::store();
    store.keep(&entries).unwrap();
    sample::fill(&mut store, events);
    of_store(&directory, form, command)
}

/// Does the same for a registry.
pub(super) fn shown_definitions(
    records: Vec<DefinitionRecord>,
    form: Form,
    command: impl FnOnce(StoreReader, &mut Output<'_>) -> Result<(), CliError>,
) -> String {
    let (directory, mut store) = sample::store();
    let entries: Vec<StoreEntry> = records.into_iter().map(StoreEntry::Definition).collect();
    store.keep(&entries).unwrap();
    of_store(&directory, form, command)
}

/// Does the same for a registry and events under a policy, and adds the exit status; `DIR` stands for their directory.
pub(super) fn shown_under(
    policy: &str,
    records: Vec<DefinitionRecord>,
    events: Vec<Event>,
    form: Form,
    command: impl FnOnce(&mut Output<'_>) -> Result<u8, CliError>,
) -> String {
    let (directory, mut store) = sample::store();
    let entries: Vec<StoreEntry> = records.into_iter().map(StoreEntry::Definition).collect();
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
    let mut output = Output::plain(&mut data, &mut notes, form);
    output.globals = &globals;
    let outcome = command(&mut output);
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

/// Checks the JSON of a listing against the members that `docs/json.md` documents under this heading. An event has the
/// fields of its type, too.
pub(super) fn assert_documented(heading: &str, is_event: bool, shown: &str) {
    const PAGE: &str = include_str!("../../../../docs/json.md");
    let section = PAGE
        .split("\n## ")
        .find_map(|section| section.strip_prefix(heading)?.strip_prefix('\n'));
    let section = section.unwrap_or_else(|| panic!("docs/json.md has no `## {heading}`"));
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let fields: Vec<(&str, bool)> = rows
        .flat_map(|row| {
            let mut cells = row.trim_matches('|').split('|').map(str::trim);
            let (names, there) = (cells.next().unwrap_or_default(), cells.next());
            names
                .split(", ")
                .map(move |name| (name.trim_matches('`'), there == Some("always")))
        })
        .collect();
    let lines: Vec<serde_json::Map<String, serde_json::Value>> = shown
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).expect("a JSON object a line"))
        .collect();
    assert!(!lines.is_empty() && !fields.is_empty(), "{shown}");
    for object in lines {
        for (field, _) in fields.iter().filter(|(_, always)| *always) {
            assert!(object.contains_key(*field), "`{field}` is promised: {object:?}");
        }
        let known = |name: &String| fields.iter().any(|(field, _)| field == name);
        let unknown: Vec<&String> = object.keys().filter(|name| !known(name)).collect();
        assert!(is_event || unknown.is_empty(), "not in docs/json.md: {unknown:?}");
    }
}

fn of_store(
    directory: &tempfile::TempDir,
    form: Form,
    command: impl FnOnce(StoreReader, &mut Output<'_>) -> Result<(), CliError>,
) -> String {
    let reader = StoreReader::open(&directory.path().join("mcpmon.db")).unwrap();
    let (mut data, mut notes) = (Vec::new(), Vec::new());
    command(reader, &mut Output::plain(&mut data, &mut notes, form)).unwrap();
    let [data, notes] = [data, notes].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(
        form == Form::Json || data.lines().all(|line| line.chars().count() <= 100),
        "{data}"
    );
    format!("{data}---\n{notes}")
}
