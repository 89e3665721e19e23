//! Who forked whom, of processes that were not judged when they forked.
//!
//! A process may fork twice and end before its exec is read: its grandchild then has no living ancestor that
//! tells where it belongs.

use std::collections::{BTreeMap, VecDeque};

use crate::model::ProcessId;

/// The latest forks.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    parents: BTreeMap<ProcessId, ProcessId>,
    order: VecDeque<ProcessId>,
}

/// Forks remembered. They matter for the moment between an exec and its record's reading.
const REMEMBERED: usize = 8192;
/// Longest way up that is looked at.
const MAX_DEPTH: usize = 64;

impl Lineage {
    /// Remembers a fork.
    pub(super) fn note(&mut self, child: ProcessId, parent: ProcessId) {
        if self.parents.insert(child, parent).is_none() {
            self.order.push_back(child);
        }
        while self.order.len() > REMEMBERED {
            let oldest = self.order.pop_front();
            oldest.map(|child| self.parents.remove(&child));
        }
    }

    /// The process and its remembered ancestors, nearest first.
    pub(super) fn ancestry(&self, process: ProcessId) -> impl Iterator<Item = ProcessId> {
        std::iter::successors(Some(process), |process| self.parents.get(process).copied()).take(MAX_DEPTH)
    }

    /// Every remembered descendant.
    pub(super) fn descendants(&self, ancestor: ProcessId) -> Vec<ProcessId> {
        let comes_of = |child: &&ProcessId| self.ancestry(**child).skip(1).any(|parent| parent == ancestor);
        self.order.iter().filter(comes_of).copied().collect()
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
    fn a_circle_has_an_end() {
        let mut lineage = Lineage::default();
        lineage.note(process(2), process(1));
        lineage.note(process(1), process(2));
        assert_eq!(lineage.ancestry(process(1)).count(), MAX_DEPTH);
    }
}
