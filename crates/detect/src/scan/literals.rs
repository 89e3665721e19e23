//! Finds many literals at once, whatever the case of their letters.

use aho_corasick::{AhoCorasick, AhoCorasickKind};

/// Literals in lower case, ready to be found.
#[derive(Debug)]
pub(crate) struct Literals(AhoCorasick);

impl Literals {
    /// Makes them ready. A few hundred make a table that fits into a processor's cache.
    pub(crate) fn new<L: AsRef<[u8]>>(texts: impl IntoIterator<Item = L>) -> Self {
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(texts);
        Self(automaton.expect("constant literals are made ready by every test"))
    }

    /// Returns whether any literal stands in `text`.
    pub(crate) fn is_in(&self, text: &[u8]) -> bool {
        self.0.is_match(text)
    }

    /// Returns the positions and numbers of literals, ascending.
    pub(crate) fn find(&self, text: &[u8]) -> Vec<(usize, usize)> {
        let found = self.0.find_overlapping_iter(text);
        let mut found: Vec<_> = found
            .map(|found| (found.start(), found.pattern().as_usize()))
            .collect();
        found.sort_unstable();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_is_found_in_either_case() {
        let literals = Literals::new(["ignore", "ignored", "nor", "@"]);
        assert_eq!(literals.find(b"x IGNored@"), [(2, 0), (2, 1), (4, 2), (9, 3)]);
        assert!(literals.is_in(b"NOR") && !literals.is_in(b"no r"));
    }
}
