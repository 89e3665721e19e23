//! Finds many literals at once, whatever their case: looks at every second byte for a few that a literal contains, six
//! of a longer one and four of a short one, and compares only where they stand.

use std::ops::ControlFlow;

use memchr::memmem;

use super::pairs;
use crate::vector::{self, LONG, LOOKED, Looks, SHORT, STEP};

/// Fewest groups that the literals of a table are looked up in: most of them are empty where there are few.
const GROUPS: usize = 1 << 10;
/// Bytes of a gram of which nothing more is certain.
const BRIEF: usize = 3;
/// The factor of the hash of grams.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// Bytes that are compared before all of a literal is.
const NEAR: usize = size_of::<u64>();

/// Literals in lower case, ready to be found.
pub(crate) struct Literals {
    texts: Vec<&'static str>,
    /// Every gram.
    grams: vector::Grams,
    long: Grams<LONG>,
    short: Grams<SHORT>,
    /// Of short ones, where the steps fall so that only three bytes are their own: behind those, or before them, stands
    /// any other.
    first: Grams<BRIEF>,
    second: Grams<BRIEF>,
    /// Those too short for a gram, and those of two bytes among them once more.
    shortest: Vec<(u16, memmem::Finder<'static>)>,
    pairs: Vec<[u8; 2]>,
}

/// Literals known by so many of their bytes.
struct Grams<const LENGTH: usize> {
    /// The shift that reduces a product to a group.
    shift: u32,
    /// The start of each group's entries, and the end of the last.
    groups: Vec<u16>,
    entries: Vec<Entry>,
}

/// A gram of a literal. Small, for texts lie between two looks at them.
#[derive(Clone, Copy, Default)]
struct Entry {
    /// The bytes of the literal from there on, folded.
    bytes: u64,
    literal: u16,
    /// The offset of the gram in the literal.
    offset: u8,
    /// The number of bytes that are the literal's own.
    own: u8,
}

/// Takes a gram of a literal, and where in that it begins.
type Place<'p> = dyn FnMut(&[u8], usize) + 'p;

impl Entry {
    fn new(literal: u16, text: &[u8], offset: usize) -> Self {
        let small = |number: usize| u8::try_from(number).expect("literals are short");
        Self {
            bytes: near(text, offset) & own(text.len() - offset),
            literal,
            offset: small(offset),
            own: small((text.len() - offset).min(NEAR)),
        }
    }

    /// Returns whether it may stand where `near` was read.
    #[inline]
    const fn may_stand(&self, near: u64) -> bool {
        (near ^ self.bytes) & own(self.own as usize) == 0
    }
}

/// The grams by which literals are recognised: what is read there, and the entry.
type Placed = Vec<(u64, Entry)>;

/// Of literals, where in each a gram may begin.
fn placed<'t>(literals: impl Iterator<Item = (u16, &'t [u8])>, places: fn(&[u8], &mut Place<'_>)) -> Placed {
    let mut placed = Vec::new();
    for (literal, text) in literals {
        places(text, &mut |gram, offset| {
            placed.push((near(gram, 0), Entry::new(literal, text, offset)))
        });
    }
    placed
}

impl<const LENGTH: usize> Grams<LENGTH> {
    /// Counted into their groups: this is done at the start of every process.
    fn new(placed: Placed) -> Self {
        let hashed = placed.len().next_power_of_two().max(GROUPS);
        let mut grams = Self {
            shift: u64::BITS - hashed.ilog2(),
            groups: vec![0; hashed + 1],
            entries: vec![Entry::default(); placed.len()],
        };
        u16::try_from(placed.len()).expect("a few hundred literals have fewer grams");
        for (near, _) in &placed {
            let group = grams.group_of(*near);
            grams.groups[group + 1] += 1;
        }
        for group in 0..hashed {
            grams.groups[group + 1] += grams.groups[group];
        }
        let mut next = grams.groups.clone();
        for (near, entry) in placed {
            let place = &mut next[grams.group_of(near)];
            grams.entries[usize::from(*place)] = entry;
            *place += 1;
        }
        grams
    }

    /// By the first bytes of `near`.
    #[inline]
    const fn group_of(&self, near: u64) -> usize {
        let gram = near << (64 - 8 * LENGTH);
        (gram.wrapping_mul(FACTOR) >> self.shift) as usize
    }

    /// The entries of the gram that stands where `near` was read.
    fn standing(&self, near: u64) -> impl Iterator<Item = &Entry> {
        let group = self.group_of(near);
        let entries = usize::from(self.groups[group])..usize::from(self.groups[group + 1]);
        // Most grams stand in other words, too.
        self.entries[entries]
            .iter()
            .filter(move |entry| entry.may_stand(near))
    }
}

impl Literals {
    /// At most a few hundred literals of 1 to 100 bytes, in lower case; those of one or two bytes without letters.
    pub(crate) fn new(texts: Vec<&'static str>) -> Self {
        let of = |lengths: std::ops::RangeInclusive<usize>| {
            let numbered = (0..).zip(texts.iter().map(|text| text.as_bytes()));
            numbered.filter(move |(_, text)| lengths.contains(&text.len()))
        };
        let (brief, short, long) = (BRIEF..=SHORT, SHORT..=LONG, LONG + 1..=usize::MAX);
        let finder = |(literal, text)| (literal, memmem::Finder::new(text));
        let long = placed(of(long), rarest::<LONG>);
        let short = placed(of(short), rarest::<SHORT>);
        let (first, second) = (placed(of(brief.clone()), first_of), placed(of(brief), second_of));
        // What is brief may have any other byte beside it.
        let others = || (0..=u8::MAX).filter(|byte| folded(*byte) == *byte);
        let beside = others().count() * (first.len() + second.len());
        let mut grams = vector::Grams::with_room(long.len(), short.len() + beside);
        for (near, _) in &long {
            let [a, b, c, d, e, f, ..] = near.to_le_bytes();
            grams.add_long([a, b, c, d, e, f]);
        }
        for (near, _) in &short {
            let [a, b, c, d, ..] = near.to_le_bytes();
            grams.add_short([a, b, c, d]);
        }
        for (near, _) in &first {
            let [a, b, c, ..] = near.to_le_bytes();
            others().for_each(|other| grams.add_short([a, b, c, other]));
        }
        for (near, _) in &second {
            let [a, b, c, ..] = near.to_le_bytes();
            others().for_each(|other| grams.add_short([other, a, b, c]));
        }
        Self {
            grams,
            long: Grams::new(long),
            short: Grams::new(short),
            first: Grams::new(first),
            second: Grams::new(second),
            pairs: of(2..=2).map(|(_, text)| [text[0], text[1]]).collect(),
            shortest: of(0..=BRIEF - 1).map(finder).collect(),
            texts,
        }
    }

    /// Returns whether any literal stands in `text`.
    pub(crate) fn is_in(&self, text: &[u8]) -> bool {
        self.visit(text, &mut |_, _| ControlFlow::Break(())).is_break()
    }

    /// Returns the positions and numbers of literals, ascending.
    pub(crate) fn find(&self, text: &[u8]) -> Vec<(usize, usize)> {
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
        if self.pairs.len() < self.shortest.len() || vector::has_pair(text, &self.pairs) {
            for (literal, finder) in &self.shortest {
                for start in finder.find_iter(text) {
                    hit(start, usize::from(*literal))?;
                }
            }
        }
        let mut from = 0;
        while from < text.len() {
            let looks = match vector::read(text, from) {
                Some(read) => self.grams.looks(read),
                // Looks end before what is read does: there may be one more of these.
                None => self.grams.looks(&vector::rest(text, from)),
            };
            self.compare(text, from, looks, hit)?;
            from += LOOKED;
        }
        ControlFlow::Continue(())
    }

    /// Tells what stands where these looks from a place on say that it may.
    #[inline]
    fn compare(
        &self,
        text: &[u8],
        from: usize,
        looks: Looks,
        hit: &mut impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for at in vector::places(looks.long).map(|place| from + place) {
            for entry in self.long.standing(near(text, at)) {
                self.confirm(text, at, entry, hit)?;
            }
        }
        for at in vector::places(looks.short).map(|place| from + place) {
            let near = near(text, at);
            for entry in self.short.standing(near).chain(self.first.standing(near)) {
                self.confirm(text, at, entry, hit)?;
            }
            for entry in self.second.standing(near >> 8) {
                self.confirm(text, at + 1, entry, hit)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Tells a literal whose gram stands there, where all of it does.
    #[inline(never)]
    fn confirm(
        &self,
        text: &[u8],
        at: usize,
        entry: &Entry,
        hit: &mut impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let literal = usize::from(entry.literal);
        let wanted = self.texts[literal].as_bytes();
        let there = at
            .checked_sub(entry.offset.into())
            .and_then(|start| Some((start, text.get(start..start + wanted.len())?)));
        match there.filter(|(_, there)| there.eq_ignore_ascii_case(wanted)) {
            Some((start, _)) => hit(start, literal),
            None => ControlFlow::Continue(()),
        }
    }
}

/// The grams of a literal of which one stands where there is a look, whichever that is: the one that there is, or two
/// that follow each other, and are as rare as can be.
fn rarest<const LENGTH: usize>(text: &[u8], place: &mut Place<'_>) {
    let grams: Vec<&[u8; LENGTH]> = text.array_windows().collect();
    let frequency =
        |at: usize| pairs::frequency(&grams[at][..SHORT]) + pairs::frequency(&grams[at + 1][..SHORT]);
    match (0..grams.len() - 1).min_by_key(|at| frequency(*at)) {
        Some(at) => (at..at + STEP).for_each(|at| place(grams[at], at)),
        None => place(text, 0),
    }
}

/// Three bytes of a brief literal with any other behind them: its last ones where it has four and those are rarer.
fn first_of(text: &[u8], place: &mut Place<'_>) {
    if text.len() == BRIEF || is_rarer_later(text) {
        let at = text.len() - BRIEF;
        place(&text[at..], at);
    }
}

/// The same with any other before them: its first ones where those are rarer.
fn second_of(text: &[u8], place: &mut Place<'_>) {
    if text.len() == BRIEF || !is_rarer_later(text) {
        place(&text[..BRIEF], 0);
    }
}

/// Returns whether the last three bytes of four are rarer than the first three.
fn is_rarer_later(text: &[u8]) -> bool {
    pairs::frequency(&text[SHORT - BRIEF..]) < pairs::frequency(&text[..BRIEF])
}

/// Letters in lower case; what else it makes alike is told apart later.
const fn folded(byte: u8) -> u8 {
    byte | 0x20
}

/// The mask that folds bytes that are read together.
const FOLD: u64 = u64::from_le_bytes([folded(0); NEAR]);

/// The first `bytes` of a word.
const fn own(bytes: usize) -> u64 {
    match bytes {
        0..NEAR => (1 << (8 * bytes)) - 1,
        _ => u64::MAX,
    }
}

/// The bytes of a text from `at` on, folded; spaces where it ends.
#[inline]
fn near(text: &[u8], at: usize) -> u64 {
    let rest = text.get(at..).unwrap_or_default();
    let bytes = rest.first_chunk().copied().unwrap_or_else(|| {
        let mut bytes = [b' '; NEAR];
        bytes[..rest.len()].copy_from_slice(rest);
        bytes
    });
    u64::from_le_bytes(bytes) | FOLD
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXTS: [&str; 16] = [
        "@",
        "<|",
        "cc ",
        "bcc",
        "obey",
        "evil",
        "ignor",
        "ignore",
        "ignored",
        "you must",
        "send to",
        "the question",
        "c2.com",
        "c2.",
        "忽略",
        "forget",
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

    #[test]
    fn what_ends_a_text_is_found_however_long_it_is() {
        let literals = Literals::new(TEXTS.to_vec());
        for text in TEXTS {
            for before in 0..400 {
                let text = ["x".repeat(before).as_str(), text].concat();
                let expected = plainly(text.as_bytes());
                assert_eq!(literals.find(text.as_bytes()), expected, "{text}");
                assert!(literals.is_in(text.as_bytes()), "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_stands_there_is_found_and_nothing_else(
            before in 0..300_usize,
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
            let text = ".".repeat(before) + &parts.concat();
            let literals = Literals::new(TEXTS.to_vec());
            prop_assert_eq!(literals.find(text.as_bytes()), plainly(text.as_bytes()));
            prop_assert_eq!(literals.is_in(text.as_bytes()), !plainly(text.as_bytes()).is_empty());
        }
    }
}
