//! The words for credentials in many languages, and what makes a text ask for one.

use std::sync::LazyLock;

use regex::Regex;

use crate::instructions::lists::QUESTIONS;

use super::spelling::readings;
use crate::{normalise::skeleton::Skeleton, secrets};

/// Words that a text has at most for an ambiguous one to be all that it says.
const FEW_WORDS: usize = 3;
/// Bytes before and behind a word in which what asks for it is looked for.
const BEFORE: usize = 80;
const BEHIND: usize = 60;

/// The way in which a text must mention a credential to ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    /// The text names a credential: there is a field to type it into.
    Named,
    /// The text says that a credential is to be typed: no field for it is in sight.
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

/// Built when the first question is asked.
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
        // Scripts without spaces have their verbs within words.
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

    /// The credential that a sentence asks for.
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

    /// The first match of `terms` of which `counts` holds.
    fn each(&self, terms: &Regex, reading: &str, counts: impl Fn(&Around<'_>) -> bool) -> Option<String> {
        let mut from = 0;
        while let Some(found) = terms.find_at(reading, from) {
            let around = Around::of(reading, found.start(), found.end());
            if counts(&around) {
                return Some(found.as_str().trim().to_owned());
            }
            // The space behind a word is the one before the next.
            from = found.end() - 1;
            if from <= found.start() {
                break;
            }
        }
        None
    }

    /// The credential that a field takes, by its name or title.
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

    /// The ambiguous word that a label consists of, with words before it that say whose or which it is.
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
            // What a token is of, and how many there are, is told by the names of secrets.
            && !matches!(*last, "tokens" | "token" | "secrets" | "pins")
            && !self.counted.is_match(&before)
            && !self.about.is_match(&before);
        is_ambiguous.then(|| words.join(" "))
    }

    /// Returns whether a text asks for what is inside of something.
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

/// A pattern of all words of a list, each as it is written and as it looks.
fn alternatives(list: &str) -> String {
    let mut all: Vec<String> = list.split_whitespace().flat_map(spellings).collect();
    // Of two that begin alike the longer one is tried first.
    all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    all.dedup();
    all.join("|")
}

/// The words of a list that are not written with ASCII, or nothing that matches.
fn beyond_ascii(list: &str) -> String {
    let words: Vec<&str> = list.split_whitespace().filter(|word| !word.is_ascii()).collect();
    alternatives(&words.join(" "))
}

/// A word as skeletons have it: on its own, and as the part of a longer one that cannot be Latin.
fn spellings(word: &str) -> [String; 2] {
    /// Looks like no letter of ASCII.
    const OWN: &str = "ж";
    let spaced = word.replace('_', " ");
    let folded = |text: &str| Skeleton::of(text).text.to_lowercase();
    let parts = spaced.split(' ').map(|part| folded(&format!("{part}{OWN}")));
    let apart: Vec<String> = parts.map(|part| part.trim_end_matches(OWN).to_owned()).collect();
    [folded(&spaced), apart.join(" ")].map(|text| regex::escape(&text).replace(' ', " ?"))
}
