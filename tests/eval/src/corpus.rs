//! Reads labelled items.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use mcpmon_model::Digest;
use serde::Deserialize;
use serde_json::Value;

/// The deepest folder below a corpus that is read.
const MAX_DEPTH: usize = 3;

/// A line of a corpus, with the fields that are used.
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
    /// The kind of secret that the item holds.
    #[serde(default)]
    pub(super) secret_family: Option<String>,
    /// The server that the item belongs to.
    #[serde(default, alias = "source")]
    pub(super) server: Option<String>,
    /// The repository that the item was taken from.
    #[serde(default)]
    pub(super) source_repo: Option<String>,
    /// The package that a launch starts.
    #[serde(default)]
    pub(super) package: Option<String>,
    /// The language of the item.
    #[serde(default, rename = "lang")]
    pub(super) language: Option<String>,
    /// The tool that returned the output.
    #[serde(default)]
    pub(super) tool: Option<String>,
    #[serde(default)]
    pub(super) argv: Option<Vec<String>>,
    #[serde(default)]
    pub(super) payload: Option<Value>,
    /// The name of the folder of the item's file.
    #[serde(skip)]
    pub(super) folder: String,
}

/// All items below some folders.
#[derive(Debug, Default)]
pub(super) struct Corpus {
    pub(super) items: Vec<Item>,
    /// Lines that could not be read, with the reason.
    pub(super) bad_lines: Vec<String>,
}

/// A half of a corpus: rules are tuned on one, and the other is looked at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Part {
    Tune,
    Held,
}

impl Part {
    /// Returns the half to which all items of a source belong. It depends on the name of the source alone.
    fn of_source(source: &str) -> Self {
        match Digest::of(source.as_bytes()).as_bytes()[0] & 1 {
            0 => Self::Tune,
            _ => Self::Held,
        }
    }
}

impl Item {
    pub(super) fn tier(&self) -> &str {
        self.tier.as_deref().unwrap_or("core")
    }

    pub(super) fn corpus(&self) -> &str {
        self.corpus.as_deref().unwrap_or_default()
    }

    /// Returns whether the item is from a server that exists.
    pub(super) fn is_real_server(&self) -> bool {
        let category = self.category.as_deref().unwrap_or_default();
        category.starts_with("real_server")
    }

    /// Returns the name of the tool or prompt that the item defines.
    pub(super) fn name(&self) -> Option<&str> {
        self.payload.as_ref()?.get("name")?.as_str()
    }

    /// Returns the server, package or repository that the item comes from, without owner and version, so that
    /// `filesystem` of one list is in the same half as `filesystem` of another.
    fn source(&self) -> String {
        let names = [&self.server, &self.package, &self.source_repo, &self.corpus];
        let name = names.into_iter().flatten().next().unwrap_or(&self.id);
        let name = name.split('#').next().unwrap_or_default();
        let name = name.rsplit(['/', ':']).next().unwrap_or_default();
        let name = name.split('@').next().unwrap_or_default();
        name.to_ascii_lowercase()
    }

    pub(super) fn part(&self) -> Part {
        Part::of_source(&self.source())
    }
}

impl Corpus {
    /// Returns the lists of definitions of one kind, each as a client would get it: with all definitions of a server,
    /// and no name twice. If a server has several wordings of a name, they are in as many lists; `counted` is true in
    /// the list in which an item occurs for the first time. An item without a server is a list by itself.
    pub(super) fn lists(&self, kind: &str) -> Vec<List> {
        type Wordings = BTreeMap<String, Vec<usize>>;
        let mut servers: BTreeMap<[&str; 3], Wordings> = BTreeMap::new();
        let mut lists = Vec::new();
        let of_kind = self
            .items
            .iter()
            .enumerate()
            .filter(|(_, item)| item.kind == kind);
        for (index, item) in of_kind {
            match (&item.server, item.name()) {
                (Some(server), Some(name)) => servers
                    .entry([&item.folder, item.corpus(), server])
                    .or_default()
                    .entry(name.to_owned())
                    .or_default()
                    .push(index),
                _ => lists.push(List {
                    items: vec![index],
                    counted: vec![true],
                }),
            }
        }
        for names in servers.into_values() {
            let deepest = names.values().map(Vec::len).max().unwrap_or_default();
            for round in 0..deepest {
                let mut list = List::default();
                for wordings in names.values() {
                    let counted = round < wordings.len();
                    list.items.push(wordings[round.min(wordings.len() - 1)]);
                    list.counted.push(counted);
                }
                lists.push(list);
            }
        }
        lists
    }

    /// Removes the items that are not in `part`.
    pub(super) fn keep(&mut self, part: Part) {
        self.items.retain(|item| item.part() == part);
    }
}

/// A list of a server, as indexes of items.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct List {
    pub(super) items: Vec<usize>,
    pub(super) counted: Vec<bool>,
}

/// Reads every `*.jsonl` file below some folders.
pub(super) fn read(folders: &[PathBuf]) -> anyhow::Result<Corpus> {
    let mut files = Vec::new();
    for folder in folders {
        let before = files.len();
        list_files(folder, 0, &mut files)?;
        if files.len() == before {
            bail!(
                "no *.jsonl file in {}: unpack a corpus there first",
                folder.display()
            );
        }
    }
    files.sort();
    files.dedup();
    let mut corpus = Corpus::default();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let folder = file.parent().and_then(Path::file_name).unwrap_or_default();
        let lines = text.lines().enumerate();
        for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            match serde_json::from_str::<Item>(line) {
                Ok(mut item) => {
                    item.corpus.get_or_insert_with(|| stem.clone().into_owned());
                    item.folder = folder.to_string_lossy().into_owned();
                    corpus.items.push(item);
                }
                Err(error) => corpus
                    .bad_lines
                    .push(format!("{}:{}: {error:#}", file.display(), index + 1)),
            }
        }
    }
    Ok(corpus)
}

fn list_files(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let context = || format!("cannot list the corpus {}", folder.display());
    for entry in fs::read_dir(folder).with_context(context)? {
        let entry = entry.with_context(context)?;
        let path = entry.path();
        if entry.file_type().with_context(context)?.is_dir() {
            if depth == MAX_DEPTH {
                bail!("{} is too deep: a corpus has {MAX_DEPTH} levels", path.display());
            }
            list_files(&path, depth + 1, files)?;
        } else if path.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use test_case::test_case;

    use super::*;

    fn read_one(folder: &Path) -> anyhow::Result<Corpus> {
        read(&[folder.to_owned()])
    }

    fn item(value: Value) -> Item {
        serde_json::from_value(value).expect("an item")
    }

    #[test]
    fn bad_lines_are_named_and_the_rest_is_read() {
        let folder = tempfile::tempdir().expect("a directory");
        let items = "not json\n{\"id\": \"a\", \"kind\": \"x\", \"label\": \"y\"}\n\n{\"id\": 1}\n";
        fs::write(folder.path().join("items.jsonl"), items).expect("a file");
        fs::write(folder.path().join("README.md"), "no items").expect("a file");
        let corpus = read_one(folder.path()).expect("a corpus");
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
        assert!(read_one(empty.path()).is_err_and(|error| error.to_string().contains("no *.jsonl")));
        let missing = empty.path().join("missing");
        assert!(read_one(&missing).is_err_and(|error| error.to_string().contains("cannot list")));
    }

    #[test]
    fn folders_below_are_read_once() {
        let folder = tempfile::tempdir().expect("a directory");
        let below = folder.path().join("below");
        fs::create_dir(&below).expect("a directory");
        let line = |id: &str| json!({"id": id, "kind": "x", "label": "y"}).to_string();
        fs::write(folder.path().join("one.jsonl"), line("one")).expect("a file");
        fs::write(below.join("two.jsonl"), line("two")).expect("a file");
        let corpus = read(&[folder.path().to_owned(), below]).expect("a corpus");
        let ids: Vec<_> = corpus.items.iter().map(|item| item.id.as_str()).collect();
        assert_eq!(ids, ["two", "one"]);
        assert_eq!(corpus.items[0].folder, "below");
    }

    #[test]
    fn a_server_lists_each_name_once() {
        let definition = |server: Option<&str>, name: &str| {
            item(
                json!({"id": name, "kind": "tool_definition", "label": "benign", "source": server,
                "payload": {"name": name}}),
            )
        };
        let mut corpus = Corpus::default();
        corpus.items.extend([
            definition(Some("s"), "one"),
            definition(Some("s"), "two"),
            definition(None, "one"),
            definition(Some("s"), "one"),
        ]);
        let list = |items: &[usize], counted: &[bool]| List {
            items: items.to_vec(),
            counted: counted.to_vec(),
        };
        assert_eq!(
            corpus.lists("tool_definition"),
            [
                list(&[2], &[true]),
                list(&[0, 1], &[true, true]),
                list(&[3, 1], &[true, false]),
            ]
        );
        assert_eq!(corpus.lists("prompt"), []);
    }

    #[test_case(json!({"server": "npm:@owner/mcp-files@1.2.3"}) => "mcp-files"; "a package")]
    #[test_case(json!({"server": "Owner/MCP-Files#packages/one"}) => "mcp-files"; "a folder of a repository")]
    #[test_case(json!({"server": "mcp-files", "source_repo": "a/b"}) => "mcp-files"; "a server before its repository")]
    #[test_case(json!({"source_repo": "owner/mcp-files"}) => "mcp-files"; "a repository")]
    #[test_case(json!({}) => "x"; "nothing")]
    fn the_half_depends_on_the_source(mut fields: Value) -> String {
        let given = fields.as_object_mut().expect("an object");
        for name in ["id", "kind", "label"] {
            given.insert(name.to_owned(), "x".into());
        }
        let item = item(fields);
        assert_eq!(item.part(), Part::of_source(&item.source()));
        item.source()
    }

    #[test]
    fn the_halves_never_change() {
        let parts: Vec<Part> = ["a", "b", "c", "d", "e", "f"].map(Part::of_source).into();
        let halves = parts.iter().map(|part| *part == Part::Held);
        assert_eq!(
            halves.collect::<Vec<_>>(),
            [false, false, false, false, true, true]
        );
    }
}
