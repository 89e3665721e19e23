//! Strings: finding their end many bytes at a time, unescaping, escaping.

use std::borrow::Cow;

use mcpmon_model::fold;

use super::{Defect, Malformed};

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Marks, in the highest bit of each byte, where `word` has a quote, a backslash or a control character.
///
/// Only the lowest mark is exact: borrows can set marks above it.
const fn special(word: u64) -> u64 {
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let zeros = (quote.wrapping_sub(ONES) & !quote) | (backslash.wrapping_sub(ONES) & !backslash);
    let controls = word.wrapping_sub(ONES * 0x20) & !word;
    (zeros | controls) & HIGH
}

/// Offset of the first quote, backslash or control character from `at` on.
#[inline]
pub(super) fn next_special(bytes: &[u8], at: usize) -> Option<usize> {
    // Most strings are short: the first word decides whether more is called for.
    match bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        Some(chunk) => match special(u64::from_le_bytes(*chunk)) {
            0 => next_special_far(bytes, at + 8),
            marks => Some(at + (marks.trailing_zeros() / 8) as usize),
        },
        None => {
            let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
            Some(at + bytes.get(at..)?.iter().position(is_special)?)
        }
    }
}

/// The same, for a text that is worth a call.
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

/// A string that was read: `end` is just past its closing quote.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScannedString {
    pub(super) end: usize,
    pub(super) escaped: bool,
    pub(super) lone_surrogate: Option<usize>,
    /// The position of an escaped NUL.
    pub(super) nul: Option<usize>,
}

/// Reads the string whose opening quote is just before `at`.
#[inline]
pub(super) fn read(bytes: &[u8], mut at: usize) -> Result<ScannedString, Malformed> {
    let mut escaped = false;
    let (mut lone_surrogate, mut nul) = (None, None);
    loop {
        let Some(found) = next_special(bytes, at) else {
            return Err(Malformed {
                position: bytes.len(),
                defect: Defect::End,
            });
        };
        match bytes[found] {
            b'"' => {
                return Ok(ScannedString {
                    end: found + 1,
                    escaped,
                    lone_surrogate,
                    nul,
                });
            }
            b'\\' => {
                escaped = true;
                at = match bytes.get(found + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => found + 2,
                    _ => {
                        let escape = Escape::read(bytes, found)?;
                        match escape.character {
                            None => lone_surrogate = lone_surrogate.or(Some(found)),
                            Some('\0') => nul = nul.or(Some(found)),
                            Some(_) => {}
                        }
                        escape.end
                    }
                };
            }
            control => {
                return Err(Malformed {
                    position: found,
                    defect: Defect::Control(control),
                });
            }
        }
    }
}

/// One escape sequence; `character` is `None` for a lone surrogate.
struct Escape {
    character: Option<char>,
    end: usize,
}

impl Escape {
    /// Reads the escape whose backslash is at `at`.
    fn read(bytes: &[u8], at: usize) -> Result<Self, Malformed> {
        let invalid = Malformed {
            position: at,
            defect: Defect::Escape,
        };
        let simple = |character| Self {
            character: Some(character),
            end: at + 2,
        };
        Ok(match bytes.get(at + 1).ok_or(invalid)? {
            b'"' => simple('"'),
            b'\\' => simple('\\'),
            b'/' => simple('/'),
            b'b' => simple('\u{8}'),
            b'f' => simple('\u{c}'),
            b'n' => simple('\n'),
            b'r' => simple('\r'),
            b't' => simple('\t'),
            b'u' => Self::unicode(bytes, at).ok_or(invalid)?,
            _ => return Err(invalid),
        })
    }

    /// `\uXXXX`, or a pair of them.
    fn unicode(bytes: &[u8], at: usize) -> Option<Self> {
        let first = code_unit(bytes, at)?;
        let lone = Self {
            character: None,
            end: at + 6,
        };
        let high = match first {
            0xD800..0xDC00 => u32::from(first - 0xD800),
            0xDC00..0xE000 => return Some(lone),
            unit => {
                return Some(Self {
                    character: char::from_u32(u32::from(unit)),
                    ..lone
                });
            }
        };
        let Some(second @ 0xDC00..0xE000) = code_unit(bytes, at + 6) else {
            return Some(lone);
        };
        let scalar = 0x1_0000 + (high << 10) + u32::from(second - 0xDC00);
        Some(Self {
            character: char::from_u32(scalar),
            end: at + 12,
        })
    }
}

/// The code unit of the `\uXXXX` at `at`, if there is one.
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

/// Decodes the inside of a string literal; a lone surrogate becomes U+FFFD.
pub(super) fn unescape(inside: &str) -> Cow<'_, str> {
    let bytes = inside.as_bytes();
    let Some(first) = memchr::memchr(b'\\', bytes) else {
        return Cow::Borrowed(inside);
    };
    let mut text = String::with_capacity(inside.len());
    text.push_str(&inside[..first]);
    let mut at = first;
    while let Ok(escape) = Escape::read(bytes, at) {
        text.push(escape.character.unwrap_or(char::REPLACEMENT_CHARACTER));
        let next = memchr::memchr(b'\\', &bytes[escape.end..]).map(|found| escape.end + found);
        text.push_str(&inside[escape.end..next.unwrap_or(bytes.len())]);
        let Some(next) = next else { break };
        at = next;
    }
    Cow::Owned(text)
}

/// Characters beyond ASCII that some reader takes for the end of a line.
pub(super) const LINE_ENDS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];

/// Appends `text` as a string literal, with its quotes; only what must be escaped is.
pub fn quote_into(text: &str, out: &mut String) {
    out.push('"');
    let mut plain = 0;
    for (at, character) in text.char_indices() {
        if !(matches!(character, '"' | '\\' | '\0'..' ') || LINE_ENDS.contains(&character)) {
            continue;
        }
        out.push_str(&text[plain..at]);
        escape_into(character, out);
        plain = at + character.len_utf8();
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

fn escape_into(character: char, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        other => {
            out.push_str("\\u");
            let digit = |shift: u32| char::from(DIGITS[(u32::from(other) >> shift & 0xF) as usize]);
            out.extend([digit(12), digit(8), digit(4), digit(0)]);
        }
    }
}

/// Returns whether some reader takes `key` for `known` although it is spelled otherwise: in another case, as
/// [`fold`] has it, or with other `_` and `-` in it. Servers written in Go ignore the case of names, and a
/// Python SDK takes snake case for camel case.
pub fn is_spelled_like(key: &str, known: &str) -> bool {
    if key.is_ascii() {
        return key != known && ascii_letters(key).eq(ascii_letters(known));
    }
    letters(key).eq(letters(known))
}

/// As [`letters`], for the names that nearly all are.
fn ascii_letters(name: &str) -> impl Iterator<Item = u8> {
    let is_letter = |byte: &u8| !matches!(byte, b'_' | b'-');
    name.bytes()
        .filter(is_letter)
        .map(|byte| byte.to_ascii_lowercase())
}

fn letters(name: &str) -> impl Iterator<Item = char> {
    let is_letter = |character: &char| !matches!(character, '_' | '-');
    name.chars().filter(is_letter).flat_map(fold)
}
