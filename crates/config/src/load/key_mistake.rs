//! Mistakes in values of the right shape, with their keys.

use super::KeyPath;

/// Longest name of a rule, in characters.
const MAX_NAME: usize = 128;

/// A mistake in the value of a key.
pub(crate) struct KeyMistake {
    /// The key.
    pub(crate) path: KeyPath,
    /// The mistake.
    pub(crate) message: String,
    /// Another key that is concerned.
    pub(crate) related: Option<KeyPath>,
}

impl KeyMistake {
    pub(crate) fn new(path: KeyPath, message: impl Into<String>) -> Self {
        Self {
            path,
            message: message.into(),
            related: None,
        }
    }
}

/// Checks the name of a rule: names are shown in tables, logs and terminals.
pub(crate) fn check_name(name: &str, path: KeyPath, mistakes: &mut Vec<KeyMistake>) {
    let message = if name.trim().is_empty() {
        "a name cannot be empty".to_owned()
    } else if name.chars().count() > MAX_NAME {
        format!("a name has at most {MAX_NAME} characters")
    } else if let Some(character) = name.chars().find(|character| character.is_control()) {
        format!("a name cannot contain {character:?}")
    } else {
        return;
    };
    mistakes.push(KeyMistake::new(path, message));
}
