//! Arguments of a call: every key, text, number and literal with its path, walked once for all rules.

use std::{borrow::Cow, ops::Range};

use mcpmon_model::RawJson;

use super::walk::{self, Part, Scalar, Step};

/// Most keys and values of one call that are kept.
pub const MAX_ARGUMENTS: usize = 1 << 17;
/// Most steps of all their paths together, where a long name counts as several: deep nesting would make memory
/// quadratic.
const MAX_STEPS: usize = 1 << 19;
/// Bytes of a name that count as one step.
const STEP: usize = 64;

/// The arguments of a call, in the order of the text.
#[derive(Debug, Default)]
pub struct Arguments<'a> {
    steps: Vec<Step<'a>>,
    entries: Vec<ArgumentEntry<'a>>,
    is_cut: bool,
}

#[derive(Debug)]
struct ArgumentEntry<'a> {
    way: Range<usize>,
    kind: ArgumentKind,
    text: Cow<'a, str>,
    place: Range<usize>,
}

/// The kind of an argument in its JSON text.
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
    /// Walks the arguments of a call, whose text is trusted to be valid. Keeps the first keys and values up to the
    /// limit, see [`Self::is_cut`].
    pub fn walk(json: RawJson<'a>) -> Self {
        let mut arguments = Self::default();
        let mut room = MAX_STEPS;
        walk::scalars(json, |path, scalar, text, place| {
            if arguments.is_cut {
                return;
            }
            let weight = path.steps().iter().map(weight).sum();
            match room.checked_sub(weight) {
                Some(left) if arguments.entries.len() < MAX_ARGUMENTS => room = left,
                Some(_) | None => {
                    arguments.is_cut = true;
                    return;
                }
            }
            let from = arguments.steps.len();
            arguments.steps.extend_from_slice(path.steps());
            arguments.entries.push(ArgumentEntry {
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

    /// Returns whether there were more keys and values than are kept. A call must not pass with some that were not
    /// inspected.
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns every key and value; a key comes before its value.
    pub fn iter(&self) -> impl Iterator<Item = Argument<'_>> {
        self.entries.iter().map(|entry| Argument {
            steps: &self.steps[entry.way.clone()],
            kind: entry.kind,
            text: &entry.text,
            place: &entry.place,
        })
    }
}

fn weight(step: &Step<'_>) -> usize {
    match step {
        Step::Member(name) => 1 + name.len() / STEP,
        Step::Item(_) => 1,
    }
}

impl<'a> Argument<'a> {
    /// Returns its kind.
    pub const fn kind(&self) -> ArgumentKind {
        self.kind
    }

    /// Returns its text: a string unescaped, anything else as it is written.
    pub const fn text(&self) -> &'a str {
        self.text
    }

    /// Returns its path, as findings show it: `files[0].path`; empty at the root.
    pub fn path(&self) -> String {
        walk::shown(self.steps)
    }

    /// Returns its range in the walked text, for a string without its quotes.
    pub fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// Returns the range in the walked text of the part that [`Self::text`] has at `span`.
    pub(super) fn written(&self, json: RawJson<'_>, span: &Range<usize>) -> Range<usize> {
        let written = walk::written(&json.as_str()[self.place.clone()], span);
        self.place.start + written.start..self.place.start + written.end
    }

    /// Returns whether both are in one object, or in one list.
    pub(super) fn has_same_origin(&self, other: &Self) -> bool {
        self.around() == other.around()
    }

    /// Returns the path of the object or list that contains the argument; `None` at the root.
    pub(super) fn around(&self) -> Option<&'a [Step<'a>]> {
        self.steps.split_last().map(|(_, around)| around)
    }

    /// Returns the names of the members on the path, outermost first; the own name of a key is the last.
    pub fn members(&self) -> impl DoubleEndedIterator<Item = &'a str> + use<'a> {
        self.steps.iter().filter_map(|step| match step {
            Step::Member(name) => Some(name.as_ref()),
            Step::Item(_) => None,
        })
    }

    /// Returns the name of the member whose value, or an item of whose value, it is; empty at the root.
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

    #[test]
    fn there_is_an_end() {
        let walked = |count: usize| {
            let json = format!("[{}1]", "1,".repeat(count - 1));
            let arguments = Arguments::walk(RawJson::trusted(&json));
            (arguments.iter().count(), arguments.is_cut())
        };
        assert_eq!(walked(MAX_ARGUMENTS), (MAX_ARGUMENTS, false));
        assert_eq!(walked(MAX_ARGUMENTS + 1), (MAX_ARGUMENTS, true));
    }

    #[test]
    fn depth_counts() {
        let deep = |open: &str, close: &str, depth: usize, count: usize| {
            format!(
                "{}{}1{}",
                open.repeat(depth),
                "1,".repeat(count),
                close.repeat(depth)
            )
        };
        let is_cut = |json: &str| {
            let arguments = Arguments::walk(RawJson::trusted(json));
            assert!(arguments.steps.len() <= MAX_STEPS);
            arguments.is_cut()
        };
        assert!(!is_cut(&deep("[", "]", 10, 10_000)));
        assert!(is_cut(&deep("[", "]", 100, 10_000)));
        let long = format!(r#"{{"{}":["#, "k".repeat(1 << 16));
        assert!(
            is_cut(&deep(&long, "]}", 4, 10_000)),
            "long names are copied and compared"
        );
    }
}
