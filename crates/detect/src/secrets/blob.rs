//! Long runs without meaning for a reader: encoded files, and text that is too random to be anything else.

use std::{collections::BTreeSet, ops::Range};

use mcpmon_model::Severity;

use super::{SecretHit, value};
use crate::normalise::decode;
use crate::tables::{self, WordList};

/// Shortest run of base64 that can be a file, and shortest one that is too random.
const ENCODED: usize = 200;
const RANDOM: usize = 100;
/// Fewest bits per byte of a random run.
const BITS: f64 = 4.5;
/// Most characters of a run that are judged.
const SAMPLE: usize = 4096;

/// First bytes of images, sound, films and fonts, in base64.
static MEDIA: WordList = tables::SECRETS.list("blob", "media");

/// Finds encoded files and random runs in `text`.
pub(super) fn find(text: &str, hits: &mut Vec<SecretHit>) {
    let mut armour = Armour::default();
    for run in long_runs(text) {
        let stretch = &text[run.clone()];
        let sample = &stretch[..stretch.len().min(SAMPLE)];
        if value::is_repetitive(sample)
            || is_media(stretch)
            || is_digest_like(sample)
            || value::is_wordy(sample)
            || value::is_patterned(sample)
            || is_media_address(&text[..run.start])
            || is_public(&text[..run.start])
            || armour.is_public(&text[..run.start])
        {
            continue;
        }
        let bits = value::entropy(sample.as_bytes());
        let has_path = sample.matches('/').count() * 12 > sample.len();
        let is_random = bits >= BITS && !has_path;
        let decodes = || decode::base64(stretch).is_some_and(|bytes| bytes.len() > RANDOM);
        if stretch.len() > ENCODED && (is_random || decodes()) {
            hits.push(SecretHit::new("base64_blob", Severity::High, run).only_if(false));
        } else if is_random && value::is_random(sample) {
            hits.push(SecretHit::new("high_entropy", Severity::High, run).only_if(false));
        }
    }
    signed(text, hits);
}

/// Shortest line of a run that is broken into lines.
const LINE: usize = 40;

/// Fewest bits per byte of a random run with signs, by its length: a longer run contains more of the possible
/// characters.
const SIGNED_BITS: [(usize, f64); 3] = [(500, 5.9), (200, 5.6), (0, 5.3)];
/// Fewest different signs of such a run.
const SIGNS: usize = 8;
/// Fewest lower-case letters in a row that are taken for a word; letters of both cases must be more than twice as many.
const MIN_WORD_LETTERS: usize = 5;
/// A run is not random if its words have more than one in so many of its characters.
const MAX_WORD_PART: usize = 10;

/// The prefix of an encrypted value within a file, as sops writes it.
const ENCRYPTED: &str = "ENC[";

/// Finds random runs in which signs are as frequent as letters: base85, and passwords of any characters.
fn signed(text: &str, hits: &mut Vec<SecretHit>) {
    for run in shown_runs(text.as_bytes(), |_| true) {
        let stretch = &text[run.clone()];
        if is_signed_random(&stretch.as_bytes()[..stretch.len().min(SAMPLE)])
            && !stretch.contains("://")
            && !stretch.contains(ENCRYPTED)
            && !is_media_address(&text[..run.start])
            && !is_public(&text[..run.start])
        {
            hits.push(SecretHit::new("high_entropy", Severity::High, run).only_if(false));
        }
    }
}

/// Returns whether a text contains a run without spaces, or within quotes of JSON, that is long enough for that.
pub(super) fn may_be_signed(bytes: &[u8], in_json: bool) -> bool {
    shown_runs(bytes, |byte| !in_json || byte != b'"')
        .next()
        .is_some()
}

fn is_signed_random(sample: &[u8]) -> bool {
    let kind = |byte: &u8| match byte {
        b'a'..=b'z' => 0,
        b'A'..=b'Z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    };
    let signs: BTreeSet<u8> = sample.iter().copied().filter(|byte| kind(byte) == 3).collect();
    let (_, bits) = SIGNED_BITS
        .into_iter()
        .find(|(length, _)| sample.len() >= *length)
        .unwrap_or_default();
    if signs.len() < SIGNS || value::entropy(sample) < bits {
        return false;
    }
    let changes = sample
        .windows(2)
        .filter(|pair| kind(&pair[0]) != kind(&pair[1]))
        .count();
    let steps = sample
        .windows(2)
        .filter(|pair| pair[1] == pair[0].wrapping_add(1))
        .count();
    let words = sample.split(|byte| !byte.is_ascii_alphabetic());
    let worded: usize = words
        .map(<[u8]>::len)
        .filter(|length| *length > 2 * MIN_WORD_LETTERS)
        .sum();
    let lower = sample.split(|byte| !byte.is_ascii_lowercase());
    let spoken: usize = lower
        .map(<[u8]>::len)
        .filter(|length| *length >= MIN_WORD_LETTERS)
        .sum();
    changes * 20 >= sample.len() * 11
        && steps * 5 <= sample.len()
        && (worded + spoken) * MAX_WORD_PART <= sample.len()
}

/// Returns the runs of more than [`RANDOM`] printable characters without a space.
fn shown_runs(bytes: &[u8], is_part: impl Fn(u8) -> bool) -> impl Iterator<Item = Range<usize>> {
    let is_part = move |byte: u8| byte.is_ascii_graphic() && is_part(byte);
    let mut start = 0;
    std::iter::from_fn(move || {
        while let Some(window) = bytes.get(start..=start + RANDOM) {
            if let Some(gap) = window.iter().rposition(|byte| !is_part(*byte)) {
                start += gap + 1;
                continue;
            }
            let more = bytes[start..].iter().position(|byte| !is_part(*byte));
            let run = start..more.map_or(bytes.len(), |length| start + length);
            start = run.end;
            return Some(run);
        }
        None
    })
}

/// Returns the runs of base64 of more than [`RANDOM`] characters, also those broken into lines.
fn long_runs(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let is_part =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=' | b'~');
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    while let Some(window) = bytes.get(start..start + LINE) {
        if let Some(gap) = window.iter().rposition(|byte| !is_part(*byte)) {
            start += gap + 1;
            continue;
        }
        let rest = bytes[start..].iter().position(|byte| !is_part(*byte));
        let at = rest.map_or(bytes.len(), |length| start + length);
        // An encoder writes successive lines of 60 to 76 characters.
        match runs.last_mut() {
            Some(last)
                if bytes[last.end..start]
                    .iter()
                    .all(|byte| matches!(byte, b'\n' | b'\r')) =>
            {
                last.end = at
            }
            Some(_) | None => runs.push(start..at),
        }
        start = at;
    }
    runs.retain(|run| run.len() > RANDOM);
    runs
}

fn is_media(stretch: &str) -> bool {
    MEDIA.iter().any(|start| stretch.starts_with(start))
}

/// Returns whether the text ends with the address of media data, `data:image/png;base64,`.
fn is_media_address(before: &str) -> bool {
    let near = &before[before.ceil_char_boundary(before.len().saturating_sub(80))..];
    near.rfind("data:").is_some_and(|at| {
        let kind = &near[at + 5..];
        ["image/", "audio/", "video/", "font/"]
            .iter()
            .any(|known| kind.starts_with(known))
            && near.ends_with(',')
    })
}

/// The last opening of armour in the part of a text that was read.
#[derive(Default)]
struct Armour {
    begun: Option<usize>,
    read: usize,
}

impl Armour {
    /// Returns whether the text after `before`, which only grows, is in the armour of public data.
    fn is_public(&mut self, before: &str) -> bool {
        // An opening may have been cut at the end of the part that was read.
        let unread = self.read.saturating_sub(BEGIN.len());
        let begins = memchr::memmem::find_iter(&before.as_bytes()[unread..], BEGIN);
        self.begun = begins.last().map(|at| unread + at).or(self.begun);
        self.read = before.len();
        let first = before.ceil_char_boundary(before.len().saturating_sub(ARMOURED));
        self.begun.filter(|begun| *begun >= first).is_some_and(|begun| {
            let inside = &before[begun..];
            let label = inside[BEGIN.len()..].split("-----").next().unwrap_or_default();
            let mut public = ["PUBLIC", "CERTIFICATE", "SIGNATURE", "MESSAGE"].iter();
            public.any(|public| label.contains(public))
                && memchr::memmem::find(inside.as_bytes(), b"-----END").is_none()
        })
    }
}

/// The prefix of armour, and the most bytes that it may contain.
const BEGIN: &str = "-----BEGIN ";
const ARMOURED: usize = 16 << 10;

/// Returns whether the text ends with a name for public data, such as a public key, a signature or encrypted data.
fn is_public(before: &str) -> bool {
    let end = &before[before.ceil_char_boundary(before.len().saturating_sub(60))..];
    let word = end
        .trim_end_matches([' ', ':', '=', '"', '\'', '>'])
        .to_ascii_lowercase();
    let is_named = [
        "signature",
        "integrity",
        "checksum",
        "digest",
        "hash",
        "fingerprint",
        "certificate",
    ];
    is_named.iter().any(|name| word.ends_with(name))
        || ["ssh-rsa ", "ssh-ed25519 ", "ssh-dss ", "ecdsa-sha2-nistp256 "]
            .iter()
            .any(|kind| end.ends_with(kind))
        || end.rfind(ENCRYPTED).is_some_and(|at| !end[at..].contains(']'))
}

fn is_digest_like(stretch: &str) -> bool {
    stretch.len() <= 140 && stretch.bytes().all(|byte| byte.is_ascii_hexdigit())
        || stretch.starts_with("sha512-")
        || stretch.starts_with("sha384-")
}

/// Shortest label of a host that is decoded.
const LABEL: usize = 14;

/// Finds labels of a host that encode a text in hexadecimal digits: a way to send data in a DNS query.
pub(super) fn host(text: &str, start: usize, hits: &mut Vec<SecretHit>) {
    let rest = &text[start..text.floor_char_boundary(start + 300)];
    let rest = &rest[..rest.find(['/', '?', '#', ':']).unwrap_or(rest.len())];
    let host = &rest[..rest
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_')))
        .unwrap_or(rest.len())];
    let labels: Vec<&str> = host.split('.').collect();
    let is_hex = |label: &&str| label.len() >= 8 && label.bytes().all(|byte| byte.is_ascii_hexdigit());
    let says = |label: &&str| {
        let decoded = decode::hexadecimal(label);
        let is_word = |bytes: &[u8]| {
            bytes
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b' ' | b'=' | b':'))
        };
        label.len() >= LABEL
            && decoded.is_some_and(|bytes| bytes.iter().any(u8::is_ascii_alphabetic) && is_word(&bytes))
    };
    if labels.iter().any(says) || labels.iter().filter(|label| is_hex(label)).count() >= 6 {
        let hit = SecretHit::new("encoded_host", Severity::High, start..start + host.len());
        hits.push(hit.only_if(false));
    }
}
