//! What is told of many bytes at once: by AVX2 where the processor has it, else of one after another, and the same.
//!
//! The only unsafe code of the core (ADR 0028): reads whose bounds are those of the arrays they are given, and calls
//! of what needs AVX2 after asking for it.

#![expect(unsafe_code, reason = "vectors have no safe interface yet")]

/// Bytes of a block.
pub(super) const BLOCK: usize = u64::BITS as usize;
/// Blocks that are looked at together.
pub(super) const MANY: usize = 16;
/// Bytes that are looked at together for grams, and how far apart the looks are.
pub(super) const LOOKED: usize = 128;
pub(super) const STEP: usize = 2;
/// Bytes of a lane, and of a short gram.
const LANE: usize = size_of::<u32>();
/// Bytes of a long gram.
pub(super) const LONG: usize = LANE + STEP;
pub(super) const SHORT: usize = LANE;
/// Bytes that are read to look for grams.
const READ: usize = LOOKED + LONG - STEP;
/// What is set in bytes so that letters are alike in both cases.
const FOLD: u8 = 0x20;
/// Fewest and most hashes of a set, as powers of two. The largest one fits into the fastest cache.
const FEWEST: u32 = 12;
const MOST: u32 = 18;
/// Hashes for each gram of a set.
const ROOM: usize = 64;

/// A kind of characters of ASCII: ranges, each by its first and its last byte.
pub(super) trait Kind {
    /// The ranges.
    const RANGES: &'static [(u8, u8)];
}

/// Letters.
pub(super) enum Letter {}
/// Letters and digits.
pub(super) enum Alphanumeric {}
/// Characters of base64, base64url and hexadecimal.
pub(super) enum Encoding {}

impl Kind for Letter {
    const RANGES: &'static [(u8, u8)] = &[(b'A', b'Z'), (b'a', b'z')];
}

impl Kind for Alphanumeric {
    const RANGES: &'static [(u8, u8)] = &[(b'0', b'9'), (b'A', b'Z'), (b'a', b'z')];
}

impl Kind for Encoding {
    const RANGES: &'static [(u8, u8)] = &[
        (b'+', b'+'),
        (b'-', b'-'),
        (b'/', b'9'),
        (b'A', b'Z'),
        (b'_', b'_'),
        (b'a', b'z'),
    ];
}

/// Whether a byte is of a kind.
#[inline]
pub(super) fn is<K: Kind>(byte: u8) -> bool {
    // No branches: this is how blocks are told without AVX2.
    let within = |is, (first, last): &(u8, u8)| is | (byte.wrapping_sub(*first) <= last - first);
    K::RANGES.iter().fold(false, within)
}

/// Which bytes of each block are of a kind, the first one lowest; of [`MANY`] blocks at most.
#[inline]
pub(super) fn bits<K: Kind>(blocks: &[[u8; BLOCK]], told: &mut [u64; MANY]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::bits::<K>(blocks, told) };
    }
    plain::bits::<K>(blocks, told);
}

/// What there is in a text that makes a closer look necessary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Glance {
    /// A character beyond ASCII.
    pub(super) beyond_ascii: bool,
    /// The character that begins a terminal's command.
    pub(super) escape: bool,
    /// A backslash, a percent sign or an ampersand: what other characters are written with.
    pub(super) notation: bool,
}

/// What there is in a text.
#[inline]
pub(super) fn glance(text: &[u8]) -> Glance {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::glance(text) };
    }
    plain::glance(text)
}

/// Whether any of these pairs of bytes stands in a text.
#[inline]
pub(super) fn has_pair(text: &[u8], pairs: &[[u8; 2]]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::has_pair(text, pairs) };
    }
    plain::has_pair(text, pairs)
}

/// Sets of grams of six and of four bytes, whatever their case, by their hashes: what is in them is always told, and
/// some of what is not.
pub(super) struct Grams {
    long: Hashes,
    short: Hashes,
}

/// Hashes, a bit for each, highest first.
struct Hashes {
    words: Box<[u32]>,
    /// What is left out of a product to get a hash.
    shift: u32,
}

/// Where grams may stand, a bit for each place; see [`places`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Looks {
    /// Long ones.
    pub(super) long: u64,
    /// Short ones.
    pub(super) short: u64,
}

impl Grams {
    /// Room for so many long and short ones.
    pub(super) fn with_room(long: usize, short: usize) -> Self {
        Self {
            long: Hashes::with_room(long),
            short: Hashes::with_room(short),
        }
    }

    /// Adds a long one.
    pub(super) fn add_long(&mut self, gram: [u8; LONG]) {
        let [a, b, c, d, e, f] = gram;
        self.long.add(long_of([a, b, c, d], [c, d, e, f]));
    }

    /// Adds a short one.
    pub(super) fn add_short(&mut self, gram: [u8; SHORT]) {
        self.short.add(folded(gram));
    }

    /// Where grams may stand: at every second byte of the first [`LOOKED`].
    #[inline]
    pub(super) fn looks(&self, text: &[u8; READ]) -> Looks {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { avx2::looks(self, text) };
        }
        plain::looks(self, text)
    }
}

impl Hashes {
    fn with_room(grams: usize) -> Self {
        let hashes = (grams * ROOM).next_power_of_two().ilog2();
        let hashes = hashes.clamp(FEWEST, MOST);
        Self {
            words: vec![0; 1 << (hashes - u32::BITS.ilog2())].into(),
            shift: u32::BITS - hashes,
        }
    }

    fn add(&mut self, lane: u32) {
        let hash = self.hash(lane);
        self.words[hash / 32] |= 1 << (31 - hash % 32);
    }

    fn has(&self, lane: u32) -> bool {
        let hash = self.hash(lane);
        self.words[hash / 32] >> (31 - hash % 32) & 1 != 0
    }

    /// Less than there are.
    const fn hash(&self, lane: u32) -> usize {
        (lane.wrapping_mul(FACTOR) >> self.shift) as usize
    }
}

/// The places of [`Looks`], in no order.
pub(super) fn places(mut looks: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let look = looks.trailing_zeros() as usize;
        (looks != 0).then(|| {
            looks &= looks - 1;
            place(look)
        })
    })
}

/// Looks at every fourth byte come first, then those between them.
const fn place(look: usize) -> usize {
    look % 32 * LANE + look / 32 * STEP
}

/// What is read of a text from a place on, where it has enough.
pub(super) fn read(text: &[u8], place: usize) -> Option<&[u8; READ]> {
    text.get(place..)?.first_chunk()
}

/// What a text has from a place on, where it has less; spaces behind it.
pub(super) fn rest(text: &[u8], place: usize) -> [u8; READ] {
    let mut rest = [b' '; READ];
    let last = text.get(place..).unwrap_or_default();
    rest[..last.len()].copy_from_slice(last);
    rest
}

const FACTOR: u32 = 0x9e37_79b1;
/// How far what a long gram has beyond a lane is moved: so that all of it counts, and stands beside what it has before.
const MOVED: u32 = 3;

const fn folded(lane: [u8; LANE]) -> u32 {
    u32::from_le_bytes(lane) | u32::from_le_bytes([FOLD; LANE])
}

/// A long gram, of its first and its last bytes.
const fn long_of(first: [u8; LANE], last: [u8; LANE]) -> u32 {
    folded(first) ^ folded(last) >> MOVED
}

mod plain {
    use super::{BLOCK, Glance, Grams, Kind, LOOKED, Looks, MANY, READ, STEP, folded, is, long_of, place};

    pub(super) fn bits<K: Kind>(blocks: &[[u8; BLOCK]], told: &mut [u64; MANY]) {
        /// Brings the lowest bits of eight bytes together in the highest byte.
        const TOGETHER: u64 = 0x0102_0408_1020_4080;
        for (block, told) in blocks.iter().zip(told) {
            let bytes = block.map(|byte| u8::from(is::<K>(byte)));
            let eights = bytes.as_chunks::<8>().0.iter().rev();
            *told = eights.fold(0, |bits, eight| {
                bits << 8 | u64::from_le_bytes(*eight).wrapping_mul(TOGETHER) >> 56
            });
        }
    }

    pub(super) fn glance(text: &[u8]) -> Glance {
        Glance {
            beyond_ascii: !text.is_ascii(),
            escape: memchr::memchr(0x1b, text).is_some(),
            notation: memchr::memchr3(b'\\', b'%', b'&', text).is_some(),
        }
    }

    pub(super) fn has_pair(text: &[u8], pairs: &[[u8; 2]]) -> bool {
        let stands = |pair: &[u8; 2]| memchr::memmem::find(text, pair).is_some();
        pairs.iter().any(stands)
    }

    pub(super) fn looks(grams: &Grams, text: &[u8; READ]) -> Looks {
        let mut looks = Looks { long: 0, short: 0 };
        for look in 0..LOOKED / STEP {
            let lane = |at: usize| *text[at..].first_chunk().expect("it ends within what is read");
            let (first, last) = (lane(place(look)), lane(place(look) + STEP));
            looks.long |= u64::from(grams.long.has(long_of(first, last))) << look;
            looks.short |= u64::from(grams.short.has(folded(first))) << look;
        }
        looks
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm_cvtsi32_si128, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256,
        _mm256_castsi256_ps, _mm256_cmpeq_epi8, _mm256_i32gather_epi32, _mm256_loadu_si256,
        _mm256_movemask_epi8, _mm256_movemask_ps, _mm256_mullo_epi32, _mm256_or_si256, _mm256_set1_epi8,
        _mm256_set1_epi32, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_sllv_epi32, _mm256_srl_epi32,
        _mm256_srli_epi16, _mm256_srli_epi32, _mm256_xor_si256,
    };

    use super::{
        BLOCK, FACTOR, FOLD, Glance, Grams, Hashes, Kind, LOOKED, Looks, MANY, MOVED, READ, STEP, plain,
    };

    /// Bytes of a vector.
    const WIDTH: usize = size_of::<__m256i>();

    /// A kind by both halves of a byte: it is one where what both give has a bit in common.
    struct Halves {
        low: [u8; 16],
        high: [u8; 16],
    }

    impl Halves {
        /// Upper halves with the same lower ones share a bit: there are eight.
        const fn of(ranges: &[(u8, u8)]) -> Self {
            let mut halves = Self {
                low: [0; 16],
                high: [0; 16],
            };
            let (mut known, mut count) = ([0_u16; 8], 0);
            let mut high = 0;
            while high < 16 {
                let lower = lower_halves(ranges, high);
                let mut bit = 0;
                while bit < count && known[bit] != lower {
                    bit += 1;
                }
                if lower != 0 && bit == count {
                    known[count] = lower;
                    count += 1;
                    let mut low = 0;
                    while low < 16 {
                        halves.low[low] |= ((lower >> low & 1) as u8) << bit;
                        low += 1;
                    }
                }
                if lower != 0 {
                    assert!(high < 8, "kinds are of ASCII");
                    halves.high[high] = 1 << bit;
                }
                high += 1;
            }
            halves
        }
    }

    /// The lower halves that make a byte of one of the ranges with this upper one, a bit for each.
    const fn lower_halves(ranges: &[(u8, u8)], high: usize) -> u16 {
        let (mut lower, mut low) = (0, 0);
        while low < 16 {
            let byte = (high * 16 + low) as u8;
            let mut range = 0;
            while range < ranges.len() {
                if ranges[range].0 <= byte && byte <= ranges[range].1 {
                    lower |= 1 << low;
                }
                range += 1;
            }
            low += 1;
        }
        lower
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn bits<K: Kind>(blocks: &[[u8; BLOCK]], told: &mut [u64; MANY]) {
        let halves = const { Halves::of(K::RANGES) };
        let (low, high) = (table(&halves.low), table(&halves.high));
        let half = _mm256_set1_epi8(0x0f);
        for (block, told) in blocks.iter().zip(told) {
            let [first, second] = block.as_chunks::<WIDTH>().0 else {
                unreachable!("two vectors are a block");
            };
            let others = |bytes| {
                let bytes = load(bytes);
                let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), half);
                let common =
                    _mm256_and_si256(_mm256_shuffle_epi8(low, bytes), _mm256_shuffle_epi8(high, upper));
                let others = _mm256_cmpeq_epi8(common, _mm256_setzero_si256());
                u64::from(_mm256_movemask_epi8(others).cast_unsigned())
            };
            *told = !(others(first) | others(second) << WIDTH);
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn glance(text: &[u8]) -> Glance {
        let (vectors, rest) = text.as_chunks::<WIDTH>();
        let mut seen = [_mm256_setzero_si256(); 3];
        let sign = |byte: u8| _mm256_set1_epi8(byte.cast_signed());
        let (escape, backslash, percent, ampersand) = (sign(0x1b), sign(b'\\'), sign(b'%'), sign(b'&'));
        for vector in vectors {
            let bytes = load(vector);
            let [beyond, escapes, notations] = seen;
            let notation = _mm256_or_si256(
                _mm256_or_si256(
                    _mm256_cmpeq_epi8(bytes, backslash),
                    _mm256_cmpeq_epi8(bytes, percent),
                ),
                _mm256_cmpeq_epi8(bytes, ampersand),
            );
            seen = [
                _mm256_or_si256(beyond, bytes),
                _mm256_or_si256(escapes, _mm256_cmpeq_epi8(bytes, escape)),
                _mm256_or_si256(notations, notation),
            ];
        }
        // What is seen sets the highest bit of a byte.
        let [beyond_ascii, escape, notation] = seen.map(|seen| _mm256_movemask_epi8(seen) != 0);
        let last = plain::glance(rest);
        Glance {
            beyond_ascii: beyond_ascii | last.beyond_ascii,
            escape: escape | last.escape,
            notation: notation | last.notation,
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn has_pair(text: &[u8], pairs: &[[u8; 2]]) -> bool {
        let (vectors, _) = text.as_chunks::<WIDTH>();
        let (after, _) = text.get(1..).unwrap_or_default().as_chunks::<WIDTH>();
        let mut seen = _mm256_setzero_si256();
        for pair in pairs {
            let [one, other] = pair.map(|byte| _mm256_set1_epi8(byte.cast_signed()));
            for (first, second) in vectors.iter().zip(after) {
                let first = _mm256_cmpeq_epi8(load(first), one);
                let second = _mm256_cmpeq_epi8(load(second), other);
                seen = _mm256_or_si256(seen, _mm256_and_si256(first, second));
            }
        }
        let read = vectors.len().min(after.len()) * WIDTH;
        _mm256_movemask_epi8(seen) != 0 || plain::has_pair(&text[read..], pairs)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn looks(grams: &Grams, text: &[u8; READ]) -> Looks {
        let fold = _mm256_set1_epi8(FOLD.cast_signed());
        let lanes = |at: usize| {
            let bytes = text[at..].first_chunk().expect("it begins within what is read");
            _mm256_or_si256(load(bytes), fold)
        };
        let mut looks = Looks { long: 0, short: 0 };
        for vector in 0..LOOKED / WIDTH {
            let at = vector * WIDTH;
            let (here, next, after) = (lanes(at), lanes(at + STEP), lanes(at + 2 * STEP));
            for (first, last, look) in [(here, next, 8 * vector), (next, after, 32 + 8 * vector)] {
                let long = _mm256_xor_si256(first, _mm256_srli_epi32::<{ MOVED.cast_signed() }>(last));
                looks.long |= has(&grams.long, long) << look;
                looks.short |= has(&grams.short, first) << look;
            }
        }
        looks
    }

    /// Which of eight lanes may be among the hashes.
    #[target_feature(enable = "avx2")]
    fn has(hashes: &Hashes, lanes: __m256i) -> u64 {
        let factor = _mm256_set1_epi32(FACTOR.cast_signed());
        let shift = _mm_cvtsi32_si128(hashes.shift.cast_signed());
        let hash = _mm256_srl_epi32(_mm256_mullo_epi32(lanes, factor), shift);
        let words = hashes.words.as_ptr().cast();
        // SAFETY: a hash is less than 32 times the words, for what is shifted out leaves no more.
        let words = unsafe { _mm256_i32gather_epi32::<4>(words, _mm256_srli_epi32::<5>(hash)) };
        let has = _mm256_sllv_epi32(words, _mm256_and_si256(hash, _mm256_set1_epi32(31)));
        u64::from(_mm256_movemask_ps(_mm256_castsi256_ps(has)).cast_unsigned())
    }

    #[target_feature(enable = "avx2")]
    fn load(bytes: &[u8; WIDTH]) -> __m256i {
        // SAFETY: the array has all the bytes, and need not be aligned.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    /// The same table for both halves of a vector.
    #[target_feature(enable = "avx2")]
    fn table(bytes: &[u8; 16]) -> __m256i {
        // SAFETY: the array has all the bytes, and need not be aligned.
        _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told<K: Kind>(block: [u8; BLOCK]) -> (u64, u64) {
        let (mut here, mut plainly) = ([0; MANY], [0; MANY]);
        bits::<K>(&[block], &mut here);
        plain::bits::<K>(&[block], &mut plainly);
        (here[0], plainly[0])
    }

    #[test]
    fn bytes_are_told_as_the_standard_library_tells_them() {
        for byte in 0..=u8::MAX {
            let in_base64 = byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte);
            assert_eq!(is::<Letter>(byte), byte.is_ascii_alphabetic(), "{byte}");
            assert_eq!(is::<Alphanumeric>(byte), byte.is_ascii_alphanumeric(), "{byte}");
            assert_eq!(is::<Encoding>(byte), in_base64, "{byte}");
        }
    }

    #[test]
    fn the_first_byte_of_a_block_is_lowest() {
        let mut block = [b' '; BLOCK];
        (block[0], block[9], block[63]) = (b'a', b'b', b'c');
        let expected = 1 | 1 << 9 | 1 << 63;
        assert_eq!(told::<Letter>(block), (expected, expected));
    }

    #[test]
    fn each_block_is_told_apart() {
        let blocks: [[u8; BLOCK]; MANY] = std::array::from_fn(|index| {
            let mut block = [b' '; BLOCK];
            block[index] = b'a';
            block
        });
        let (mut here, mut plainly) = ([0; MANY], [0; MANY]);
        bits::<Letter>(&blocks, &mut here);
        plain::bits::<Letter>(&blocks, &mut plainly);
        assert_eq!(here, std::array::from_fn(|index| 1 << index));
        assert_eq!(here, plainly);
    }

    #[test]
    fn every_byte_is_told_alike_at_every_place() {
        for first in 0..=u8::MAX {
            let block = std::array::from_fn(|place| first.wrapping_add(place as u8));
            let (here, plainly) = told::<Letter>(block);
            assert_eq!(here, plainly, "{first}");
            let (here, plainly) = told::<Alphanumeric>(block);
            assert_eq!(here, plainly, "{first}");
            let (here, plainly) = told::<Encoding>(block);
            assert_eq!(here, plainly, "{first}");
        }
    }

    proptest! {
        #[test]
        fn looks_are_those_of_every_second_byte(
            text in prop::collection::vec(any::<u8>(), READ..READ + 1),
            long in prop::collection::vec(0..LOOKED / STEP, 0..4),
            short in prop::collection::vec(0..LOOKED / STEP, 0..4),
            room in 0..5000_usize,
        ) {
            let text = read(&text, 0).expect("enough");
            let mut grams = Grams::with_room(room, room / 2);
            for look in &long {
                grams.add_long(*text[place(*look)..].first_chunk().expect("it ends within what is read"));
            }
            for look in &short {
                grams.add_short(*text[place(*look)..].first_chunk().expect("it ends within what is read"));
            }
            let looks = grams.looks(text);
            prop_assert_eq!(looks, plain::looks(&grams, text));
            prop_assert!(long.iter().all(|look| places(looks.long).any(|at| at == place(*look))));
            prop_assert!(short.iter().all(|look| places(looks.short).any(|at| at == place(*look))));
        }
    }

    proptest! {
        #[test]
        fn a_glance_sees_what_there_is(
            length in 0..200_usize, byte in any::<u8>(), at in 0..200_usize,
        ) {
            let mut text = vec![b'a'; length];
            if let Some(place) = text.get_mut(at) {
                *place = byte;
            }
            let expected = Glance {
                beyond_ascii: text.iter().any(|byte| *byte >= 0x80),
                escape: text.contains(&0x1b),
                notation: text.iter().any(|byte| b"\\%&".contains(byte)),
            };
            prop_assert_eq!(glance(&text), expected);
            prop_assert_eq!(plain::glance(&text), expected);
        }

        #[test]
        fn pairs_are_seen_wherever_they_stand(text in "[a!\\[<|]{0,4}a{0,80}[a!\\[<|]{0,4}a{0,80}[!\\[<|]{0,3}") {
            let stands = text.contains("![") || text.contains("<|");
            prop_assert_eq!(has_pair(text.as_bytes(), &[*b"![", *b"<|"]), stands);
            prop_assert_eq!(plain::has_pair(text.as_bytes(), &[*b"![", *b"<|"]), stands);
        }
    }

    #[test]
    fn places_are_all_of_them_each_once() {
        let mut all: Vec<usize> = places(u64::MAX).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq((0..LOOKED).step_by(STEP)));
    }
}
