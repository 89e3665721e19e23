//! What a text is made of: which looks for secrets are worth it, told by a glance at a few of its bytes.

use super::{anchors, layers, payment};

/// Shortest run of letters and digits that can be a secret without a literal of its own, or hide one.
const RUN: usize = 20;

/// Whether a text, or one that is JSON, could hold a secret, hidden or not; much cheaper than looking for it.
pub(crate) fn may_hold(json: &str) -> bool {
    let bytes = json.as_bytes();
    has_digits(bytes)
        || has_run(bytes, |byte| byte.is_ascii_alphanumeric())
        || may_hide(bytes)
        || anchors::is_in(json)
}

/// Whether one text could hold a secret that no literal gives away. Nothing is found where it could not.
pub(super) fn may_hold_unnamed(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_=~".contains(&byte);
    has_run(bytes, is_part)
        || layers::may_be_escaped(text)
        || has_digits(bytes)
        || layers::may_be_apart(bytes)
}

/// Whether there are digits for a card or an account.
pub(super) fn has_digits(bytes: &[u8]) -> bool {
    bytes.len() >= payment::FEWEST
        && bytes.iter().filter(|byte| byte.is_ascii_digit()).count() >= payment::FEWEST
}

/// Whether anything is escaped beyond what JSON needs for plain text, or spelled with other characters.
fn may_hide(bytes: &[u8]) -> bool {
    let is_escape = |at: usize| !matches!(bytes.get(at + 1), Some(b'n' | b't' | b'"' | b'\\' | b'/'));
    memchr::memchr_iter(b'\\', bytes).any(is_escape)
        || memchr::memchr2_iter(b'%', b'&', bytes).next().is_some()
        || memchr::memchr3(0xe2, 0xef, 0xf3, bytes).is_some()
        || memchr::memchr(0xc2, bytes).is_some()
}

/// Looks only at every [`RUN`]th byte until one can lie in a run.
fn has_run(bytes: &[u8], is_part: impl Fn(u8) -> bool) -> bool {
    let mut start = 0;
    while let Some(window) = bytes.get(start..start + RUN) {
        match window.iter().rposition(|byte| !is_part(*byte)) {
            Some(gap) => start += gap + 1,
            None => return true,
        }
    }
    false
}
