//! Private keys in ASCII armour, however their lines were put into a text.

use std::ops::Range;

use mcpmon_model::Severity;

use super::SecretHit;

/// The prefix of armour.
pub(super) const ARMOUR: &str = "-----begin ";
/// The prefix of PuTTY's files.
pub(super) const PUTTY: &str = "putty-user-key-file-";

/// Longest armoured key that is searched for, bytes.
const MAX_BYTES: usize = 64 << 10;
/// Longest public part before a private one in PuTTY's format.
const PUBLIC: usize = 8 << 10;
/// Longest label, `OPENSSH PRIVATE KEY`.
const LABEL: usize = 64;
/// Fewest characters of base64 of a key, and of a whole key.
const SOME: usize = 12;
const MIN_WHOLE_KEY: usize = 64;

/// Returns the key whose armour begins at `start`; a mention of the marker is of low severity.
pub(super) fn at(text: &str, start: usize) -> Option<SecretHit> {
    let label = text.get(start + ARMOUR.len()..)?;
    let near = &label[..label.floor_char_boundary(LABEL)];
    let (name, _) = near.split_once("-----")?;
    if !name.ends_with("PRIVATE KEY") && !name.ends_with("PRIVATE KEY BLOCK") {
        return None;
    }
    let end_of_armour = start + ARMOUR.len() + name.len() + 5;
    // Documents omit the kind.
    if name.contains("...") || name.contains('…') {
        return Some(SecretHit::new("private_key", Severity::Low, start..end_of_armour));
    }
    let body = end_of_armour;
    let rest = &text[body..text.floor_char_boundary(body + MAX_BYTES)];
    let end = rest.find("-----");
    let inside = &rest[..end.unwrap_or(rest.len())];
    let closing = end.filter(|end| rest[*end..].starts_with("-----END"));
    let most = if closing.is_some() {
        usize::MAX
    } else {
        MAX_BETWEEN
    };
    let (count, last) = key(inside, most);
    let close = closing.map_or(body + last, |end| closed(text, body + end));
    let severity = match count {
        MIN_WHOLE_KEY.. => Severity::Critical,
        SOME.. => Severity::High,
        _ => Severity::Low,
    };
    Some(SecretHit::new("private_key", severity, start..close))
}

/// Returns the end of the line that closes the armour.
fn closed(text: &str, end: usize) -> usize {
    let rest = &text[end + 8..];
    let near = &rest[..rest.floor_char_boundary(LABEL)];
    near.find("-----").map_or(end + 8, |dashes| end + 8 + dashes + 5)
}

/// Most letters and digits between the lines of a key without an end marker: a number, a time. With more, it is the
/// text after a marker that was only mentioned.
const MAX_BETWEEN: usize = 24;

/// Beginnings of lines that precede those of the key.
const HEADERS: [&str; 4] = ["Proc-Type:", "DEK-Info:", "Version:", "Comment:"];

/// Returns the number of characters of base64 in lines, without what programs put around them, and the end of the last
/// one. After more than `most` other letters, the text is no longer counted.
fn key(inside: &str, most: usize) -> (usize, usize) {
    let (mut count, mut last, mut at, mut between) = (0, 0, 0, 0);
    for line in inside.split_inclusive(['\n', '"', '\'', '`']) {
        let is_header = HEADERS.iter().any(|header| line.trim_start().starts_with(header));
        for word in
            line.split_inclusive(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=')))
        {
            let letters =
                word.trim_end_matches(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=')));
            if letters.len() >= SOME {
                count += letters.len();
                last = at + letters.len();
                between = 0;
            } else if !is_header {
                between += letters.len();
            }
            if between > most {
                return (count, last);
            }
            at += word.len();
        }
    }
    (count, last)
}

/// Finds a key in PuTTY's format.
pub(super) fn putty(text: &str, start: usize) -> Option<SecretHit> {
    let end = text.floor_char_boundary(start + MAX_BYTES);
    let inside = &text[start..end];
    let public = &inside[..inside.floor_char_boundary(PUBLIC)];
    let lines = public.find("Private-Lines:")?;
    let close = inside.find("Private-MAC:").unwrap_or(inside.len());
    let span: Range<usize> = start..start + close.max(lines);
    Some(SecretHit::new("private_key", Severity::Critical, span))
}
