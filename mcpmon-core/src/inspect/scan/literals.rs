//! Finds many literals at once, whatever their case: looks at every second byte for a few that a literal contains,
//! four of a short one and six of a longer one, and compares only where they stand.

use std::ops::ControlFlow;

use memchr::memmem;

/// Words of 64 bits in the tables of grams; the first one, which is asked for every gram, stays in the fastest cache.
/// Few of the bits are set.
const SHORT_WORDS: usize = 1 << 12;
const LONG_WORDS: usize = 1 << 11;
/// Groups that the literals of a table are looked up in.
const GROUPS: usize = 1 << 11;
/// Bytes of a gram.
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
    spots: Vec<Spot>,
}

/// A gram of a literal. A short literal has hundreds: each is as small as it can be.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// What of its hash tells it from the others of its group.
    hash: u8,
    spot: u16,
}

/// Where in a literal grams begin.
struct Spot {
    literal: u16,
    /// Before the literal where that is too short to hold a gram at each step.
    offset: i8,
    /// What the literal has from there on: which of the bytes are its own, and what they are, folded.
    mask: u64,
    bytes: u64,
}

/// Takes a gram of a literal, and where in that it begins.
type Place<'p> = dyn FnMut(&[u8], i8) + 'p;

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
    /// Hashes of a group.
    const SPAN: usize = WORDS * 64 / GROUPS;

    /// Of literals, where in each a gram may begin.
    fn new<'t>(
        literals: impl Iterator<Item = (u16, &'t [u8])> + Clone,
        places: fn(&[u8], &mut Place<'_>),
    ) -> Self {
        let each = |take: &mut dyn FnMut((u16, &[u8], i8), usize)| {
            for (literal, text) in literals.clone() {
                places(text, &mut |gram, offset| {
                    let hash = Present::<LENGTH, WORDS, GRAM>::hash(near(gram, 0));
                    take((literal, text, offset), hash);
                });
            }
        };
        let (mut present, mut begins) = (Present::new(), vec![0; GROUPS + 1]);
        each(&mut |_, hash| {
            present.add(hash);
            begins[hash / Self::SPAN + 1] += 1;
        });
        let mut count = 0;
        for begin in &mut begins {
            count += *begin;
            *begin = count;
        }
        let mut spots: Vec<Spot> = Vec::new();
        let (mut next, mut grams) = (begins.clone(), vec![Entry::default(); count]);
        each(&mut |(literal, text, offset), hash| {
            let is_known = |spot: &Spot| (spot.literal, spot.offset) == (literal, offset);
            if !spots.last().is_some_and(is_known) {
                spots.push(Spot::of(literal, text, offset));
            }
            let place = &mut next[hash / Self::SPAN];
            grams[*place] = Entry {
                hash: (hash % Self::SPAN).to_le_bytes()[0],
                spot: number(spots.len() - 1),
            };
            *place += 1;
        });
        spots.shrink_to_fit();
        let (groups, entries) = once_each(&begins, &mut grams);
        Self {
            present,
            groups,
            entries,
            spots,
        }
    }

    /// Where in literals the gram begins that stands where `near` was read.
    fn standing(&self, near: u64) -> impl Iterator<Item = &Spot> {
        let hash = Present::<LENGTH, WORDS, GRAM>::hash(near);
        let group = hash / Self::SPAN;
        let entries = usize::from(self.groups[group])..usize::from(self.groups[group + 1]);
        // Most grams stand in other words, too.
        self.entries[entries]
            .iter()
            .filter(move |entry| usize::from(entry.hash) == hash % Self::SPAN)
            .map(|entry| &self.spots[usize::from(entry.spot)])
            .filter(move |spot| near & spot.mask == spot.bytes)
    }
}

impl Spot {
    fn of(literal: u16, text: &[u8], offset: i8) -> Self {
        let own = |index: isize| {
            let at = isize::from(offset).checked_add(index)?;
            text.get(usize::try_from(at).ok()?)
        };
        let (mut mask, mut bytes) = ([0; NEAR], [0; NEAR]);
        for (index, (mask, byte)) in (0..).zip(mask.iter_mut().zip(&mut bytes)) {
            if let Some(own) = own(index) {
                (*mask, *byte) = (u8::MAX, folded(*own));
            }
        }
        Self {
            literal,
            offset,
            mask: u64::from_le_bytes(mask),
            bytes: u64::from_le_bytes(bytes),
        }
    }
}

/// The entries of groups that begin where `begins` has it: where each begins now, and the entries. Bytes that are not the
/// literal's can have the same hash.
fn once_each(begins: &[usize], grams: &mut [Entry]) -> (Vec<u16>, Vec<Entry>) {
    let mut groups = Vec::with_capacity(begins.len());
    let mut entries = Vec::with_capacity(grams.len());
    for bounds in begins.windows(2) {
        groups.push(number(entries.len()));
        // A whole sort would take several milliseconds at the start of every process.
        let group = &mut grams[bounds[0]..bounds[1]];
        group.sort_unstable();
        entries.extend(group.chunk_by(|one, next| one == next).map(|same| same[0]));
    }
    groups.push(number(entries.len()));
    entries.shrink_to_fit();
    (groups, entries)
}

/// Of an entry or a spot.
fn number(index: usize) -> u16 {
    u16::try_from(index).expect("a few hundred literals have fewer grams")
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
        let mut heads = Present::new();
        let mut head = |gram: &[u8], _| heads.add(Present::<SHORT, SHORT_WORDS, HEAD>::hash(near(gram, 0)));
        of(SHORT - 1..LONG + STEP - 1).for_each(|(_, text)| short_places(text, &mut head));
        of(LONG + STEP - 1..usize::MAX).for_each(|(_, text)| of_long(text, &mut head));
        Self {
            heads,
            short: Grams::new(of(SHORT - 1..LONG + STEP - 1), short_places),
            long: Grams::new(of(LONG + STEP - 1..usize::MAX), of_long),
            shortest: of(0..SHORT - 1).map(finder).collect(),
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
        for spot in self.short.standing(near).chain(self.long.standing(near)) {
            let literal = usize::from(spot.literal);
            let wanted = self.texts[literal].as_bytes();
            let start = at.wrapping_add_signed(-isize::from(spot.offset));
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

/// The grams by which a short literal is recognised, one for each way the steps can fall on it.
fn short_places(text: &[u8], place: &mut Place<'_>) {
    // A byte that is not the literal's can be any.
    let any = || (0..=u8::MAX).filter(|byte| folded(*byte) == *byte);
    match *text {
        [a, b, c] => {
            any().for_each(|x| place(&[a, b, c, x], 0));
            any().for_each(|x| place(&[x, a, b, c], -1));
        }
        [a, b, c, d] => {
            place(&[a, b, c, d], 0);
            match frequency(a) <= frequency(d) {
                true => any().for_each(|x| place(&[x, a, b, c], -1)),
                false => any().for_each(|x| place(&[b, c, d, x], 1)),
            }
        }
        _ => rarest(text, SHORT, place),
    }
}

/// The grams of the rarest part of a literal.
fn rarest(text: &[u8], length: usize, place: &mut Place<'_>) {
    let parts = text.windows(length + STEP - 1).enumerate();
    let rarest = parts.min_by_key(|(_, part)| part.iter().map(|byte| frequency(*byte)).sum::<usize>());
    let (at, part) = rarest.expect("a longer literal has such a part");
    for (shift, gram) in part.windows(length).enumerate() {
        let offset = i8::try_from(at + shift).expect("literals are short");
        place(gram, offset);
    }
}

fn frequency(byte: u8) -> usize {
    let rank = FREQUENT.iter().position(|&frequent| frequent == byte);
    rank.map_or(0, |rank| FREQUENT.len() - rank)
}

/// Letters in lower case; what else it makes alike is told apart later.
const fn folded(byte: u8) -> u8 {
    byte | 0x20
}

/// What folds bytes that are read together.
const FOLD: u64 = u64::from_le_bytes([folded(0); NEAR]);

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
