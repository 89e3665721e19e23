//! Changes: the text of a definition that its former version did not have.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use mcpmon_model::{Digest, RawJson};

use super::Scene;
use crate::walk::{self, Part, Path};

/// The former version of a definition.
#[derive(Debug)]
pub(super) enum Past {
    /// There is none.
    None,
    /// The version that was listed.
    Listed(Texts),
    /// The version that was accepted.
    Accepted(Texts),
}

impl Past {
    pub(super) fn of(scene: &Scene<'_>) -> Self {
        match (scene.accepted, scene.before) {
            (Some(accepted), _) => Self::Accepted(Texts::of(accepted)),
            (None, Some(before)) => Self::Listed(Texts::of(before)),
            (None, None) => Self::None,
        }
    }

    pub(super) const fn texts(&self) -> Option<&Texts> {
        match self {
            Self::None => None,
            Self::Listed(texts) | Self::Accepted(texts) => Some(texts),
        }
    }

    /// Returns whether its text is accepted, so that only other text counts.
    pub(super) const fn excuses(&self) -> bool {
        matches!(self, Self::Accepted(_))
    }
}

/// The texts of a definition and the names of its members, by the digests of their paths.
#[derive(Debug)]
pub(super) struct Texts {
    values: BTreeMap<Digest, String>,
    names: BTreeSet<Digest>,
}

impl Texts {
    fn of(definition: RawJson<'_>) -> Self {
        let (mut values, mut names) = (BTreeMap::new(), BTreeSet::new());
        walk::strings(definition, |path, part, text| match part {
            Part::Key => {
                names.insert(path.digest());
            }
            Part::Value => {
                values.insert(path.digest(), text.into_owned());
            }
        });
        Self { values, names }
    }

    /// Returns the text at `path`.
    pub(super) fn get(&self, path: &Path<'_>) -> Option<&str> {
        self.values.get(&path.digest()).map(String::as_str)
    }

    /// Returns the range of the name of the member at `path` if it is new.
    pub(super) fn added_name(&self, path: &Path<'_>, name: &str) -> Option<Range<usize>> {
        (!self.names.contains(&path.digest())).then_some(0..name.len())
    }

    /// Returns the part of a text at `path` that is new; `None` if no part of it is.
    pub(super) fn added(&self, path: &Path<'_>, text: &str) -> Option<Range<usize>> {
        let Some(before) = self.get(path) else {
            return Some(0..text.len());
        };
        if before == text {
            return None;
        }
        let same = |(a, b): &(u8, u8)| a == b;
        let start = before.bytes().zip(text.bytes()).take_while(same).count();
        let most = before.len().min(text.len()) - start;
        let end = before
            .bytes()
            .rev()
            .zip(text.bytes().rev())
            .take_while(same)
            .take(most)
            .count();
        // If something was removed, the text that is now adjacent is new.
        let end = (text.len() - end).max(start + 1).min(text.len());
        Some(start.min(end.saturating_sub(1))..end)
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("reads a file", "reads a file", None; "nothing")]
    #[test_case("reads a file", "reads a big file", Some(8..12); "a word")]
    #[test_case("reads a file", "reads a file. Then more", Some(12..23); "at the end")]
    #[test_case("never reads a file", "reads a file", Some(0..1); "something taken out")]
    #[test_case("", "new", Some(0..3); "from nothing")]
    #[test_case("aaa", "aaaa", Some(3..4); "a repetition")]
    fn only_what_is_new_counts(accepted: &str, text: &str, expected: Option<Range<usize>>) {
        let accepted = serde_json::json!({"description": accepted}).to_string();
        let now = serde_json::json!({"description": text}).to_string();
        assert_eq!(added(&accepted, &now), [expected]);
    }

    #[test]
    fn a_new_field_is_all_new() {
        assert_eq!(added("{}", r#"{"title":"text"}"#), [Some(0..4)]);
    }

    #[test]
    fn what_moved_is_new() {
        let accepted = r#"{"a":["x",{"b":"y"}],"a.b":"z"}"#;
        assert_eq!(added(accepted, accepted), [None, None, None]);
        let moved = r#"{"a":[{"b":"y"},"x"],"a":{"b":"z"}}"#;
        assert_eq!(added(accepted, moved), [Some(0..1), Some(0..1), Some(0..1)]);
    }

    /// Returns the new parts of each text.
    fn added(accepted: &str, now: &str) -> Vec<Option<Range<usize>>> {
        let accepted = Texts::of(RawJson::trusted(accepted));
        let mut added = Vec::new();
        walk::strings(RawJson::trusted(now), |path, part, text| {
            if part == Part::Value {
                added.push(accepted.added(path, &text));
            }
        });
        added
    }
}
