//! Words for credentials in many languages, and the phrases with which a text asks for one.

use std::sync::LazyLock;

use regex::Regex;

use crate::instructions::lists::QUESTIONS;

use super::spelling::readings;
use crate::{normalise::skeleton::Skeleton, secrets};

/// Most words of a text that consists of an ambiguous one.
const FEW_WORDS: usize = 3;
/// Bytes before and after a word that are searched for a request.
const BEFORE: usize = 80;
const BEHIND: usize = 60;

/// The way in which a text must mention a credential to ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    /// The text names a credential: there is a field to type it into.
    Named,
    /// The text asks to type a credential, because there is no field for it.
    Typed,
}

/// The patterns of all words.
pub(super) struct Terms {
    credentials: Regex,
    ambiguous: Regex,
    typed: Regex,
    owned: Regex,
    contents: Regex,
    about: Regex,
    counted: Regex,
    aspect: Regex,
}

/// The patterns, compiled when the first question is inspected.
pub(super) static TERMS: LazyLock<Terms> = LazyLock::new(Terms::new);

impl Terms {
    fn new() -> Self {
        let compile =
            |pattern: &str| Regex::new(pattern).expect("a constant pattern is compiled by every test");
        let list = |name: &str| QUESTIONS[name].words.as_str();
        let pattern = |name: &str| compile(&QUESTIONS[name].pattern);
        let whole = |name: &str| compile(&format!(" (?:{})s? ", alternatives(list(name))));
        let credentials = format!(
            " (?:{})s? | ?[^ ]*(?:{})[^ ]* ",
            alternatives(list("credentials")),
            alternatives(list("foreign"))
        );
        // In scripts without spaces, verbs are within words.
        let among = |name: &str| {
            compile(&format!(
                " (?:{0})s? |[^\\x00-\\x7f]*(?:{1})",
                alternatives(list(name)),
                beyond_ascii(list(name))
            ))
        };
        Self {
            credentials: compile(&format!(
                "{credentials}|[^ ]*(?:{})[^ ]* ",
                alternatives(list("within"))
            )),
            ambiguous: whole("ambiguous"),
            typed: among("typed"),
            owned: whole("owned"),
            contents: among("contents"),
            about: pattern("about"),
            counted: pattern("counted"),
            aspect: pattern("aspect"),
        }
    }

    /// Returns the credential that a sentence asks for.
    pub(super) fn in_prose(&self, text: &str, asking: Asking) -> Option<String> {
        readings(text, false)
            .iter()
            .find_map(|reading| self.in_reading(reading, asking))
    }

    fn in_reading(&self, reading: &str, asking: Asking) -> Option<String> {
        let credential = self.each(&self.credentials, reading, |around| {
            let is_owned = self.owned.is_match(&around.last_word());
            let is_aspect =
                self.about.is_match(around.before) || !is_owned && self.aspect.is_match(around.behind);
            !is_aspect && (asking == Asking::Named || around.has(&self.typed))
        });
        credential.or_else(|| {
            self.each(&self.ambiguous, reading, |around| {
                let is_aspect = self.about.is_match(around.before)
                    || self.counted.is_match(around.before)
                    || self.aspect.is_match(around.behind);
                let is_asked = match asking {
                    Asking::Typed => around.has(&self.typed),
                    Asking::Named => {
                        around.has(&self.typed)
                            || around.has(&self.owned)
                            || reading.split_whitespace().count() <= FEW_WORDS
                    }
                };
                !is_aspect && is_asked
            })
        })
    }

    /// Returns the first match of `terms` for which `counts` is true.
    fn each(&self, terms: &Regex, reading: &str, counts: impl Fn(&Around<'_>) -> bool) -> Option<String> {
        let mut from = 0;
        while let Some(found) = terms.find_at(reading, from) {
            let around = Around::of(reading, found.start(), found.end());
            if counts(&around) {
                return Some(found.as_str().trim().to_owned());
            }
            // The space after a word is the one before the next.
            from = found.end() - 1;
            if from <= found.start() {
                break;
            }
        }
        None
    }

    /// Returns the credential that a field takes, by its name or title.
    pub(super) fn in_label(&self, text: &str, is_name: bool) -> Option<String> {
        let readings = readings(text, is_name);
        let named = || {
            let words: Vec<&str> = readings.first()?.split_whitespace().collect();
            secrets::names_a_secret(&words.join("_")).then(|| words.join(" "))
        };
        let mut each = readings.iter();
        each.find_map(|reading| {
            self.in_reading(reading, Asking::Named)
                .or_else(|| self.ends_in_ambiguous(reading))
        })
        .or_else(named)
    }

    /// Returns the ambiguous word of a label that consists of it and of words before it that specify it.
    fn ends_in_ambiguous(&self, reading: &str) -> Option<String> {
        let mut words: Vec<&str> = reading.split_whitespace().collect();
        let is_filler =
            |word: &&str| QUESTIONS["fillers"].has(word) || word.bytes().all(|byte| byte.is_ascii_digit());
        while words.len() > 1 && words.last().is_some_and(is_filler) {
            words.pop();
        }
        let last = words.last()?;
        let before = format!(" {} ", words[..words.len() - 1].join(" "));
        let is_ambiguous = self.ambiguous.is_match(&format!(" {last} "))
            // These words are left to `names_a_secret`, which knows other kinds of tokens, and counts of them.
            && !matches!(*last, "tokens" | "token" | "secrets" | "pins")
            && !self.counted.is_match(&before)
            && !self.about.is_match(&before);
        is_ambiguous.then(|| words.join(" "))
    }

    /// Returns whether a text asks for the contents of something.
    pub(super) fn asks_for_contents(&self, text: &str, asking: Asking) -> bool {
        readings(text, false).iter().any(|reading| {
            self.contents.is_match(reading) && (asking == Asking::Named || self.typed.is_match(reading))
        })
    }
}

/// A reading around a word.
struct Around<'r> {
    before: &'r str,
    behind: &'r str,
}

impl<'r> Around<'r> {
    fn of(reading: &'r str, start: usize, end: usize) -> Self {
        let from = reading.ceil_char_boundary(start.saturating_sub(BEFORE));
        let to = reading.floor_char_boundary((end + BEHIND).min(reading.len()));
        // Words have a space on either side.
        let first = reading[start..].chars().next().filter(|c| *c == ' ');
        Self {
            before: &reading[from..start + first.map_or(0, char::len_utf8)],
            behind: &reading[end.saturating_sub(1).max(start)..to],
        }
    }

    fn has(&self, words: &Regex) -> bool {
        words.is_match(self.before) || words.is_match(self.behind)
    }

    fn last_word(&self) -> String {
        let last = self.before.split_whitespace().next_back().unwrap_or_default();
        format!(" {last} ")
    }
}

/// Builds a pattern of all words of a list, each as written and as it looks.
fn alternatives(list: &str) -> String {
    let mut all: Vec<String> = list.split_whitespace().flat_map(spellings).collect();
    // Of two words with the same beginning the longer one is tried first.
    all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    all.dedup();
    all.join("|")
}

/// Builds a pattern of those words of a list that are not ASCII; it matches nothing if there are none.
fn beyond_ascii(list: &str) -> String {
    let words: Vec<&str> = list.split_whitespace().filter(|word| !word.is_ascii()).collect();
    alternatives(&words.join(" "))
}

/// Returns a word as it is in skeletons: by itself, and as a part of a longer word that cannot be Latin.
fn spellings(word: &str) -> [String; 2] {
    /// A letter that looks like no letter of ASCII.
    const OWN: &str = "ж";
    let spaced = word.replace('_', " ");
    let folded = |text: &str| Skeleton::of(text).text.to_lowercase();
    let parts = spaced.split(' ').map(|part| folded(&format!("{part}{OWN}")));
    let apart: Vec<String> = parts.map(|part| part.trim_end_matches(OWN).to_owned()).collect();
    [folded(&spaced), apart.join(" ")].map(|text| regex::escape(&text).replace(' ', " ?"))
}
