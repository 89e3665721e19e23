//! Writing of a tree as a commented YAML file.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{ImportedTool, Note, NoteKind};
use crate::{
    load::{Node, YamlValue},
    written::{YamlWriter, remark},
};

/// Writes the whole file.
pub(super) fn file(
    from: ImportedTool,
    name: &str,
    tree: &Node,
    comments: &BTreeMap<&'static str, &'static str>,
    notes: &[Note],
) -> String {
    let mut text = format!(
        "# Converted by `mcpmon policy import --from {}` from {}. Comments of the original are not carried over.\n",
        from.name(),
        remark(name)
    );
    for (kind, title) in [
        (NoteKind::LeftOut, "Not carried over:"),
        (NoteKind::Differs, "With another meaning, or worth a look:"),
    ] {
        let mut notes = notes.iter().filter(|note| note.kind == kind).peekable();
        if notes.peek().is_some() {
            writeln!(text, "#\n# {title}").expect("writing to a String cannot fail");
        }
        for note in notes {
            let line = note.line.map_or(String::new(), |line| format!(" (line {line})"));
            writeln!(
                text,
                "#   {}{line}: {}",
                remark(&note.path),
                remark(&note.message)
            )
            .expect("writing to a String cannot fail");
        }
    }
    let mut writer = YamlWriter::after(text, comments);
    if let YamlValue::Map(entries) = &tree.value {
        for entry in entries {
            if matches!(entry.node.value, YamlValue::Map(_)) {
                writer.line("");
            }
            writer.entry(&entry.key, &entry.node, 0, "");
        }
    }
    writer.finish()
}
