//! Makeup of a text: a few of its bytes show which searches for secrets are worthwhile.

use super::{anchors, blob, layers, payment};
use crate::normalise::runs::first_run;

/// Returns whether a text, or one that is JSON, could hold a secret, hidden or not; much cheaper than looking
/// for it.
pub fn may_hold(json: &str) -> bool {
    let bytes = json.as_bytes();
    has_digits(bytes)
        || first_run(bytes, 0, |byte| byte.is_ascii_alphanumeric()).is_some()
        || may_hide(bytes)
        || anchors::is_in(json)
        || blob::may_be_signed(bytes, true)
}

/// Returns whether a byte is a character that secrets have.
const fn is_part(byte: u8) -> bool {
    matches!(byte, b'+' | b'-' | b'/'..=b'9' | b'=' | b'A'..=b'Z' | b'_' | b'a'..=b'z' | b'~')
}

/// Returns whether one text could contain a secret without an anchor. If not, the search would find nothing.
pub(super) fn may_hold_unnamed(text: &str) -> bool {
    let bytes = text.as_bytes();
    first_run(bytes, 0, is_part).is_some()
        || layers::may_be_escaped(text)
        || has_digits(bytes)
        || layers::may_be_apart(bytes)
        || blob::may_be_signed(bytes, false)
}

/// Returns whether there are digits for a card or an account.
pub(super) fn has_digits(bytes: &[u8]) -> bool {
    /// As many as can be counted in a byte.
    const COUNTED: usize = 128;
    let count = |part: &[u8]| {
        part.iter()
            .map(|byte| u8::from(byte.is_ascii_digit()))
            .sum::<u8>()
    };
    let mut digits = 0;
    bytes.chunks(COUNTED).any(|part| {
        digits += usize::from(count(part));
        digits >= payment::MIN_DIGITS
    })
}

/// Returns whether there are escapes beyond those that JSON needs for plain text, or unusual characters.
fn may_hide(bytes: &[u8]) -> bool {
    // A slash needs no escape, but `https:\/\/` is an address all the same.
    let is_escape = |at: usize| !matches!(bytes.get(at + 1), Some(b'n' | b't' | b'"' | b'\\'));
    memchr::memchr_iter(b'\\', bytes).any(is_escape)
        || memchr::memchr2_iter(b'%', b'&', bytes).next().is_some()
        || !bytes.is_ascii()
            && (memchr::memchr3(0xe2, 0xef, 0xf3, bytes).is_some() || memchr::memchr(0xc2, bytes).is_some())
}
