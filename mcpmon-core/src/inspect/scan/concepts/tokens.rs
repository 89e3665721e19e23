//! Takes a text apart into words, and finds what is known of each.

use super::lexicon::{Entry, LEXICON, hash_of};

/// A word: letters, digits and underscores.
#[derive(Clone, Debug)]
pub(super) struct Word {
    /// What it is looked up by.
    pub(super) hash: u64,
    /// What is known of it.
    pub(super) known: Option<&'static Entry>,
    /// Where it stands.
    pub(super) start: usize,
    pub(super) end: usize,
    /// Whether it has underscores within.
    pub(super) is_name: bool,
    /// Whether a part of a sentence ends before it.
    pub(super) is_apart: bool,
    /// Whether it or what follows it can be part of an address or a number.
    pub(super) is_literal: bool,
}

/// Most words of a sentence; a longer one is several.
const LONGEST: usize = 48;
/// Longest expression in a script without spaces, characters.
const LONGEST_RUN: usize = 7;
/// Shortest word in which digits can stand for letters.
const SHORTEST_MIXED: usize = 5;

/// What a byte is, as bits; none for what stands between words.
const LETTER: u8 = 1;
const DIGIT: u8 = 2;
const UNDERSCORE: u8 = 4;
/// Part of a character beyond ASCII.
const HIGH: u8 = 8;

const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' => LETTER,
            b'0'..=b'9' => DIGIT,
            b'_' => UNDERSCORE,
            0x80.. => HIGH,
            _ => 0,
        };
        byte += 1;
    }
    kinds
};

/// Takes the words of a text, sentence by sentence.
pub(super) struct Reader<'t> {
    bytes: &'t [u8],
    at: usize,
    /// The words of the sentence that is read.
    pub(super) words: Vec<Word>,
    /// Whether it is the text's first.
    pub(super) is_opening: bool,
    is_first: bool,
    is_apart: bool,
    has_ended: bool,
}

impl<'t> Reader<'t> {
    /// Reads a skeleton.
    pub(super) fn of(text: &'t str) -> Self {
        Self {
            bytes: text.as_bytes(),
            at: 0,
            words: Vec::with_capacity(LONGEST),
            is_opening: true,
            is_first: false,
            is_apart: false,
            has_ended: false,
        }
    }

    /// Takes the words of the next sentence, if there is one; of scripts without spaces those that are known.
    pub(super) fn advance(&mut self) -> bool {
        self.words.clear();
        (self.is_first, self.is_apart) = (false, false);
        while self.at < self.bytes.len() && self.words.len() < LONGEST {
            match KINDS[usize::from(self.bytes[self.at])] {
                0 => self.separator(),
                HIGH if !is_letter(&self.bytes[self.at..]) => self.foreign_separator(),
                _ if self.is_first && !self.words.is_empty() => return true,
                HIGH if is_ideograph(self.bytes[self.at]) => self.run(),
                _ => self.word(),
            }
        }
        !self.words.is_empty()
    }

    /// Where the next sentence begins.
    pub(super) fn end(&self) -> usize {
        self.at
    }

    fn word(&mut self) {
        let start = self.at;
        let mut kinds = 0;
        while let Some(byte) = self.bytes.get(self.at) {
            let kind = KINDS[usize::from(*byte)];
            let ends =
                kind == 0 || kind == HIGH && (is_ideograph(*byte) || !is_letter(&self.bytes[self.at..]));
            if ends {
                break;
            }
            kinds |= kind;
            self.at += 1;
        }
        let has_digits = kinds & DIGIT > 0;
        let mut hash = hash_of(
            &self.bytes[start..],
            self.at - start,
            is_dotted(self.bytes, start),
        );
        let mut known = LEXICON.get(hash);
        if has_digits && known.is_none() && self.at - start >= SHORTEST_MIXED {
            let letters: Vec<u8> = self.bytes[start..self.at].iter().copied().map(letter).collect();
            let meant = hash_of(&letters, letters.len(), false);
            if let Some(entry) = LEXICON.get(meant) {
                (hash, known) = (meant, Some(entry));
            }
        }
        self.push(Word {
            hash,
            known,
            start,
            end: self.at,
            is_name: kinds & UNDERSCORE > 0,
            is_apart: false,
            is_literal: has_digits,
        });
    }

    fn push(&mut self, word: Word) {
        if self.words.is_empty() {
            self.is_opening = !self.has_ended;
        }
        self.words.push(Word {
            is_apart: self.is_apart,
            ..word
        });
        self.is_apart = false;
    }

    /// Every expression that is known in characters of a script without spaces.
    fn run(&mut self) {
        let from = self.at;
        while self.bytes.get(self.at).is_some_and(|byte| is_ideograph(*byte))
            && is_letter(&self.bytes[self.at..])
        {
            self.at += 3;
        }
        for start in (from..self.at).step_by(3) {
            for end in (start + 3..=self.at.min(start + 3 * LONGEST_RUN)).step_by(3) {
                let hash = hash_of(&self.bytes[start..], end - start, false);
                if let Some(entry) = LEXICON.get(hash) {
                    self.push(Word {
                        hash,
                        known: Some(entry),
                        start,
                        end,
                        is_name: false,
                        is_apart: false,
                        is_literal: false,
                    });
                }
            }
        }
    }

    fn separator(&mut self) {
        let byte = self.bytes[self.at];
        if byte == b' ' {
            self.at += 1;
            return;
        }
        let next = self.bytes.get(self.at + 1).copied().unwrap_or(b' ');
        match byte {
            b'!' | b'?' | b';' | b'\n' => self.break_off(),
            b'.' if next.is_ascii_whitespace() || b"\"')".contains(&next) => {
                // `e.g.` ends nothing.
                let is_short = |word: &Word| word.end - word.start == 1 && word.end == self.at;
                if !self.words.last().is_some_and(is_short) {
                    self.break_off();
                }
            }
            b'.' | b'@' => self.mark(),
            b':' if self.bytes[self.at..].starts_with(b"://") => {
                self.mark();
                let rest = &self.bytes[self.at..];
                let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`)>,".contains(byte);
                self.at += rest.iter().position(ends).unwrap_or(rest.len());
                return;
            }
            b',' | b':' | b'(' | b')' => self.is_apart = true,
            _ => {}
        }
        self.at += 1;
    }

    /// A sentence ends here.
    fn break_off(&mut self) {
        self.is_first = !self.words.is_empty();
        self.has_ended = true;
    }

    /// What follows the last word makes it part of an address.
    fn mark(&mut self) {
        if let Some(word) = self.words.last_mut() {
            word.is_literal = true;
        }
    }

    /// Punctuation beyond ASCII.
    fn foreign_separator(&mut self) {
        if self.bytes[self.at..].starts_with("。".as_bytes()) {
            self.break_off();
        }
        self.at += 3;
    }
}

/// Whether a dot before a word makes it the name of a file.
fn is_dotted(bytes: &[u8], start: usize) -> bool {
    start > 0 && bytes[start - 1] == b'.' && (start == 1 || !bytes[start - 2].is_ascii_alphanumeric())
}

/// Whether the character beyond ASCII that `bytes` begin with belongs to a word; general punctuation does not.
fn is_letter(bytes: &[u8]) -> bool {
    !matches!(bytes, [0xe2, ..] | [0xe3, 0x80, ..])
}

/// Whether a character that begins so belongs to a script without spaces.
const fn is_ideograph(byte: u8) -> bool {
    matches!(byte, 0xe3..=0xed)
}

/// The letter that a digit looks like.
const fn letter(byte: u8) -> u8 {
    match byte {
        b'0' => b'o',
        b'1' => b'i',
        b'3' => b'e',
        b'4' => b'a',
        b'5' => b's',
        b'7' => b't',
        _ => byte,
    }
}
