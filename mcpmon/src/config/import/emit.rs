//! A tree as a commented YAML file.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{Foreign, Note, NoteKind};
use crate::config::load::{Node, Value};

/// Words that are no text where they stand without quotes.
const WORDS: [&str; 10] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan"];

/// The whole file.
pub(super) fn file(
    from: Foreign,
    name: &str,
    tree: &Node,
    comments: &BTreeMap<&'static str, &'static str>,
    notes: &[Note],
) -> String {
    let mut text = format!(
        "# Converted by `mcpmon policy import --from {}` from {}. Comments of the original are not carried over.\n",
        from.name(),
        shown(name)
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
            writeln!(text, "#   {}{line}: {}", shown(&note.path), shown(&note.message))
                .expect("writing to a String cannot fail");
        }
    }
    let mut writer = Writer { text, comments };
    if let Value::Map(entries) = &tree.value {
        for entry in entries {
            if matches!(entry.node.value, Value::Map(_)) {
                writer.text.push('\n');
            }
            writer.entry(&entry.key, &entry.node, 0, "");
        }
    }
    writer.text
}

struct Writer<'c> {
    text: String,
    comments: &'c BTreeMap<&'static str, &'static str>,
}

impl Writer<'_> {
    fn entry(&mut self, key: &str, node: &Node, indent: usize, above: &str) {
        let path = match above {
            "" => key.to_owned(),
            above => format!("{above}.{key}"),
        };
        let margin = " ".repeat(indent);
        if let Some(comment) = self.comments.get(path.as_str()) {
            self.line(&format!("{margin}# {comment}"));
        }
        self.value(&format!("{margin}{}:", scalar(key)), node, indent, &path);
    }

    /// A value behind what stands before it on its line.
    fn value(&mut self, before: &str, node: &Node, indent: usize, path: &str) {
        match &node.value {
            Value::Null => self.line(&format!("{before} null")),
            Value::Bool(value) => self.line(&format!("{before} {value}")),
            Value::Integer(number) => self.line(&format!("{before} {number}")),
            Value::Float(number) => self.line(&format!("{before} {number:?}")),
            Value::Text(text) => self.line(&format!("{before} {}", scalar(text))),
            Value::List(items) if items.is_empty() => self.line(&format!("{before} []")),
            Value::Map(entries) if entries.is_empty() => self.line(&format!("{before} {{}}")),
            Value::List(items) => {
                self.line(before);
                for item in items {
                    self.item(&item.node, indent + 2, path);
                }
            }
            Value::Map(entries) => {
                self.line(before);
                for entry in entries {
                    self.entry(&entry.key, &entry.node, indent + 2, path);
                }
            }
        }
    }

    fn item(&mut self, node: &Node, indent: usize, path: &str) {
        let margin = " ".repeat(indent);
        let Value::Map(entries) = &node.value else {
            self.value(&format!("{margin}-"), node, indent, path);
            return;
        };
        let Some((first, rest)) = entries.split_first() else {
            self.line(&format!("{margin}- {{}}"));
            return;
        };
        self.value(
            &format!("{margin}- {}:", scalar(&first.key)),
            &first.node,
            indent + 2,
            path,
        );
        for entry in rest {
            self.entry(&entry.key, &entry.node, indent + 2, "");
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

/// Text as it may stand in YAML: plain where it can be nothing else, else in double quotes.
fn scalar(text: &str) -> String {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if is_word && !WORDS.contains(&text.to_ascii_lowercase().as_str()) {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            other if is_unprintable(other) => {
                write!(quoted, "\\U{:08x}", u32::from(other)).expect("writing to a String cannot fail");
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// What YAML forbids, ends a line, or people cannot see.
fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Text of the original in a comment: one line, and nothing that a terminal would act on.
fn shown(text: &str) -> String {
    text.chars()
        .map(|c| if is_unprintable(c) { '\u{fffd}' } else { c })
        .collect()
}
