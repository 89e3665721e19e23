//! Words of a text and ends of its sentences, found with a few operations per block: runs of ASCII letters and digits,
//! and the signs after which a sentence may begin.

use std::ops::Range;

/// Bytes that are processed together.
const BLOCK: usize = 64;
/// Bytes of a word in its head; shorter words differ in their heads.
pub(super) const HEAD: usize = 8;

const WORD: u8 = 1;
const END: u8 = 2;

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
        let mut kinds = [0; BLOCK];
        for (kind, byte) in kinds.iter_mut().zip(block) {
            *kind = kind_of(*byte);
        }
        Self {
            words: bits(&kinds, WORD),
            ends: bits(&kinds, END),
        }
    }
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

/// Returns the kind of a byte. There is no branch, so that all bytes of a block are classified at once.
const fn kind_of(byte: u8) -> u8 {
    let is_word = ((byte | 0x20).wrapping_sub(b'a') < 26) | (byte.wrapping_sub(b'0') < 10);
    let is_end = (byte == b'.') | (byte == b'!') | (byte == b'?') | (byte == b'\n');
    (WORD & (is_word as u8).wrapping_neg()) | (END & (is_end as u8).wrapping_neg())
}

/// Returns a bit for each byte that has this kind.
fn bits(kinds: &[u8; BLOCK], kind: u8) -> u64 {
    /// Factor that moves the lowest bits of eight bytes next to each other.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    const LOWEST: u64 = 0x0101_0101_0101_0101;
    let mut bits = 0;
    for (index, bytes) in kinds.as_chunks::<8>().0.iter().enumerate() {
        let bytes = u64::from_le_bytes(*bytes) >> kind.trailing_zeros() & LOWEST;
        bits |= (bytes.wrapping_mul(GATHER) >> 56) << (8 * index);
    }
    bits
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
