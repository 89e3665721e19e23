//! Finds many literals at once, whatever their case: looks at every second byte for a few that a literal contains,
//! four of a short one and six of a longer one, and compares only where they stand.

use std::ops::ControlFlow;

use memchr::memmem;

/// Words of 64 bits in the tables of grams; the first one, which is asked for every gram, stays in the fastest cache.
/// Few of the bits are set.
const SHORT_WORDS: usize = 1 << 12;
const LONG_WORDS: usize = 1 << 11;
const BRIEF_WORDS: usize = 1 << 7;
/// Groups that the literals of a table are looked up in.
const GROUPS: usize = 1 << 11;
/// Bytes of a gram.
const BRIEF: usize = 3;
const SHORT: usize = 4;
const LONG: usize = 6;
/// What grams are multiplied with for their hashes. Not the same twice: what is taken for the beginning of a gram would
/// be taken for a short one, too.
const HEAD: u64 = 0xc2b2_ae3d_27d4_eb4f;
const GRAM: u64 = 0x9e37_79b9_7f4a_7c15;
/// Bytes that are compared before all of a literal is.
const NEAR: usize = size_of::<u64>();
/// How far apart they are looked at.
const STEP: usize = 2;
/// Letters from the most frequent on: a literal is recognised by its rarest part.
const FREQUENT: &[u8] = b" etaoinsrhldcumfpgwyb";

/// Literals in lower case, ready to be found.
pub(in crate::inspect) struct Literals {
    texts: Vec<&'static str>,
    /// The beginnings of all grams.
    heads: Present<SHORT, SHORT_WORDS, HEAD>,
    short: Grams<SHORT, SHORT_WORDS>,
    long: Grams<LONG, LONG_WORDS>,
    /// Those of which a short gram has only three bytes, from its first one on and from its second one on.
    first: Grams<BRIEF, BRIEF_WORDS>,
    second: Grams<BRIEF, BRIEF_WORDS>,
    /// Those too short for a gram.
    shortest: Vec<(u16, memmem::Finder<'static>)>,
}

/// Which grams of so many bytes there are, by their hashes: a bit for each.
struct Present<const LENGTH: usize, const WORDS: usize, const FACTOR: u64>(Box<[u64; WORDS]>);

/// Literals known by so many of their bytes.
struct Grams<const LENGTH: usize, const WORDS: usize> {
    present: Present<LENGTH, WORDS, GRAM>,
    /// Where the entries of each group begin, and the end of the last.
    groups: Vec<u16>,
    entries: Vec<Entry>,
}

/// A gram of a literal. Small, for texts lie between two looks at them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// What the literal has from there on, folded.
    bytes: u64,
    literal: u16,
    /// Where the gram begins in the literal.
    offset: u8,
    /// How many of the bytes are the literal's own.
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

    /// Whether it may stand where `near` was read.
    #[inline]
    const fn may_stand(&self, near: u64) -> bool {
        (near ^ self.bytes) & own(self.own as usize) == 0
    }
}

impl<const LENGTH: usize, const WORDS: usize, const FACTOR: u64> Present<LENGTH, WORDS, FACTOR> {
    fn new() -> Self {
        Self(Box::new([0; WORDS]))
    }

    /// Of the first bytes of `near`; less than the bits of the table.
    #[inline]
    fn hash(near: u64) -> usize {
        let gram = near << (64 - 8 * LENGTH);
        (gram.wrapping_mul(FACTOR) >> (64 - (WORDS * 64).ilog2())) as usize
    }

    fn add(&mut self, hash: usize) {
        self.0[hash / 64] |= 1 << (hash % 64);
    }

    /// Whether a gram may stand where `near` was read.
    #[inline]
    fn has(&self, near: u64) -> bool {
        let hash = Self::hash(near);
        self.0[hash / 64] >> (hash % 64) & 1 != 0
    }
}

impl<const LENGTH: usize, const WORDS: usize> Grams<LENGTH, WORDS> {
    /// Of literals, where in each a gram may begin.
    fn new<'t>(literals: impl Iterator<Item = (u16, &'t [u8])>, places: fn(&[u8], &mut Place<'_>)) -> Self {
        let mut present = Present::new();
        // A whole sort would take several milliseconds at the start of every process.
        let mut grouped: Vec<Vec<Entry>> = vec![Vec::new(); GROUPS];
        for (literal, text) in literals {
            places(text, &mut |gram, offset| {
                let hash = Present::<LENGTH, WORDS, GRAM>::hash(near(gram, 0));
                present.add(hash);
                grouped[Self::group_of(hash)].push(Entry::new(literal, text, offset));
            });
        }
        let mut groups = Vec::with_capacity(GROUPS + 1);
        let mut entries: Vec<Entry> = Vec::new();
        let end = |entries: &[Entry]| {
            u16::try_from(entries.len()).expect("a few hundred literals have fewer grams")
        };
        for mut group in grouped {
            group.sort_unstable();
            group.dedup();
            groups.push(end(&entries));
            entries.append(&mut group);
        }
        groups.push(end(&entries));
        Self {
            present,
            groups,
            entries,
        }
    }

    const fn group_of(hash: usize) -> usize {
        hash / (WORDS * 64 / GROUPS)
    }

    /// The entries of the gram that stands where `near` was read.
    fn standing(&self, near: u64) -> impl Iterator<Item = &Entry> {
        let hash = Present::<LENGTH, WORDS, GRAM>::hash(near);
        let group = Self::group_of(hash);
        let entries = usize::from(self.groups[group])..usize::from(self.groups[group + 1]);
        // Most grams stand in other words, too.
        self.entries[entries]
            .iter()
            .filter(move |entry| entry.may_stand(near))
    }
}

impl Literals {
    /// At most a few hundred literals of 1 to 100 bytes, in lower case; those of one or two bytes without letters.
    pub(in crate::inspect) fn new(texts: Vec<&'static str>) -> Self {
        let of = |lengths: std::ops::Range<usize>| {
            let numbered = (0..).zip(texts.iter().map(|text| text.as_bytes()));
            numbered.filter(move |(_, text)| lengths.contains(&text.len()))
        };
        let finder = |(literal, text)| (literal, memmem::Finder::new(text));
        let of_long = |text: &[u8], place: &mut Place<'_>| rarest(text, LONG, place);
        let of_short = |text: &[u8], place: &mut Place<'_>| match text.len() {
            BRIEF => {}
            SHORT => place(text, 0),
            _ => rarest(text, SHORT, place),
        };
        let of_first = |text: &[u8], place: &mut Place<'_>| brief(text, Cut::First, place);
        let of_second = |text: &[u8], place: &mut Place<'_>| brief(text, Cut::Second, place);
        let mut heads = Present::new();
        let mut head = |gram: &[u8], _| heads.add(Present::<SHORT, SHORT_WORDS, HEAD>::hash(near(gram, 0)));
        of(BRIEF..LONG + STEP - 1).for_each(|(_, text)| of_short(text, &mut head));
        of(LONG + STEP - 1..usize::MAX).for_each(|(_, text)| of_long(text, &mut head));
        let mut short = Grams::new(of(BRIEF..LONG + STEP - 1), of_short);
        let mut any = |gram: &[u8]| {
            heads.add(Present::<SHORT, SHORT_WORDS, HEAD>::hash(near(gram, 0)));
            short
                .present
                .add(Present::<SHORT, SHORT_WORDS, GRAM>::hash(near(gram, 0)));
        };
        // A byte that is not the literal's can be any.
        for byte in (0..=u8::MAX).filter(|byte| folded(*byte) == *byte) {
            for (_, text) in of(BRIEF..SHORT + 1) {
                of_first(text, &mut |gram, _| any(&[gram[0], gram[1], gram[2], byte]));
                of_second(text, &mut |gram, _| any(&[byte, gram[0], gram[1], gram[2]]));
            }
        }
        Self {
            heads,
            short,
            long: Grams::new(of(LONG + STEP - 1..usize::MAX), of_long),
            first: Grams::new(of(BRIEF..SHORT + 1), of_first),
            second: Grams::new(of(BRIEF..SHORT + 1), of_second),
            shortest: of(0..BRIEF).map(finder).collect(),
            texts,
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
        for (literal, finder) in &self.shortest {
            for start in finder.find_iter(text) {
                hit(start, usize::from(*literal))?;
            }
        }
        for (index, bytes) in text.windows(NEAR).step_by(STEP).enumerate() {
            let bytes = bytes.try_into().expect("windows have this length");
            self.look(text, index * STEP, u64::from_le_bytes(bytes) | FOLD, hit)?;
        }
        // The last ones, down to the shortest literal that has a gram.
        let last = text.len().saturating_sub(NEAR - 1).next_multiple_of(STEP);
        for at in (last..text.len().saturating_sub(SHORT - 2)).step_by(STEP) {
            self.look(text, at, near(text, at), hit)?;
        }
        ControlFlow::Continue(())
    }

    #[inline]
    fn look(
        &self,
        text: &[u8],
        at: usize,
        near: u64,
        hit: &mut impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let may_stand = self.heads.has(near) && (self.long.present.has(near) || self.short.present.has(near));
        match may_stand {
            true => self.compare(text, at, near, hit),
            false => ControlFlow::Continue(()),
        }
    }

    #[inline(never)]
    fn compare(
        &self,
        text: &[u8],
        at: usize,
        near: u64,
        hit: &mut impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let here = self.short.standing(near).chain(self.long.standing(near));
        let here = here.chain(self.first.standing(near)).map(|entry| (at, entry));
        let next = self.second.standing(near >> 8).map(|entry| (at + 1, entry));
        for (at, entry) in here.chain(next) {
            let literal = usize::from(entry.literal);
            let wanted = self.texts[literal].as_bytes();
            let Some(start) = at.checked_sub(entry.offset.into()) else {
                continue;
            };
            let there = text.get(start..start + wanted.len());
            let stands = there.is_some_and(|there| there.eq_ignore_ascii_case(wanted));
            if stands {
                hit(start, literal)?;
            }
        }
        ControlFlow::Continue(())
    }
}

/// Where the three bytes stand in a short gram that are a literal's own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    First,
    Second,
}

/// The gram by which a literal of three or four bytes is recognised where the steps fall so that no short gram is all
/// its own.
fn brief(text: &[u8], cut: Cut, place: &mut Place<'_>) {
    match (text, cut) {
        ([_, _, _], _) => place(text, 0),
        ([a, _, _, d], Cut::Second) if frequency(*a) <= frequency(*d) => place(&text[..BRIEF], 0),
        ([a, _, _, d], Cut::First) if frequency(*a) > frequency(*d) => place(&text[1..], 1),
        _ => {}
    }
}

/// The grams of the rarest part of a literal.
fn rarest(text: &[u8], length: usize, place: &mut Place<'_>) {
    let parts = text.windows(length + STEP - 1).enumerate();
    let rarest = parts.min_by_key(|(_, part)| part.iter().map(|byte| frequency(*byte)).sum::<usize>());
    let (at, part) = rarest.expect("a longer literal has such a part");
    for (shift, gram) in part.windows(length).enumerate() {
        place(gram, at + shift);
    }
}

fn frequency(byte: u8) -> usize {
    FREQUENCIES[usize::from(byte)].into()
}

/// How frequent each byte is, by its place among [`FREQUENT`].
const FREQUENCIES: [u8; 256] = {
    let mut frequencies = [0; 256];
    let mut rank = 0;
    while rank < FREQUENT.len() {
        frequencies[FREQUENT[rank] as usize] = (FREQUENT.len() - rank) as u8;
        rank += 1;
    }
    frequencies
};

/// Letters in lower case; what else it makes alike is told apart later.
const fn folded(byte: u8) -> u8 {
    byte | 0x20
}

/// What folds bytes that are read together.
const FOLD: u64 = u64::from_le_bytes([folded(0); NEAR]);

/// The first `bytes` of a word.
const fn own(bytes: usize) -> u64 {
    match bytes {
        0..NEAR => (1 << (8 * bytes)) - 1,
        _ => u64::MAX,
    }
}

/// The bytes of a text from `at` on, folded; spaces where it ends.
fn near(text: &[u8], at: usize) -> u64 {
    let rest = text.get(at..).unwrap_or_default();
    let mut bytes = [0; NEAR];
    let length = rest.len().min(NEAR);
    bytes[..length].copy_from_slice(&rest[..length]);
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
