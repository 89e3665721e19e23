//! Appearance of a value: random, a placeholder, a reference to something elsewhere, or plain words.

use std::sync::LazyLock;

use crate::scan::literals::Literals;
use crate::tables::{self, WordList};

/// The strength with which a value looks like a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ValueStrength {
    /// The value does not look like a secret: it is a word, a path, a number.
    None,
    /// The value has letters with digits or signs among them, like passwords that people choose.
    Chosen,
    /// The value is long, and neither words nor a number.
    Mixed,
    /// The value was generated.
    Random,
}

/// Shortest password.
const MIN_LENGTH: usize = 6;
/// Shortest mixed value, and shortest random value.
const MIXED: usize = 10;
const RANDOM: usize = 16;

/// Returns the strength of `value`; `quoted` if it was in quotes, so that it is not a piece of code.
pub(super) fn strength(value: &str, quoted: bool) -> ValueStrength {
    let bytes = value.as_bytes();
    let letters = bytes.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    let signs = value.chars().filter(|c| "!@#$%^&*+?~=".contains(*c)).count();
    if value.len() < 4 || value.contains(char::is_whitespace) || is_location(value) {
        return ValueStrength::None;
    }
    if value.len() >= RANDOM && is_random(value) {
        return ValueStrength::Random;
    }
    let has_case = bytes.iter().any(u8::is_ascii_lowercase) && bytes.iter().any(u8::is_ascii_uppercase);
    if (letters > 0 && digits > 0 || has_case && letters == value.len())
        && value.len() >= MIXED
        && !is_wordy(value)
    {
        return ValueStrength::Mixed;
    }
    let is_chosen = letters > 0
        && (digits > 0 && (value.len() >= MIN_LENGTH || signs > 0)
            || signs > 0 && (quoted || value.len() >= MIN_LENGTH));
    match is_chosen && (quoted || !is_code(value)) {
        true => ValueStrength::Chosen,
        false => ValueStrength::None,
    }
}

/// Returns whether a run of characters was generated: its kinds of characters change often, and it does not consist of
/// a few repeated ones.
pub(super) fn is_random(value: &str) -> bool {
    let bytes = value.as_bytes();
    let classes: Vec<u8> = bytes.iter().filter_map(|byte| class(*byte)).collect();
    if classes.len() * 4 < bytes.len() * 3 || !classes.contains(&2) || !classes.iter().any(|class| *class < 2)
    {
        return false;
    }
    let changes = classes.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let kinds = [0, 1, 2].iter().filter(|kind| classes.contains(kind)).count();
    let enough = match kinds {
        3 => changes * 4 >= classes.len(),
        _ => changes * 5 >= classes.len(),
    };
    enough && entropy(bytes) >= 2.8 && !is_wordy(value)
}

fn class(byte: u8) -> Option<u8> {
    match byte {
        b'a'..=b'z' => Some(0),
        b'A'..=b'Z' => Some(1),
        b'0'..=b'9' => Some(2),
        _ => None,
    }
}

/// Returns the entropy in bits per byte, by the frequency of each byte.
pub(super) fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for &byte in bytes {
        counts[usize::from(byte)] += 1;
    }
    let total = f64::from(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| {
            let share = f64::from(*count) / total;
            -share * share.log2()
        })
        .sum()
}

/// Returns whether a value consists of words and small numbers, separated by signs: `my-token-2`, `config.v1.json`.
pub(super) fn is_wordy(value: &str) -> bool {
    value
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|part| !part.is_empty())
        .all(|part| {
            let digits = part.bytes().filter(u8::is_ascii_digit).count();
            digits == part.len() && part.len() <= 6
                || digits == 0 && has_vowels(part) && !is_shuffled(part)
                || digits <= 2
                    && part.len() <= 8
                    && part
                        .bytes()
                        .take(part.len() - digits)
                        .all(|b| b.is_ascii_alphabetic())
        })
}

/// Returns whether a value consists of words with or without a number before or after each, as people choose and make
/// up passwords: `password123`, `Summer@2024`, `s3cret`, `77GreenRiver`.
pub(super) fn is_spoken(value: &str) -> bool {
    let mut parts = value
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|part| !part.is_empty());
    parts.all(|part| {
        let word = part.trim_matches(|c: char| c.is_ascii_digit());
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let has_vowel = word.bytes().any(|byte| b"aeiouyAEIOUY".contains(&byte));
        digits <= 1 && has_vowel && has_vowels(word) && !is_shuffled(word) || part.len() <= 4
    })
}

/// Returns whether a run of letters can be pronounced: it has at most five consonants in a row.
fn has_vowels(letters: &str) -> bool {
    let mut row = 0;
    for byte in letters.bytes().map(|byte| byte.to_ascii_lowercase()) {
        row = if b"aeiouy".contains(&byte) { 0 } else { row + 1 };
        if row > 5 {
            return false;
        }
    }
    true
}

/// Returns whether upper and lower case change more often than at the beginnings of words.
fn is_shuffled(letters: &str) -> bool {
    let bytes = letters.as_bytes();
    let changes = bytes
        .windows(2)
        .filter(|pair| pair[0].is_ascii_uppercase() != pair[1].is_ascii_uppercase())
        .count();
    bytes.len() >= 8 && changes * 2 > bytes.len()
}

/// Returns whether a value is a path or an address.
fn is_location(value: &str) -> bool {
    value.contains("://")
        || value.starts_with("./")
        || value.starts_with("../")
        || value.starts_with("~/")
        || value.starts_with('/') && value.matches('/').count() >= 2 && is_wordy(value)
}

/// Returns whether a value is a name, a member or a type of a program.
fn is_code(value: &str) -> bool {
    value.contains("::")
        || value.contains("->")
        || value.ends_with(['(', '[', '.'])
        || value
            .bytes()
            .all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'.' | b'_' | b'-'))
}

/// Returns whether the value refers to one elsewhere: `$NAME`, `${NAME}`, `{{ name }}`, `<name>`, `%NAME%`,
/// `os.getenv(…`.
pub(super) fn is_reference(value: &str) -> bool {
    let value = value.trim_matches(['"', '\'', '`', ' ']);
    if value.starts_with(['<', '[', '{', '(', '|']) || value.starts_with("&{") || value.starts_with("@{") {
        return true;
    }
    if let Some(name) = value.strip_prefix('$') {
        let name = name.trim_start_matches(['{', '(']).trim_end_matches(['}', ')']);
        return value.starts_with("${")
            || value.starts_with("$(")
            || value.starts_with("$$")
            || name
                .bytes()
                .next()
                .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"_->:.[]'\"".contains(&byte));
    }
    if value.len() > 2 && value.starts_with('%') && value.ends_with('%') {
        return true;
    }
    static LOOKED_UP: WordList = tables::SECRETS.list("value", "looked_up");
    let begins = |start: &&'static str| {
        let head = value.get(..start.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(start))
    };
    LOOKED_UP.iter().any(begins) || value.contains("${") || value.contains("{{") || value.contains("}}")
}

/// Words that make a value a placeholder at any place in it.
static TELLING: WordList = tables::SECRETS.list("value", "telling");
static PLACEHOLDER_WORDS: LazyLock<Literals> = LazyLock::new(|| Literals::new(TELLING.iter()));

/// Words that make a value a placeholder if it has no other words.
static MEANINGLESS: WordList = tables::SECRETS.list("value", "meaningless");

/// Returns whether `value` only shows the place of a secret.
pub(super) fn is_placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    if PLACEHOLDER_WORDS.is_in(value.as_bytes()) {
        return !has_changeme_suffix(&lower);
    }
    let mut parts = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|part| !part.is_empty());
    // Ascending bytes from zero, in base64.
    if value.contains("AAECAwQFBgc") {
        return true;
    }
    if parts.clone().next().is_none() || parts.all(|part| MEANINGLESS.contains(&part)) {
        return true;
    }
    is_repetitive(value)
}

/// Returns whether `value` consists of words, among them some that only placeholders have, and of numbers that count
/// from one: `github_token_123`. A person who chooses a password takes another number.
pub(super) fn is_made_up(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let mut numbers = lower.split(|c: char| !c.is_ascii_digit());
    if !numbers.all(|number| "123456789".starts_with(number)) {
        return false;
    }
    let mut parts = lower.split(|c: char| !c.is_ascii_alphanumeric());
    is_wordy(value) && lower.contains(['_', '-']) && parts.any(|part| MEANINGLESS.contains(&part))
}

/// Returns whether a value is a changed `changeme`, such as `changeme123`.
fn has_changeme_suffix(lower: &str) -> bool {
    lower.strip_prefix("changeme").is_some_and(|rest| rest.len() >= 2)
}

/// Fewest equal characters of a long run.
const LONG_RUN: usize = 13;

/// Returns whether a value has few different characters, or a long run of one: `aaaaaaaa`, `00000000-0000`.
pub(super) fn is_repetitive(value: &str) -> bool {
    let mut kinds = [false; 256];
    let (mut length, mut distinct, mut repeats) = (0, 0, 0);
    let (mut before, mut run) = (None, 0);
    for byte in value.bytes().filter(u8::is_ascii_alphanumeric) {
        length += 1;
        distinct += usize::from(!std::mem::replace(&mut kinds[usize::from(byte)], true));
        let is_again = before.replace(byte) == Some(byte);
        repeats += usize::from(is_again);
        run = if is_again { run + 1 } else { 1 };
        if run >= LONG_RUN {
            return true;
        }
    }
    if length >= 6 && (distinct <= 2 || distinct <= 3 && length >= 12 || repeats * 3 > length * 2) {
        return true;
    }
    let mut groups: Vec<&str> = value
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|group| group.len() > 2 && group.bytes().any(|b| b.is_ascii_digit()))
        .collect();
    groups.sort_unstable();
    groups.windows(3).any(|group| group[0] == group[2])
}

/// Returns whether a value is mostly the alphabet or the digits in their order.
pub(super) fn is_sequential(value: &str) -> bool {
    let bytes: Vec<u8> = value.bytes().filter(u8::is_ascii_alphanumeric).collect();
    let steps = bytes
        .windows(2)
        .filter(|pair| {
            pair[1] == pair[0] + 1
                || matches!(
                    (pair[0], pair[1]),
                    (b'9' | b'f' | b'F', b'0') | (b'0', b'a' | b'A')
                )
        })
        .count();
    bytes.len() >= 8 && steps * 4 >= bytes.len() * 3
}

/// Returns whether a value consists mostly of alternating sequences: `abc123def456`, `a1B2c3D4`.
pub(super) fn is_patterned(value: &str) -> bool {
    let lower = value
        .bytes()
        .filter(u8::is_ascii_alphanumeric)
        .map(|byte| byte.to_ascii_lowercase());
    let bytes: Vec<u8> = lower.collect();
    let follows = |at: usize, distance: usize| {
        let Some(before) = at.checked_sub(distance).map(|before| bytes[before]) else {
            return false;
        };
        bytes[at] == before + 1
            || matches!(
                (before, bytes[at]),
                (b'9' | b'f', b'0') | (b'0', b'a') | (b'z', b'a')
            )
    };
    let steps = (0..bytes.len())
        .filter(|&at| (1..=4).any(|distance| follows(at, distance)))
        .count();
    bytes.len() >= 8 && steps * 10 >= bytes.len() * 7
}

/// Returns whether `value` was certainly generated: it was neither typed nor made up.
pub(super) fn is_generated(value: &str) -> bool {
    is_random(value) && !is_invented(value)
}

/// Returns whether `value` is made up: words, a sequence, or repetitions.
pub(super) fn is_invented(value: &str) -> bool {
    counts(value)
        || is_wordy(value)
        || is_placeholder(value)
        || is_made_up(value)
        || is_patterned(value)
        || is_sequential(value)
        || is_repetitive(value)
}

/// Fewest successive characters that count as a sequence, and the percentage of a made-up value that they are.
const COUNTING: usize = 3;
const COUNTED: usize = 40;

/// Returns whether much of `value` counts up, as in made-up values: `abc123xyz789`.
pub(super) fn counts(value: &str) -> bool {
    let bytes: Vec<u8> = value
        .bytes()
        .filter(u8::is_ascii_alphanumeric)
        .map(|byte| byte.to_ascii_lowercase())
        .collect();
    let rows = bytes.chunk_by(|before, after| *after == before + 1);
    let counted: usize = rows.map(<[u8]>::len).filter(|row| *row >= COUNTING).sum();
    counted * 100 >= bytes.len() * COUNTED
}

/// Returns whether a value has `8-4-4-4-12` hexadecimal digits.
pub(super) fn is_uuid(value: &str) -> bool {
    let mut lengths = [8, 4, 4, 4, 12].into_iter();
    value.len() == 36
        && value
            .split('-')
            .all(|part| lengths.next() == Some(part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("Tr0ub4dor" => ValueStrength::Chosen; "password")]
    #[test_case("hush!" => ValueStrength::Chosen; "sign")]
    #[test_case("k9Xw2Lm4Qz7P" => ValueStrength::Mixed; "mixed")]
    #[test_case("k9Xw2Lm4Qz7PbV3nR8tY" => ValueStrength::Random; "random")]
    #[test_case("9f86d081884c7d659a2feaa0c55ad015" => ValueStrength::Random; "hexadecimal")]
    #[test_case("my-token-two" => ValueStrength::None; "words")]
    #[test_case("KjdRwqXbTzNvLpMs" => ValueStrength::Mixed; "letters that are no word")]
    #[test_case("AuthenticationTokenProvider" => ValueStrength::None; "camel case")]
    #[test_case("12345678901234567890" => ValueStrength::None; "number")]
    #[test_case("two words 1" => ValueStrength::None; "sentence")]
    #[test_case("/usr/local/share/x1" => ValueStrength::None; "path")]
    fn values(value: &str) -> ValueStrength {
        strength(value, true)
    }

    #[test_case("${TOKEN}"; "braces")]
    #[test_case("$TOKEN"; "variable")]
    #[test_case("{{ .Values.x }}"; "template")]
    #[test_case("<your token>"; "angle brackets")]
    #[test_case("%TOKEN%"; "windows")]
    #[test_case("os.getenv('X')"; "look-up")]
    fn references(value: &str) {
        assert!(is_reference(value));
    }

    #[test_case("YOUR_API_KEY" => true)]
    #[test_case("xxxxxxxxxxxx" => true; "x")]
    #[test_case("00000000-0000-0000-0000-000000000000" => true; "nil")]
    #[test_case("api-key-here" => true; "words")]
    #[test_case("k9Xw2Lm4Qz7P" => false; "none")]
    #[test_case("changeme123" => false; "changed")]
    fn placeholders(value: &str) -> bool {
        is_placeholder(value)
    }

    #[test_case("github_token_123" => true; "words and a number")]
    #[test_case("shared-test-secret-12345" => true; "more words")]
    #[test_case("correct-horse-battery-staple" => false; "words of no such meaning")]
    #[test_case("token_k9Xw2Lm4Qz7P" => false; "a word before a secret")]
    fn made_up(value: &str) -> bool {
        is_made_up(value)
    }

    #[test]
    fn sequences_and_uuids() {
        assert!(is_patterned("a1B2c3D4e5F6g7H8") && is_patterned("abc123def456ghi789"));
        assert!(!is_patterned("k9Xw2Lm4Qz7PbV3nR8tY"));
        assert!(is_sequential("abcdefghijklmnop1234567890"));
        assert!(!is_sequential("k9Xw2Lm4Qz7PbV3nR8tY"));
        assert!(is_uuid("67e55044-10b1-426f-9247-bb680e5fe0c8"));
        assert!(!is_uuid("67e55044-10b1-426f-9247-bb680e5fe0c"));
    }
}
