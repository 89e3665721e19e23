//! Word lists for the readers of names, paths, commands and arguments: data, in `rules/tables/`.

use std::{collections::BTreeMap, ops::Deref, sync::OnceLock};

use serde::{Deserialize, Deserializer};

/// The lists of one reader, by section and name.
type Sections = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// The lists of a file, which is read when one of them is first used.
#[derive(Debug)]
pub(crate) struct Table {
    text: &'static str,
    lists: OnceLock<Sections>,
}

impl Table {
    const fn of(text: &'static str) -> Self {
        Self {
            text,
            lists: OnceLock::new(),
        }
    }

    /// Returns the list of this section and name.
    pub(crate) const fn list(&'static self, section: &'static str, name: &'static str) -> WordList {
        WordList {
            table: self,
            section,
            name,
            words: OnceLock::new(),
        }
    }

    fn lists(&'static self) -> &'static Sections {
        let read = || toml::from_str(self.text);
        self.lists.get_or_init(|| {
            read().unwrap_or_else(|error| panic!("built-in lists are read by a test: {error}"))
        })
    }
}

/// A list of a table, which is used like a slice.
#[derive(Debug)]
pub(crate) struct WordList {
    table: &'static Table,
    section: &'static str,
    name: &'static str,
    words: OnceLock<Vec<&'static str>>,
}

impl Deref for WordList {
    type Target = [&'static str];

    fn deref(&self) -> &Self::Target {
        self.words.get_or_init(|| {
            let section = self.table.lists().get(self.section);
            let words = section.and_then(|section| section.get(self.name));
            let words = words.unwrap_or_else(|| panic!("there is no list {}.{}", self.section, self.name));
            words.iter().map(String::as_str).collect()
        })
    }
}

/// Reads the rows of a file.
pub(crate) fn rows<T: Deserialize<'static>>(text: &'static str) -> Vec<T> {
    #[derive(Deserialize)]
    struct Rows<T> {
        row: Vec<T>,
    }
    let rows: Result<Rows<T>, _> = toml::from_str(text);
    rows.unwrap_or_else(|error| panic!("built-in rows are read by a test: {error}"))
        .row
}

/// Reads a text that is kept for the life of the process, because each row is read once.
pub(crate) fn kept<'de, D: Deserializer<'de>>(text: D) -> Result<&'static str, D::Error> {
    Ok(String::deserialize(text)?.leak())
}

/// Reads words that are in one text.
pub(crate) fn words<'de, D: Deserializer<'de>>(text: D) -> Result<Vec<String>, D::Error> {
    let text = String::deserialize(text)?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

pub(crate) static CATEGORY: Table = Table::of(include_str!("../rules/tables/category.toml"));
pub(crate) static LABELS: Table = Table::of(include_str!("../rules/tables/labels.toml"));
pub(crate) static LAUNCH: Table = Table::of(include_str!("../rules/tables/launch.toml"));
pub(crate) static MEANING: Table = Table::of(include_str!("../rules/tables/meaning.toml"));
pub(crate) static NORMALISE: Table = Table::of(include_str!("../rules/tables/normalise.toml"));
pub(crate) static PROTECTED_PATHS: Table = Table::of(include_str!("../rules/tables/protected_paths.toml"));
pub(crate) static SCAN: Table = Table::of(include_str!("../rules/tables/scan.toml"));
pub(crate) static SECRETS: Table = Table::of(include_str!("../rules/tables/secrets.toml"));
pub(crate) static SIMILARITY: Table = Table::of(include_str!("../rules/tables/similarity.toml"));
pub(crate) static STARTER: Table = Table::of(include_str!("../rules/tables/starter.toml"));
pub(crate) static TOOL_NAMES: Table = Table::of(include_str!("../rules/tables/tool_names.toml"));
