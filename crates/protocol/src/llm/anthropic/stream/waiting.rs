//! Events that wait for the end of a call, in the order in which they came.

use std::collections::{BTreeMap, VecDeque};

/// Events that wait.
#[derive(Debug)]
pub(super) struct PendingEvents {
    events: VecDeque<(usize, Vec<u8>)>,
    /// The number of them by block.
    of_block: BTreeMap<usize, usize>,
    bytes: usize,
}

impl PendingEvents {
    pub(super) const fn new() -> Self {
        Self {
            events: VecDeque::new(),
            of_block: BTreeMap::new(),
            bytes: 0,
        }
    }

    pub(super) fn push(&mut self, block: usize, raw: &[u8]) {
        self.bytes += raw.len();
        *self.of_block.entry(block).or_default() += 1;
        self.events.push_back((block, raw.to_owned()));
    }

    /// Returns the block of the event that has waited longest.
    pub(super) fn first(&self) -> Option<usize> {
        self.events.front().map(|(block, _)| *block)
    }

    /// Takes the event that has waited longest; `None` if none waits.
    pub(super) fn pop(&mut self) -> Vec<u8> {
        let Some((block, raw)) = self.events.pop_front() else {
            return Vec::new();
        };
        self.bytes -= raw.len();
        if let Some(count) = self.of_block.get_mut(&block) {
            *count -= 1;
            if *count == 0 {
                self.of_block.remove(&block);
            }
        }
        raw
    }

    /// Returns whether something of this block waits.
    pub(super) fn has(&self, block: usize) -> bool {
        self.of_block.contains_key(&block)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}
