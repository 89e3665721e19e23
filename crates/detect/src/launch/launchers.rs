//! Programs that start others, as `rules/tables/launchers.toml` has them.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

use super::{interpreter::Interpreter, options::ValueOptions, prefix::Prefix, runner::Runner};
use crate::tables;

/// A program with a subcommand that is a server.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Subcommand {
    /// Package or program, by full or bare name.
    #[serde(deserialize_with = "tables::words")]
    pub(super) programs: Vec<String>,
    /// The words that follow it.
    #[serde(deserialize_with = "tables::words")]
    pub(super) words: Vec<String>,
    /// True if words other than options may follow: `claude mcp` takes `add`, `codex mcp-server` takes none.
    #[serde(default)]
    pub(super) more: bool,
    /// Id of the server.
    pub(super) id: String,
}

/// All of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Launchers {
    shared: BTreeMap<String, ValueOptions>,
    pub(super) prefix: Vec<Prefix>,
    pub(super) interpreter: Vec<Interpreter>,
    pub(super) runner: Vec<Runner>,
    pub(super) subcommand: Vec<Subcommand>,
}

pub(super) static LAUNCHERS: LazyLock<Launchers> = LazyLock::new(|| {
    let read = toml::from_str(include_str!("../../rules/tables/launchers.toml"));
    let mut launchers: Launchers =
        read.unwrap_or_else(|error| panic!("built-in launchers are read by a test: {error}"));
    for runner in &mut launchers.runner {
        if let Some(name) = &runner.shared {
            runner.options.extend(&launchers.shared[name]);
        }
    }
    launchers
});

/// Options that several programs have.
pub(super) fn shared(name: &str) -> &'static ValueOptions {
    &LAUNCHERS.shared[name]
}

/// Returns whether a list has this word.
pub(super) fn has(words: &[String], word: &str) -> bool {
    words.iter().any(|known| known == word)
}
