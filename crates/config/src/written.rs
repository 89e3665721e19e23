//! Writing YAML: trees, and texts from elsewhere in them, which cannot end their line, quotes or comment.

use std::{collections::BTreeMap, fmt::Write as _};

use super::load::{MapEntry, Node, YamlValue};

/// Words that YAML does not read as text without quotes.
const WORDS: [&str; 10] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan"];

/// Writes a tree as block YAML, with a comment above keys that have one.
pub(super) struct YamlWriter<'c> {
    text: String,
    comments: &'c BTreeMap<&'static str, &'static str>,
}

impl<'c> YamlWriter<'c> {
    /// A writer that appends to `text`; `comments` are by the path of their key.
    pub(super) const fn after(text: String, comments: &'c BTreeMap<&'static str, &'static str>) -> Self {
        Self { text, comments }
    }

    /// Returns the written text.
    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Writes a key with its value; `above` is the path of the containing value.
    pub(super) fn entry(&mut self, key: &str, node: &Node, indent: usize, above: &str) {
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

    /// Writes a value after `before`, which is the beginning of its line.
    fn value(&mut self, before: &str, node: &Node, indent: usize, path: &str) {
        match &node.value {
            YamlValue::Null => self.line(&format!("{before} null")),
            YamlValue::Bool(value) => self.line(&format!("{before} {value}")),
            YamlValue::Integer(number) => self.line(&format!("{before} {number}")),
            YamlValue::Float(number) => self.line(&format!("{before} {number:?}")),
            YamlValue::Text(text) => self.line(&format!("{before} {}", scalar(text))),
            YamlValue::List(items) if items.is_empty() => self.line(&format!("{before} []")),
            YamlValue::Map(entries) if entries.is_empty() => self.line(&format!("{before} {{}}")),
            YamlValue::List(items) => {
                self.line(before);
                for item in items {
                    self.item(&item.node, indent + 2, path);
                }
            }
            YamlValue::Map(entries) => {
                self.line(before);
                for entry in entries {
                    self.entry(&entry.key, &entry.node, indent + 2, path);
                }
            }
        }
    }

    /// An element of a list.
    pub(super) fn item(&mut self, node: &Node, indent: usize, path: &str) {
        let margin = " ".repeat(indent);
        let YamlValue::Map(entries) = &node.value else {
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

    /// Writes a line unchanged.
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

/// Returns a text as YAML: plain if that is unambiguous, else in double quotes.
pub(super) fn scalar(text: &str) -> String {
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

/// Returns whether the character is forbidden in YAML, acts on a terminal, ends a line, changes the direction of text,
/// or is invisible.
pub fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{fffe}'
                | '\u{ffff}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Returns a text from elsewhere as a comment: one line, without characters that act on a terminal.
pub(super) fn remark(text: &str) -> String {
    text.chars()
        .map(|c| if is_unprintable(c) { '\u{fffd}' } else { c })
        .collect()
}

/// Returns a value in one line.
pub(super) fn flow(node: &Node) -> String {
    match &node.value {
        YamlValue::Null => "null".to_owned(),
        YamlValue::Bool(value) => value.to_string(),
        YamlValue::Integer(number) => number.to_string(),
        YamlValue::Float(number) => format!("{number:?}"),
        YamlValue::Text(text) => scalar(text),
        YamlValue::List(items) => {
            let items: Vec<String> = items.iter().map(|item| flow(&item.node)).collect();
            format!("[{}]", items.join(", "))
        }
        YamlValue::Map(entries) => {
            let entry = |entry: &MapEntry| format!("{}: {}", scalar(&entry.key), flow(&entry.node));
            let entries: Vec<String> = entries.iter().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{load, mistake::Origin};

    fn read(text: &str) -> YamlValue {
        let origin = Origin {
            name: "test".to_owned(),
            text: text.to_owned(),
        };
        load::any(origin).expect("YAML").value
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_it_was_written(text in any::<String>()) {
            for written in [format!("a: {}", scalar(&text)), format!("{{a: {}}}", scalar(&text))] {
                let YamlValue::Map(entries) = read(&written) else { panic!("{written}") };
                prop_assert_eq!(&entries[0].node.value, &YamlValue::Text(text.clone()), "{}", written);
            }
        }

        #[test]
        fn no_remark_ends_its_line(text in any::<String>()) {
            let written = format!("# {}\na: 1", remark(&text));
            let YamlValue::Map(entries) = read(&written) else { panic!("{written}") };
            prop_assert_eq!(entries.len(), 1);
        }
    }

    #[test]
    fn a_value_in_one_line() {
        let text = "{id: x, match: {tool_name_any: [a, \"b c\"], count: 1.5}, on: true, none: null}";
        let node = Node {
            value: read(text),
            ..Node::empty()
        };
        assert_eq!(flow(&node), text.replace("on:", "\"on\":"));
    }
}
