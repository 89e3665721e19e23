//! The rules of an inventory and the signals of scripts, read from `rules/inventory.toml`.

use std::{collections::BTreeMap, sync::LazyLock};

use mcpmon_model::Severity;
use regex::RegexSet;
use serde::Deserialize;

/// The parsed table.
pub(super) static TABLE: LazyLock<InventoryRules> = LazyLock::new(|| {
    let table: Source =
        toml::from_str(include_str!("../../rules/inventory.toml")).expect("a test reads the table");
    let signal = |(name, patterns): (String, Vec<String>)| {
        let patterns = patterns.iter().map(|pattern| format!("(?is){pattern}"));
        let set = RegexSet::new(patterns).expect("a test compiles the signals");
        (name, set)
    };
    InventoryRules {
        rules: table.rule,
        signals: table.signals.into_iter().map(signal).collect(),
    }
});

/// The rules, and the signals that they combine.
#[derive(Debug)]
pub(super) struct InventoryRules {
    pub(super) rules: Vec<InventoryRule>,
    pub(super) signals: BTreeMap<String, RegexSet>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    signals: BTreeMap<String, Vec<String>>,
    rule: Vec<InventoryRule>,
}

/// A rule over what is installed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InventoryRule {
    /// Its stable id.
    pub id: String,
    /// Its subject.
    pub about: About,
    /// Its usual severity.
    pub severity: Severity,
    /// Its title of one line, for lists.
    pub title: String,
    /// The consequences of the finding.
    pub why: String,
    /// The remedy.
    pub remedy: String,
    /// An example that it finds.
    pub hit: String,
    /// A similar example that is harmless.
    pub miss: String,
    /// Signals that are all required.
    #[serde(default)]
    pub(super) all: Vec<String>,
    /// Lines within which the signals raise the severity; in a document they are a match only within these lines.
    #[serde(default)]
    pub(super) within: usize,
    /// True if the rule applies to texts for models too.
    #[serde(default)]
    pub(super) documents: bool,
}

/// The subject of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum About {
    /// A configured server.
    Server,
    /// Servers in relation to each other.
    Shadowing,
    /// A text of a skill.
    Skill,
    /// A script of a skill.
    Script,
    /// A whole file or directory tree.
    File,
}

/// Returns every rule, in the order of the table.
pub fn rules() -> &'static [InventoryRule] {
    &TABLE.rules
}

/// Returns the rule with this id.
pub fn rule(id: &str) -> Option<&'static InventoryRule> {
    TABLE.rules.iter().find(|rule| rule.id == id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use mcpmon_clients::{Scope, client, parse_servers};
    use mcpmon_policy::DefinitionInspection;

    use super::*;
    use crate::{
        inventory::{FileTraits, TextKind, inspect_server, inspect_text},
        scan::Scanner,
    };

    fn found(about: About, text: &str) -> BTreeSet<String> {
        let findings = match about {
            About::Server => {
                let file = format!("{{\"mcpServers\": {{\"own\": {text}}}}}");
                let client = client("claude-code").expect("a client");
                let servers = parse_servers(file.as_bytes(), client).expect("readable");
                let traits = FileTraits {
                    scope: Scope::User,
                    is_open: false,
                    compares_names: true,
                };
                inspect_server(&servers[0], &traits)
            }
            About::Skill | About::Script => {
                let kind = match about {
                    About::Script => TextKind::Script,
                    About::Skill | About::Server | About::Shadowing | About::File => TextKind::Document,
                };
                let scanner =
                    Scanner::new(&DefinitionInspection::default().builtin, &[]).expect("no patterns");
                inspect_text(&scanner, kind, text)
            }
            About::Shadowing | About::File => return BTreeSet::new(),
        };
        findings.into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn every_rule_finds_its_hit_and_not_its_near_miss() {
        for rule in rules() {
            if matches!(rule.about, About::Shadowing | About::File) {
                continue;
            }
            let hit = found(rule.about, &rule.hit);
            assert!(hit.contains(&rule.id), "{}: only {hit:?}", rule.id);
            let miss = found(rule.about, &rule.miss);
            assert!(!miss.contains(&rule.id), "{}", rule.id);
        }
    }

    #[test]
    fn ids_are_unique_and_signals_are_used() {
        let ids: BTreeSet<_> = rules().iter().map(|rule| &rule.id).collect();
        assert_eq!(ids.len(), rules().len());
        let used: BTreeSet<_> = rules().iter().flat_map(|rule| &rule.all).collect();
        assert_eq!(used, TABLE.signals.keys().collect());
        for rule in rules() {
            assert_eq!(rule.about == About::Script, !rule.all.is_empty(), "{}", rule.id);
        }
    }
}
