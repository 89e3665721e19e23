//! Search for many literals at once, ignoring their case.

use aho_corasick::{
    Anchored, PatternID,
    automaton::{Automaton as _, StateID},
    dfa::DFA,
};

/// Parts of a long text that are read in parallel: each step of one waits for memory that its previous step addressed,
/// and the steps of the others use that time.
const LANES: usize = 4;
/// The shortest text that is read in parts.
const LONG: usize = 256;

/// Literals in lower case, compiled for the search.
#[derive(Debug)]
pub(crate) struct Literals {
    automaton: DFA,
    start: StateID,
    /// Bytes before a position that decide about literals that end there.
    reach: usize,
}

impl Literals {
    /// Compiles the literals. The table for a few hundred of them fits into a processor's cache.
    pub(crate) fn new<L: AsRef<[u8]>>(texts: impl IntoIterator<Item = L>) -> Self {
        let automaton = DFA::builder()
            .ascii_case_insensitive(true)
            .prefilter(false)
            .build(texts);
        let automaton = automaton.expect("constant literals are made ready by every test");
        let start = automaton
            .start_state(Anchored::No)
            .expect("it is built for this start");
        Self {
            start,
            reach: automaton.max_pattern_len().saturating_sub(1),
            automaton,
        }
    }

    /// Returns whether any literal occurs in `text`.
    pub(crate) fn is_in(&self, text: &[u8]) -> bool {
        let mut is_found = false;
        self.read(text, |_, _| {
            is_found = true;
            false
        });
        is_found
    }

    /// Returns the positions and numbers of literals, ascending.
    pub(crate) fn find(&self, text: &[u8]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        self.read(text, |end, literal| {
            found.push((end - self.automaton.pattern_len(literal), literal.as_usize()));
            true
        });
        found.sort_unstable();
        found
    }

    /// Calls `take` with the end and the number of every literal, in no order, until it returns `false`.
    fn read(&self, text: &[u8], mut take: impl FnMut(usize, PatternID) -> bool) {
        let length = text.len() / LANES;
        if text.len() < LONG || length <= self.reach {
            self.read_from(text, 0, self.start, &mut take);
            return;
        }
        let begins: [usize; LANES] = std::array::from_fn(|lane| lane * length);
        // Literals that began in the previous part.
        let before = begins.map(|begin| &text[begin.saturating_sub(self.reach)..begin]);
        let mut states = [self.start; LANES];
        for at in 0..self.reach {
            for (state, before) in states.iter_mut().zip(before).skip(1) {
                *state = self.next(*state, before[at]);
            }
        }
        let [first, second, third, fourth] = begins.map(|begin| &text[begin..begin + length]);
        for (at, (((first, second), third), fourth)) in
            first.iter().zip(second).zip(third).zip(fourth).enumerate()
        {
            let bytes = [*first, *second, *third, *fourth];
            states = std::array::from_fn(|lane| self.next(states[lane], bytes[lane]));
            if !states.iter().any(|state| self.automaton.is_special(*state)) {
                continue;
            }
            for (state, begin) in states.into_iter().zip(begins) {
                if !self.tell(state, begin + at + 1, &mut take) {
                    return;
                }
            }
        }
        self.read_from(text, LANES * length, states[LANES - 1], &mut take);
    }

    /// Reads the text from a position in the same way, with the state that is reached there.
    fn read_from(
        &self,
        text: &[u8],
        from: usize,
        mut state: StateID,
        take: &mut impl FnMut(usize, PatternID) -> bool,
    ) {
        for (at, &byte) in text.iter().enumerate().skip(from) {
            state = self.next(state, byte);
            if self.automaton.is_special(state) && !self.tell(state, at + 1, take) {
                return;
            }
        }
    }

    fn next(&self, state: StateID, byte: u8) -> StateID {
        self.automaton.next_state(Anchored::No, state, byte)
    }

    /// Calls `take` for the literals that end here. Returns whether reading continues.
    fn tell(&self, state: StateID, end: usize, take: &mut impl FnMut(usize, PatternID) -> bool) -> bool {
        if !self.automaton.is_match(state) {
            return true;
        }
        let literals = self.automaton.match_len(state);
        (0..literals).all(|index| take(end, self.automaton.match_pattern(state, index)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_overlaps_is_found_in_either_case() {
        let literals = Literals::new(["ignore", "ignored", "nor", "@"]);
        assert_eq!(literals.find(b"x IGNored@"), [(2, 0), (2, 1), (4, 2), (9, 3)]);
        assert!(literals.is_in(b"NOR") && !literals.is_in(b"no r"));
    }

    proptest! {
        /// In one part or in several, across their borders too.
        #[test]
        fn every_literal_is_found_wherever_it_stands(text in "[abC]{250,300}|[abC]{0,40}") {
            let words = ["abc", "bb", "cabcab", "a"];
            let literals = Literals::new(words);
            let lower = text.to_ascii_lowercase();
            let mut expected = Vec::new();
            for start in 0..lower.len() {
                for (number, word) in words.iter().enumerate() {
                    if lower[start..].starts_with(word) {
                        expected.push((start, number));
                    }
                }
            }
            prop_assert_eq!(literals.is_in(text.as_bytes()), !expected.is_empty());
            prop_assert_eq!(literals.find(text.as_bytes()), expected);
        }
    }
}
