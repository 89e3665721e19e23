//! Addresses and numbers of accounts, as they are spelled out.

use super::{Concept, Concepts};

/// Least digits of an account or a phone number.
const ACCOUNT: usize = 8;
/// How far after an `@` the dot of its host is looked for.
const HOST: usize = 40;
/// Domains that a host is known by where it has no scheme.
const DOMAINS: &[&[u8]] = &[
    b"com", b"net", b"org", b"io", b"cc", b"co", b"xyz", b"top", b"site", b"biz", b"info", b"ru", b"cn",
    b"email", b"link", b"online", b"club", b"tk", b"pw", b"eu",
];
/// Words that lead to a place.
const LEADS: &[&[u8]] = &[b"to ", b"at ", b"via ", b"with ", b"into ", b"on "];

/// What is spelled out in a sentence.
pub(super) fn literals(sentence: &str) -> Concepts {
    let bytes = sentence.as_bytes();
    let mut found = Concepts::NONE;
    let is_address = |at: usize| match bytes[at] {
        b'@' => is_mailbox(bytes, at),
        b':' => is_url(bytes, at),
        _ => is_host(bytes, at),
    };
    if memchr::memchr3_iter(b'@', b':', b'.', bytes).any(is_address) {
        found = found.and(Concepts::of(&[Concept::Address]));
    }
    found.and(numbers(bytes))
}

fn is_mailbox(bytes: &[u8], at: usize) -> bool {
    let host = &bytes[at + 1..bytes.len().min(at + 1 + HOST)];
    let mut rest = host.iter().take_while(|byte| !byte.is_ascii_whitespace());
    at > 0
        && bytes[at - 1].is_ascii_alphanumeric()
        && host.first().is_some_and(u8::is_ascii_alphanumeric)
        && !host.starts_with(b"example.")
        && rest.any(|byte| *byte == b'.')
}

fn is_url(bytes: &[u8], at: usize) -> bool {
    let is_web = bytes[..at].ends_with(b"http") || bytes[..at].ends_with(b"https");
    let starts = |byte: &u8| byte.is_ascii_alphanumeric() || b"<{[$%".contains(byte);
    is_web
        && bytes[at..].starts_with(b"://")
        && bytes.get(at + 3).is_some_and(starts)
        && !bytes[at + 3..].starts_with(b"example.")
}

/// Whether the last dot of a host without a scheme stands at `at`, after a word that leads to a place.
fn is_host(bytes: &[u8], at: usize) -> bool {
    let rest = &bytes[at + 1..];
    let length = rest
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric())
        .unwrap_or(rest.len());
    if !DOMAINS.contains(&&rest[..length]) {
        return false;
    }
    let ends = match rest.get(length) {
        Some(b'.' | b'(' | b'_' | b'-') => rest.get(length + 1).is_none_or(u8::is_ascii_whitespace),
        Some(_) | None => true,
    };
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b".-".contains(byte);
    let start = bytes[..at]
        .iter()
        .rposition(|byte| !is_part(byte))
        .map_or(0, |before| before + 1);
    let leads = LEADS.iter().any(|lead| bytes[..start].ends_with(lead));
    ends && leads && start < at && !bytes[start..].starts_with(b"example.")
}

/// Numbers of hosts and of accounts.
fn numbers(bytes: &[u8]) -> Concepts {
    let mut found = Concepts::NONE;
    let (mut digits, mut dots) = (0, 0);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'x' if digits == 1 && dots == 0 && is_hexadecimal(&bytes[at + 1..]) => {
                found = found.and(Concepts::of(&[Concept::Account]));
            }
            b'0'..=b'9' => digits += 1,
            b'.' if digits > 0 => dots += 1,
            b' ' | b'-' if dots == 0 => {}
            _ => (digits, dots) = (0, 0),
        }
        if dots == 3 && digits > 3 {
            found = found.and(Concepts::of(&[Concept::Address]));
        }
        if dots == 0 && digits >= ACCOUNT {
            found = found.and(Concepts::of(&[Concept::Account]));
        }
    }
    found
}

fn is_hexadecimal(bytes: &[u8]) -> bool {
    bytes.len() >= ACCOUNT && bytes[..ACCOUNT].iter().all(u8::is_ascii_hexdigit)
}
