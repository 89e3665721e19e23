//! Edits of a configuration file that accept findings and allow calls: entries of `mcp.suppressions` and `mcp.rules`,
//! and the file into which they are written.

use std::{fmt, path::PathBuf};

use mcpmon_policy::Policy;

use super::{
    ConfigError, LoadedConfiguration, Source, Sources,
    load::{self, KeyPath, ListItem, MapEntry, Node, YamlValue},
    load_sources,
    mistake::Origin,
    written::scalar,
};

/// A finding that is to be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// The id of a rule, or the name of its findings.
    pub rule: String,
    /// The server for which it is accepted; `None` for every server.
    pub server: Option<String>,
    /// The tool for which it is accepted; `None` for every tool.
    pub tool: Option<String>,
    /// The last day on which it is accepted, UTC (`2027-01-31`); `None` for no end.
    pub until: Option<String>,
    /// The reason.
    pub reason: String,
}

/// A call that is to be allowed without asking a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedCall {
    /// The name of the rule.
    pub id: String,
    /// The server.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// The reason.
    pub reason: String,
}

/// A configuration file with additional suppressions or rules, not yet written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptEdit {
    /// The file.
    pub path: PathBuf,
    /// The whole file as it is now; `None` if it does not exist.
    pub before: Option<String>,
    /// The whole file with the new entries, and no other change.
    pub after: String,
}

/// The text of a configuration without settings.
const EMPTY: &str = "version: 1\n";

impl AcceptEdit {
    /// Builds the edit after which `loaded` accepts these findings, in its last file, or in a new one at `otherwise` if
    /// it has none. Returns `None` if no way is found to write it that changes nothing else.
    ///
    /// # Errors
    /// Returns an error if one of them is not valid in a configuration.
    pub fn new(
        loaded: &LoadedConfiguration,
        otherwise: PathBuf,
        wanted: &[Acceptance],
    ) -> Result<Option<Self>, ConfigError> {
        let entries: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        Self::adding(loaded, otherwise, &SUPPRESSIONS, &entries)
    }

    /// Builds the edit after which `loaded` allows a call about which a person is asked, in the same file. Returns
    /// `None` if no way is found to write it that changes nothing else.
    ///
    /// # Errors
    /// Returns an error if the rule is not valid in a configuration.
    pub fn allowing(
        loaded: &LoadedConfiguration,
        otherwise: PathBuf,
        wanted: &AllowedCall,
    ) -> Result<Option<Self>, ConfigError> {
        Self::adding(loaded, otherwise, &RULES, &[wanted.to_string()])
    }

    fn adding(
        loaded: &LoadedConfiguration,
        otherwise: PathBuf,
        list: &List,
        entries: &[String],
    ) -> Result<Option<Self>, ConfigError> {
        let mut parts = loaded.text.parts().to_vec();
        let mut with_all = parts.clone();
        let lines: String = entries.iter().map(|entry| format!("  - {entry}\n")).collect();
        let fragment = format!("mcp:\n  {}:\n{lines}", list.key);
        with_all.push((Source::File(PathBuf::from("command line")), fragment));
        if let Some(sources) = Sources::of_parts(with_all) {
            load_sources(&sources)?;
        }
        Ok(Self::of_parts(
            &mut parts,
            &loaded.policy,
            otherwise,
            list,
            entries,
        ))
    }

    fn of_parts(
        parts: &mut Vec<(Source, String)>,
        policy: &Policy,
        otherwise: PathBuf,
        list: &List,
        entries: &[String],
    ) -> Option<Self> {
        let last = parts
            .iter()
            .rposition(|(source, _)| matches!(source, Source::File(_)));
        let index = last.unwrap_or_else(|| {
            parts.push((Source::File(otherwise.clone()), EMPTY.to_owned()));
            parts.len() - 1
        });
        let path = match &parts[index].0 {
            Source::File(path) => path.clone(),
            Source::EmbeddedDefault | Source::Bundle { .. } => otherwise,
        };
        let before = last.map(|_| parts[index].1.clone());
        let mut policy = policy.clone();
        for entry in entries {
            let candidates = candidates(&parts[index].1, list.key, entry);
            let (text, changed) = candidates.into_iter().find_map(|text| {
                let mut parts = parts.clone();
                parts[index].1.clone_from(&text);
                let changed = load_sources(&Sources::of_parts(parts)?).ok()?.policy;
                (list.adds_one)(&policy, &changed).then_some((text, changed))
            })?;
            parts[index].1 = text;
            policy = Policy::clone(&changed);
        }
        let after = parts.swap_remove(index).1;
        Some(Self { path, before, after })
    }
}

/// A list of `mcp` to which entries are added.
struct List {
    key: &'static str,
    /// Returns whether the second policy is the first with one more entry, and no other change.
    adds_one: fn(&Policy, &Policy) -> bool,
}

const SUPPRESSIONS: List = List {
    key: "suppressions",
    adds_one: |before, after| {
        let with_same = Policy {
            suppressions: before.suppressions.clone(),
            ..after.clone()
        };
        is_one_more(&before.suppressions, &after.suppressions) && with_same == *before
    },
};

const RULES: List = List {
    key: "rules",
    adds_one: |before, after| {
        let mut with_same = after.clone();
        with_same.rules.calls.clone_from(&before.rules.calls);
        is_one_more(&before.rules.calls, &after.rules.calls) && with_same == *before
    },
};

/// Returns whether `after` is `before` with one more element.
fn is_one_more<T: Clone + PartialEq>(before: &[T], after: &[T]) -> bool {
    let mut rest = after.to_vec();
    for known in before {
        match rest.iter().position(|other| other == known) {
            Some(index) => drop(rest.remove(index)),
            None => return false,
        }
    }
    rest.len() == 1
}

/// One line of YAML.
impl fmt::Display for AllowedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{{id: {}, match: {{server: {}, tool_name: {}}}, decision: ALLOW, reason: {}}}",
            scalar(&self.id),
            scalar(&self.server),
            scalar(&self.tool),
            scalar(&self.reason)
        )
    }
}

/// One line of YAML.
impl fmt::Display for Acceptance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = [
            ("rule", Some(&self.rule)),
            ("server", self.server.as_ref()),
            ("tool", self.tool.as_ref()),
            ("until", self.until.as_ref()),
            ("reason", Some(&self.reason)),
        ];
        let fields = fields.into_iter().filter_map(|(name, value)| {
            let value = scalar(value?);
            Some(format!("{name}: {value}"))
        });
        write!(f, "{{{}}}", fields.collect::<Vec<_>>().join(", "))
    }
}

/// Returns `text` with one more entry in a list of `mcp`, written in each possible way. Not all of these texts have the
/// same meaning.
fn candidates(text: &str, name: &str, entry: &str) -> Vec<String> {
    let origin = Origin {
        name: String::new(),
        text: text.to_owned(),
    };
    let Ok(tree) = load::any(origin) else {
        return Vec::new();
    };
    let root = KeyPath::root();
    let mcp = tree.find(&root.key("mcp"));
    let list = tree.find(&root.key("mcp").key(name));
    let edits = match (list, mcp) {
        (Some(list), _) => {
            let above = first_item(list).and_then(|first| above(text, &first.node, &format!("- {entry}")));
            [above, inside(text, list, '[', entry)]
        }
        (None, Some(mcp)) => {
            let key = first_key(mcp)
                .and_then(|key| line_above(text, key, &[&format!("{name}:"), &format!("  - {entry}")]));
            [key, inside(text, mcp, '{', &format!("{name}: [{entry}]"))]
        }
        (None, None) => {
            let gap = if text.is_empty() || text.ends_with('\n') {
                ""
            } else {
                "\n"
            };
            let end = format!("{text}{gap}mcp:\n  {name}:\n    - {entry}\n");
            [
                Some(end),
                inside(text, &tree, '{', &format!("mcp: {{{name}: [{entry}]}}")),
            ]
        }
    };
    edits.into_iter().flatten().collect()
}

fn first_item(node: &Node) -> Option<&ListItem> {
    let YamlValue::List(items) = &node.value else {
        return None;
    };
    items.first()
}

fn first_key(node: &Node) -> Option<&MapEntry> {
    let YamlValue::Map(entries) = &node.value else {
        return None;
    };
    entries.first()
}

/// Returns `text` with `line` above an element of a list that has its own lines.
fn above(text: &str, item: &Node, line: &str) -> Option<String> {
    let start = line_start(text, item.place.line)?;
    let rest = text.get(start..)?;
    let indent = rest.len() - rest.trim_start_matches(' ').len();
    let is_element = rest[indent..].starts_with("- ");
    is_element.then(|| format!("{}{}{line}\n{rest}", &text[..start], &rest[..indent]))
}

/// Returns `text` with `lines` above a key that begins its line, with the same indentation.
fn line_above(text: &str, key: &MapEntry, lines: &[&str]) -> Option<String> {
    let start = line_start(text, key.place.line)?;
    let rest = text.get(start..)?;
    let indent = usize::try_from(key.place.column).ok()?.checked_sub(1)?;
    let margin = rest
        .get(..indent)
        .filter(|margin| margin.bytes().all(|byte| byte == b' '))?;
    let lines: String = lines.iter().map(|line| format!("{margin}{line}\n")).collect();
    Some(format!("{}{lines}{rest}", &text[..start]))
}

/// Returns `text` with `entry` after the opening bracket of a value in one line.
fn inside(text: &str, node: &Node, bracket: char, entry: &str) -> Option<String> {
    let start = line_start(text, node.place.line)?;
    let column = usize::try_from(node.place.column).ok()?.checked_sub(1)?;
    let at = start + text.get(start..)?.char_indices().nth(column)?.0;
    let rest = text[at..].strip_prefix(bracket)?;
    let is_empty = rest.trim_start().starts_with([']', '}']);
    let comma = if is_empty { "" } else { ", " };
    Some(format!("{}{bracket}{entry}{comma}{rest}", &text[..at]))
}

/// Returns the position at which a line begins; lines are counted from 1.
fn line_start(text: &str, line: u32) -> Option<usize> {
    let before = usize::try_from(line).ok()?.checked_sub(1)?;
    Some(text.split_inclusive('\n').take(before).map(str::len).sum())
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn acceptance() -> Acceptance {
        Acceptance {
            rule: "instruction-override-1".to_owned(),
            server: Some("files".to_owned()),
            tool: Some("read * \"x\"".to_owned()),
            until: None,
            reason: "by user 1000".to_owned(),
        }
    }

    const ENTRY: &str =
        "{rule: instruction-override-1, server: files, tool: \"read * \\\"x\\\"\", reason: \"by user 1000\"}";

    fn edited(text: &str) -> Option<String> {
        let part = (Source::File(PathBuf::from("mcpmon.yaml")), text.to_owned());
        let loaded = load_sources(&Sources::of_parts(vec![part])?).expect("valid");
        let edit = AcceptEdit::new(&loaded, PathBuf::from("new.yaml"), &[acceptance()]).expect("valid")?;
        assert_eq!(edit.before.as_deref(), Some(text));
        Some(edit.after)
    }

    #[test_case("version: 1\n" => Some(format!("version: 1\nmcp:\n  suppressions:\n    - {ENTRY}\n")); "without a section")]
    #[test_case("version: 1 # one" => Some(format!("version: 1 # one\nmcp:\n  suppressions:\n    - {ENTRY}\n")); "without a line end")]
    #[test_case("mcp:\n    # why\n    fail_closed: true\nmode: observe\n" => Some(format!("mcp:\n    # why\n    suppressions:\n      - {ENTRY}\n    fail_closed: true\nmode: observe\n")); "a section")]
    #[test_case("mcp: {fail_closed: true}\n" => Some(format!("mcp: {{suppressions: [{ENTRY}], fail_closed: true}}\n")); "a section in one line")]
    #[test_case("mcp: {}\n" => Some(format!("mcp: {{suppressions: [{ENTRY}]}}\n")); "an empty section")]
    #[test_case("{version: 1}\n" => Some(format!("{{mcp: {{suppressions: [{ENTRY}]}}, version: 1}}\n")); "all in one line")]
    #[test_case("mcp:\n  suppressions:\n  - rule: persona\n    reason: x\n" => Some(format!("mcp:\n  suppressions:\n  - {ENTRY}\n  - rule: persona\n    reason: x\n")); "a list")]
    #[test_case("mcp:\n  suppressions: [{rule: persona, reason: x}]\n" => Some(format!("mcp:\n  suppressions: [{ENTRY}, {{rule: persona, reason: x}}]\n")); "a list in one line")]
    #[test_case("mcp:\n  suppressions: []\n" => Some(format!("mcp:\n  suppressions: [{ENTRY}]\n")); "an empty list")]
    #[test_case("mcp:\n  suppressions:\n  mode: x\n".replace("  mode: x\n", "").as_str() => None; "a list that is not there")]
    fn an_entry_more_and_nothing_else_changed(text: &str) -> Option<String> {
        edited(text)
    }

    #[test]
    fn what_is_no_rule_is_not_accepted() {
        let loaded = load_sources(&Sources::embedded_default()).expect("valid");
        let wrong = Acceptance {
            rule: "instruction-overide-1".to_owned(),
            ..acceptance()
        };
        let error = AcceptEdit::new(&loaded, PathBuf::from("new.yaml"), &[wrong]).expect_err("no rule");
        assert!(
            error
                .to_string()
                .contains("did you mean `instruction-override-1`?"),
            "{error}"
        );
    }

    #[test_case("2027-01-31" => None; "a day")]
    #[test_case("tomorrow" => Some(true); "no day")]
    fn until_a_day(until: &str) -> Option<bool> {
        let loaded = load_sources(&Sources::embedded_default()).expect("valid");
        let wanted = Acceptance {
            until: Some(until.to_owned()),
            ..acceptance()
        };
        match AcceptEdit::new(&loaded, PathBuf::from("new.yaml"), &[wanted]) {
            Ok(edit) => {
                let after = edit.expect("an edit").after;
                assert!(after.contains("until: \"2027-01-31\", reason"), "{after}");
                None
            }
            Err(error) => Some(error.to_string().contains("until")),
        }
    }

    #[test]
    fn without_a_file_there_is_a_new_one() {
        let loaded = load_sources(&Sources::embedded_default()).expect("valid");
        let edit = AcceptEdit::new(&loaded, PathBuf::from("new.yaml"), &[acceptance(), acceptance()]);
        let edit = edit.expect("valid").expect("an edit");
        let after = format!("version: 1\nmcp:\n  suppressions:\n    - {ENTRY}\n    - {ENTRY}\n");
        assert_eq!(
            (edit.path, edit.before, edit.after),
            (PathBuf::from("new.yaml"), None, after)
        );
    }

    #[test_case("version: 1\nmcp:\n  rules:\n    # mine\n    - {id: ask, match: {tool_name: pay}, decision: ASK}\n"; "beside others")]
    #[test_case("version: 1\nmcp: {blocked_tools: [x]}\n"; "without rules")]
    #[test_case("version: 1\n"; "without anything")]
    fn a_rule_that_allows_is_added_and_nothing_else(text: &str) {
        let file = Source::File(PathBuf::from("mcpmon.yaml"));
        let sources = Sources::of_parts(vec![(file, text.to_owned())]).expect("a source");
        let loaded = load_sources(&sources).expect("valid");
        let wanted = AllowedCall {
            id: "allowed-1".to_owned(),
            server: "bills".to_owned(),
            tool: "pay: \"all\"".to_owned(),
            reason: "by user 1000".to_owned(),
        };
        let edit = AcceptEdit::allowing(&loaded, PathBuf::from("new.yaml"), &wanted)
            .expect("valid")
            .expect("a way to write it");
        assert_eq!(edit.before.as_deref(), Some(text));
        let kept = text.lines().filter(|line| !line.starts_with("mcp: {"));
        for line in kept {
            assert!(edit.after.contains(line), "{line} in {}", edit.after);
        }
        assert!(edit.after.contains("decision: ALLOW"), "{}", edit.after);
    }
}
