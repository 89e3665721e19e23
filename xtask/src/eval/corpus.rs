//! Reads labelled items.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::Value;

/// A line of a corpus, as far as it is read.
#[derive(Debug, Deserialize)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) label: String,
    #[serde(default)]
    pub(super) category: Option<String>,
    #[serde(default)]
    pub(super) tier: Option<String>,
    #[serde(default)]
    pub(super) corpus: Option<String>,
    /// What kind of secret it holds.
    #[serde(default)]
    pub(super) secret_family: Option<String>,
    /// The server that a definition belongs to.
    #[serde(default, alias = "source")]
    pub(super) server: Option<String>,
    #[serde(default)]
    pub(super) argv: Option<Vec<String>>,
    #[serde(default)]
    pub(super) payload: Option<Value>,
}

/// All items below a folder.
#[derive(Debug, Default)]
pub(super) struct Corpus {
    pub(super) items: Vec<Item>,
    /// Lines that could not be read, and why.
    pub(super) bad_lines: Vec<String>,
    /// Names of the tools of each server.
    tools: BTreeMap<String, Vec<String>>,
}

impl Corpus {
    /// The tools of the server that a definition belongs to.
    pub(super) fn tools(&self, item: &Item) -> Vec<&str> {
        let tools = item.server.as_ref().and_then(|server| self.tools.get(server));
        tools.into_iter().flatten().map(String::as_str).collect()
    }
}

/// Reads every `*.jsonl` file of a folder.
pub(super) fn read(folder: &Path) -> anyhow::Result<Corpus> {
    let files = jsonl_files(folder)?;
    if files.is_empty() {
        bail!(
            "no *.jsonl file in {}: unpack a corpus there first",
            folder.display()
        );
    }
    let mut corpus = Corpus::default();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let lines = text.lines().enumerate();
        for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            match serde_json::from_str::<Item>(line) {
                Ok(mut item) => {
                    item.corpus.get_or_insert_with(|| stem.clone().into_owned());
                    corpus.take(item);
                }
                Err(error) => corpus
                    .bad_lines
                    .push(format!("{}:{}: {error:#}", file.display(), index + 1)),
            }
        }
    }
    Ok(corpus)
}

impl Corpus {
    fn take(&mut self, item: Item) {
        let name = item
            .payload
            .as_ref()
            .and_then(|payload| payload.get("name")?.as_str());
        if let (Some(server), Some(name), "tool_definition") = (&item.server, name, item.kind.as_str()) {
            self.tools
                .entry(server.clone())
                .or_default()
                .push(name.to_owned());
        }
        self.items.push(item);
    }
}

fn jsonl_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list the corpus {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot list the corpus {}", folder.display()))?
            .path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_lines_are_named_and_the_rest_is_read() {
        let folder = tempfile::tempdir().expect("a directory");
        let items = "not json\n{\"id\": \"a\", \"kind\": \"x\", \"label\": \"y\"}\n\n{\"id\": 1}\n";
        fs::write(folder.path().join("items.jsonl"), items).expect("a file");
        fs::write(folder.path().join("README.md"), "no items").expect("a file");
        let corpus = read(folder.path()).expect("a corpus");
        assert_eq!(corpus.items.len(), 1);
        assert_eq!(corpus.items[0].corpus.as_deref(), Some("items"));
        assert_eq!(corpus.bad_lines.len(), 2);
        assert!(
            corpus.bad_lines[0].contains("items.jsonl:1: "),
            "{}",
            corpus.bad_lines[0]
        );
        assert!(
            corpus.bad_lines[1].contains("items.jsonl:4: "),
            "{}",
            corpus.bad_lines[1]
        );
    }

    #[test]
    fn a_folder_without_items_is_an_error() {
        let empty = tempfile::tempdir().expect("a directory");
        assert!(read(empty.path()).is_err_and(|error| error.to_string().contains("no *.jsonl")));
        let missing = empty.path().join("missing");
        assert!(read(&missing).is_err_and(|error| error.to_string().contains("cannot list")));
    }

    #[test]
    fn a_definition_knows_the_tools_of_its_server() {
        let folder = tempfile::tempdir().expect("a directory");
        let line = |name: &str| serde_json::json!({"id": name, "kind": "tool_definition", "label": "benign", "source": "s", "payload": {"name": name}});
        let items = format!("{}\n{}\n", line("one"), line("two"));
        fs::write(folder.path().join("items.jsonl"), items).expect("a file");
        let corpus = read(folder.path()).expect("a corpus");
        assert_eq!(corpus.tools(&corpus.items[0]), ["one", "two"]);
    }
}
