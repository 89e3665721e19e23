//! Objects and arrays of which some members or items are rewritten; the rest stays as it was written.

use crate::decode::json::{Member, Value, quote_into};

/// The edit of a member or an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MemberEdit {
    /// The item stays.
    Keep,
    /// The item is left out.
    Drop,
    /// The item gets this value.
    Set(String),
}

/// Returns an object with its members changed.
pub(super) fn object<'t>(object: Value<'t>, mut change: impl FnMut(Member<'t>) -> MemberEdit) -> String {
    let (text, offset) = (object.text(), object.range().start);
    let mut out = "{".to_owned();
    for member in object.members() {
        let start = member.start - offset;
        let value = member.value.range();
        let (written, new) = match change(member) {
            MemberEdit::Keep => (&text[start..value.end - offset], None),
            MemberEdit::Drop => continue,
            MemberEdit::Set(new) => (&text[start..value.start - offset], Some(new)),
        };
        separate(&mut out, '{');
        out.push_str(written);
        out.extend(new);
    }
    out.push('}');
    out
}

/// Returns an array with its items changed.
pub(super) fn array<'t>(array: Value<'t>, mut change: impl FnMut(usize, Value<'t>) -> MemberEdit) -> String {
    let mut out = "[".to_owned();
    for (at, item) in array.items().enumerate() {
        match change(at, item) {
            MemberEdit::Drop => {}
            MemberEdit::Keep => {
                separate(&mut out, '[');
                out.push_str(item.text());
            }
            MemberEdit::Set(new) => {
                separate(&mut out, '[');
                out.push_str(&new);
            }
        }
    }
    out.push(']');
    out
}

/// Returns an object with one more member; its name is given as written between the quotes.
pub(super) fn with_member(mut object: String, name: &str, value: &str) -> String {
    object.pop();
    separate(&mut object, '{');
    object.push('"');
    object.push_str(name);
    object.push_str("\":");
    object.push_str(value);
    object.push('}');
    object
}

/// Returns a text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quote_into(text, &mut quoted);
    quoted
}

fn separate(out: &mut String, open: char) {
    if !out.ends_with(open) || out.len() > 1 {
        out.push(',');
    }
}
