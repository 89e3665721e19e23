//! Putting the wrapper before a server's command, and taking it away again, byte by byte: what is not edited is not
//! touched, and nothing is written anew.

use std::ops::Range;

use mcpmon_protocol::decode::json::quote_into;
use serde::{Deserialize, Serialize};

use super::servers::{Arguments, Start};

/// Words of ours before the original command.
const OURS: usize = 4;

/// One change of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

impl Edit {
    fn new(range: Range<usize>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { range, text }
    }
}

/// `bytes` with these changes, which do not overlap.
pub(super) fn applied(bytes: &[u8], mut edits: Vec<Edit>) -> Vec<u8> {
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

/// The state of a server before it was wrapped, and since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wrapped {
    /// Members on the way to the server; the last is its name.
    pub(super) path: Vec<String>,
    /// The command's text.
    command: Change,
    /// The arguments' text.
    arguments: Change,
    /// The text inserted after the command, if there were no arguments.
    inserted: Option<String>,
}

impl Wrapped {
    /// The program that was put before the command.
    pub(super) fn program(&self) -> String {
        serde_json::from_str(&self.command.after).unwrap_or_default()
    }
}

/// A text, quotes and brackets included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Change {
    before: Option<String>,
    after: String,
}

/// Returns the edits that turn `start` into a wrapped one.
pub(super) fn wrap(
    start: &Start<'_>,
    path: &[String],
    bytes: &[u8],
    program: &str,
    server: &str,
) -> (Vec<Edit>, Wrapped) {
    let original = start.command.text();
    let command = Edit::new(start.command.range(), quoted(program));
    let words = ["wrap", "--server", server, "--"].map(quoted);
    let array = |gap: &str| format!("[{},{gap}{original}]", words.join(&format!(",{gap}")));
    let (edit, after, inserted) = match &start.arguments {
        None => {
            let value = array(" ");
            let text = format!(",{}\"args\": {value}", gap_before(bytes, start.name));
            let end = start.command.range().end;
            (Edit::new(end..end, text.clone()), value, Some(text))
        }
        Some(arguments) if arguments.value.is_null() => {
            let value = array(" ");
            (Edit::new(arguments.value.range(), value.clone()), value, None)
        }
        Some(arguments) => {
            let range = arguments.value.range();
            let (at, text) = match arguments.items.first() {
                Some(first) => {
                    let at = first.range().start;
                    let gap = gap_before(bytes, at);
                    let ours: String = words.iter().map(|word| format!("{word},{gap}")).collect();
                    (at, format!("{ours}{original},{gap}"))
                }
                None => {
                    let whole = array(" ");
                    (range.start + 1, whole[1..whole.len() - 1].to_owned())
                }
            };
            let edit = Edit::new(at..at, text);
            let inside = Edit::new(at - range.start..at - range.start, edit.text.clone());
            let after = applied(&bytes[range], vec![inside]);
            (edit, String::from_utf8_lossy(&after).into_owned(), None)
        }
    };
    let before = start
        .arguments
        .as_ref()
        .map(|arguments| slice(bytes, arguments.value.range()));
    let wrapped = Wrapped {
        path: path.to_vec(),
        command: Change {
            before: Some(original.to_owned()),
            after: command.text.clone(),
        },
        arguments: Change { before, after },
        inserted,
    };
    (vec![command, edit], wrapped)
}

/// Returns the edit that makes a wrapped server name `program`, wherever mcpmon was before.
pub(super) fn point(start: &Start<'_>, program: &str, kept: Option<&mut Wrapped>) -> Option<Edit> {
    let text = quoted(program);
    if start.command.string().as_deref() == Some(program) {
        return None;
    }
    if let Some(kept) = kept {
        kept.command.after.clone_from(&text);
    }
    Some(Edit::new(start.command.range(), text))
}

/// Returns the edits that take the wrapper away. `kept` is what is known of the time before; without it, or
/// where a client or a person changed the server since, the command is taken from the wrapper's arguments.
///
/// `plain` is the text without comments. `start` has the form of [`Wrapping::Ours`](super::servers::Wrapping::Ours), or is what `kept` says.
pub(super) fn unwrap(start: &Start<'_>, bytes: &[u8], plain: &str, kept: Option<&Wrapped>) -> Vec<Edit> {
    let Some(arguments) = &start.arguments else {
        return Vec::new();
    };
    let command = |text: &str| Edit::new(start.command.range(), text);
    if let Some(kept) = kept
        && let Some(before) = &kept.command.before
        && slice(bytes, arguments.value.range()) == kept.arguments.after
    {
        let command = command(before);
        match (&kept.arguments.before, &kept.inserted) {
            (Some(before), _) => return vec![command, Edit::new(arguments.value.range(), before)],
            (None, Some(inserted)) => {
                let end = start.command.range().end;
                if bytes[end..].starts_with(inserted.as_bytes()) {
                    return vec![command, Edit::new(end..end + inserted.len(), "")];
                }
            }
            (None, None) => {}
        }
    }
    let Some(original) = arguments.items.get(OURS) else {
        return Vec::new();
    };
    let command = command(original.text());
    let had_none = kept.is_some_and(|kept| kept.arguments.before.is_none());
    match (arguments.items.first(), arguments.items.get(OURS + 1)) {
        (Some(first), Some(next)) => vec![command, Edit::new(first.range().start..next.range().start, "")],
        _ if had_none => [vec![command], removed(arguments, bytes, plain)].concat(),
        _ => vec![command, Edit::new(arguments.value.range(), "[]")],
    }
}

/// Takes the member of arguments away with the comma before it, and no comment.
fn removed(arguments: &Arguments<'_>, bytes: &[u8], plain: &str) -> Vec<Edit> {
    let value = arguments.value.range();
    let before = plain[..arguments.name].trim_end();
    if !before.ends_with(',') {
        return vec![Edit::new(value, "[]")];
    }
    let comma = before.len() - 1;
    match bytes[comma + 1..arguments.name]
        .iter()
        .all(u8::is_ascii_whitespace)
    {
        true => vec![Edit::new(comma..value.end, "")],
        false => vec![
            Edit::new(comma..comma + 1, ""),
            Edit::new(arguments.name..value.end, ""),
        ],
    }
}

/// The white space before a value or a name, from the last end of a line on; a space where there is none.
fn gap_before(bytes: &[u8], at: usize) -> &str {
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

fn slice(bytes: &[u8], range: Range<usize>) -> String {
    String::from_utf8_lossy(&bytes[range]).into_owned()
}

fn quoted(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    quote_into(text, &mut literal);
    literal
}
