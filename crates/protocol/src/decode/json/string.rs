//! Strings: checking and quoting.

use mcpmon_model::json::{Escape, next_special};

use super::{Defect, Malformed};

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
                        let escape = Escape::read(bytes, found).ok_or(Malformed {
                            position: found,
                            defect: Defect::Escape,
                        })?;
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
