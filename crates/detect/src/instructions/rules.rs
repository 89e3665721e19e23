//! Rules: combinations of signals that are an attack, and their outcomes.

use std::ops::Range;

use serde::Deserialize;

use crate::instructions::signals::{Sentence, Set, Signal, Signals};

/// The effect of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The match is recorded.
    Note,
    /// The match is reported to a person.
    Alert,
    /// The text with the match is hidden or withheld.
    Act,
}

/// Kinds of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Asks for keys, tokens, passwords, or the files that hold them.
    CredentialTheft,
    /// Asks to send data elsewhere.
    Exfiltration,
    /// Instructions that a person does not see or would not expect.
    HiddenInstructions,
    /// Commands in a place for text.
    ShellInjection,
    /// Paths that lead out of their directory.
    PathTraversal,
    /// Instructions about other tools.
    CrossToolOverride,
    /// Instructions to keep something from the user.
    StealthInstruction,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rule: Vec<Rule>,
}

/// A rule of `rules/*.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The stable id for suppressions.
    pub id: String,
    /// The name of the finding: several rules find the same thing in different words.
    pub name: String,
    /// The kind of attack.
    #[serde(rename = "category")]
    pub kind: Kind,
    /// The effect.
    pub outcome: Outcome,
    /// Groups of signals: one of each group is in the sentence or near it, one of the first group in the sentence
    /// itself.
    pub all: Vec<Vec<String>>,
    /// Signals of which none is in the sentence.
    #[serde(default)]
    pub none: Vec<String>,
    /// The number of sentences before and after that count.
    #[serde(default = "beside")]
    pub beside: usize,
    /// The longest text in which it holds, bytes: a short text states its purpose.
    #[serde(default = "any_length")]
    pub within: usize,
    /// True if it holds in schema texts as in descriptions; otherwise its outcome there is one level lower.
    #[serde(default)]
    pub schema: bool,
    /// True if it is worse than what is acted on: a person has to approve it.
    #[serde(default)]
    pub critical: bool,
    /// The reason why no harmless text says this.
    pub why: String,
    /// A text that it finds.
    pub hit: String,
    /// A similar text that is harmless.
    pub miss: String,
    #[serde(skip)]
    groups: Vec<Set>,
    #[serde(skip)]
    never: Set,
}

const fn beside() -> usize {
    1
}

const fn any_length() -> usize {
    usize::MAX
}

/// Parses a file of rules.
pub(crate) fn parse(text: &str, signals: &Signals) -> Result<Vec<Rule>, String> {
    let mut file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    for rule in &mut file.rule {
        let id = rule.id.clone();
        let number = |name: &String| {
            signals
                .known(name)
                .ok_or_else(|| format!("{id}: there is no signal {name:?}"))
        };
        let any = |names: &Vec<String>| {
            names
                .iter()
                .try_fold(0, |set, name| Ok::<Set, String>(set | number(name)?))
        };
        rule.groups = rule.all.iter().map(any).collect::<Result<_, _>>()?;
        rule.never = any(&rule.none)?;
    }
    Ok(file.rule)
}

impl Rule {
    /// Returns the signals of a sentence that open the rule.
    fn opening<'s>(&self, sentence: &'s Sentence) -> impl Iterator<Item = &'s Signal> + use<'s> {
        let openers = self.openers();
        sentence
            .signals
            .iter()
            .filter(move |signal| signal.bit() & openers != 0)
    }

    /// Returns whether all signals that open it in a sentence are quoted.
    pub(crate) fn is_quoted(&self, sentence: &Sentence) -> bool {
        self.opening(sentence).all(Signal::is_quoted)
    }

    /// Returns the range from the first to the last opening signal.
    pub(crate) fn span(&self, sentence: &Sentence) -> Range<usize> {
        let spans = || self.opening(sentence).map(|signal| signal.span.clone());
        let start = spans()
            .map(|span| span.start)
            .min()
            .unwrap_or(sentence.span.start);
        let end = spans().map(|span| span.end).max().unwrap_or(sentence.span.end);
        start..end
    }

    /// Returns whether it holds in short texts only.
    pub(crate) const fn is_for_short_texts(&self) -> bool {
        self.within != any_length()
    }

    /// Returns the signals that open the rule.
    pub(crate) fn openers(&self) -> Set {
        self.groups.first().copied().unwrap_or_default()
    }

    /// Returns whether it holds in the sentence at `index`.
    pub(crate) fn holds(&self, sentences: &[Sentence], index: usize) -> bool {
        let sentence = &sentences[index];
        if !sentence.has(self.openers()) || sentence.has(self.never) {
            return false;
        }
        self.is_said(sentences, index, |sentence| sentence.said)
    }

    /// Returns whether it may hold at `index`, where `possible` are the possible signals of consecutive parts of a
    /// text.
    pub(crate) fn may_hold(&self, possible: &[Set], index: usize) -> bool {
        possible[index] & self.openers() != 0 && self.is_said(possible, index, |possible| *possible)
    }

    /// Returns the groups of signals, one of each of which is needed.
    pub(crate) fn groups(&self) -> &[Set] {
        &self.groups
    }

    /// Returns all signals that the rule uses.
    pub(crate) fn signals(&self) -> Set {
        self.groups.iter().fold(0, |signals, group| signals | group)
    }

    fn is_said<S>(&self, parts: &[S], index: usize, signals: impl Fn(&S) -> Set) -> bool {
        let from = index.saturating_sub(self.beside);
        let around = &parts[from..(index + self.beside + 1).min(parts.len())];
        let said = around.iter().fold(0, |said, part| said | signals(part));
        self.groups.iter().all(|group| said & group != 0)
    }
}
