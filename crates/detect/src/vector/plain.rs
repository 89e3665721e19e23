//! One byte after another.

use super::{
    Alphanumeric, BLOCK, FOLD, Glance, Grams, Kind, LOOKED, Looks, MANY, READ, STEP, folded, is, long_of,
    place,
};

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

/// Each byte is written, and the next one over it where it does not count: no branch has to be foreseen.
pub(super) fn append_alphanumerics(text: &[u8], to: &mut Vec<u8>) {
    let mut end = to.len();
    to.resize(end + text.len(), 0);
    for byte in text {
        to[end] = byte | FOLD;
        end += usize::from(is::<Alphanumeric>(*byte));
    }
    to.truncate(end);
}
