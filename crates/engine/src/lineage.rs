//! Lineage: the parents of processes that were not judged when they forked.
//!
//! A process may fork twice and end before its exec is judged: its grandchild then has no living ancestor that shows
//! which server it belongs to.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mcpmon_model::ProcessId;

/// The latest forks.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    parents: BTreeMap<ProcessId, ProcessId>,
    /// Parent and child of each.
    children: BTreeSet<(ProcessId, ProcessId)>,
    order: VecDeque<ProcessId>,
}

/// Forks remembered. They matter for the moment between an exec and its record's reading.
const REMEMBERED: usize = 8192;
/// Most ancestors that are followed.
const MAX_DEPTH: usize = 64;

impl Lineage {
    /// Notes a fork.
    pub(super) fn note(&mut self, child: ProcessId, parent: ProcessId) {
        match self.parents.insert(child, parent) {
            Some(before) => {
                self.children.remove(&(before, child));
            }
            None => self.order.push_back(child),
        }
        self.children.insert((parent, child));
        while self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.forget(oldest);
        }
    }

    fn forget(&mut self, child: ProcessId) {
        if let Some(parent) = self.parents.remove(&child) {
            self.children.remove(&(parent, child));
        }
    }

    /// Returns the process and its remembered ancestors, nearest first.
    pub(super) fn ancestry(&self, process: ProcessId) -> impl Iterator<Item = ProcessId> {
        std::iter::successors(Some(process), |process| self.parents.get(process).copied()).take(MAX_DEPTH)
    }

    /// Returns every remembered descendant, parents before children. It takes time in proportion to their number only:
    /// any user can fill the memory of forks, which must not slow down the judgement of others.
    pub(super) fn descendants(&self, ancestor: ProcessId) -> Vec<ProcessId> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::from([ancestor]);
        let mut next = VecDeque::from([ancestor]);
        while let Some(parent) = next.pop_front() {
            let children = self
                .children
                .range((parent, ProcessId::default())..)
                .take_while(|(of, _)| *of == parent);
            for (_, child) in children {
                if seen.insert(*child) {
                    found.push(*child);
                    next.push_back(*child);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn process(pid: u32) -> ProcessId {
        ProcessId { pid, start: 1 }
    }

    #[test]
    fn ancestors_and_descendants_are_found_and_old_forks_forgotten() {
        let mut lineage = Lineage::default();
        lineage.note(process(2), process(1));
        lineage.note(process(3), process(2));
        assert_eq!(lineage.descendants(process(1)), [process(2), process(3)]);
        assert_eq!(lineage.ancestry(process(3)).last(), Some(process(1)));
        for pid in 100..100 + u32::try_from(REMEMBERED).expect("small") {
            lineage.note(process(pid), process(50));
        }
        assert_eq!(lineage.descendants(process(1)), []);
    }

    #[test]
    fn a_long_line_is_followed_to_its_end_and_a_new_parent_counts() {
        let mut lineage = Lineage::default();
        for pid in 2..1000 {
            lineage.note(process(pid), process(pid - 1));
        }
        assert_eq!(lineage.descendants(process(1)).len(), 998);
        lineage.note(process(500), process(5000));
        assert_eq!(lineage.descendants(process(1)).len(), 498);
        assert_eq!(lineage.descendants(process(5000)).len(), 500);
    }

    #[test]
    fn a_circle_has_an_end() {
        let mut lineage = Lineage::default();
        lineage.note(process(2), process(1));
        lineage.note(process(1), process(2));
        assert_eq!(lineage.ancestry(process(1)).count(), MAX_DEPTH);
        assert_eq!(lineage.descendants(process(1)), [process(2)]);
    }
}
