//! Rules by their numbers, including those of past tables, because records still in the rings name them.

use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
};

use mcpmon_policy::network::table::RuleInfo;

/// Meanings of rule numbers.
#[derive(Debug, Default)]
pub(super) struct RuleBook {
    current: BTreeMap<u32, RuleInfo>,
    past: BTreeMap<u32, RuleInfo>,
    retired: VecDeque<u32>,
}

/// Rules remembered after they left the list. Numbers are never reused within a daemon's life.
const PAST_RULES: usize = 4096;

impl RuleBook {
    /// Replaces the current rules.
    pub(super) fn replace(&mut self, rules: BTreeMap<u32, RuleInfo>) {
        let before = std::mem::replace(&mut self.current, rules);
        for (number, info) in before {
            if !self.current.contains_key(&number) && self.past.insert(number, info).is_none() {
                self.retired.push_back(number);
            }
        }
        while self.retired.len() > PAST_RULES {
            let oldest = self.retired.pop_front();
            oldest.map(|number| self.past.remove(&number));
        }
    }

    /// Remembers rules of an earlier book as past ones.
    pub(super) fn remember(&mut self, rules: BTreeMap<u32, RuleInfo>) {
        for (number, info) in rules.into_iter().take(PAST_RULES) {
            if self.past.insert(number, info).is_none() {
                self.retired.push_back(number);
            }
        }
    }

    /// Returns the name of an address, if a current rule resolved one to it.
    pub(super) fn name_of(&self, address: IpAddr) -> Option<String> {
        let address = address.to_canonical();
        let mut names = self
            .current
            .values()
            .filter_map(|rule| rule.remote_names.get(&address));
        names.next().map(ToString::to_string)
    }

    /// Returns the rule with `number`.
    pub(super) fn get(&self, number: u32) -> Option<&RuleInfo> {
        self.current.get(&number).or_else(|| self.past.get(&number))
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_policy::network::table::RuleKind;

    use super::*;

    fn rules(numbers: impl IntoIterator<Item = u32>) -> BTreeMap<u32, RuleInfo> {
        let info = |number| RuleInfo {
            name: format!("rule-{number}"),
            kind: RuleKind::Watch,
            remote_names: BTreeMap::new(),
        };
        numbers.into_iter().map(|number| (number, info(number))).collect()
    }

    #[test]
    fn a_retired_rule_keeps_its_name_until_many_others_retired() {
        let mut book = RuleBook::default();
        book.replace(rules([2, 3]));
        book.replace(rules([3, 4]));
        assert_eq!(book.get(2).map(|info| info.name.as_str()), Some("rule-2"));
        assert_eq!(book.get(5), None);
        book.replace(rules(10..10 + PAST_RULES as u32));
        book.replace(BTreeMap::new());
        assert_eq!(book.get(2), None);
        assert!(book.get(10).is_some());
    }
}
