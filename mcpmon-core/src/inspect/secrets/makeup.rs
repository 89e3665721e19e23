//! What a text is made of: which looks for secrets are worth it, told by a glance at a few of its bytes.

use super::{anchors, layers, payment};
use crate::inspect::normalise::blocks::{first_run, is_alphanumeric};

/// Whether a text, or one that is JSON, could hold a secret, hidden or not; much cheaper than looking for it.
pub(crate) fn may_hold(json: &str) -> bool {
    let bytes = json.as_bytes();
    has_digits(bytes) || has_run(bytes, is_alphanumeric) || may_hide(bytes) || anchors::is_in(json)
}

/// Whether one text could hold a secret that no literal gives away. Nothing is found where it could not.
pub(super) fn may_hold_unnamed(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_part = |byte: u8| {
        let is_sign = |sign: u8| byte == sign;
        is_alphanumeric(byte)
            | is_sign(b'+')
            | is_sign(b'/')
            | is_sign(b'-')
            | is_sign(b'_')
            | is_sign(b'=')
            | is_sign(b'~')
    };
    has_run(bytes, is_part)
        || layers::may_be_escaped(text)
        || has_digits(bytes)
        || layers::may_be_apart(bytes)
}

/// Whether there are digits for a card or an account.
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
        digits >= payment::FEWEST
    })
}

/// Whether anything is escaped beyond what JSON needs for plain text, or spelled with other characters.
fn may_hide(bytes: &[u8]) -> bool {
    let is_escape = |at: usize| !matches!(bytes.get(at + 1), Some(b'n' | b't' | b'"' | b'\\' | b'/'));
    memchr::memchr_iter(b'\\', bytes).any(is_escape)
        || memchr::memchr2_iter(b'%', b'&', bytes).next().is_some()
        || !bytes.is_ascii()
            && (memchr::memchr3(0xe2, 0xef, 0xf3, bytes).is_some() || memchr::memchr(0xc2, bytes).is_some())
}

/// Whether a run is long enough for a secret without a literal of its own, or for hiding one.
fn has_run(bytes: &[u8], is_part: impl Fn(u8) -> bool) -> bool {
    first_run(bytes, 0, is_part).is_some()
}
