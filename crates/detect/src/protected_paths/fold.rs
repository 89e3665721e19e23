//! A path as a file system or a careless reader may take it: look-alikes folded, unseen characters dropped, percent
//! encodings decoded.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::braces::Room;
use crate::normalise::skeleton::Skeleton;

/// Readings of one text that are followed up, before braces; each is at most as long as the text.
const MAX_READINGS: usize = 32;
/// The number of times a text is percent-decoded.
const MAX_ROUNDS: usize = 3;

/// Everything that `text` may be read as, the plainest first; what its braces stand for as far as there is room.
pub(super) fn readings(text: &str, room: &mut Room) -> Vec<String> {
    let mut found = vec![folded(text).into_owned()];
    if found[0].bytes().all(is_plain) {
        return found;
    }
    decoded(&mut found);
    at_nul(&mut found);
    without_backslashes(&mut found);
    found.truncate(MAX_READINGS);
    with_braces(&mut found, room);
    found
}

/// Returns whether a byte always stands for itself.
const fn is_plain(byte: u8) -> bool {
    !matches!(byte, b'%' | b'\\' | b'{' | 0)
}

/// With the separators, dots and tildes of other scripts as ASCII ones, and without what is not seen.
pub(super) fn folded(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let separators = |c| match c {
        '⁄' | '∕' | '⧸' | '╱' | '／' | '⟋' | '〳' => '/',
        '＼' | '∖' | '⧵' | '⧹' | '﹨' | '╲' => '\\',
        '～' | '∼' | '˜' | '〜' | '⁓' => '~',
        '．' | '․' | '。' | '｡' | '﹒' => '.',
        c => c,
    };
    let text: String = text.chars().map(separators).collect();
    Cow::Owned(Skeleton::of(&text).text.into_owned())
}

/// Percent-encoded texts, decoded and decoded again.
fn decoded(found: &mut Vec<String>) {
    for _ in 0..MAX_ROUNDS {
        let Some(decoded) = found.last().and_then(|text| percent_decoded(text)) else {
            return;
        };
        found.push(folded(&decoded).into_owned());
    }
}

/// `text` with its percent encodings decoded; `None` where it has none.
pub(super) fn percent_decoded(text: &str) -> Option<String> {
    match percent_decode_str(text).into() {
        Cow::Borrowed(_) => None,
        Cow::Owned(bytes) => {
            Some(String::from_utf8(bytes).unwrap_or_else(|error| overlong(error.as_bytes())))
        }
    }
}

/// ASCII in two bytes where one is enough: no UTF-8, and decoded by some all the same.
fn overlong(bytes: &[u8]) -> String {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        match (first, after) {
            (0xc0 | 0xc1, [second @ 0x80..=0xbf, after @ ..]) => {
                plain.push((first & 1) << 6 | second & 0x3f);
                rest = after;
            }
            _ => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// Adds the two readings of a text with a NUL: a C program stops there, others drop it.
fn at_nul(found: &mut Vec<String>) {
    for index in 0..found.len() {
        if let Some((before, _)) = found[index].split_once('\0') {
            let (before, without) = (before.to_owned(), found[index].replace('\0', ""));
            found.push(before);
            found.push(without);
        }
    }
}

/// A backslash is a separator, or quotes what follows.
fn without_backslashes(found: &mut Vec<String>) {
    for index in 0..found.len() {
        if found[index].contains('\\') {
            let unquoted = found[index].replace('\\', "");
            found[index] = found[index].replace('\\', "/");
            found.push(unquoted);
        }
    }
}

fn with_braces(found: &mut Vec<String>, room: &mut Room) {
    for index in 0..found.len() {
        let expanded = room.expanded(&found[index]);
        found.extend(expanded);
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("~/.bashrc", &["~/.bashrc"]; "plain")]
    #[test_case("～／．ｂａｓｈｒｃ", &["~/.bashrc"]; "full width")]
    #[test_case("~/.b\u{200b}ash\u{202e}rc", &["~/.bashrc"]; "unseen")]
    #[test_case("~/.bаshrс", &["~/.bashrc"]; "look alikes")]
    #[test_case("~%2f.ssh", &["~%2f.ssh", "~/.ssh"]; "encoded")]
    #[test_case("%252e", &["%252e", "%2e", "."]; "encoded twice")]
    #[test_case("a%c0%afb", &["a%c0%afb", "a/b"]; "overlong")]
    #[test_case("a\0b", &["a\0b", "a", "ab"]; "nul")]
    #[test_case(r"a\b", &["a/b", "ab"]; "backslash")]
    #[test_case("a/{b,c}", &["a/{b,c}", "a/c", "a/b"]; "braces")]
    #[test_case("${a,b}{c}", &["${a,b}{c}"]; "no braces of a choice")]
    fn texts_are_read(text: &str, expected: &[&str]) {
        assert_eq!(readings(text, &mut Room::new()), expected);
    }
}
