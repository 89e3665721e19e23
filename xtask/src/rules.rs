//! `cargo xtask rules`: writes the pages of `docs/rules`, one for each rule that reads texts, from
//! `crates/detect/rules`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::shell;

/// The files with rules, and the subject of each.
const SOURCES: [Source; 2] = [
    Source {
        file: "definitions.toml",
        texts: "descriptions of tools, prompts and resources, instructions of a server, texts of schemas",
        act: "what holds the text is hidden from the client and cannot be used",
    },
    Source {
        file: "outputs.toml",
        texts: "results of tools, resources, prompts and everything else that a server says",
        act: "the result is withheld, unless the text only tells of an attack",
    },
];

/// A file with rules.
#[derive(Debug)]
struct Source {
    file: &'static str,
    /// The texts that its rules read.
    texts: &'static str,
    /// The consequence of the outcome `act`.
    act: &'static str,
}

/// The rules of a file.
#[derive(Debug, Deserialize)]
struct RuleFile {
    rule: Vec<Rule>,
}

/// The fields of an entry in a rule file that a page shows.
#[derive(Debug, Deserialize)]
struct Rule {
    id: String,
    name: String,
    category: String,
    outcome: Outcome,
    #[serde(default)]
    critical: bool,
    #[serde(default)]
    schema: bool,
    why: String,
    hit: String,
    miss: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Note,
    Alert,
    Act,
}

impl Rule {
    fn severity(&self) -> &'static str {
        match (self.outcome, self.critical) {
            (Outcome::Act, true) => "critical",
            (Outcome::Act, false) => "high",
            (Outcome::Alert, _) => "medium",
            (Outcome::Note, _) => "low",
        }
    }

    fn consequence(&self, source: &Source) -> String {
        match self.outcome {
            Outcome::Note => "It is only recorded.".to_owned(),
            Outcome::Alert => "It is reported (`mcpmon detections`); nothing is stopped.".to_owned(),
            Outcome::Act => format!("With the default policy {}.", source.act),
        }
    }
}

/// The file with the rules of `mcpmon scan`.
const INVENTORY: &str = "inventory.toml";

#[derive(Debug, Deserialize)]
struct InventoryFile {
    rule: Vec<InventoryRule>,
}

/// The fields of a rule about configuration and installation that a page shows.
#[derive(Debug, Deserialize)]
struct InventoryRule {
    id: String,
    about: String,
    severity: String,
    title: String,
    why: String,
    remedy: String,
    hit: String,
    miss: String,
}

impl InventoryRule {
    fn page(&self) -> String {
        let Self {
            id,
            about,
            severity,
            title,
            why,
            remedy,
            hit,
            miss,
        } = self;
        let subject = match about.as_str() {
            "server" => "servers in clients' configuration files",
            "shadowing" => "the servers of one client beside each other",
            "skill" => "texts of skills",
            "script" => "scripts of skills, and commands in their texts",
            _ => "configuration files and skills as a whole",
        };
        format!(
            "# `{id}`\n\nFound by `mcpmon scan` (severity `{severity}`) in {subject}: {title}.\n\n{why}\n\n## Found\n\n{}\n## Not found\n\nA similar text that is harmless:\n\n{}\n## What to do\n\n{remedy}\n\nTo accept what this rule finds of one server or skill, by the name that the scan shows:\n\n```sh\nmcpmon policy accept {id} --server NAME\n```\n\nThis adds an entry to `mcp.suppressions`; with `until: DATE` it expires\n([detection.md](../detection.md#suppressions)). What a scan reads: [scan.md](../scan.md).\n",
            quoted(hit),
            quoted(miss),
        )
    }
}

/// Adds the pages of the rules of `mcpmon scan`.
fn inventory(index: &mut String, pages: &mut BTreeMap<String, String>) -> Result<()> {
    let path = shell::repository().join("crates/detect/rules").join(INVENTORY);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let file: InventoryFile =
        toml::from_str(&text).with_context(|| format!("cannot parse {}", path.display()))?;
    *index += "\n## Rules of `mcpmon scan`\n\n| id | about | severity |\n|---|---|---|\n";
    for rule in &file.rule {
        *index += &format!(
            "| [`{0}`]({0}.md) | {1} | `{2}` |\n",
            rule.id, rule.title, rule.severity
        );
        pages.insert(format!("{}.md", rule.id), rule.page());
    }
    Ok(())
}

/// Writes the pages, and removes those of rules that do not exist any more.
pub(crate) fn run() -> Result<()> {
    let folder = folder();
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let pages = pages()?;
    for name in written()?.difference(&pages.keys().cloned().collect()) {
        fs::remove_file(folder.join(name)).with_context(|| format!("cannot remove {name}"))?;
    }
    for (name, page) in &pages {
        fs::write(folder.join(name), page).with_context(|| format!("cannot write {name}"))?;
    }
    shell::say(format_args!("{} pages are in {}", pages.len(), folder.display()));
    Ok(())
}

fn folder() -> PathBuf {
    shell::repository().join("docs/rules")
}

/// Returns the names of the existing pages.
fn written() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder())? {
        names.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

/// Returns every page, by its file name.
fn pages() -> Result<BTreeMap<String, String>> {
    let mut pages = BTreeMap::new();
    let mut index = "# Rules that read texts\n\nMade of `crates/detect/rules` by `cargo xtask rules`; change the rules, not these pages. How texts are read, what\nfollows, and rules of your own: [detection.md](../detection.md).\n".to_owned();
    for source in &SOURCES {
        let path = shell::repository().join("crates/detect/rules").join(source.file);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let file: RuleFile =
            toml::from_str(&text).with_context(|| format!("cannot parse {}", path.display()))?;
        index += &format!(
            "\n## Rules for {}\n\n| id | name | category | severity |\n|---|---|---|---|\n",
            source.texts
        );
        for rule in &file.rule {
            index += &format!(
                "| [`{0}`]({0}.md) | `{1}` | `{2}` | `{3}` |\n",
                rule.id,
                rule.name,
                rule.category,
                rule.severity()
            );
            let like: Vec<&Rule> = file
                .rule
                .iter()
                .filter(|other| other.name == rule.name && other.id != rule.id)
                .collect();
            pages.insert(format!("{}.md", rule.id), page(rule, &like, source));
        }
    }
    inventory(&mut index, &mut pages)?;
    pages.insert("README.md".to_owned(), index);
    Ok(pages)
}

fn page(rule: &Rule, like: &[&Rule], source: &Source) -> String {
    let Rule {
        id,
        name,
        category,
        why,
        ..
    } = rule;
    let mut page = format!(
        "# `{id}`\n\nFinds `{name}` (category `{category}`, severity `{}`) in {}.\n\n{why}\n\n{}",
        rule.severity(),
        source.texts,
        rule.consequence(source),
    );
    if matches!(rule.outcome, Outcome::Act | Outcome::Alert) && !rule.schema && source.file == SOURCES[0].file
    {
        page += match rule.outcome {
            Outcome::Act => " In texts of schemas it is only reported.",
            Outcome::Alert | Outcome::Note => " In texts of schemas it is only recorded.",
        };
    }
    page += &format!("\n\n## Found\n\n{}", quoted(&rule.hit));
    page += &format!(
        "\n## Not found\n\nA similar text that is harmless:\n\n{}",
        quoted(&rule.miss)
    );
    page += &if_it_is_wrong(rule, source);
    if !like.is_empty() {
        let links: Vec<String> = like
            .iter()
            .map(|other| format!("[`{0}`]({0}.md)", other.id))
            .collect();
        page += &format!("\nOf the same name: {}.\n", links.join(", "));
    }
    page
}

fn if_it_is_wrong(rule: &Rule, source: &Source) -> String {
    let Rule {
        id, name, category, ..
    } = rule;
    let approval = match (rule.outcome, source.file == SOURCES[0].file) {
        (Outcome::Act, true) => {
            "`mcpmon approve SERVER:TOOL` shows a hidden tool again, pinned as it is listed now. "
        }
        (Outcome::Act | Outcome::Alert | Outcome::Note, _) => "",
    };
    format!(
        "\n## If it is wrong\n\nMost false alarms are texts that quote, forbid or document what this rule looks for in a way that mcpmon does\nnot recognise. {approval}To accept what this rule finds of one tool:\n\n```sh\nmcpmon policy accept {id} --server SERVER --tool TOOL\n```\n\nThis adds an entry to `mcp.suppressions`; with `until: DATE` it expires\n([detection.md](../detection.md#suppressions)). A suppression with `rule: {name}` and no `server` accepts every rule of this name;\n`mcp.detection.builtin: {{{category}: false}}` switches off the whole category `{category}`.\n"
    )
}

/// Formats a text as a block, with invisible characters as escapes.
fn quoted(text: &str) -> String {
    let shown: String = text
        .chars()
        .flat_map(|c| match is_seen(c) {
            true => vec![c],
            false => c.escape_unicode().collect(),
        })
        .collect();
    format!("````text\n{shown}\n````\n")
}

const fn is_seen(c: char) -> bool {
    !matches!(c, '\0'..='\u{9}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_are_those_of_the_rules() -> Result<()> {
        let pages = pages()?;
        let names: BTreeSet<String> = pages.keys().cloned().collect();
        assert_eq!(written()?, names, "run `cargo xtask rules`");
        for (name, page) in pages {
            let written = fs::read_to_string(folder().join(&name))?;
            assert_eq!(written, page, "{name}: run `cargo xtask rules`");
        }
        Ok(())
    }

    #[test]
    fn what_nobody_sees_is_escaped() {
        assert_eq!(quoted("a\u{200b}b\nc"), "````text\na\\u{200b}b\nc\n````\n");
    }
}
