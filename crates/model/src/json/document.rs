//! Walking over JSON text that was accepted: values by their place, members and items in order, nothing copied.

use std::{borrow::Cow, ops::Range};

use super::{RawJson, reader::JsonReader, string::unescape};
use crate::is_spelled_like;

/// A JSON text that was accepted.
#[derive(Clone, Copy, Debug)]
pub struct Document<'t> {
    text: &'t str,
    /// First byte and end of long values that are not deep, in the order of the first bytes.
    long: &'t [(u32, u32)],
}

impl<'t> Document<'t> {
    /// Makes a document of which only the text is known.
    pub const fn new(text: &'t str) -> Self {
        Self { text, long: &[] }
    }

    /// Makes a document of which the first byte and the end of long values are known, in the order of the first
    /// bytes: these values are skipped without reading them.
    pub const fn with_ends(text: &'t str, long: &'t [(u32, u32)]) -> Self {
        Self { text, long }
    }

    /// Returns the text.
    pub const fn text(self) -> &'t str {
        self.text
    }

    /// Returns the value of the whole text.
    pub fn root(self) -> Value<'t> {
        let nothing = Value {
            document: self,
            start: self.text.len(),
            end: self.text.len(),
        };
        JsonReader::new(self).value().unwrap_or(nothing)
    }

    /// Returns its members in order; none if it is no object.
    pub fn members(self) -> Members<'t> {
        Members::of(self, 0)
    }

    /// Returns its items in order; none if it is no array.
    pub fn items(self) -> Items<'t> {
        Items::of(self, 0)
    }

    /// Returns the end of the value that starts at `start`, if it is known.
    pub(super) fn known_end(self, start: usize) -> Option<usize> {
        let place = |place: &(u32, u32)| (place.0 as usize).cmp(&start);
        let found = self.long.binary_search_by(place).ok()?;
        Some(self.long[found].1 as usize)
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
    pub(super) document: Document<'t>,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl<'t> Value<'t> {
    /// Returns the kind of the value.
    pub fn kind(self) -> ValueKind {
        match self.first() {
            Some(b'"') => ValueKind::String,
            Some(b'{') => ValueKind::Object,
            Some(b'[') => ValueKind::Array,
            Some(b't' | b'f') => ValueKind::Boolean,
            Some(b'n') => ValueKind::Null,
            _ => ValueKind::Number,
        }
    }

    fn first(self) -> Option<u8> {
        self.document.text.as_bytes().get(self.start).copied()
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
        Some(unescape(inside))
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
        self.first() == Some(b't')
    }

    /// Its members in order, if it is an object; otherwise none.
    pub fn members(self) -> Members<'t> {
        Members::of(self.document, self.start)
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
            let says_nothing = value.is_null() || value.first() == Some(b'f');
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
        Items::of(self.document, self.start)
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

impl<'t> Member<'t> {
    /// Returns the decoded name.
    pub fn decoded_name(self) -> Cow<'t, str> {
        unescape(self.name)
    }
}

/// The members of an object.
#[derive(Clone, Copy, Debug)]
pub struct Members<'t> {
    reader: JsonReader<'t>,
    /// True if another one follows.
    has_more: bool,
}

impl<'t> Members<'t> {
    /// Returns the members of the object that starts at `start`; none if there is no object.
    fn of(document: Document<'t>, start: usize) -> Self {
        let mut reader = JsonReader::at(document, start);
        let has_more = reader.enter(b'{', b'}');
        Self { reader, has_more }
    }
}

impl<'t> Iterator for Members<'t> {
    type Item = Member<'t>;

    fn next(&mut self) -> Option<Member<'t>> {
        if !std::mem::take(&mut self.has_more) {
            return None;
        }
        let name = self.reader.string()?;
        let start = self.reader.position() - name.len() - "\"\"".len();
        self.reader.take(b':')?;
        let value = self.reader.value()?;
        self.has_more = self.reader.more(b'}') == Some(true);
        Some(Member { name, start, value })
    }
}

/// The items of an array.
#[derive(Clone, Copy, Debug)]
pub struct Items<'t> {
    reader: JsonReader<'t>,
    /// True if another one follows.
    has_more: bool,
}

impl<'t> Items<'t> {
    /// Returns the items of the array that starts at `start`; none if there is no array.
    fn of(document: Document<'t>, start: usize) -> Self {
        let mut reader = JsonReader::at(document, start);
        let has_more = reader.enter(b'[', b']');
        Self { reader, has_more }
    }
}

impl<'t> Iterator for Items<'t> {
    type Item = Value<'t>;

    fn next(&mut self) -> Option<Value<'t>> {
        if !std::mem::take(&mut self.has_more) {
            return None;
        }
        let value = self.reader.value()?;
        self.has_more = self.reader.more(b']') == Some(true);
        Some(value)
    }
}
