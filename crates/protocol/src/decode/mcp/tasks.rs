//! The task of each call that became one.

use std::collections::{BTreeMap, VecDeque};

/// A task with a longer id is not remembered; its result is judged as that of an unknown call.
const MAX_BYTES: usize = 1 << 10;

/// Tools of calls that became tasks, by the task's id; the oldest is forgotten for a new one.
#[derive(Debug)]
pub struct Tasks {
    max: usize,
    tools: BTreeMap<Box<str>, Box<str>>,
    order: VecDeque<Box<str>>,
}

impl Tasks {
    /// Returns a memory for at most `max` tasks.
    pub const fn new(max: usize) -> Self {
        Self {
            max,
            tools: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Notes that a call of `tool` became a task.
    pub fn insert(&mut self, task: &str, tool: Box<str>) {
        if task.len() > MAX_BYTES || self.max == 0 {
            return;
        }
        if self.tools.insert(task.into(), tool).is_some() {
            return;
        }
        self.order.push_back(task.into());
        if self.order.len() > self.max
            && let Some(oldest) = self.order.pop_front()
        {
            self.tools.remove(&oldest);
        }
    }

    /// Returns the tool whose call became this task.
    pub fn tool(&self, task: &str) -> Option<&str> {
        self.tools.get(task).map(|tool| &**tool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten() {
        let mut tasks = Tasks::new(2);
        for (task, tool) in [("1", "a"), ("2", "b"), ("1", "c"), ("3", "d")] {
            tasks.insert(task, tool.into());
        }
        assert_eq!(
            ["1", "2", "3"].map(|task| tasks.tool(task)),
            [None, Some("b"), Some("d")]
        );
    }

    #[test]
    fn a_long_id_is_not_remembered() {
        let mut tasks = Tasks::new(2);
        tasks.insert(&"a".repeat(MAX_BYTES), "kept".into());
        tasks.insert(&"a".repeat(MAX_BYTES + 1), "not".into());
        assert_eq!(tasks.tool(&"a".repeat(MAX_BYTES)), Some("kept"));
        assert_eq!(tasks.tool(&"a".repeat(MAX_BYTES + 1)), None);
    }
}
