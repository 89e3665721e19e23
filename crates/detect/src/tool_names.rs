//! Misleading names and hints of tools: a reader of a list takes the tool for another one, or for a harmless one.

use std::collections::BTreeMap;

use mcpmon_model::{Category, Finding, Match, RawJson, Severity};

use super::{category::words, meaning::looks};
use crate::tables::{self, WordList};

/// Tools of agents with specific names, compared exactly, because in another case they are ordinary words. Names that
/// many servers use as well (`read_file`, `shell`, `glob`) are not among them.
static CLIENT_TOOLS: WordList = tables::TOOL_NAMES.list("tool_names", "client_tools");

/// The prefix of clients' names for tools of MCP servers.
const CLIENT_PREFIX: &str = "mcp__";

/// Words for actions that cannot be undone.
static DESTRUCTIVE: WordList = tables::TOOL_NAMES.list("tool_names", "destructive");

/// Words at the beginning of the name of a tool that only describes or tries such an action.
static TELLING: WordList = tables::TOOL_NAMES.list("tool_names", "telling");

/// The names of one list, by their visible form.
#[derive(Debug, Default)]
pub struct ToolNames<'a>(BTreeMap<String, Vec<&'a str>>);

impl<'a> ToolNames<'a> {
    /// Collects the names of a list.
    pub fn of(names: &[&'a str]) -> Self {
        let mut seen: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for name in names {
            seen.entry(folded(name)).or_default().push(name);
        }
        Self(seen)
    }

    /// Returns the findings about misleading names in a tool of this list.
    pub fn inspect(&self, name: &str, definition: RawJson<'_>) -> Vec<Finding> {
        let found = [
            is_empty(name),
            self.look_alike(name),
            of_a_client(name),
            false_hint(name, definition),
        ];
        found.into_iter().flatten().collect()
    }

    /// Finds another name that looks the same. If only case and punctuation differ, it may be intended.
    fn look_alike(&self, name: &str) -> Option<Finding> {
        let key = folded(name);
        let other = self.0.get(&key)?.iter().find(|other| **other != name);
        let other = other.filter(|_| !key.is_empty())?;
        let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_graphic());
        let severity = match (is_plain(name), is_plain(other)) {
            (true, true) => Severity::Low,
            // The imitation is the name with characters that look like others.
            (false, _) => Severity::High,
            (true, false) => return None,
        };
        Some(finding("lookalike_name", severity, "name", name))
    }
}

/// Returns the visible form of a name, without case and punctuation.
pub(super) fn folded(name: &str) -> String {
    let seen = looks(name);
    let letters = seen.chars().filter(|c| c.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// Finds an empty name, by which a tool can be neither approved nor blocked.
fn is_empty(name: &str) -> Option<Finding> {
    name.is_empty()
        .then(|| finding("empty_name", Severity::High, "name", name))
}

fn of_a_client(name: &str) -> Option<Finding> {
    let is_clients = name.starts_with(CLIENT_PREFIX) || CLIENT_TOOLS.contains(&name);
    is_clients.then(|| finding("client_tool_name", Severity::Low, "name", name))
}

/// Finds a destructive tool with a read-only hint: clients run such tools without asking.
fn false_hint(name: &str, definition: RawJson<'_>) -> Option<Finding> {
    let hint = definition.member("annotations")?.member("readOnlyHint")?;
    let words = words(name);
    let [first, ..] = &words[..] else { return None };
    let is_destructive = |word: &String| DESTRUCTIVE.contains(&word.as_str());
    let deletes = is_destructive(first)
        || words.last().is_some_and(is_destructive) && !TELLING.contains(&first.as_str());
    (hint.as_str() == "true" && deletes).then(|| {
        finding(
            "false_read_only_hint",
            Severity::Low,
            "annotations.readOnlyHint",
            name,
        )
    })
}

fn finding(rule: &str, severity: Severity, field: &str, name: &str) -> Finding {
    const MAX_CHARACTERS: usize = 200;
    let matched = Match {
        text: name.chars().take(MAX_CHARACTERS).collect(),
        position: 0,
        context: String::new(),
    };
    Finding::built_in(
        rule,
        Category::CrossToolOverride,
        severity,
        field.to_owned(),
        matched,
    )
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn found(names: &[&str], name: &str, annotations: &str) -> Vec<(String, Severity)> {
        let definition = format!(r#"{{"name":"x","annotations":{annotations}}}"#);
        let findings = ToolNames::of(names).inspect(name, RawJson::trusted(&definition));
        findings
            .into_iter()
            .map(|finding| (finding.pattern, finding.severity))
            .collect()
    }

    #[test_case("re\u{430}d_file" => Some(Severity::High); "a cyrillic letter")]
    #[test_case("ｒｅａｄ_file" => Some(Severity::High); "full width")]
    #[test_case("read\u{200b}_file" => Some(Severity::High); "something between that is not seen")]
    #[test_case(" read_file" => Some(Severity::High); "a space before")]
    #[test_case("read.file" => Some(Severity::Low); "a dot")]
    #[test_case("readFile" => Some(Severity::Low); "another case")]
    #[test_case("read_files" => None; "of several")]
    #[test_case("read_file_2" => None; "a number")]
    #[test_case("lire_le_fichier_é" => None; "another language")]
    fn names_beside_another(name: &str) -> Option<Severity> {
        let names = ["read_file", "write_file", name];
        assert_eq!(found(&names, "write_file", "{}"), []);
        let found = found(&names, name, "{}");
        assert!(found.iter().all(|(pattern, _)| pattern == "lookalike_name"));
        found.first().map(|(_, severity)| *severity)
    }

    #[test]
    fn the_one_that_is_imitated_stays() {
        assert_eq!(found(&["read_file", "re\u{430}d_file"], "read_file", "{}"), []);
    }

    #[test_case("Bash", true; "a shell")]
    #[test_case("Read", true; "a reader")]
    #[test_case("mcp__github__create_issue", true; "a tool of another server")]
    #[test_case("bash", false; "an ordinary word")]
    #[test_case("read_file", false; "what many servers have")]
    #[test_case("mcp_status", false; "about MCP")]
    #[test_case("Reader", false; "a longer word")]
    fn names_of_clients(name: &str, is_found: bool) {
        let expected = is_found.then(|| ("client_tool_name".to_owned(), Severity::Low));
        assert_eq!(
            found(&[name], name, "{}"),
            expected.into_iter().collect::<Vec<_>>()
        );
    }

    #[test_case("delete_all_files", r#"{"readOnlyHint":true}"#, true; "deletes")]
    #[test_case("filesPurge", r#"{"readOnlyHint":true}"#, true; "the verb last")]
    #[test_case("delete_all_files", r#"{"readOnlyHint":false}"#, false; "says so")]
    #[test_case("delete_all_files", "{}", false; "says nothing")]
    #[test_case("list_deleted_files", r#"{"readOnlyHint":true}"#, false; "lists")]
    #[test_case("preview_delete", r#"{"readOnlyHint":true}"#, false; "only tries")]
    #[test_case("get_delete_policy", r#"{"readOnlyHint":true}"#, false; "tells")]
    #[test_case("dropbox_search", r#"{"readOnlyHint":true}"#, false; "a name with the word in it")]
    fn hints(name: &str, annotations: &str, is_found: bool) {
        let expected = is_found.then(|| ("false_read_only_hint".to_owned(), Severity::Low));
        assert_eq!(
            found(&[name], name, annotations),
            expected.into_iter().collect::<Vec<_>>()
        );
    }

    #[test]
    fn no_name() {
        assert_eq!(
            found(&["", "a"], "", "{}"),
            [("empty_name".to_owned(), Severity::High)]
        );
    }
}
