//! Whether a text does something or tells of it: quotation marks, and words that documents about attacks use.

use std::{cell::OnceCell, ops::Range, sync::LazyLock};

use regex::bytes::Regex;

use super::rules::Place;
use crate::model::Standing;

/// How far before a match words count that introduce a quotation, bytes.
const INTRODUCTION: usize = 160;
/// How far after it words count that name what was quoted, bytes.
const NAMING: usize = 60;
/// Words about attacks that make a text a document about attacks, and its least length.
const DOCUMENT_WORDS: usize = 5;
const DOCUMENT_LENGTH: usize = 700;
/// How many of them are enough where the text is said to be a document; its server can say what it likes.
const NAMED_DOCUMENT_WORDS: usize = 3;
/// How far before a match a prohibition counts, bytes.
const PROHIBITION: usize = 90;

/// Words of those who write about attacks.
static ABOUT: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"\b(?:attack(?:s|er|ers|ing)?|(?:prompt|command|instruction)[ -]injections?|inject(?:s|ed|ion|ions)|malicious(?:ly)?|(?:malicious|attack|test|injection|xss) payloads?|jailbreaks?|jailbreaking|adversar\w+|exploit(?:s|ed|ation)?|vulnerabilit\w+|threats?|detect(?:s|ed|ion|or|ors|ing)?|prevent(?:s|ion|ing)?|mitigat\w+|defen[cs]es?|defend\w*|sanitiz\w+|untrusted|red[ -]team\w*|poison(?:ed|ing)|spoof\w*|phishing|hijack\w*|guardrails?|CVE-\d+|OWASP|security research\w*|suspicious|scanner?s?|(?:checks?|tests?|determines?|verif\w+|classif\w+|evaluates?|reports?|flags?) (?:whether|if|when)|(?:readme|documentation|docs?|guide|manual|page) (?:shows?|says?|describes?|lists?|mentions?|uses?))\b",
    )
});

/// Words of tools that work against attacks. Whoever describes a tool has no other reason to write of them.
static AGAINST: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"\b(?:detect\w*|prevent\w*|block(?:s|ed|ing)?|scan(?:s|ned|ning|ner|ners)?|flag(?:s|ged|ging)?|protect\w*|sanitiz\w*|guards?|guarding|identif\w+|warns? (?:about|against|of)|redact\w*|refus\w+|reject\w*|defen[ds]\w*|mitigat\w*|(?:checks?|tests?|determines?|verif\w+|classif\w+|evaluates?|reports?) (?:whether|if|when|for)|(?:readme|documentation|docs?|guide|manual) (?:shows?|says?|describes?|lists?|mentions?|uses?))\b",
    )
});

/// Words that introduce an example or a quotation.
static INTRODUCES: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"\b(?:such as|e\.g\.|for example|for instance|examples?|like|phrases?|patterns?|strings?|says?|saying|said|called|named|keywords?|tries to|attempts?|contain(?:s|ing)?|includ(?:es|ing)|asks?|flag(?:s|ged)?|block(?:s|ed)?|reject(?:s|ed)?|test(?:s|ed|ing)?|assert\w*|expect\w*|should (?:not|never|be (?:blocked|rejected|flagged))|blocklist|denylist|regex)\b",
    )
});

/// A prohibition right before what is forbidden, or with nothing between but what is also forbidden.
static FORBIDS: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"\b(?:never|do not|don.?t|must not|mustn.?t|should not|shouldn.?t|may not|cannot|avoid|without|not to|refrain from)[^a-z.!?;]+(?:(?:ever|directly|simply|also|include|including|put|putting|pass|passing|send|sending|store|storing|log|logging|share|sharing|paste|pasting|enter|entering|provide|providing|expose|exposing|print|write|commit|use|using|hardcode|return|add|any|the|your|a|an|raw|real|actual|private|sensitive|personal|confidential|proprietary|or|nor|and|other|such as|like|as|api|access|keys?|tokens?|passwords?|credentials?|secrets?|data|information|code|in|this|user|user's|plain|text)[^a-z.!?;]+){0,12}$",
    )
});

/// What makes a condition of a prohibition.
static CONDITION: LazyLock<Regex> = LazyLock::new(|| {
    compile(r"\b(?:if|unless|when|whenever|in case|otherwise)[^a-z.!?;]+(?:[a-z]+[^a-z.!?;]+){0,3}$")
});

fn compile(pattern: &str) -> Regex {
    regex::bytes::RegexBuilder::new(pattern)
        .unicode(false)
        .case_insensitive(true)
        .build()
        .expect("a constant pattern is compiled by every test")
}

/// A text's way of speaking, worked out once for all of its matches, and only if there are any.
#[derive(Debug)]
pub(super) struct Manner<'a> {
    text: &'a str,
    place: Place,
    is_named_document: bool,
    is_document: OnceCell<bool>,
}

impl<'a> Manner<'a> {
    pub(super) const fn of(text: &'a str, place: Place, is_named_document: bool) -> Self {
        Self {
            text,
            place,
            is_named_document,
            is_document: OnceCell::new(),
        }
    }

    /// Whether it is a document about attacks; no definition is one.
    fn is_document(&self) -> bool {
        *self.is_document.get_or_init(|| {
            let (length, words) = if self.is_named_document {
                (0, NAMED_DOCUMENT_WORDS)
            } else {
                (DOCUMENT_LENGTH, DOCUMENT_WORDS)
            };
            self.place == Place::Output
                && self.text.len() >= length
                && ABOUT.find_iter(self.text.as_bytes()).nth(words - 1).is_some()
        })
    }

    /// Whether what stands there is said or told of; a deed that is forbidden is only told of.
    pub(super) fn standing(&self, span: &Range<usize>, is_deed: bool) -> Standing {
        let bytes = self.text.as_bytes();
        let before = same_sentence(&bytes[span.start.saturating_sub(INTRODUCTION)..span.start]);
        let after = &bytes[span.end..(span.end + NAMING).min(bytes.len())];
        let is_about = match self.place {
            Place::Definition => AGAINST.is_match(before),
            Place::Output => ABOUT.is_match(before) || ABOUT.is_match(after),
        };
        let is_introduced = is_quoted(before) && (is_about || INTRODUCES.is_match(before));
        let is_forbidden = is_deed && is_forbidden(before);
        if is_about || is_introduced || is_forbidden || self.is_document() {
            Standing::Quoted
        } else {
            Standing::Asserted
        }
    }
}

/// Whether a prohibition comes right before the match; `if you do not` is none.
fn is_forbidden(before: &[u8]) -> bool {
    let near = &before[before.len().saturating_sub(PROHIBITION)..];
    FORBIDS
        .find(near)
        .is_some_and(|found| !CONDITION.is_match(&near[..found.start()]))
}

/// The end of `before` that belongs to the sentence that follows it.
fn same_sentence(before: &[u8]) -> &[u8] {
    let ends = before
        .windows(2)
        .rposition(|pair| matches!(pair, [b'.' | b'!' | b'?', b' ' | b'\n'] | b"\n\n"));
    ends.map_or(before, |end| &before[end + 2..])
}

/// Whether a quotation opens right before the match.
fn is_quoted(before: &[u8]) -> bool {
    let near = &before[before.len().saturating_sub(24)..];
    near.iter()
        .any(|byte| matches!(byte, b'"' | b'\'' | b'`' | b'*' | b'('))
        || near.ends_with("“".as_bytes())
}
