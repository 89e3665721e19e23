//! Walking over a text that was scanned: values by their place, members and items in order, nothing copied.

use std::{borrow::Cow, ops::Range};

use mcpmon_model::RawJson;

use super::string::{self, is_spelled_like};

/// Bytes of a string that are searched for its end before it is looked up among what is long: a name is shorter.
const NEAR: usize = 16;

/// A text that was scanned.
#[derive(Clone, Copy, Debug)]
pub struct Document<'t> {
    text: &'t str,
    /// First byte and end of what is long and not deep, by the first byte.
    long: &'t [(u32, u32)],
}

impl<'t> Document<'t> {
    pub(super) const fn new(text: &'t str, long: &'t [(u32, u32)]) -> Self {
        Self { text, long }
    }

    /// The text.
    pub const fn text(self) -> &'t str {
        self.text
    }

    /// The value that the text is.
    pub fn root(self) -> Value<'t> {
        let start = self.after_space(0);
        self.value_at(start)
    }

    fn value_at(self, start: usize) -> Value<'t> {
        Value {
            document: self,
            start,
            end: self.end_of(start),
        }
    }

    fn byte(self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    fn after_space(self, mut at: usize) -> usize {
        while matches!(self.byte(at), b' ' | b'\t' | b'\r' | b'\n') {
            at += 1;
        }
        at
    }

    /// The end of the value that starts at `start`.
    fn end_of(self, start: usize) -> usize {
        match self.byte(start) {
            b'"' => self.end_of_string(start),
            b'{' | b'[' => self
                .known_end(start)
                .unwrap_or_else(|| self.end_of_container(start)),
            _ => {
                let rest = &self.text.as_bytes()[start..];
                let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n');
                start + rest.iter().position(ends).unwrap_or(rest.len())
            }
        }
    }

    fn known_end(self, start: usize) -> Option<usize> {
        let place = |place: &(u32, u32)| (place.0 as usize).cmp(&start);
        let found = self.long.binary_search_by(place).ok()?;
        Some(self.long[found].1 as usize)
    }

    fn end_of_string(self, quote: usize) -> usize {
        let bytes = self.text.as_bytes();
        let mut at = quote + 1;
        let near = &bytes[..bytes.len().min(at + NEAR)];
        while let Some(found) = string::next_special(near, at) {
            if bytes[found] == b'"' {
                return found + 1;
            }
            at = found + 2;
        }
        if let Some(end) = self.known_end(quote) {
            return end;
        }
        while let Some(found) = string::next_special(bytes, at) {
            if bytes[found] == b'"' {
                return found + 1;
            }
            at = found + 2;
        }
        bytes.len()
    }

    fn end_of_container(self, start: usize) -> usize {
        let bytes = self.text.as_bytes();
        let (mut at, mut depth) = (start, 0_usize);
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => {
                    at = self.end_of_string(at);
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                break;
            }
        }
        at
    }
}

/// The kind of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// A value, by its place in the text.
#[derive(Clone, Copy, Debug)]
pub struct Value<'t> {
    document: Document<'t>,
    start: usize,
    end: usize,
}

impl<'t> Value<'t> {
    /// Returns the kind of the value.
    pub fn kind(self) -> ValueKind {
        match self.document.byte(self.start) {
            b'"' => ValueKind::String,
            b'{' => ValueKind::Object,
            b'[' => ValueKind::Array,
            b't' | b'f' => ValueKind::Boolean,
            b'n' => ValueKind::Null,
            _ => ValueKind::Number,
        }
    }

    /// Returns the range of the value in the text.
    pub const fn range(self) -> Range<usize> {
        self.start..self.end
    }

    /// As it was written.
    pub fn text(self) -> &'t str {
        &self.document.text[self.range()]
    }

    /// As it was written, for those who judge it.
    pub fn raw(self) -> RawJson<'t> {
        RawJson::trusted(self.text())
    }

    /// Returns the decoded string, if the value is one.
    pub fn string(self) -> Option<Cow<'t, str>> {
        let inside = self.text().strip_prefix('"')?.strip_suffix('"')?;
        Some(string::unescape(inside))
    }

    /// Returns whether it is an object.
    pub fn is_object(self) -> bool {
        self.kind() == ValueKind::Object
    }

    /// Returns whether it is `null`.
    pub fn is_null(self) -> bool {
        self.kind() == ValueKind::Null
    }

    /// Returns whether it is `true`.
    pub fn is_true(self) -> bool {
        self.document.byte(self.start) == b't'
    }

    /// Its members in order, if it is an object; otherwise none.
    pub fn members(self) -> Members<'t> {
        Members(Inside::of(self, ValueKind::Object))
    }

    /// The member with this name, which needs no escapes to be written.
    #[must_use]
    pub fn member(self, name: &str) -> Option<Self> {
        self.members()
            .find(|member| member.name == name)
            .map(|member| member.value)
    }

    /// The members with these names, read in one pass. `None` where a name is another spelling of one of them
    /// ([`is_spelled_like`]): some readers take the one for the other.
    #[must_use]
    pub fn pick<const N: usize>(self, names: [&str; N]) -> Option<[Option<Self>; N]> {
        self.pick_unless(names, |_, _| true)
    }

    /// The same of a result: a member in another spelling that says what its absence says (`"next_cursor": null`,
    /// `"is_error": false`) is no member, unless the one it is taken for is there too.
    #[must_use]
    pub fn pick_of_result<const N: usize>(self, names: [&str; N]) -> Option<[Option<Self>; N]> {
        self.pick_unless(names, |known, value| {
            let says_nothing = value.is_null() || self.document.byte(value.start) == b'f';
            !says_nothing || self.member(known).is_some()
        })
    }

    fn pick_unless<const N: usize>(
        self,
        names: [&str; N],
        counts: impl Fn(&str, Self) -> bool,
    ) -> Option<[Option<Self>; N]> {
        let mut picked = [None; N];
        for member in self.members() {
            if let Some(place) = names.iter().position(|name| *name == member.name) {
                picked[place] = Some(member.value);
                continue;
            }
            let mut alike = names.iter().filter(|name| is_spelled_like(member.name, name));
            if alike.any(|name| counts(name, member.value)) {
                return None;
            }
        }
        Some(picked)
    }

    /// Its items in order, if it is an array; otherwise none.
    pub fn items(self) -> Items<'t> {
        Items(Inside::of(self, ValueKind::Array))
    }
}

/// A member of an object.
#[derive(Clone, Copy, Debug)]
pub struct Member<'t> {
    /// Its name as it is written between the quotes.
    pub name: &'t str,
    /// The position of the opening quote of its name.
    pub start: usize,
    /// Its value.
    pub value: Value<'t>,
}

/// A position within a container: at the first byte of a member or item, if there is one.
#[derive(Clone, Copy, Debug)]
struct Inside<'t> {
    document: Document<'t>,
    next: Option<usize>,
}

impl<'t> Inside<'t> {
    fn of(value: Value<'t>, kind: ValueKind) -> Self {
        let document = value.document;
        let first = document.after_space(value.start + 1);
        let has_some = value.kind() == kind && !matches!(document.byte(first), b'}' | b']');
        Self {
            document,
            next: has_some.then_some(first),
        }
    }

    /// Goes on behind a value.
    fn pass(&mut self, value: Value<'t>) {
        let after = self.document.after_space(value.end);
        self.next = (self.document.byte(after) == b',').then(|| self.document.after_space(after + 1));
    }
}

/// The members of an object.
#[derive(Clone, Copy, Debug)]
pub struct Members<'t>(Inside<'t>);

impl<'t> Iterator for Members<'t> {
    type Item = Member<'t>;

    fn next(&mut self) -> Option<Member<'t>> {
        let start = self.0.next?;
        let document = self.0.document;
        let end = document.end_of_string(start);
        let colon = document.after_space(end);
        let value = document.value_at(document.after_space(colon + 1));
        self.0.pass(value);
        Some(Member {
            name: &document.text[start + 1..end - 1],
            start,
            value,
        })
    }
}

/// The items of an array.
#[derive(Clone, Copy, Debug)]
pub struct Items<'t>(Inside<'t>);

impl<'t> Iterator for Items<'t> {
    type Item = Value<'t>;

    fn next(&mut self) -> Option<Value<'t>> {
        let value = self.0.document.value_at(self.0.next?);
        self.0.pass(value);
        Some(value)
    }
}
