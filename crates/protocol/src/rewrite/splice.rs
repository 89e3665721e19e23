//! Text with some of its parts replaced or removed; changes are noted in any order.

use std::{cmp::Reverse, ops::Range};

/// Changes to one text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Splices {
    changes: Vec<(Range<usize>, String)>,
}

impl Splices {
    /// Returns whether nothing changes.
    pub const fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Replaces the text at `place`.
    pub fn put(&mut self, place: Range<usize>, new: impl Into<String>) {
        self.changes.push((place, new.into()));
    }

    /// Removes those members of one object, or items of one array, for which `goes` is true, with their commas;
    /// `places` are those of all members or items, in order.
    pub fn leave_out(&mut self, places: &[Range<usize>], goes: impl Fn(usize) -> bool) {
        let mut before: Option<usize> = None;
        for (position, place) in places.iter().enumerate() {
            if !goes(position) {
                before = Some(place.end);
                continue;
            }
            let next = places.get(position + 1).map(|next| next.start);
            let part = match (before, next) {
                (Some(before), _) => before..place.end,
                (None, Some(next)) => place.start..next,
                (None, None) => place.clone(),
            };
            before = before.map(|_| place.end);
            self.changes.push((part, String::new()));
        }
    }

    /// Returns the text with its changes. Of two overlapping changes the one that contains the other counts, else the
    /// first; an insertion stays even if the text after it is removed.
    pub fn apply(mut self, text: &str) -> String {
        self.changes
            .sort_by_key(|(place, _)| (place.start, !place.is_empty(), Reverse(place.end)));
        let mut out = String::with_capacity(text.len() + 256);
        let mut done = 0;
        for (place, new) in self.changes {
            if let Some(before) = text.get(done..place.start)
                && text.is_char_boundary(place.end)
            {
                out.push_str(before);
                out.push_str(&new);
                done = place.end;
            }
        }
        out.push_str(&text[done..]);
        out
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::decode::json::{LoneSurrogate, MAX_DEPTH, Scanner};

    #[test_case("" => r#"{ "a":1 , "b":2 ,"c":3 }"#; "nothing")]
    #[test_case("a" => r#"{ "b":2 ,"c":3 }"#; "the first")]
    #[test_case("b" => r#"{ "a":1 ,"c":3 }"#; "one in the middle")]
    #[test_case("c" => r#"{ "a":1 , "b":2 }"#; "the last")]
    #[test_case("ab" => r#"{ "c":3 }"#; "the first two")]
    #[test_case("bc" => r#"{ "a":1 }"#; "the last two")]
    #[test_case("ac" => r#"{ "b":2 }"#; "all but one")]
    #[test_case("abc" => "{  }"; "all")]
    fn members_are_left_out(names: &str) -> String {
        let text = r#"{ "a":1 , "b":2 ,"c":3 }"#;
        let mut scanner = Scanner::new(MAX_DEPTH);
        let scan = scanner.scan(text.as_bytes(), LoneSurrogate::Refuse).unwrap();
        let members: Vec<_> = scan.document.root().members().collect();
        let places: Vec<_> = members
            .iter()
            .map(|member| member.start..member.value.range().end)
            .collect();
        let mut splices = Splices::default();
        splices.leave_out(&places, |position| names.contains(members[position].name));
        splices.apply(text)
    }

    #[test_case(&[(4..5, "E"), (0..1, "A")] => "AbcdEf"; "in any order")]
    #[test_case(&[(1..5, "x"), (2..3, "y")] => "axf"; "one around another")]
    #[test_case(&[(2..3, "y"), (1..3, "x")] => "axdef"; "one that starts before another")]
    #[test_case(&[(0..0, "<"), (6..6, ">")] => "<abcdef>"; "at the ends")]
    #[test_case(&[(5..9, "x")] => "abcdef"; "what does not fit")]
    fn changes_are_made(changes: &[(Range<usize>, &str)]) -> String {
        let mut splices = Splices::default();
        for (place, new) in changes {
            splices.put(place.clone(), *new);
        }
        splices.apply("abcdef")
    }
}
