//! Rewriting of Responses: events and bodies with messages in place of the blocked calls.

use mcpmon_model::{Digest, OmittedCall, OmittedToolKind};

use crate::{
    decode::json::Value,
    llm::members::{MemberEdit, array, object, quoted},
};

/// Builds the item of a request that answers a call which was left out.
pub(super) fn answer(call: &OmittedCall) -> String {
    let kind = match call.called {
        OmittedToolKind::Function => "function_call_output",
        OmittedToolKind::Custom => "custom_tool_call_output",
    };
    let (call_id, said) = (quoted(&call.call_id), quoted(&call.said));
    format!("{{\"type\":\"{kind}\",\"call_id\":{call_id},\"output\":{said}}}")
}

/// Hexadecimal digits in a message's id.
const ID_DIGITS: usize = 32;

/// A message in place of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReplacementMessage {
    /// Its id, as JSON.
    id: String,
    /// The text, as JSON.
    text: String,
}

impl ReplacementMessage {
    /// Builds the message in place of the item with this id at this position of a response. Providers accept only
    /// messages whose ids have the prefix of messages; this id is no provider's, and no other response's.
    pub(super) fn new(response: &str, item_id: &str, place: u64, text: &str) -> Self {
        let of = format!("{response}\0{place}\0{item_id}");
        let id = Digest::of(of.as_bytes()).short(ID_DIGITS);
        Self {
            id: quoted(&format!("msg_mcpmon_{id}")),
            text: quoted(text),
        }
    }

    /// Returns the item, as it is in a response.
    pub(super) fn item(&self) -> String {
        self.in_state("completed", &format!("[{}]", part(&self.text)))
    }

    /// Returns the events of the message at a position among the items; `sequence` gives the number of each event, if
    /// events are numbered.
    pub(super) fn events(&self, output_index: u64, mut sequence: impl FnMut() -> Option<u64>) -> String {
        let Self { id, text } = self;
        let (empty, whole) = (part("\"\""), part(text));
        let of_part = format!("\"item_id\":{id},\"content_index\":0,");
        let events = [
            (
                "output_item.added",
                format!("\"item\":{}", self.in_state("in_progress", "[]")),
            ),
            ("content_part.added", format!("{of_part}\"part\":{empty}")),
            (
                "output_text.delta",
                format!("{of_part}\"delta\":{text},\"logprobs\":[]"),
            ),
            (
                "output_text.done",
                format!("{of_part}\"text\":{text},\"logprobs\":[]"),
            ),
            ("content_part.done", format!("{of_part}\"part\":{whole}")),
            ("output_item.done", format!("\"item\":{}", self.item())),
        ];
        let mut out = String::new();
        for (kind, more) in events {
            let number = sequence().map(|number| format!("\"sequence_number\":{number},"));
            out.push_str(&format!(
                "event: response.{kind}\ndata: {{\"type\":\"response.{kind}\",{}\"output_index\":{output_index},{more}}}\n\n",
                number.unwrap_or_default()
            ));
        }
        out
    }

    fn in_state(&self, status: &str, content: &str) -> String {
        format!(
            "{{\"id\":{},\"type\":\"message\",\"status\":\"{status}\",\"role\":\"assistant\",\"content\":{content}}}",
            self.id
        )
    }
}

fn part(text: &str) -> String {
    format!("{{\"type\":\"output_text\",\"text\":{text},\"annotations\":[],\"logprobs\":[]}}")
}

/// The edit of an item of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemEdit {
    /// The item stays.
    Keep,
    /// The item gets these arguments.
    Arguments(String),
    /// This message replaces the item.
    Replace(ReplacementMessage),
}

/// Returns a response with changed items, one edit for each.
pub(super) fn with_items(response: Value<'_>, edits: &[ItemEdit]) -> String {
    object(response, |member| {
        if member.name != "output" {
            return MemberEdit::Keep;
        }
        MemberEdit::Set(array(member.value, |at, item| match edits.get(at) {
            Some(ItemEdit::Keep) | None => MemberEdit::Keep,
            Some(ItemEdit::Arguments(arguments)) => MemberEdit::Set(with_arguments(item, arguments)),
            Some(ItemEdit::Replace(message)) => MemberEdit::Set(message.item()),
        }))
    })
}

/// Returns an event with its number raised by `higher`, if it has one, and with `response` in it, if one is given.
pub(super) fn with_response(event: Value<'_>, higher: u64, response: Option<&str>) -> String {
    object(event, |member| match (member.name, response) {
        ("sequence_number", _) => later(member.value, higher),
        ("response", Some(response)) => MemberEdit::Set(response.to_owned()),
        _ => MemberEdit::Keep,
    })
}

/// Returns a number raised by `higher`; anything else stays.
fn later(number: Value<'_>, higher: u64) -> MemberEdit {
    let number = number.text().parse::<u64>();
    number.map_or(MemberEdit::Keep, |number| {
        MemberEdit::Set(number.saturating_add(higher).to_string())
    })
}

/// Returns an event with other arguments in its item, in its complete arguments or in its part of them, and with its
/// number raised by `higher`.
pub(super) fn with_told(event: Value<'_>, higher: u64, arguments: &str) -> String {
    object(event, |member| match member.name {
        "sequence_number" => later(member.value, higher),
        "item" => MemberEdit::Set(with_arguments(member.value, arguments)),
        "delta" | "arguments" => MemberEdit::Set(quoted(arguments)),
        _ => MemberEdit::Keep,
    })
}

fn with_arguments(item: Value<'_>, arguments: &str) -> String {
    with(item, "arguments", &quoted(arguments))
}

fn with(value: Value<'_>, name: &str, new: &str) -> String {
    object(value, |member| {
        if member.name == name {
            MemberEdit::Set(new.to_owned())
        } else {
            MemberEdit::Keep
        }
    })
}
