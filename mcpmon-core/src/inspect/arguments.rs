//! What a call's arguments say: every key, text, number and literal with its path, walked once for all rules.

use std::{borrow::Cow, ops::Range};

use super::walk::{self, Part, Scalar, Step};
use crate::model::RawJson;

/// The arguments of a call, in the order of the text.
#[derive(Debug, Default)]
pub struct Arguments<'a> {
    steps: Vec<Step<'a>>,
    entries: Vec<Entry<'a>>,
}

#[derive(Debug)]
struct Entry<'a> {
    way: Range<usize>,
    kind: ArgumentKind,
    text: Cow<'a, str>,
    place: Range<usize>,
}

/// What an argument is in its JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// The name of a member.
    Key,
    /// A string.
    Text,
    /// A number, `true`, `false` or `null`, as it is written.
    Literal,
}

/// One key or value.
#[derive(Clone, Copy, Debug)]
pub struct Argument<'a> {
    steps: &'a [Step<'a>],
    kind: ArgumentKind,
    text: &'a str,
    place: &'a Range<usize>,
}

impl<'a> Arguments<'a> {
    /// Walks the arguments of a call. The text is trusted to be valid.
    #[must_use]
    pub fn walk(json: RawJson<'a>) -> Self {
        let mut arguments = Self::default();
        walk::scalars(json, |path, scalar, text, place| {
            let from = arguments.steps.len();
            arguments.steps.extend_from_slice(path.steps());
            arguments.entries.push(Entry {
                way: from..arguments.steps.len(),
                kind: match scalar {
                    Scalar::String(Part::Key) => ArgumentKind::Key,
                    Scalar::String(Part::Value) => ArgumentKind::Text,
                    Scalar::Literal => ArgumentKind::Literal,
                },
                text,
                place,
            });
        });
        arguments
    }

    /// Every key and value, a key before what it names.
    pub fn iter(&self) -> impl Iterator<Item = Argument<'_>> {
        self.entries.iter().map(|entry| Argument {
            steps: &self.steps[entry.way.clone()],
            kind: entry.kind,
            text: &entry.text,
            place: &entry.place,
        })
    }
}

impl<'a> Argument<'a> {
    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> ArgumentKind {
        self.kind
    }

    /// What it says: a string unescaped, anything else as it is written.
    #[must_use]
    pub const fn text(&self) -> &'a str {
        self.text
    }

    /// Where it stands, as findings show it: `files[0].path`; empty at the root.
    #[must_use]
    pub fn path(&self) -> String {
        walk::shown(self.steps)
    }

    /// Where it stands in the text that was walked, a string without its quotes.
    #[must_use]
    pub fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// Where in the text that was walked that stands which [`Self::text`] has at `span`.
    pub(super) fn written(&self, json: RawJson<'_>, span: &Range<usize>) -> Range<usize> {
        let written = walk::written(&json.as_str()[self.place.clone()], span);
        self.place.start + written.start..self.place.start + written.end
    }

    /// Whether both are in one object, or in one list.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        let around = |steps: &'a [Step<'a>]| steps.split_last().map(|(_, around)| around);
        around(self.steps) == around(other.steps)
    }

    /// Names of the members on the way, outermost first; a key's own is the last.
    pub fn members(&self) -> impl DoubleEndedIterator<Item = &'a str> + use<'a> {
        self.steps.iter().filter_map(|step| match step {
            Step::Member(name) => Some(name.as_ref()),
            Step::Item(_) => None,
        })
    }

    /// Name of the member it is the value of, or an item of; empty at the root.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.members().next_back().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_its_place() {
        let json = r#"{"path":"a\tb","opts":{"sizes":[1,"2"],"deep":null}}"#;
        let arguments = Arguments::walk(RawJson::trusted(json));
        let told = |argument: Argument<'_>| {
            let (kind, name) = (argument.kind(), argument.name().to_owned());
            (kind, argument.path(), name, argument.text().to_owned())
        };
        let seen: Vec<_> = arguments.iter().map(told).collect();
        let expected = [
            (ArgumentKind::Key, "path", "path", "path"),
            (ArgumentKind::Text, "path", "path", "a\tb"),
            (ArgumentKind::Key, "opts", "opts", "opts"),
            (ArgumentKind::Key, "opts.sizes", "sizes", "sizes"),
            (ArgumentKind::Literal, "opts.sizes[0]", "sizes", "1"),
            (ArgumentKind::Text, "opts.sizes[1]", "sizes", "2"),
            (ArgumentKind::Key, "opts.deep", "deep", "deep"),
            (ArgumentKind::Literal, "opts.deep", "deep", "null"),
        ];
        let expected = expected
            .map(|(kind, path, name, text)| (kind, path.to_owned(), name.to_owned(), text.to_owned()));
        assert_eq!(seen, expected);
    }
}
