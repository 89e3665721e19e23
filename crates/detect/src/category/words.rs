//! Words of tool names, with the effects that they describe.

use mcpmon_model::ToolCategory;

use crate::tables::{self, WordList};

/// Characters of a name that are read.
const MAX_NAME: usize = 256;

/// The certainty that a word is a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strength {
    /// The word is a verb.
    Verb,
    /// The word is a verb or a noun.
    Either,
    /// The word is a noun, and the tool fetches the thing that it names.
    Noun,
}

/// Returns the words of a name in any case style, in lower case.
pub(super) fn words_of(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut previous = ' ';
    let mut characters = name.chars().take(MAX_NAME).peekable();
    while let Some(c) = characters.next() {
        if !c.is_alphanumeric() {
            words.push(String::new());
        } else {
            // `getPage`, and the last capital of `HTTPGet`.
            let ends_abbreviation =
                previous.is_uppercase() && characters.peek().is_some_and(|next| next.is_lowercase());
            if c.is_uppercase()
                && (!previous.is_uppercase() && previous.is_alphanumeric() || ends_abbreviation)
            {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.extend(c.to_lowercase());
            }
        }
        previous = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the category and the certainty of `word`, if it is known.
pub(super) fn verb(word: &str) -> Option<(ToolCategory, Strength)> {
    WORDS
        .iter()
        .find(|(_, _, words)| words.contains(&word))
        .map(|(category, strength, _)| (*category, *strength))
}

static WORDS: [(ToolCategory, Strength, WordList); 9] = [
    (
        ToolCategory::Read,
        Strength::Verb,
        tables::CATEGORY.list("words", "read_verbs"),
    ),
    (
        ToolCategory::Write,
        Strength::Verb,
        tables::CATEGORY.list("words", "write_verbs"),
    ),
    (
        ToolCategory::Compute,
        Strength::Verb,
        tables::CATEGORY.list("words", "compute_verbs"),
    ),
    (
        ToolCategory::Send,
        Strength::Verb,
        tables::CATEGORY.list("words", "send_verbs"),
    ),
    (
        ToolCategory::Read,
        Strength::Either,
        tables::CATEGORY.list("words", "read_either"),
    ),
    (
        ToolCategory::Write,
        Strength::Either,
        tables::CATEGORY.list("words", "write_either"),
    ),
    (
        ToolCategory::Compute,
        Strength::Either,
        tables::CATEGORY.list("words", "compute_either"),
    ),
    (
        ToolCategory::Send,
        Strength::Either,
        tables::CATEGORY.list("words", "send_either"),
    ),
    (
        ToolCategory::Read,
        Strength::Noun,
        tables::CATEGORY.list("words", "read_nouns"),
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    #[test_case("getUserByID" => vec!["get", "user", "by", "id"])]
    #[test_case("HTTPServerV2" => vec!["http", "server", "v2"]; "abbreviations and digits")]
    #[test_case("a.b-c_d/e f" => vec!["a", "b", "c", "d", "e", "f"]; "separators")]
    #[test_case("S3Upload" => vec!["s3", "upload"]; "a capital behind a digit")]
    fn names_have_words(name: &str) -> Vec<String> {
        words_of(name)
    }

    #[test]
    fn every_word_says_one_thing_of_its_strength() {
        for strength in [Strength::Verb, Strength::Noun] {
            let mut seen = BTreeSet::new();
            for (_, _, words) in WORDS.iter().filter(|(_, of, _)| *of == strength) {
                for word in words.iter() {
                    assert!(seen.insert(word), "{word} stands twice");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn no_name_panics(name in any::<String>()) {
            prop_assert!(words_of(&name).iter().all(|word| !word.is_empty()));
        }
    }
}
