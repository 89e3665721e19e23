//! Properties of many bytes at once: by AVX2 if the processor has it, else one byte after another with the
//! same result.
//!
//! The only unsafe code of the core (ADR 0028): reads and writes whose bounds are those of the arrays they are given, a look
//! into a table by a hash that is less than its length, and calls of what needs AVX2 after asking for it.

#![expect(unsafe_code, reason = "vectors have no safe interface yet")]

#[cfg(target_arch = "x86_64")]
mod avx2;
mod minima;
mod plain;
#[cfg(test)]
mod tests;

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
/// The bit that makes letters alike in both cases.
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

/// Returns whether a byte is of a kind.
#[inline]
pub(super) fn is<K: Kind>(byte: u8) -> bool {
    // No branches: this is how blocks are told without AVX2.
    let within = |is, (first, last): &(u8, u8)| is | (byte.wrapping_sub(*first) <= last - first);
    K::RANGES.iter().fold(false, within)
}

/// Returns the bytes of each block that are of a kind, the first one lowest; of [`MANY`] blocks at most.
#[inline]
pub(super) fn bits<K: Kind>(blocks: &[[u8; BLOCK]], told: &mut [u64; MANY]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::bits::<K>(blocks, told) };
    }
    plain::bits::<K>(blocks, told);
}

/// The same of two kinds.
#[inline]
pub(super) fn bits_of_two<K: Kind, L: Kind>(
    blocks: &[[u8; BLOCK]],
    one: &mut [u64; MANY],
    other: &mut [u64; MANY],
) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::bits_of_two::<K, L>(blocks, one, other) };
    }
    plain::bits::<K>(blocks, one);
    plain::bits::<L>(blocks, other);
}

/// The properties of a text that require a closer look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Glance {
    /// A character beyond ASCII.
    pub(super) beyond_ascii: bool,
    /// The character that begins a terminal's command.
    pub(super) escape: bool,
    /// A backslash, a percent sign or an ampersand: what other characters are written with.
    pub(super) notation: bool,
}

/// Returns the properties of a text.
#[inline]
pub(super) fn glance(text: &[u8]) -> Glance {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::glance(text) };
    }
    plain::glance(text)
}

/// Returns whether any of these pairs of bytes stands in a text.
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
    /// The shift that reduces a product to a hash.
    shift: u32,
}

/// The possible places of grams, a bit for each place; see [`places`].
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

    /// Returns the possible places of grams: every second byte of the first [`LOOKED`].
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

/// Returns the bytes of a text from a place on, if there are enough.
pub(super) fn read(text: &[u8], place: usize) -> Option<&[u8; READ]> {
    text.get(place..)?.first_chunk()
}

/// Returns the bytes of a text from a place on, if there are fewer; padded with spaces.
pub(super) fn rest(text: &[u8], place: usize) -> [u8; READ] {
    let mut rest = [b' '; READ];
    let last = text.get(place..).unwrap_or_default();
    rest[..last.len()].copy_from_slice(last);
    rest
}

/// Appends the letters and digits of a text, letters in lower case.
#[inline]
pub(super) fn append_alphanumerics(text: &[u8], to: &mut Vec<u8>) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::append_alphanumerics(text, to) };
    }
    plain::append_alphanumerics(text, to);
}

/// Places that [`lowest`] tells apart.
pub(super) const MOST_PLACES: usize = 1 << 18;
/// Bytes of what it compares.
pub(super) const STRETCH: usize = 24;

/// Returns the positions of the smallest of that many stretches in a row, by an order without meaning; of
/// equal ones, the first. Each position occurs once, in order, of the first [`MOST_PLACES`].
#[inline]
pub(super) fn lowest(text: &[u8], window: usize) -> Vec<u32> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::lowest(text, window) };
    }
    minima::find(text, window, minima::keep)
}

const FACTOR: u32 = 0x9e37_79b1;
/// The shift of the part of a long gram beyond a lane, so that all of it counts beside the first part.
const MOVED: u32 = 3;

const fn folded(lane: [u8; LANE]) -> u32 {
    u32::from_le_bytes(lane) | u32::from_le_bytes([FOLD; LANE])
}

/// A long gram, of its first and its last bytes.
const fn long_of(first: [u8; LANE], last: [u8; LANE]) -> u32 {
    folded(first) ^ folded(last) >> MOVED
}
