//! Words of a text and ends of its sentences, found with a few operations per block: runs of ASCII letters and digits,
//! and the signs after which a sentence may begin.

use std::ops::Range;

use wide::u8x16;

/// Bytes that are processed together.
const BLOCK: usize = 64;
/// Bytes of a vector.
const LANES: usize = 16;
/// Bytes of a word in its head; shorter words differ in their heads.
pub(super) const HEAD: usize = 8;

/// The words and ends of sentences in a text in lower case.
#[derive(Debug)]
pub(super) struct Runs<'t> {
    text: &'t [u8],
}

/// Bytes of words and ends of sentences in a block, one bit for each byte.
#[derive(Clone, Copy, Debug, Default)]
struct BlockBits {
    words: u64,
    ends: u64,
}

impl BlockBits {
    fn of(block: &[u8; BLOCK]) -> Self {
        let is_in_word = |bytes| among(bytes | u8x16::splat(0x20), b'a', 26) | among(bytes, b'0', 10);
        let is = |bytes: u8x16, byte| bytes.simd_eq(u8x16::splat(byte));
        let is_end = |bytes| is(bytes, b'.') | is(bytes, b'!') | is(bytes, b'?') | is(bytes, b'\n');
        Self {
            words: bits(block, is_in_word),
            ends: bits(block, is_end),
        }
    }
}

/// Returns a bit for each byte of a block that is of a kind. `kind` sets all bits of such a byte, and clears those of
/// others.
fn bits(block: &[u8; BLOCK], kind: impl Fn(u8x16) -> u8x16) -> u64 {
    let vectors = block.as_chunks::<LANES>().0.iter();
    vectors.enumerate().fold(0, |bits, (index, bytes)| {
        bits | u64::from(kind(u8x16::new(*bytes)).to_bitmask()) << (LANES * index)
    })
}

/// The kind of the `count` bytes from `first` on.
fn among(bytes: u8x16, first: u8, count: u8) -> u8x16 {
    let offsets = bytes - u8x16::splat(first);
    offsets.min(u8x16::splat(count - 1)).simd_eq(offsets)
}

/// A word or an end of a sentence in a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A word, with its head.
    Word { head: u64, span: Range<usize> },
    /// The position after a sign after which a sentence may begin.
    End { at: usize },
}

impl<'t> Runs<'t> {
    pub(super) const fn of(text: &'t [u8]) -> Self {
        Self { text }
    }

    /// Returns the first bytes of a word, in which most words differ.
    pub(super) fn head(word: &[u8]) -> u64 {
        let mut head = [0; HEAD];
        let length = word.len().min(HEAD);
        head[..length].copy_from_slice(&word[..length]);
        u64::from_le_bytes(head)
    }

    /// Calls `tell` for every word and every end, in order.
    #[inline]
    pub(super) fn each(&self, mut tell: impl FnMut(Event)) {
        let (whole, rest) = self.text.as_chunks::<BLOCK>();
        let mut last = [0; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        let mut blocks = whole.iter().chain([&last]).map(BlockBits::of);
        let mut following = blocks.next();
        let mut carried = 0;
        for index in 0.. {
            let Some(BlockBits { words, ends }) = following else {
                return;
            };
            following = blocks.next();
            let next = following.unwrap_or_default().words;
            let starts = words & !(words << 1 | carried);
            carried = words >> 63;
            let mut events = starts | ends;
            while events != 0 {
                let bit = events.trailing_zeros();
                events &= events - 1;
                let at = index * BLOCK + bit as usize;
                if ends >> bit & 1 != 0 {
                    tell(Event::End { at: at + 1 });
                    continue;
                }
                let run = words >> bit | (next << 1) << (63 - bit);
                let mut length = (!run).trailing_zeros() as usize;
                if length == BLOCK {
                    length += self.rest(at + BLOCK);
                }
                let span = at..at + length;
                let head = match self.text.get(at..).and_then(|text| text.first_chunk::<HEAD>()) {
                    Some(head) if length < HEAD => u64::from_le_bytes(*head) & ((1 << (8 * length)) - 1),
                    Some(head) => u64::from_le_bytes(*head),
                    None => Self::head(&self.text[span.clone()]),
                };
                tell(Event::Word { head, span });
            }
        }
    }

    /// Returns the length of the run of letters and digits at a position.
    #[cold]
    fn rest(&self, at: usize) -> usize {
        let rest = self.text[at..].iter();
        rest.take_while(|byte| byte.is_ascii_alphanumeric()).count()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_and_ends_are_found_as_by_looking_at_each_byte(
            parts in prop::collection::vec(
                prop_oneof!["[a-z0-9]{1,9}", "[ .!?\n_é-]{1,3}", (50..140_usize).prop_map(|length| "x".repeat(length))],
                0..40,
            ),
        ) {
            let text = parts.concat();
            let bytes = text.as_bytes();
            let mut expected = Vec::new();
            let mut at = 0;
            while at < bytes.len() {
                let length = bytes[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
                if length > 0 {
                    expected.push(Event::Word { head: Runs::head(&bytes[at..at + length]), span: at..at + length });
                    at += length;
                    continue;
                }
                at += 1;
                if b".!?\n".contains(&bytes[at - 1]) {
                    expected.push(Event::End { at });
                }
            }
            let mut found = Vec::new();
            Runs::of(bytes).each(|event| found.push(event));
            prop_assert_eq!(found, expected);
        }
    }
}
