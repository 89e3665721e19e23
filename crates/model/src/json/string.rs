//! Strings of JSON texts: searching for quotes and backslashes many bytes at a time, and decoding escapes.

use std::borrow::Cow;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Words that are tested one by one before a long run without escapes is assumed.
const WORDS: usize = 8;

/// Marks each byte of a word that is a quote or a backslash in its highest bit; only the lowest mark is exact, since
/// borrows can set marks above it.
const fn quotes_and_escapes(word: u64) -> u64 {
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    ((quote.wrapping_sub(ONES) & !quote) | (backslash.wrapping_sub(ONES) & !backslash)) & HIGH
}

/// Marks each byte of a word that is a control character in the same way.
const fn controls(word: u64) -> u64 {
    word.wrapping_sub(ONES * 0x20) & !word & HIGH
}

/// Returns the position of the first quote or backslash from `at` on.
#[inline]
pub fn quote_or_escape(bytes: &[u8], mut at: usize) -> Option<usize> {
    // A text with escapes has one every few words.
    for word in bytes.get(at..)?.as_chunks::<8>().0.iter().take(WORDS) {
        let marks = quotes_and_escapes(u64::from_le_bytes(*word));
        if marks != 0 {
            return Some(at + marks.trailing_zeros() as usize / 8);
        }
        at += word.len();
    }
    Some(at + memchr::memchr2(b'"', b'\\', &bytes[at..])?)
}

/// Returns the position of the first quote, backslash or control character from `at` on. Text that was accepted has no
/// control characters in its strings.
#[inline]
pub fn next_special(bytes: &[u8], at: usize) -> Option<usize> {
    // Most strings are short: the first word decides whether more is called for.
    match bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        Some(chunk) => {
            let word = u64::from_le_bytes(*chunk);
            match quotes_and_escapes(word) | controls(word) {
                0 => next_special_far(bytes, at + 8),
                marks => Some(at + (marks.trailing_zeros() / 8) as usize),
            }
        }
        None => {
            let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
            Some(at + bytes.get(at..)?.iter().position(is_special)?)
        }
    }
}

/// Does the same for a text that is long enough to be worth a call.
fn next_special_far(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    let found = memchr::memchr2(b'"', b'\\', rest);
    let before = &rest[..found.unwrap_or(rest.len())];
    // No branch in it, so that it becomes a few vector instructions.
    let has_control = before.iter().fold(false, |has, byte| has | (*byte < 0x20));
    match has_control {
        true => before
            .iter()
            .position(|byte| *byte < 0x20)
            .map(|control| at + control),
        false => Some(at + found?),
    }
}

/// An escape in a string.
#[derive(Clone, Copy, Debug)]
pub struct Escape {
    /// The decoded character; `None` for a lone surrogate.
    pub character: Option<char>,
    /// The position after it.
    pub end: usize,
}

impl Escape {
    /// Reads the escape whose backslash is at `at`; `None` if JSON has no such escape.
    #[inline]
    pub fn read(bytes: &[u8], at: usize) -> Option<Self> {
        let character = match bytes.get(at + 1)? {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return Self::unicode(bytes, at),
            _ => return None,
        };
        Some(Self {
            character: Some(character),
            end: at + 2,
        })
    }

    /// Returns the decoded character: U+FFFD for a lone surrogate.
    pub fn meant(self) -> char {
        self.character.unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    /// Reads a `\uXXXX`, or a pair of them.
    fn unicode(bytes: &[u8], at: usize) -> Option<Self> {
        let first = code_unit(bytes, at)?;
        let pair = || {
            char::decode_utf16([first, code_unit(bytes, at + 6)?])
                .next()?
                .ok()
        };
        Some(match char::from_u32(first.into()) {
            Some(alone) => Self {
                character: Some(alone),
                end: at + 6,
            },
            None => {
                let character = pair();
                let length = if character.is_some() { 12 } else { 6 };
                Self {
                    character,
                    end: at + length,
                }
            }
        })
    }
}

/// Returns the code unit of the `\uXXXX` at `at`, if there is one.
fn code_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..)?.first_chunk::<6>()?;
    if escape[..2] != *b"\\u" {
        return None;
    }
    escape[2..].iter().try_fold(0, |unit, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(digit).ok()?)
    })
}

/// Appends the character of the escape at `at` to `text`, and returns the position after the escape. A lone surrogate
/// becomes U+FFFD; a backslash that begins no escape, which no accepted text has, is left out.
#[inline]
pub fn unescape_into(bytes: &[u8], at: usize, text: &mut String) -> usize {
    match Escape::read(bytes, at) {
        Some(escape) => {
            text.push(escape.meant());
            escape.end
        }
        None => at + 1,
    }
}

/// Decodes the text between the quotes of a string, each escape by [`unescape_into`].
pub fn unescape(inside: &str) -> Cow<'_, str> {
    let bytes = inside.as_bytes();
    let Some(mut at) = memchr::memchr(b'\\', bytes) else {
        return Cow::Borrowed(inside);
    };
    let mut text = String::with_capacity(inside.len());
    text.push_str(&inside[..at]);
    loop {
        let plain = unescape_into(bytes, at, &mut text);
        let Some(length) = memchr::memchr(b'\\', &bytes[plain..]) else {
            text.push_str(&inside[plain..]);
            return Cow::Owned(text);
        };
        at = plain + length;
        text.push_str(&inside[plain..at]);
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(r"a\nb" => "a\nb")]
    #[test_case(r"\u0041\/\\" => "A/\\")]
    #[test_case(r"\ud83d\ude00!" => "\u{1f600}!"; "pair")]
    #[test_case(r"\ud83dx" => "\u{fffd}x"; "lone surrogate")]
    #[test_case(r"\ud83d\u0041" => "\u{fffd}A"; "surrogate and letter")]
    #[test_case(r"\ude00\ud83d\ude00" => "\u{fffd}\u{1f600}"; "surrogate and pair")]
    #[test_case(r"\u12" => "u12"; "cut off")]
    #[test_case(r"\u+123" => "u+123"; "a sign is no digit")]
    #[test_case("\\é\\" => "é"; "no escape")]
    fn strings_are_unescaped(raw: &str) -> String {
        unescape(raw).into_owned()
    }
}
