//! Finds many literals at once, whatever their case: looks at every second byte for four that a literal contains,
//! and compares only where they stand.

use std::ops::ControlFlow;

use memchr::memmem;

/// Bits of the table of grams: 32 KiB, which stay in the fastest cache. Few are set.
const PRESENT: usize = 1 << 18;
/// Groups that the literals are looked up in.
const GROUPS: usize = 1 << 12;
/// Bytes that are looked at together.
const GRAM: usize = 4;
/// How far apart they are looked at.
const STEP: usize = 2;
/// Letters from the most frequent on: a literal is recognised by its rarest part.
const FREQUENT: &[u8] = b" etaoinsrhldcumfpgwyb";

/// Literals in lower case, ready to be found.
pub(in crate::inspect) struct Literals {
    texts: Vec<&'static str>,
    present: Box<[u64; PRESENT / 64]>,
    /// Where the entries of each group begin, and the end of the last.
    groups: Vec<u16>,
    entries: Vec<Entry>,
    /// Those too short for a gram.
    short: Vec<(u16, memmem::Finder<'static>)>,
}

/// A gram of a literal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    hash: u32,
    literal: u16,
    /// Where the gram begins in the literal; before it where that is too short to hold one at each step.
    offset: i8,
}

impl Literals {
    /// At most a few hundred literals of 1 to 100 bytes, in lower case; those of one or two bytes without letters.
    pub(in crate::inspect) fn new(texts: Vec<&'static str>) -> Self {
        let mut entries = Vec::new();
        let mut short = Vec::new();
        for (literal, text) in (0..).zip(&texts) {
            if text.len() < GRAM - 1 {
                short.push((literal, memmem::Finder::new(text.as_bytes())));
            } else {
                enter(text.as_bytes(), literal, &mut entries);
            }
        }
        entries.sort_unstable();
        entries.dedup();
        let mut present = Box::new([0; PRESENT / 64]);
        for entry in &entries {
            present[entry.hash as usize / 64] |= 1 << (entry.hash % 64);
        }
        let begin = |group| entries.partition_point(|entry| group_of(entry.hash) < group);
        let groups = (0..=GROUPS)
            .map(|group| u16::try_from(begin(group)).expect("a few hundred literals have fewer grams"))
            .collect();
        Self {
            groups,
            texts,
            present,
            entries,
            short,
        }
    }

    /// The literal of this number.
    pub(super) fn text(&self, literal: usize) -> &'static str {
        self.texts[literal]
    }

    /// Whether any literal stands in `text`.
    pub(in crate::inspect) fn is_in(&self, text: &[u8]) -> bool {
        self.visit(text, &mut |_, _| ControlFlow::Break(())).is_break()
    }

    /// Where literals begin and which, ascending.
    pub(in crate::inspect) fn find(&self, text: &[u8]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let all = self.visit(text, &mut |start, literal| {
            found.push((start, literal));
            ControlFlow::Continue(())
        });
        debug_assert!(all.is_continue(), "nothing ended the search");
        found.sort_unstable();
        found
    }

    fn visit(&self, text: &[u8], hit: &mut impl FnMut(usize, usize) -> ControlFlow<()>) -> ControlFlow<()> {
        for (literal, finder) in &self.short {
            for start in finder.find_iter(text) {
                hit(start, usize::from(*literal))?;
            }
        }
        for (index, gram) in text.windows(GRAM).step_by(STEP).enumerate() {
            let gram: [u8; GRAM] = gram.try_into().expect("windows have this length");
            self.look(text, index * STEP, gram, hit)?;
        }
        // A literal of three bytes may be the last.
        let last = text.len().wrapping_sub(GRAM - 1);
        match text.get(last..) {
            Some(&[a, b, c]) if last.is_multiple_of(STEP) => self.look(text, last, [a, b, c, 0], hit),
            Some(_) | None => ControlFlow::Continue(()),
        }
    }

    #[inline]
    fn look(
        &self,
        text: &[u8],
        at: usize,
        gram: [u8; GRAM],
        hit: &mut impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let hash = hash(gram);
        if self.present[hash as usize / 64] >> (hash % 64) & 1 == 0 {
            return ControlFlow::Continue(());
        }
        self.compare(text, at, hash, hit)
    }

    #[cold]
    fn compare(
        &self,
        text: &[u8],
        at: usize,
        hash: u32,
        hit: &mut impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let group = group_of(hash);
        let entries = usize::from(self.groups[group])..usize::from(self.groups[group + 1]);
        for entry in self.entries[entries].iter().filter(|entry| entry.hash == hash) {
            let literal = usize::from(entry.literal);
            let wanted = self.texts[literal].as_bytes();
            let start = at.wrapping_add_signed(-isize::from(entry.offset));
            let stands = start
                .checked_add(wanted.len())
                .and_then(|end| text.get(start..end))
                .is_some_and(|text| text.eq_ignore_ascii_case(wanted));
            if stands {
                hit(start, literal)?;
            }
        }
        ControlFlow::Continue(())
    }
}

/// Enters the grams by which a literal is recognised, one for each way the steps can fall on it.
fn enter(text: &[u8], literal: u16, entries: &mut Vec<Entry>) {
    let mut entry = |gram: [u8; GRAM], offset| {
        entries.push(Entry {
            hash: hash(gram),
            literal,
            offset,
        });
    };
    // A byte that is not the literal's can be any.
    let any = || (0..=u8::MAX).filter(|byte| folded(*byte) == *byte);
    match *text {
        [a, b, c] => {
            any().for_each(|x| entry([a, b, c, x], 0));
            any().for_each(|x| entry([x, a, b, c], -1));
        }
        [a, b, c, d] => {
            entry([a, b, c, d], 0);
            any().for_each(|x| entry([x, a, b, c], -1));
        }
        _ => {
            let parts = text.windows(GRAM + STEP - 1).enumerate();
            let rarest =
                parts.min_by_key(|(_, part)| part.iter().map(|byte| frequency(*byte)).sum::<usize>());
            let (at, part) = rarest.expect("a longer literal has such a part");
            for (shift, gram) in part.windows(GRAM).enumerate() {
                let offset = i8::try_from(at + shift).expect("literals are short");
                entry(gram.try_into().expect("windows have this length"), offset);
            }
        }
    }
}

fn frequency(byte: u8) -> usize {
    let rank = FREQUENT.iter().position(|&frequent| frequent == byte);
    rank.map_or(0, |rank| FREQUENT.len() - rank)
}

const fn group_of(hash: u32) -> usize {
    hash as usize / (PRESENT / GROUPS)
}

/// Letters in lower case; what else it makes alike is told apart later.
const fn folded(byte: u8) -> u8 {
    byte | 0x20
}

/// Less than [`PRESENT`].
const fn hash(gram: [u8; GRAM]) -> u32 {
    let folded = u32::from_le_bytes(gram) | 0x2020_2020;
    folded.wrapping_mul(0x9e37_79b1) >> (u32::BITS - PRESENT.ilog2())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXTS: [&str; 12] = [
        "@", "<|", "cc ", "bcc", "obey", "evil", "ignor", "ignore", "you must", "c2.", "忽略", "forget",
    ];

    /// The same by looking everywhere.
    fn plainly(text: &[u8]) -> Vec<(usize, usize)> {
        let at = |start: usize| {
            let literals = TEXTS.iter().enumerate();
            literals
                .filter(move |(_, literal)| {
                    let end = start + literal.len();
                    text.get(start..end)
                        .is_some_and(|text| text.eq_ignore_ascii_case(literal.as_bytes()))
                })
                .map(move |(index, _)| (start, index))
        };
        (0..text.len()).flat_map(at).collect()
    }

    proptest! {
        #[test]
        fn what_stands_there_is_found_and_nothing_else(
            parts in prop::collection::vec(
                prop_oneof![
                    prop::sample::select(&TEXTS[..]).prop_map(str::to_owned),
                    prop::sample::select(&TEXTS[..]).prop_map(str::to_uppercase),
                    "[a-zA-Z<@|. ]{0,3}",
                    any::<String>(),
                ],
                0..12,
            ),
        ) {
            let text = parts.concat();
            let literals = Literals::new(TEXTS.to_vec());
            prop_assert_eq!(literals.find(text.as_bytes()), plainly(text.as_bytes()));
            prop_assert_eq!(literals.is_in(text.as_bytes()), !plainly(text.as_bytes()).is_empty());
        }
    }
}
