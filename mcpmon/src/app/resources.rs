//! Memory and processor time of process trees, from `/proc`, which every user can read.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::LazyLock,
    time::Duration,
};

use mcpmon_model::Timestamp;
use nix::unistd::{SysconfVar, sysconf};

use super::host::{self, Stat};

/// Most nanoseconds by which a process may seem to have started after its recorded start. The difference comes from the
/// host's clock, which is set while the host runs.
const MAX_CLOCK_STEP: i64 = 2_000_000_000;

/// The use of the host's resources by a process and its descendants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Live processes.
    pub(crate) processes: u32,
    /// Bytes in memory; memory that processes share is counted for each of them.
    pub(crate) memory: u64,
    /// Processor time since their start.
    pub(crate) processor: Duration,
}

impl Usage {
    /// Returns the sum of both.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            processes: self.processes.saturating_add(other.processes),
            memory: self.memory.saturating_add(other.memory),
            processor: self.processor.saturating_add(other.processor),
        }
    }
}

/// The processes of the host at one moment.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    by_pid: BTreeMap<u32, Stat>,
    children: BTreeMap<u32, Vec<u32>>,
    boot_to_wall: i64,
}

impl Processes {
    /// Reads all processes that this user may see.
    pub(crate) fn read() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten();
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let stats = pids.filter_map(|pid| Some((pid, host::stat(pid)?)));
        Self::new(stats.collect(), host::boot_to_wall())
    }

    fn new(by_pid: BTreeMap<u32, Stat>, boot_to_wall: i64) -> Self {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (pid, stat) in &by_pid {
            children.entry(stat.parent).or_default().push(*pid);
        }
        Self {
            by_pid,
            children,
            boot_to_wall,
        }
    }

    /// Returns whether the process `pid` lives, and is not younger than the start that was `recorded`.
    pub(crate) fn lives(&self, pid: u32, recorded: Timestamp) -> bool {
        let started = self.by_pid.get(&pid).and_then(|stat| {
            let start = stat.start_ticks.saturating_mul(host::tick());
            Some(i64::try_from(start).ok()?.saturating_add(self.boot_to_wall))
        });
        started.is_some_and(|started| started <= recorded.0.saturating_add(MAX_CLOCK_STEP))
    }

    /// Returns a process and those of its ancestors that live.
    pub(crate) fn line(&self, pid: u32) -> BTreeSet<u32> {
        let mut line = BTreeSet::new();
        let mut next = Some(pid);
        while let Some(pid) = next.filter(|pid| line.insert(*pid)) {
            next = self.by_pid.get(&pid).map(|stat| stat.parent);
        }
        line
    }

    /// Returns the usage of the process `pid` and its descendants. Returns `None` if there is no such process, or the
    /// number was given to another process after the start was `recorded`.
    pub(crate) fn tree(&self, pid: u32, recorded: Timestamp) -> Option<Usage> {
        if !self.lives(pid, recorded) {
            return None;
        }
        let mut usage = Usage::default();
        let (mut seen, mut next) = (BTreeSet::from([pid]), vec![pid]);
        while let Some(pid) = next.pop() {
            usage = usage.plus(self.of(pid));
            let children = self.children.get(&pid).into_iter().flatten();
            next.extend(children.filter(|child| seen.insert(**child)));
        }
        Some(usage)
    }

    fn of(&self, pid: u32) -> Usage {
        self.by_pid.get(&pid).map_or_else(Usage::default, |stat| Usage {
            processes: 1,
            memory: stat.resident_pages.saturating_mul(*PAGE_BYTES),
            processor: Duration::from_nanos(stat.processor_ticks.saturating_mul(host::tick())),
        })
    }
}

static PAGE_BYTES: LazyLock<u64> = LazyLock::new(|| {
    sysconf(SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|bytes| bytes.try_into().ok())
        .unwrap_or(4096)
});

#[cfg(test)]
mod tests {
    use mcpmon_detect::starter::Terminal;

    use super::*;

    fn stat(parent: u32, start_ticks: u64) -> Stat {
        Stat {
            comm: String::new(),
            parent,
            terminal: Terminal::Other,
            processor_ticks: 2,
            start_ticks,
            resident_pages: 3,
        }
    }

    fn processes() -> Processes {
        let all = [(1, 0, 0), (10, 1, 5), (11, 10, 6), (12, 11, 7), (20, 1, 5)];
        let by_pid = all.map(|(pid, parent, start)| (pid, stat(parent, start)));
        Processes::new(by_pid.into(), 0)
    }

    #[test]
    fn a_tree_is_a_process_and_all_below_it() {
        let usage = processes().tree(10, Timestamp(i64::MAX)).expect("it lives");
        assert_eq!(
            usage,
            Usage {
                processes: 3,
                memory: 9 * *PAGE_BYTES,
                processor: Duration::from_nanos(6 * host::tick()),
            }
        );
    }

    #[test]
    fn a_number_that_another_process_has_by_now_tells_nothing() {
        let mut processes = processes();
        processes.boot_to_wall = 10 * MAX_CLOCK_STEP;
        assert_eq!(processes.tree(10, Timestamp(MAX_CLOCK_STEP)), None);
        assert_eq!(processes.tree(99, Timestamp(i64::MAX)), None);
    }

    #[test]
    fn this_process_uses_memory() {
        let usage = Processes::read().tree(std::process::id(), Timestamp(i64::MAX));
        assert!(usage.expect("it lives").memory > 1 << 20);
    }
}
