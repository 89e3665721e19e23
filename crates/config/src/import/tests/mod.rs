//! Other tools' files before and after.

mod documents;
mod leftovers;
mod properties;

use std::path::PathBuf;

use super::{ImportedPolicy, ImportedTool, Note, NoteKind, import};
use crate::{LoadedConfiguration, Source, Sources, load_sources};

/// Converts a file, and loads the result as a configuration.
fn imported(from: ImportedTool, text: &str) -> (ImportedPolicy, LoadedConfiguration) {
    let imported = import(from, "policy.yaml", text).unwrap_or_else(|invalid| panic!("{invalid}"));
    let sources = Sources::of_parts(vec![(
        Source::File(PathBuf::from("imported.yaml")),
        imported.text.clone(),
    )]);
    let loaded =
        load_sources(&sources.expect("a part")).unwrap_or_else(|error| panic!("{error}\n{}", imported.text));
    (imported, loaded)
}

/// Formats the notes, one per line.
fn told(notes: &[Note]) -> String {
    let line = |note: &Note| {
        let kind = match note.kind {
            NoteKind::LeftOut => "left out",
            NoteKind::Differs => "differs",
        };
        let line = note.line.map_or_else(|| "-".to_owned(), |line| line.to_string());
        format!("{line} {} {kind}: {}", note.path, note.message)
    };
    notes.iter().map(line).collect::<Vec<_>>().join("\n")
}
