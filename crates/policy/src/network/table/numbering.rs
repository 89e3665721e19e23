//! Numbers of rules and lists, kept for as long as the daemon runs.

use std::collections::BTreeMap;

use mcpmon_model::ServerId;
use serde::{Deserialize, Serialize};

use super::{CompileError, LIST_FIRST_SERVER, RULE_CANARY, RULE_FIRST, RuleInfo, RuleKind};

/// Gives out rule and list numbers; the caller keeps one across reloads.
///
/// A rule keeps its number while its name and kind stay, and no other rule ever gets the number, because records in the
/// rings still contain it. A server keeps its list number for ever, because running processes carry it. Both outlive
/// the daemon if the kernel's tables do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Numbering {
    rules: BTreeMap<(RuleKind, String), u32>,
    next_rule: u32,
    lists: BTreeMap<ServerId, u32>,
    next_list: u32,
}

impl Default for Numbering {
    fn default() -> Self {
        Self {
            rules: BTreeMap::new(),
            next_rule: RULE_FIRST,
            lists: BTreeMap::new(),
            next_list: LIST_FIRST_SERVER,
        }
    }
}

/// The serialised form.
#[derive(Serialize, Deserialize)]
struct Written {
    rules: Vec<(RuleKind, String, u32)>,
    next_rule: u32,
    lists: BTreeMap<ServerId, u32>,
    next_list: u32,
}

impl From<Numbering> for Written {
    fn from(numbering: Numbering) -> Self {
        let rules = numbering.rules.into_iter();
        Self {
            rules: rules.map(|((kind, name), number)| (kind, name, number)).collect(),
            next_rule: numbering.next_rule,
            lists: numbering.lists,
            next_list: numbering.next_list,
        }
    }
}

impl From<Written> for Numbering {
    fn from(written: Written) -> Self {
        let rules = written.rules.into_iter();
        Self {
            rules: rules.map(|(kind, name, number)| ((kind, name), number)).collect(),
            next_rule: written.next_rule.max(RULE_FIRST),
            lists: written.lists,
            next_list: written.next_list.max(LIST_FIRST_SERVER),
        }
    }
}

impl Numbering {
    /// Returns the rules that have a number, without the addresses of their names.
    pub fn rules(&self) -> impl Iterator<Item = (u32, RuleInfo)> {
        self.rules.iter().map(|((kind, name), number)| {
            let info = RuleInfo {
                name: name.clone(),
                kind: kind.clone(),
                remote_names: BTreeMap::new(),
            };
            (*number, info)
        })
    }

    /// Returns the number of a rule.
    pub(super) fn rule(&mut self, kind: &RuleKind, name: &str) -> Result<u32, CompileError> {
        if *kind == RuleKind::Canary {
            return Ok(RULE_CANARY);
        }
        let key = (kind.clone(), name.to_owned());
        if let Some(number) = self.rules.get(&key) {
            return Ok(*number);
        }
        let number = take(&mut self.next_rule)?;
        self.rules.insert(key, number);
        Ok(number)
    }

    /// Returns the number of a server's egress list.
    pub(super) fn list(&mut self, server: &ServerId) -> Result<u32, CompileError> {
        if let Some(number) = self.lists.get(server) {
            return Ok(*number);
        }
        let number = take(&mut self.next_list)?;
        self.lists.insert(server.clone(), number);
        Ok(number)
    }

    /// Forgets rules that no longer exist, so that reloads do not use more and more memory; their numbers stay used.
    pub(super) fn forget_all_but(&mut self, rules: &BTreeMap<u32, RuleInfo>) {
        self.rules.retain(|_, number| rules.contains_key(number));
    }
}

fn take(next: &mut u32) -> Result<u32, CompileError> {
    let number = *next;
    *next = number.checked_add(1).ok_or(CompileError::NumbersUsedUp)?;
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forgotten_rule_never_gives_its_number_away() {
        let mut numbering = Numbering::default();
        let first = numbering.rule(&RuleKind::Watch, "a").expect("number");
        assert_eq!(numbering.rule(&RuleKind::Watch, "a").expect("number"), first);
        numbering.forget_all_but(&BTreeMap::new());
        let other = numbering.rule(&RuleKind::Watch, "b").expect("number");
        let again = numbering.rule(&RuleKind::Watch, "a").expect("number");
        assert_eq!(
            [first, other, again],
            [RULE_FIRST, RULE_FIRST + 1, RULE_FIRST + 2]
        );
    }

    #[test]
    fn numbers_are_the_same_once_they_were_written_down() {
        let mut numbering = Numbering::default();
        let server: ServerId = ServerId::new("files").expect("an id");
        numbering
            .rule(&RuleKind::Egress(server.clone()), "files.egress")
            .expect("number");
        numbering.list(&server).expect("number");
        let written = serde_json::to_string(&numbering).expect("JSON");
        let mut read: Numbering = serde_json::from_str(&written).expect("numbers");
        assert_eq!(read, numbering);
        assert_eq!(read.list(&server), numbering.list(&server));
        let other: ServerId = ServerId::new("mail").expect("an id");
        assert_eq!(read.list(&other).expect("number"), LIST_FIRST_SERVER + 1);
    }

    #[test]
    fn the_last_number_is_an_error_and_not_a_second_first_one() {
        let mut numbering = Numbering {
            next_rule: u32::MAX,
            ..Numbering::default()
        };
        assert_eq!(
            numbering.rule(&RuleKind::Watch, "a"),
            Err(CompileError::NumbersUsedUp)
        );
    }
}
