//! Secrets in their issuers' formats: a prefix, an alphabet, a length. The same table serves reports and masking.

use std::{collections::BTreeMap, ops::Range, sync::LazyLock};

use mcpmon_model::Severity;
use serde::Deserialize;

use crate::tables;

use super::{checks, value};

/// A kind of secret in the format of its issuer.
#[derive(Debug, Deserialize)]
pub(super) struct Issued {
    /// Name of the pattern.
    #[serde(deserialize_with = "tables::kept")]
    pub(super) kind: &'static str,
    /// The prefix.
    #[serde(deserialize_with = "tables::kept")]
    pub(super) prefix: &'static str,
    /// The characters after the prefix.
    alphabet: Alphabet,
    /// Fewest characters after the prefix.
    least: u16,
    /// Most characters after the prefix.
    most: u16,
}

/// The alphabet of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Alphabet {
    /// `0-9a-f`, upper case too.
    Hex,
    /// `A-Z0-9`
    Upper,
    /// `a-z0-9`
    Lower,
    /// Letters and digits.
    Word,
    /// Letters, digits, `-` and `_`.
    Url,
    /// As `Url`, and `.`.
    Dotted,
    /// As `Dotted`, and `+`, `/`, `=`, `%`, `~`, `|`, `:`, `,`, `$`, `!`.
    Wide,
}

/// Most characters of a long secret that are read before it is accepted.
const LONG: u16 = 512;

/// Shortest secret that is certain, without its prefix.
const SURE: usize = 16;
/// Length of a prefix that is unique.
const MARKED: usize = 5;

use Alphabet::{Dotted, Hex, Lower, Upper, Url, Wide, Word};

/// Formats that issuers document, by issuer.
pub(super) static ISSUED: LazyLock<Vec<Issued>> =
    LazyLock::new(|| tables::rows(include_str!("../../rules/tables/issued.toml")));

/// Returns whether a value begins with an issuer's prefix that is long enough to be recognised, and has more characters
/// after it than documents show.
pub(super) fn begins(value: &str) -> bool {
    let first = value.bytes().next();
    let known = first.and_then(|first| TELLING.get(&first));
    let goes_on = |prefix: &&str| {
        let rest = value.strip_prefix(prefix).unwrap_or_default();
        rest.bytes().filter(u8::is_ascii_alphanumeric).count() >= SHOWN
    };
    known.is_some_and(|known| known.iter().any(goes_on))
}

/// Letters and digits after a prefix that documents show of a token.
const SHOWN: usize = 4;

/// Prefixes that are recognised without context, by their first byte.
static TELLING: LazyLock<BTreeMap<u8, Vec<&'static str>>> = LazyLock::new(|| {
    let says = |prefix: &&str| prefix.len() >= 3 && prefix.ends_with(['_', '-', '.', '/']);
    let prefixes = ISSUED.iter().map(|row| row.prefix).filter(says);
    let mut telling: BTreeMap<u8, Vec<&str>> = BTreeMap::new();
    for prefix in prefixes.chain(["eyJ"]) {
        telling.entry(prefix.as_bytes()[0]).or_default().push(prefix);
    }
    telling
});

/// The result at the position of a prefix.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum IssuedPrefix {
    /// A secret.
    Secret(Range<usize>, Severity),
    /// Plain words, which end here.
    Words(usize),
    /// No secret.
    Nothing,
}

impl Issued {
    /// Judges `text` at `start`, where the prefix was found in any case.
    pub(super) fn at(&self, text: &str, start: usize) -> IssuedPrefix {
        let bytes = text.as_bytes();
        let body = start + self.prefix.len();
        let has_prefix = bytes
            .get(start..body)
            .is_some_and(|prefix| prefix == self.prefix.as_bytes());
        let joins = |before: u8| {
            before.is_ascii_alphanumeric()
                || before == b'+'
                || self.is_short() && matches!(before, b'.' | b'/')
        };
        if !has_prefix || start > 0 && joins(bytes[start - 1]) {
            return IssuedPrefix::Nothing;
        }
        let rest = &bytes[body..];
        let run = |most: usize| {
            let end = rest.iter().take(most).position(|byte| !self.alphabet.has(*byte));
            end.unwrap_or_else(|| rest.len().min(most))
        };
        let most = usize::from(self.most);
        let mut length = run(most);
        if length == usize::from(LONG) {
            length = run(usize::MAX);
        }
        // A full stop, a colon or a comma after a secret does not belong to it.
        while length > 0
            && !rest[length - 1].is_ascii_alphanumeric()
            && !matches!(rest[length - 1], b'_' | b'-' | b'=')
        {
            length -= 1;
        }
        let goes_on = rest.get(length).is_some_and(u8::is_ascii_alphanumeric);
        if length < usize::from(self.least) || goes_on {
            return IssuedPrefix::Nothing;
        }
        // A value that ends in dots or stars was masked.
        let is_hidden = rest
            .get(length)
            .is_some_and(|byte| matches!(byte, b'#' | b'*' | b'<' | b'[' | b'{'))
            || rest[length..].starts_with(b"..");
        if is_hidden {
            return IssuedPrefix::Secret(start..body + length, Severity::Low);
        }
        match self.severity(&text[body..body + length]) {
            Some(severity) => IssuedPrefix::Secret(start..body + length, severity),
            None => IssuedPrefix::Words(body + length),
        }
    }

    /// Returns whether a secret of this format was certainly generated.
    pub(super) fn is_certain(&self, secret: &str) -> bool {
        let body = secret.strip_prefix(self.prefix).unwrap_or(secret);
        match self.kind {
            // The first of a pair is short, and in capitals; its prefix is rare enough.
            "aws_credential" => !value::is_wordy(body) && !value::counts(body),
            // A long prefix is evidence by itself that the secret was issued.
            _ if self.prefix.len() >= MARKED => body.len() >= SURE && !value::is_invented(body),
            _ => body.len() >= SURE && value::is_generated(body),
        }
    }

    /// Returns whether the prefix can be the end of another word.
    fn is_short(&self) -> bool {
        self.prefix.len() <= 4
            && matches!(
                self.kind,
                "issued_token" | "mail_key" | "llm_key" | "registry_token"
            )
    }

    fn severity(&self, body: &str) -> Option<Severity> {
        let is_checked = match self.prefix {
            "ghp_" | "gho_" | "ghu_" | "ghs_" | "ghr_" | "npm_" => {
                body.len() >= 36 && checks::has_crc32(body)
            }
            _ => false,
        };
        if is_checked {
            return Some(Severity::Critical);
        }
        if value::is_placeholder(body) || self.is_made_up(body) {
            return Some(Severity::Low);
        }
        // A prefix of a few letters is weak evidence: the rest has to look generated.
        let has_digit = body.bytes().any(|byte| byte.is_ascii_digit());
        let is_plain = match self.alphabet {
            Hex | Upper => false,
            Lower | Word | Url | Dotted | Wide => {
                value::is_wordy(body) || !has_digit && body.len() < 40 && self.prefix.len() < 5
            }
        };
        let is_marked = matches!(self.kind, "aws_credential" | "github_token");
        let is_weak = self.prefix.len() <= 4 && !has_digit;
        (is_marked || !is_plain && !is_weak).then_some(Severity::High)
    }

    /// Returns whether the value is a sequence, which people type as a dummy.
    fn is_made_up(&self, body: &str) -> bool {
        value::is_sequential(body) && self.kind != "github_token"
    }
}

impl Alphabet {
    const fn has(self, byte: u8) -> bool {
        match self {
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Lower => byte.is_ascii_lowercase() || byte.is_ascii_digit(),
            Self::Word => byte.is_ascii_alphanumeric(),
            Self::Url => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'),
            Self::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'),
            Self::Wide => {
                byte.is_ascii_alphanumeric()
                    || matches!(
                        byte,
                        b'-' | b'_'
                            | b'.'
                            | b'+'
                            | b'/'
                            | b'='
                            | b'%'
                            | b'~'
                            | b'|'
                            | b':'
                            | b','
                            | b'$'
                            | b'!'
                    )
            }
        }
    }
}
