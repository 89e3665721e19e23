//! Rewriting of Chat Completions: chunks and bodies without the blocked calls.

use crate::{
    decode::json::{Value, ValueKind},
    llm::{
        members::{MemberEdit, array, object, quoted, with_member},
        openai_chat::decode::{ChoicePart, ToolKind},
    },
};

/// The edit of a choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChoiceEdit {
    /// The edits of its calls, or of their fragments, in order.
    pub(super) entries: Vec<EntryEdit>,
    /// The text in place of calls that are left out, to follow the choice's own text.
    pub(super) said: Option<String>,
    /// True if it ends as if there had been no call.
    pub(super) stop: bool,
}

impl ChoiceEdit {
    /// Returns whether nothing changes.
    pub(super) fn is_none(&self) -> bool {
        let kept = |entry: &EntryEdit| *entry == EntryEdit::Keep;
        self.entries.iter().all(kept) && self.said.is_none() && !self.stop
    }
}

/// The edit of a call, or of a fragment of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EntryEdit {
    /// The call stays.
    Keep,
    /// The call gets this index.
    Renumber(u64),
    /// This replaces the call.
    Replace(String),
    /// The call is left out.
    Drop,
}

/// Returns a chunk or body with changed choices, one edit for each; `None` if nothing is left of a chunk.
pub(super) fn with_edits(root: Value<'_>, part: ChoicePart, edits: &[ChoiceEdit]) -> Option<String> {
    let mut is_left = part == ChoicePart::Message;
    let text = object(root, |member| match member.name {
        "choices" => MemberEdit::Set(array(member.value, |at, value| {
            let Some(edit) = edits.get(at) else {
                return MemberEdit::Keep;
            };
            let (text, says_more) = choice(value, part, edit);
            is_left |= says_more;
            MemberEdit::Set(text)
        })),
        "usage" => {
            is_left |= !member.value.is_null();
            MemberEdit::Keep
        }
        _ => MemberEdit::Keep,
    });
    is_left.then_some(text)
}

/// Returns a choice, and whether it has any content left.
fn choice(value: Value<'_>, part: ChoicePart, edit: &ChoiceEdit) -> (String, bool) {
    let mut is_left = false;
    let text = object(value, |member| match member.name {
        "finish_reason" if edit.stop => {
            is_left = true;
            MemberEdit::Set("\"stop\"".to_owned())
        }
        "finish_reason" => {
            is_left |= !member.value.is_null();
            MemberEdit::Keep
        }
        name if name == part.name() && member.value.is_object() => {
            let text = message(member.value, edit);
            is_left |= text != "{}";
            MemberEdit::Set(text)
        }
        _ => MemberEdit::Keep,
    });
    (text, is_left)
}

fn message(value: Value<'_>, edit: &ChoiceEdit) -> String {
    let mut entries = edit.entries.iter();
    let mut said = edit.said.as_deref();
    let calls = value
        .member("tool_calls")
        .map_or(0, |calls| calls.items().count());
    let text = object(value, |member| match member.name {
        "content" => said.take().map_or(MemberEdit::Keep, |said| {
            MemberEdit::Set(content(member.value, said))
        }),
        "tool_calls" if calls > 0 => {
            let list = entry_list(member.value, &mut entries.by_ref().take(calls));
            if list == "[]" {
                MemberEdit::Drop
            } else {
                MemberEdit::Set(list)
            }
        }
        "function_call" if !member.value.is_null() => match edit.entries.get(calls) {
            Some(EntryEdit::Drop) => MemberEdit::Drop,
            Some(EntryEdit::Replace(new)) => MemberEdit::Set(new.clone()),
            Some(EntryEdit::Keep | EntryEdit::Renumber(_)) | None => MemberEdit::Keep,
        },
        _ => MemberEdit::Keep,
    });
    match said {
        Some(said) => with_member(text, "content", &quoted(said)),
        None => text,
    }
}

fn entry_list<'e>(list: Value<'_>, edits: &mut impl Iterator<Item = &'e EntryEdit>) -> String {
    array(list, |_, value| match edits.next() {
        Some(EntryEdit::Keep) | None => MemberEdit::Keep,
        Some(EntryEdit::Drop) => MemberEdit::Drop,
        Some(EntryEdit::Replace(new)) => MemberEdit::Set(new.clone()),
        Some(EntryEdit::Renumber(index)) => MemberEdit::Set(object(value, |member| {
            if member.name == "index" {
                MemberEdit::Set(index.to_string())
            } else {
                MemberEdit::Keep
            }
        })),
    })
}

/// Returns the content of a message with more text after it.
fn content(value: Value<'_>, more: &str) -> String {
    if let Some(said) = value.string() {
        return quoted(&format!("{said}{more}"));
    }
    if value.kind() == ValueKind::Array {
        let mut parts = array(value, |_, _| MemberEdit::Keep);
        parts.pop();
        if parts.len() > 1 {
            parts.push(',');
        }
        return format!("{parts}{{\"type\":\"text\",\"text\":{}}}]", quoted(more));
    }
    quoted(more)
}

/// A complete call.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholeCall<'a> {
    /// Its index among the calls of a chunk; calls in bodies have none.
    pub(super) index: Option<u64>,
    /// Its id.
    pub(super) id: &'a str,
    /// The kind of tool.
    pub(super) kind: ToolKind,
    /// The tool.
    pub(super) name: &'a str,
    /// Arguments.
    pub(super) input: &'a str,
}

/// Returns the entry of a call in `tool_calls`, with the other members of its first fragment.
pub(super) fn entry(call: WholeCall<'_>, first: Value<'_>) -> String {
    let (kind, input) = match call.kind {
        ToolKind::Custom => ("custom", "input"),
        ToolKind::Function | ToolKind::Unsaid => ("function", "arguments"),
    };
    let mut text = match call.index {
        Some(index) => format!("{{\"index\":{index},"),
        None => "{".to_owned(),
    };
    if !call.id.is_empty() {
        text.push_str(&format!("\"id\":{},", quoted(call.id)));
    }
    let name = quoted(call.name);
    let input = format!("\"{input}\":{}", quoted(call.input));
    text.push_str(&format!(
        "\"type\":\"{kind}\",\"{kind}\":{{\"name\":{name},{input}}}}}"
    ));
    let others = |name: &str| !matches!(name, "index" | "id" | "type" | "function" | "custom");
    for member in first.members().filter(|member| others(member.name)) {
        text = with_member(text, member.name, member.value.text());
    }
    text
}

/// Returns the `function_call` of a call.
pub(super) fn function_call(name: &str, arguments: &str) -> String {
    format!(
        "{{\"name\":{},\"arguments\":{}}}",
        quoted(name),
        quoted(arguments)
    )
}
