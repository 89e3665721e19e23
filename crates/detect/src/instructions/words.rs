//! The words that the gate knows, each with the classes that it may belong to, by itself and in phrases.

use std::ops::Range;

use super::{
    classes::Classes,
    runs::{HEAD, Runs},
    tokens,
};

/// Number of different hashes of first bytes.
const HEADS: usize = 1 << 16;
/// Slots of the table of words.
const SLOTS: usize = 1 << 13;

/// Words, looked up by their first bytes.
#[derive(Debug)]
pub(super) struct Words {
    /// For each hash of first bytes, whether a known word has it.
    known: Box<[u64; HEADS / 64]>,
    /// Slots of a hash table: the first bytes, and the number of the word plus one.
    slots: Box<[(u64, u16); SLOTS]>,
    words: Vec<KnownWord>,
}

/// A known word.
#[derive(Debug)]
struct KnownWord {
    word: Box<[u8]>,
    /// The classes that it belongs to by itself.
    classes: Classes,
    phrases: Vec<Phrase>,
}

/// The words before and after a word, and the classes of the phrase that they make.
#[derive(Debug)]
struct Phrase {
    before: Vec<Box<[u8]>>,
    after: Vec<Box<[u8]>>,
    /// The letters beside the word with which the phrase may stand: they exclude most phrases.
    beside: LettersBeside,
    classes: Classes,
}

/// The last letters of the word before a word, and the first letters of the word after it: a bit for each, one for all
/// digits, and one for no word.
#[derive(Clone, Copy, Debug)]
struct LettersBeside {
    before: u32,
    after: u32,
}

impl LettersBeside {
    const NO_WORD: u32 = 1 << 27;
    /// The letters of words that [may be left out](may_be_left_out).
    const LEFT_OUT: Self = Self {
        before: Self::bit(b'a') | Self::bit(b'e') | Self::bit(b'n') | Self::bit(b's'),
        after: Self::bit(b'a') | Self::bit(b's') | Self::bit(b't'),
    };

    const fn bit(letter: u8) -> u32 {
        match letter {
            b'a'..=b'z' => 1 << (letter - b'a'),
            _ => 1 << 26,
        }
    }

    /// Returns the letters beside a span.
    fn of(text: &[u8], span: &Range<usize>) -> Self {
        let is_word = |byte: &&u8| byte.is_ascii_alphanumeric();
        let bit = |letter: Option<&u8>| letter.map_or(Self::NO_WORD, |letter| Self::bit(*letter));
        Self {
            before: bit(text[..span.start].iter().rev().find(is_word)),
            after: bit(text[span.end..].iter().find(is_word)),
        }
    }

    /// Returns the letters with which words stand between these words.
    fn between(before: &[Box<[u8]>], after: &[Box<[u8]>]) -> Self {
        let bit = |letter: Option<&u8>, left_out| match letter {
            Some(letter) => Self::bit(*letter) | left_out,
            None => u32::MAX,
        };
        Self {
            before: bit(before.last().and_then(|word| word.last()), Self::LEFT_OUT.before),
            after: bit(after.first().and_then(|word| word.first()), Self::LEFT_OUT.after),
        }
    }

    const fn has(self, other: Self) -> bool {
        self.before & other.before != 0 && self.after & other.after != 0
    }
}

impl KnownWord {
    /// Adds the classes of its phrases around `span`. Few known words have any.
    #[inline(never)]
    fn read_phrases(&self, text: &[u8], span: &Range<usize>, seen: &mut Classes) {
        let here = LettersBeside::of(text, span);
        for phrase in &self.phrases {
            if phrase.beside.has(here) && phrase.stands(text, span) {
                seen.extend(&phrase.classes);
            }
        }
    }
}

impl Phrase {
    fn new(before: Vec<Box<[u8]>>, after: Vec<Box<[u8]>>) -> Self {
        Self {
            beside: LettersBeside::between(&before, &after),
            before,
            after,
            classes: Classes::default(),
        }
    }

    /// Returns whether the other words of the phrase are around the word at `span`, with any signs between them.
    fn stands(&self, text: &[u8], span: &Range<usize>) -> bool {
        let is_word = u8::is_ascii_alphanumeric;
        let mut at = span.end;
        let forward = self.after.iter().all(|word| {
            loop {
                let Some(gap) = text[at..].iter().position(is_word) else {
                    return false;
                };
                let rest = &text[at + gap..];
                let found = &rest[..rest.iter().position(|byte| !is_word(byte)).unwrap_or(rest.len())];
                at += gap + found.len();
                if found == &**word || !may_be_left_out(found) {
                    return found == &**word;
                }
            }
        });
        let mut at = span.start;
        forward
            && self.before.iter().rev().all(|word| {
                loop {
                    let Some(last) = text[..at].iter().rposition(is_word) else {
                        return false;
                    };
                    let rest = &text[..=last];
                    let found = &rest[rest
                        .iter()
                        .rposition(|byte| !is_word(byte))
                        .map_or(0, |gap| gap + 1)..];
                    at = last + 1 - found.len();
                    if found == &**word || !may_be_left_out(found) {
                        return found == &**word;
                    }
                }
            })
    }
}

/// Returns whether a text may have this word in the middle of a phrase that does not contain it.
fn may_be_left_out(word: &[u8]) -> bool {
    tokens::is_article(word) || word == b"s"
}

impl Default for Words {
    fn default() -> Self {
        Self {
            known: Box::new([0; HEADS / 64]),
            slots: Box::new([(0, 0); SLOTS]),
            words: Vec::new(),
        }
    }
}

impl Words {
    /// Returns the hash of the first bytes of a word.
    pub(super) fn hash(head: u64) -> u64 {
        (head ^ head >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn bit(hash: u64) -> (usize, u64) {
        let place = hash >> (64 - HEADS.trailing_zeros());
        (usize::try_from(place / 64).unwrap_or_default(), 1 << (place % 64))
    }

    /// Returns the slot at which the search for a head begins.
    fn first_slot(hash: u64) -> usize {
        usize::try_from(hash >> (64 - SLOTS.trailing_zeros())).unwrap_or_default()
    }

    /// Adds the words of an entry; the text is searched for the one at `telling`.
    pub(super) fn add(&mut self, entry: &[&str], telling: usize, class: usize) -> Result<(), String> {
        let word = entry[telling].as_bytes();
        let head = Runs::head(word);
        let hash = Self::hash(head);
        let number = match self.number(hash, head, word) {
            Some(number) => number,
            None => {
                let (index, bit) = Self::bit(hash);
                self.known[index] |= bit;
                self.words.push(KnownWord {
                    word: word.into(),
                    classes: Classes::default(),
                    phrases: Vec::new(),
                });
                // A search ends at a free slot.
                let number = u16::try_from(self.words.len()).ok();
                let number = number.filter(|number| usize::from(*number) < SLOTS);
                let mut slot = Self::first_slot(hash);
                while self.slots[slot].1 != 0 {
                    slot = (slot + 1) % SLOTS;
                }
                self.slots[slot] = (head, number.ok_or("there are too many words")?);
                self.words.len() - 1
            }
        };
        let known = &mut self.words[number];
        if entry.len() == 1 {
            known.classes.add(class);
            return Ok(());
        }
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().into()).collect();
        let (before, after): (Vec<_>, Vec<_>) = (words(&entry[..telling]), words(&entry[telling + 1..]));
        let mut phrases = known.phrases.iter_mut();
        match phrases.find(|phrase| phrase.before == before && phrase.after == after) {
            Some(phrase) => phrase.classes.add(class),
            None => {
                let mut phrase = Phrase::new(before, after);
                phrase.classes.add(class);
                known.phrases.push(phrase);
            }
        }
        Ok(())
    }

    /// Returns whether a known word may begin with bytes of this hash: for most words of a text the answer is no.
    #[inline]
    pub(super) fn may_know(&self, hash: u64) -> bool {
        let (index, bit) = Self::bit(hash);
        self.known[index] & bit != 0
    }

    /// Adds the classes of the word at `span`, by itself and in phrases. The loop over words calls it for few of them,
    /// and is faster if this code is not inlined into it.
    #[inline(never)]
    pub(super) fn read(
        &self,
        text: &[u8],
        (hash, head): (u64, u64),
        span: &Range<usize>,
        seen: &mut Classes,
    ) {
        let Some(number) = self.number(hash, head, &text[span.clone()]) else {
            return;
        };
        let known = &self.words[number];
        seen.extend(&known.classes);
        if !known.phrases.is_empty() {
            known.read_phrases(text, span, seen);
        }
    }

    #[inline]
    fn number(&self, hash: u64, head: u64, word: &[u8]) -> Option<usize> {
        let mut slot = Self::first_slot(hash);
        loop {
            let (here, number) = self.slots[slot];
            let number = usize::from(number).checked_sub(1)?;
            if here == head && (word.len() < HEAD || *self.words[number].word == *word) {
                return Some(number);
            }
            slot = (slot + 1) % SLOTS;
        }
    }
}
