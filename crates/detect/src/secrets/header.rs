//! Tokens in headers: JSON web tokens, `Bearer …`, `Basic …`, and credentials for curl.

use std::ops::Range;

use mcpmon_model::Severity;

use super::{
    SecretHit, checks,
    value::{self, ValueStrength},
};

/// Longest token that is judged, bytes.
const MAX_BYTES: usize = 16 << 10;
/// Longest header of a web token.
const HEADER: usize = 1 << 10;
/// Longest header of a web token without the other parts: it only describes the signature.
const LONE: usize = 48;
/// Shortest part of a web token.
const PART: usize = 6;

/// The number of times each byte of a text may be judged as part of a token, and the number of bytes allowed in any
/// case.
const MAX_JUDGED: usize = 16;
const MIN_JUDGED: usize = 64 << 10;

/// The web tokens of one text, queried from its beginning to its end. The characters of tokens are scanned once,
/// however many tokens could begin among them.
#[derive(Debug, Default)]
pub(super) struct WebTokens {
    /// The end of the run in which the latest one began.
    end: usize,
    /// The position of the next point in it, or its end.
    point: usize,
    /// Number of bytes that were judged.
    judged: usize,
}

impl WebTokens {
    /// Returns the token that begins at `start`, if there is one.
    pub(super) fn at(&mut self, text: &str, start: usize) -> Option<SecretHit> {
        let bytes = text.as_bytes();
        if start > 0 && bytes[start - 1].is_ascii_alphanumeric() || !text.get(start..)?.starts_with("eyJ") {
            return None;
        }
        self.reach(bytes, start);
        // Most texts that begin like a token are none: the first parts show it, and the header is short.
        let header = (self.point - start).min(HEADER);
        let payload = bytes.get(start + header + 1..).unwrap_or_default();
        let is_payload = |part: &[u8]| part.iter().all(|byte| is_part(*byte) && *byte != b'.');
        if header < PART
            || bytes.get(start + header) != Some(&b'.')
            || !payload.get(..PART).is_some_and(is_payload)
        {
            return None;
        }
        let length = (self.end - start).min(MAX_BYTES);
        let token = text[start..start + length].trim_end_matches('.');
        self.judged += header;
        // Tokens nested within tokens are not realistic, and decoding them all would take too long.
        let is_believed = self.judged > MAX_JUDGED * text.len() + MIN_JUDGED;
        judged(token, is_believed).map(|severity| {
            let span = start..start + token.len();
            SecretHit::new("bearer_token", severity, span).only_if(is_issued(token))
        })
    }

    /// Finds the end of the run of token characters from `start`, and the next point in it.
    fn reach(&mut self, bytes: &[u8], start: usize) {
        let next = |from: usize, ends: fn(u8) -> bool| {
            let length = bytes[from..].iter().position(|byte| ends(*byte));
            length.map_or(bytes.len(), |length| from + length)
        };
        if start >= self.end {
            self.end = next(start, |byte| !is_part(byte));
            self.point = start;
        }
        if start >= self.point {
            self.point = next(start, |byte| byte == b'.' || !is_part(byte));
        }
    }
}
/// Returns the severity of a web token at this place; `None` if it is not one. If `is_believed`, it is not decoded.
fn judged(token: &str, is_believed: bool) -> Option<Severity> {
    let parts: Vec<&str> = token.split('.').take(5).collect();
    let [header, payload, rest @ ..] = parts.as_slice() else {
        return None;
    };
    if header.len() < PART || payload.len() < PART {
        return None;
    }
    let is_signed = rest.first().is_some_and(|signature| signature.len() >= PART);
    let is_likely = is_signed && payload.starts_with("eyJ");
    if !is_believed && !is_likely && !checks::encodes_object(header, &["alg", "typ"]) {
        return None;
    }
    let is_secret = is_believed
        || is_signed
        || payload.starts_with("eyJ")
        || payload.len() >= 16
        || value::strength(payload, true) > ValueStrength::None;
    is_secret.then_some(Severity::High)
}

/// Returns whether tokens can contain the byte.
const fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'=' | b'/' | b'+')
}

/// Returns the token after `bearer`, which ends at `end`.
pub(super) fn bearer(text: &str, end: usize) -> Option<SecretHit> {
    let (token, span) = word(text, end)?;
    if token.len() < 12 || value::is_reference(token) || token.contains(['(', '[', ']']) {
        return None;
    }
    let severity = match value::strength(token, true) {
        _ if value::is_placeholder(token) || value::is_made_up(token) || is_header(token) => Severity::Low,
        ValueStrength::Random | ValueStrength::Mixed => Severity::High,
        ValueStrength::Chosen if token.len() >= 20 => Severity::High,
        ValueStrength::Chosen | ValueStrength::None => return None,
    };
    let is_certain = match token.starts_with("eyJ") {
        true => is_issued(token),
        false => value::is_generated(token),
    };
    Some(SecretHit::new("bearer_token", severity, span).only_if(is_certain))
}

/// Words in the claims of example tokens in documents.
const SHOWN: [&str; 4] = ["1234567890", "John Doe", "supabase-demo", "example"];

/// Returns whether a web token has everything that one issued by a server has: a header that gives the algorithm,
/// claims about a subject, and a signature.
fn is_issued(token: &str) -> bool {
    let mut parts = token.split('.');
    let (Some(header), Some(claims), Some(signature)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    checks::encodes_object(header, &["\"alg\""])
        && !checks::encodes_object(claims, &SHOWN)
        && signature.len() >= SIGNATURE
        && !value::is_invented(signature)
}

/// Shortest signature of a token.
const SIGNATURE: usize = 20;

/// Returns whether this is only the header of a web token, as in documents: it gives the algorithm.
fn is_header(token: &str) -> bool {
    token.len() <= LONE
        && checks::encodes_object(token, &["\"alg\""])
        && checks::encodes_object(token, &["\"typ\""])
}

/// Returns the credentials after `basic`, which ends at `end`.
pub(super) fn basic(text: &str, end: usize) -> Option<SecretHit> {
    let (encoded, span) = word(text, end)?;
    let decoded = checks::encodes_credentials(encoded)?;
    let secret = decoded.split_once(':').map_or("", |(_, secret)| secret);
    let severity = match secret {
        "" => Severity::High,
        _ if value::is_placeholder(secret) => Severity::Low,
        _ => Severity::High,
    };
    Some(SecretHit::new("basic_auth", severity, span).only_if(value::is_generated(secret)))
}

/// Returns the word after the one that ends at `end`.
fn word(text: &str, end: usize) -> Option<(&str, Range<usize>)> {
    let rest = text.get(end..)?;
    let skipped = rest
        .bytes()
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b',' | b'"' | b'\''))
        .take(8)
        .count();
    if skipped == 0 {
        return None;
    }
    let from = end + skipped;
    let near = text.get(from..text.floor_char_boundary(from + MAX_BYTES))?;
    let length = near
        .find(|c: char| c.is_whitespace() || "\"'`<>,;)\\&".contains(c))
        .unwrap_or(near.len());
    let word = near[..length].trim_end_matches(['.', ':']);
    (!word.is_empty()).then(|| (word, from..from + word.len()))
}

/// Returns the `user:secret` of a flag or an option of curl; `end` is the end of its name.
pub(super) fn credentials(text: &str, end: usize) -> Option<SecretHit> {
    let rest = text.get(end..text.floor_char_boundary(end + 400))?;
    let skipped = rest
        .bytes()
        .take_while(|byte| matches!(byte, b' ' | b'=' | b',' | b'\'' | b'"' | b'\\'))
        .take(6)
        .count();
    if skipped == 0 {
        return None;
    }
    let near = &rest[skipped..];
    let quoted = rest[..skipped].ends_with(['"', '\'']);
    let ends = |c: char| {
        if quoted {
            "\"'\\\n".contains(c)
        } else {
            c.is_whitespace() || "\"'`\\".contains(c)
        }
    };
    let given = &near[..near.find(ends).unwrap_or(near.len())];
    let (user, secret) = given.split_once(':')?;
    let from = end + skipped + user.len() + 1;
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '\\');
    let is_plain = user.is_empty() || !user.chars().all(is_part) || secret.starts_with("//");
    if is_plain || value::is_reference(user) || value::is_reference(secret) {
        return None;
    }
    let severity = match value::strength(secret, true) {
        _ if value::is_placeholder(secret) => Severity::Low,
        ValueStrength::None => return None,
        ValueStrength::Chosen | ValueStrength::Mixed | ValueStrength::Random => Severity::High,
    };
    let hit = SecretHit::new("basic_auth", severity, from..from + secret.len());
    Some(hit.only_if(value::is_generated(secret)))
}
