//! Insertion of the wrapper before a server's command, and its removal, byte by byte: only the spans of the command and
//! of the arguments change.

use std::ops::Range;

use mcpmon_protocol::decode::json::quote_into;
use serde::{Deserialize, Serialize};

use crate::{
    plan::Wrapper,
    remote::RemoteMembers,
    servers::{CommandForm, PlacedArguments, PlacedCommand, SERVER_WORD, wrapper_length},
    syntax::{Node, NodeKind, PlacedItem, Style},
    table::Format,
};

/// One change of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextEdit {
    pub(crate) range: Range<usize>,
    pub(crate) text: String,
}

impl TextEdit {
    pub(crate) fn new(range: Range<usize>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { range, text }
    }
}

/// Returns `bytes` with these changes, which may not overlap.
pub(crate) fn applied(bytes: &[u8], mut edits: Vec<TextEdit>) -> Vec<u8> {
    edits.sort_by_key(|edit| edit.range.start);
    let mut result = Vec::with_capacity(bytes.len());
    let mut at = 0;
    for edit in edits {
        result.extend_from_slice(&bytes[at..edit.range.start]);
        result.extend_from_slice(edit.text.as_bytes());
        at = edit.range.end;
    }
    result.extend_from_slice(&bytes[at..]);
    result
}

/// The texts of a server before and after it was wrapped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WrappedText {
    /// The members from the root to the server; the last is its name.
    pub(crate) path: Vec<String>,
    /// The command's text; there is no text before if the command is the first item of the arguments.
    command: TextChange,
    /// The arguments' text.
    arguments: TextChange,
    /// The member that was inserted because there were no arguments.
    inserted: Option<String>,
    /// The original members of a remote server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) remote: Option<RemoteMembers>,
}

impl WrappedText {
    /// Records a remote server, and the text of the program that replaces its URL.
    pub(crate) fn remote(path: &[String], program: &str, members: RemoteMembers) -> Self {
        Self {
            path: path.to_vec(),
            command: TextChange {
                before: None,
                after: program.to_owned(),
            },
            arguments: TextChange::none(),
            inserted: None,
            remote: Some(members),
        }
    }

    /// Returns the program that was put before the command.
    pub(crate) fn program(&self) -> String {
        serde_json::from_str(&self.command.after).unwrap_or_default()
    }
}

/// A text before and after, with quotes and brackets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TextChange {
    before: Option<String>,
    after: String,
}

/// A file whose servers are edited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EditedFile<'b> {
    pub(crate) bytes: &'b [u8],
    pub(crate) format: Format,
}

impl EditedFile<'_> {
    /// Inserts `wrapper` before a command.
    pub(crate) fn wrap(
        self,
        start: &PlacedCommand<'_>,
        path: &[String],
        wrapper: Wrapper<'_>,
        server: &str,
    ) -> (Vec<TextEdit>, WrappedText) {
        let words = wrapper.words(server);
        let mut words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
        let program = quoted(wrapper.program);
        let wrapped = |command, arguments, inserted| WrappedText {
            path: path.to_vec(),
            command: TextChange {
                before: command,
                after: program.clone(),
            },
            arguments,
            inserted,
            remote: None,
        };
        let original = match (start.command, &start.arguments) {
            (CommandForm::Text(command), _) => command,
            (CommandForm::FirstArgument, Some(arguments)) => {
                words.insert(0, program.clone());
                let (edit, change) = self.prepend(arguments.node, &words);
                return (vec![edit], wrapped(None, change, None));
            }
            (CommandForm::FirstArgument, None) => {
                return (Vec::new(), wrapped(None, TextChange::none(), None));
            }
        };
        words.push(self.literal(original));
        let command = TextEdit::new(original.range.clone(), program.clone());
        let (edit, change, inserted) = match &start.arguments {
            None => {
                let value = format!("[{}]", words.join(", "));
                let (edit, text) = self.new_member(start, original, &value);
                let change = TextChange {
                    before: None,
                    after: value,
                };
                (edit, change, Some(text))
            }
            Some(arguments) => {
                let (edit, change) = self.prepend(arguments.node, &words);
                (edit, change, None)
            }
        };
        let before = Some(self.slice(&original.range));
        (vec![command, edit], wrapped(before, change, inserted))
    }

    /// Inserts words before the first item of a list, or replaces a null by them.
    fn prepend(self, list: &Node, words: &[String]) -> (TextEdit, TextChange) {
        let range = list.range.clone();
        let before = Some(self.slice(&range));
        if list.kind == NodeKind::Null {
            let value = format!("[{}]", words.join(", "));
            // After `args:` without a value, a space is needed.
            let gap = if range.is_empty() { " " } else { "" };
            let edit = TextEdit::new(range, format!("{gap}{value}"));
            let change = TextChange { before, after: value };
            return (edit, change);
        }
        let (at, text): (usize, String) = match (list.items().first(), list.style) {
            (Some(first), Style::Block) => {
                let gap = self.line_before(first.start);
                let lines = words.iter().map(|word| format!("- {word}{gap}"));
                (first.start, lines.collect())
            }
            (Some(first), Style::Inline) => {
                let gap = gap_before(self.bytes, first.start);
                let items = words.iter().map(|word| format!("{word},{gap}"));
                (first.start, items.collect())
            }
            (None, Style::Block | Style::Inline) => (range.start + 1, words.join(", ")),
        };
        let inside = TextEdit::new(at - range.start..at - range.start, text.clone());
        let after = applied(&self.bytes[range], vec![inside]);
        let change = TextChange {
            before,
            after: String::from_utf8_lossy(&after).into_owned(),
        };
        (TextEdit::new(at..at, text), change)
    }

    /// Inserts the member with the arguments: after the command in inline style, on the line above in block style.
    fn new_member(self, start: &PlacedCommand<'_>, command: &Node, value: &str) -> (TextEdit, String) {
        let (at, text) = self.beside(
            start.style,
            start.name,
            command.range.end,
            start.args_field,
            value,
        );
        (TextEdit::new(at..at, text.clone()), text)
    }

    /// Returns the position and text of a new member next to the one from `name` to `end`: after it in inline style, on
    /// the line above in block style.
    pub(crate) fn beside(
        self,
        style: Style,
        name: usize,
        end: usize,
        field: &str,
        value: &str,
    ) -> (usize, String) {
        let member = self.member(field, value);
        match style {
            Style::Inline => (end, format!(",{}{member}", gap_before(self.bytes, name))),
            Style::Block => {
                let at = self.member_start(name);
                let dotted = String::from_utf8_lossy(&self.bytes[at..name]);
                (at, format!("{dotted}{member}{}", self.line_before(at)))
            }
        }
    }

    /// Returns the text of a member.
    pub(crate) fn member(self, field: &str, value: &str) -> String {
        match self.format {
            Format::Json | Format::Jsonc => format!("{}: {value}", quoted(field)),
            Format::Toml => format!("{field} = {value}"),
            Format::Yaml => format!("{field}: {value}"),
        }
    }

    /// Changes the path of mcpmon in a wrapped server to `program`, and its options to `options` if they are given.
    pub(crate) fn point(
        self,
        start: &PlacedCommand<'_>,
        program: &str,
        options: Option<&[String]>,
        kept: Option<&mut WrappedText>,
    ) -> Vec<TextEdit> {
        let mut edits = Vec::new();
        let items = start.arguments.as_ref().map_or(&[][..], PlacedArguments::items);
        let node = match start.command {
            CommandForm::Text(node) => Some(node),
            CommandForm::FirstArgument => items.first().map(|item| &item.node),
        };
        if let Some(node) = node.filter(|node| node.text() != Some(program)) {
            edits.push(TextEdit::new(node.range.clone(), quoted(program)));
        }
        edits.extend(options.and_then(|options| self.set_options(start, items, options)));
        if edits.is_empty() {
            return edits;
        }
        if let Some(kept) = kept {
            if let Some(arguments) = &start.arguments {
                let list = &arguments.node.range;
                if self.slice(list) == kept.arguments.after {
                    let inside = edits
                        .iter()
                        .filter(|edit| list.start <= edit.range.start && edit.range.end <= list.end);
                    let moved = inside.map(|edit| {
                        let range = edit.range.start - list.start..edit.range.end - list.start;
                        TextEdit::new(range, edit.text.clone())
                    });
                    let after = applied(&self.bytes[list.clone()], moved.collect());
                    kept.arguments.after = String::from_utf8_lossy(&after).into_owned();
                }
            }
            kept.command.after = quoted(program);
        }
        edits
    }

    /// Replaces the options of a wrapper, which are items of its arguments.
    fn set_options(
        self,
        start: &PlacedCommand<'_>,
        items: &[PlacedItem],
        options: &[String],
    ) -> Option<TextEdit> {
        let words = start.words();
        let has = words.get(SERVER_WORD + 1..wrapper_length(&words)?.checked_sub(1)?)?;
        if has == options {
            return None;
        }
        // The command is no item if it has its own member.
        let skipped = words.len().checked_sub(items.len())?;
        let first = items.get((SERVER_WORD + 1).checked_sub(skipped)?)?;
        let dashes = items.get((SERVER_WORD + 1 + has.len()).checked_sub(skipped)?)?;
        let list = start.arguments.as_ref()?.node;
        let text: String = match list.style {
            Style::Block => {
                let gap = self.line_before(first.start);
                options
                    .iter()
                    .map(|word| format!("- {}{gap}", quoted(word)))
                    .collect()
            }
            Style::Inline => {
                let gap = gap_before(self.bytes, first.start);
                options
                    .iter()
                    .map(|word| format!("{},{gap}", quoted(word)))
                    .collect()
            }
        };
        Some(TextEdit::new(first.start..dashes.start, text))
    }

    /// Removes the wrapper. `kept` has the original texts; without it, or if a client or a person has changed the
    /// server since, the command is taken from the wrapper's arguments.
    pub(crate) fn unwrap(self, start: &PlacedCommand<'_>, kept: Option<&WrappedText>) -> Vec<TextEdit> {
        let Some(arguments) = &start.arguments else {
            return Vec::new();
        };
        if let Some(edits) = kept.and_then(|kept| self.restore(start, arguments, kept)) {
            return edits;
        }
        let items = arguments.items();
        let Some(length) = wrapper_length(&start.words()) else {
            return Vec::new();
        };
        let command = match start.command {
            CommandForm::FirstArgument => {
                return self.remove_first(items, length).into_iter().collect();
            }
            CommandForm::Text(node) => node,
        };
        let Some(original) = items.get(length - 1) else {
            return Vec::new();
        };
        let command = TextEdit::new(command.range.clone(), self.literal(&original.node));
        if let Some(edit) = self.remove_first(items, length) {
            return vec![command, edit];
        }
        let had_none = kept.is_some_and(|kept| kept.arguments.before.is_none());
        match had_none {
            true => [vec![command], self.remove_member(start, arguments)].concat(),
            false => vec![command, self.empty(arguments.node)],
        }
    }

    /// Restores the original texts, if the texts that were written have not been changed.
    fn restore(
        self,
        start: &PlacedCommand<'_>,
        arguments: &PlacedArguments<'_>,
        kept: &WrappedText,
    ) -> Option<Vec<TextEdit>> {
        let range = arguments.node.range.clone();
        if self.slice(&range) != kept.arguments.after {
            return None;
        }
        let mut edits = match (start.command, &kept.command.before) {
            (CommandForm::Text(node), Some(before)) => vec![TextEdit::new(node.range.clone(), before)],
            (CommandForm::FirstArgument, None) => Vec::new(),
            (CommandForm::Text(_), None) | (CommandForm::FirstArgument, Some(_)) => return None,
        };
        let edit = match (&kept.arguments.before, &kept.inserted) {
            (Some(before), _) if before.is_empty() && self.bytes[..range.start].ends_with(b" ") => {
                TextEdit::new(range.start - 1..range.end, "")
            }
            (Some(before), _) => TextEdit::new(range, before),
            (None, Some(inserted)) => {
                let at = match (start.style, start.command) {
                    (Style::Block, _) => self.member_start(arguments.name),
                    (Style::Inline, CommandForm::Text(command)) => command.range.end,
                    (Style::Inline, CommandForm::FirstArgument) => return None,
                };
                if !self.bytes[at..].starts_with(inserted.as_bytes()) {
                    return None;
                }
                TextEdit::new(at..at + inserted.len(), "")
            }
            (None, None) => return None,
        };
        edits.push(edit);
        Some(edits)
    }

    /// Removes the first `count` items of a longer list.
    fn remove_first(self, items: &[PlacedItem], count: usize) -> Option<TextEdit> {
        let range = items.first()?.start..items.get(count)?.start;
        Some(TextEdit::new(range, ""))
    }

    fn empty(self, list: &Node) -> TextEdit {
        // A line may not begin with the bracket without indentation.
        let text = match list.style {
            Style::Inline => "[]",
            Style::Block => " []",
        };
        TextEdit::new(list.range.clone(), text)
    }

    /// Removes the member with the arguments: its line in block style, and the comma before it without comments
    /// otherwise. If that is not possible, the list is left empty.
    pub(crate) fn remove_member(
        self,
        start: &PlacedCommand<'_>,
        arguments: &PlacedArguments<'_>,
    ) -> Vec<TextEdit> {
        let value = arguments.node.range.clone();
        if start.style == Style::Block {
            let at = self.member_start(arguments.name);
            let rest = &self.bytes[value.end..];
            let gap = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let has_line = rest[..gap].contains(&b'\n') && arguments.name < start.name;
            return match has_line {
                true => vec![TextEdit::new(at..value.end + gap, "")],
                false => vec![self.empty(arguments.node)],
            };
        }
        let CommandForm::Text(command) = start.command else {
            return vec![self.empty(arguments.node)];
        };
        let Some(comma) = self.comma_between(command.range.end, arguments.name) else {
            return vec![self.empty(arguments.node)];
        };
        let between = &self.bytes[comma + 1..arguments.name];
        match between.iter().all(u8::is_ascii_whitespace) {
            true => vec![TextEdit::new(comma..value.end, "")],
            false => vec![
                TextEdit::new(comma..comma + 1, ""),
                TextEdit::new(arguments.name..value.end, ""),
            ],
        }
    }

    /// Returns the position of the comma between a command and the arguments after it, if there is nothing but white
    /// space before the comma.
    fn comma_between(self, command: usize, arguments: usize) -> Option<usize> {
        let between = self.bytes.get(command..arguments)?;
        let comma = between.iter().position(|byte| *byte == b',')?;
        let is_gap = between[..comma].iter().all(u8::is_ascii_whitespace);
        is_gap.then_some(command + comma)
    }

    /// Returns a text as an item of a list: unchanged if the format writes texts identically everywhere.
    pub(crate) fn literal(self, node: &Node) -> String {
        match self.format {
            Format::Json | Format::Jsonc | Format::Toml => self.slice(&node.range),
            Format::Yaml => quoted(node.text().unwrap_or_default()),
        }
    }

    /// Returns the start of a member on its line, including keys before a dot.
    fn member_start(self, name: usize) -> usize {
        if self.format != Format::Toml {
            return name;
        }
        let line = self.line_start(name);
        let indent = &self.bytes[line..name];
        line + indent
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t'))
            .count()
    }

    /// Returns the start of a line, after a byte order mark.
    fn line_start(self, at: usize) -> usize {
        let end = self.bytes[..at].iter().rposition(|byte| *byte == b'\n');
        match end {
            Some(end) => end + 1,
            None if self.bytes.starts_with("\u{feff}".as_bytes()) => 3,
            None => 0,
        }
    }

    /// Returns a line break, and the indentation of the text at `at`: a dash before the text counts as a space.
    fn line_before(self, at: usize) -> String {
        let before = String::from_utf8_lossy(&self.bytes[self.line_start(at)..at]);
        let indent = before.chars().map(|character| match character {
            '\t' => '\t',
            _ => ' ',
        });
        let newline = match self.bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) if self.bytes[..end].ends_with(b"\r") => "\r\n",
            Some(_) | None => "\n",
        };
        newline.chars().chain(indent).collect()
    }

    pub(crate) fn slice(self, range: &Range<usize>) -> String {
        String::from_utf8_lossy(&self.bytes[range.clone()]).into_owned()
    }
}

impl TextChange {
    const fn none() -> Self {
        Self {
            before: None,
            after: String::new(),
        }
    }
}

/// Returns a text in double quotes, in the form that JSON, TOML and YAML share.
pub(crate) fn quoted(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    quote_into(text, &mut literal);
    literal.replace('\u{7f}', "\\u007f")
}

/// Returns the white space before a value or a name, from the last line break on; a space if there is none.
pub(crate) fn gap_before(bytes: &[u8], at: usize) -> &str {
    let is_gap = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let start = bytes[..at]
        .iter()
        .rposition(|byte| !is_gap(byte))
        .map_or(0, |last| last + 1);
    let gap = &bytes[start..at];
    let line = gap
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| match end {
            0 => 0,
            end if gap[end - 1] == b'\r' => end - 1,
            end => end,
        });
    match &gap[line..] {
        [] => " ",
        gap => str::from_utf8(gap).unwrap_or(" "),
    }
}
