//! Lists of words for readers of names, parameters and questions, which are no texts of sentences: data like the rules.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

/// A list of `rules/*.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Its words, with blanks between.
    #[serde(default)]
    pub words: String,
    /// A regular expression, in place of words.
    #[serde(default)]
    pub pattern: String,
    /// The reason why its words are evidence.
    pub why: String,
    /// A text in which it matches.
    pub hit: String,
    /// A similar text that is harmless.
    pub miss: String,
}

/// The lists of a file, by name.
pub type Lists = BTreeMap<String, List>;

/// For names of tools, parameters and values that are sentences.
pub static NAMES: LazyLock<Lists> = LazyLock::new(|| parse(include_str!("../../rules/names.toml")));
/// For parameters that ask for the contents of a conversation.
pub static PARAMETERS: LazyLock<Lists> = LazyLock::new(|| parse(include_str!("../../rules/parameters.toml")));
/// For questions to the user.
pub static QUESTIONS: LazyLock<Lists> = LazyLock::new(|| parse(include_str!("../../rules/questions.toml")));

fn parse(text: &str) -> Lists {
    toml::from_str(text).unwrap_or_else(|error| panic!("built-in lists are parsed by a test: {error}"))
}

impl List {
    /// Its words.
    pub fn each(&self) -> impl Iterator<Item = &str> {
        self.words.split_whitespace()
    }

    /// Returns whether `word` is one of them.
    pub fn has(&self, word: &str) -> bool {
        self.each().any(|known| known == word)
    }
}
