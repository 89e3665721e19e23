//! JSON text that was accepted and is kept as it came, and the one reader of it.

mod document;
mod reader;
mod string;

use std::borrow::Cow;

pub(super) use self::reader::JsonReader;
pub use self::{
    document::{Document, Items, Member, Members, Value, ValueKind},
    string::{Escape, next_special, quote_or_escape, unescape, unescape_into},
};

/// A JSON value as it was written: valid, and never re-encoded, so that numbers and ids stay exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawJson<'a>(&'a str);

impl<'a> RawJson<'a> {
    /// Wraps text that a strict parser accepted. What is built on it relies on that.
    pub const fn trusted(text: &'a str) -> Self {
        Self(text)
    }

    /// Returns the JSON string literal for `text`.
    pub fn quoted(text: &str) -> String {
        serde_json::Value::from(text).to_string()
    }

    /// Returns the text.
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// Returns the members of an object, in order, with unescaped names; none if it is no object.
    pub fn members(self) -> impl Iterator<Item = (Cow<'a, str>, Self)> {
        let members = Document::new(self.0).members();
        members.map(|member| (member.decoded_name(), member.value.raw()))
    }

    /// Returns the items of a list, in order; none if it is no list.
    pub fn items(self) -> impl Iterator<Item = Self> {
        Document::new(self.0).items().map(Value::raw)
    }

    /// Returns the member `name`. If it occurs twice, the last one counts, as for every parser of the SDKs.
    #[must_use]
    pub fn member(self, name: &str) -> Option<Self> {
        self.members()
            .filter(|(member, _)| member == name)
            .last()
            .map(|(_, value)| value)
    }

    /// Returns the decoded string; `None` if this is not a string.
    pub fn text(self) -> Option<Cow<'a, str>> {
        let inside = self.0.trim().strip_prefix('"')?.strip_suffix('"')?;
        Some(unescape(inside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_name() {
        let json = RawJson::trusted(r#"{"a":{"b":"x\ny"},"c":1,"c":2}"#);
        let text = json
            .member("a")
            .and_then(|inner| inner.member("b"))
            .and_then(RawJson::text);
        assert_eq!(text.as_deref(), Some("x\ny"));
        assert_eq!(json.member("c").map(RawJson::as_str), Some("2"));
        assert_eq!(json.member("b"), None);
        assert_eq!(json.text(), None);
        let list = RawJson::trusted(r#"[1,{"a":[2]}]"#);
        assert_eq!(
            list.items().map(RawJson::as_str).collect::<Vec<_>>(),
            ["1", r#"{"a":[2]}"#]
        );
        assert_eq!(json.items().next(), None);
    }
}
