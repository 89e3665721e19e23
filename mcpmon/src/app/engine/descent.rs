//! Descent: the ancestors of servers. A start is reported when its files are hashed, and the server and its launchers
//! may have ended by then. Therefore the kernel's records of them, and the ancestors at the launch, are kept until
//! then.

use std::{
    collections::{BTreeMap, VecDeque},
    iter,
};

use mcpmon_detect::starter::{Ancestor, Terminal};
use mcpmon_model::{Exec, InstanceId, ProcessId};

use crate::app::host;

/// Most processes whose parent is remembered; the oldest is forgotten first.
const MAX_PARENTS: usize = 16 << 10;
/// Most generations that are followed.
const MAX_LINE: usize = 64;

/// The ancestors of the followed servers.
#[derive(Debug, Default)]
pub(super) struct Descent {
    parents: Parents,
    launches: BTreeMap<InstanceId, LaunchDescent>,
}

/// The ancestors of a serving process.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerAncestors {
    /// The process itself, then its ancestors, as far as they could be looked up.
    pub(super) ancestors: Vec<Ancestor>,
    /// All known ancestors and the process itself, whether they still live or not.
    pub(super) processes: Vec<ProcessId>,
}

/// One launch.
#[derive(Debug)]
struct LaunchDescent {
    /// The first process.
    first: ProcessId,
    /// The process and its ancestors at the time of the launch; empty if it had ended.
    above: Vec<Ancestor>,
    /// The process that serves.
    serving: Option<ProcessId>,
}

/// The parents of processes, from the kernel's records.
#[derive(Debug, Default)]
struct Parents {
    of: BTreeMap<ProcessId, ProcessId>,
    order: VecDeque<ProcessId>,
}

impl Descent {
    /// Notes that a process was started by another one.
    pub(super) fn forked(&mut self, process: ProcessId, parent: ProcessId) {
        self.parents.note(process, parent);
    }

    /// Notes the parent of a process that executes.
    pub(super) fn executes(&mut self, exec: &Exec) {
        self.parents.note(exec.process, exec.parent);
    }

    /// Notes that the executing process launches a server.
    pub(super) fn launches(&mut self, instance: InstanceId, exec: &Exec) {
        let launch = || LaunchDescent {
            first: exec.process,
            above: chain_at(exec),
            serving: None,
        };
        self.launches.entry(instance).or_insert_with(launch);
    }

    /// Notes that this process serves.
    pub(super) fn serves(&mut self, instance: InstanceId, process: ProcessId) {
        if let Some(launch) = self.launches.get_mut(&instance) {
            launch.serving = Some(process);
        }
    }

    /// Returns a process and its known ancestors.
    pub(super) fn line(&self, process: ProcessId) -> Vec<ProcessId> {
        let told = self.parents.line(process);
        let living = chain(process).into_iter().map(|ancestor| ancestor.process);
        told.chain(living).collect()
    }

    /// Forgets the servers that are not followed.
    pub(super) fn retain(&mut self, mut is_followed: impl FnMut(InstanceId) -> bool) {
        self.launches.retain(|instance, _| is_followed(*instance));
    }

    /// Returns the ancestors of the serving process.
    pub(super) fn above(&self, instance: InstanceId) -> ServerAncestors {
        let Some(launch) = self.launches.get(&instance) else {
            return ServerAncestors::default();
        };
        let now = launch.serving.map(chain).unwrap_or_default();
        let ancestors = launch.joined(now);
        let mut processes: Vec<ProcessId> = ancestors.iter().map(|ancestor| ancestor.process).collect();
        processes.extend(
            launch
                .serving
                .into_iter()
                .flat_map(|process| self.parents.line(process)),
        );
        processes.extend(self.parents.line(launch.first));
        ServerAncestors { ancestors, processes }
    }
}

impl LaunchDescent {
    /// Returns the current ancestors of the serving process up to the launch, and above it those at the launch: a
    /// process whose parent ends gets another parent.
    fn joined(&self, mut now: Vec<Ancestor>) -> Vec<Ancestor> {
        let position = now.iter().position(|ancestor| ancestor.process == self.first);
        match position {
            _ if self.above.is_empty() => now,
            Some(position) => {
                now.truncate(position);
                now.extend_from_slice(&self.above);
                now
            }
            None => self.above.clone(),
        }
    }
}

impl Parents {
    fn note(&mut self, process: ProcessId, parent: ProcessId) {
        // The first record names the process that started it; later records may name another parent.
        if parent.pid == 0 || self.of.contains_key(&process) {
            return;
        }
        if self.order.len() >= MAX_PARENTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.of.remove(&oldest);
        }
        self.of.insert(process, parent);
        self.order.push_back(process);
    }

    /// Returns a process and its recorded ancestors.
    fn line(&self, process: ProcessId) -> impl Iterator<Item = ProcessId> {
        iter::successors(Some(process), |process| self.of.get(process).copied()).take(MAX_LINE)
    }
}

/// Returns an executing process and its ancestors; empty if they have ended.
fn chain_at(exec: &Exec) -> Vec<Ancestor> {
    let own = chain(exec.process);
    if !own.is_empty() {
        return own;
    }
    let gone = Ancestor {
        process: exec.process,
        comm: exec.comm.clone(),
        terminal: Terminal::Other,
    };
    let above = chain(exec.parent);
    let own = (!above.is_empty()).then_some(gone);
    own.into_iter().chain(above).collect()
}

/// Returns a process and its ancestors; empty if the process has ended.
fn chain(process: ProcessId) -> Vec<Ancestor> {
    let chain = host::ancestors(process);
    match chain.first() {
        Some(first) if first.process == process => chain,
        Some(_) | None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::FileId;
    use test_case::test_case;

    use super::*;

    const INSTANCE: InstanceId = InstanceId(1);

    const fn process(pid: u32) -> ProcessId {
        // No process of this host has this start time.
        ProcessId { pid, start: 1 }
    }

    fn chain_of(pids: &[u32]) -> Vec<Ancestor> {
        let ancestor = |pid: &u32| Ancestor {
            process: process(*pid),
            comm: format!("p{pid}"),
            terminal: Terminal::Other,
        };
        pids.iter().map(ancestor).collect()
    }

    fn exec(process: ProcessId, parent: ProcessId) -> Exec {
        Exec {
            process,
            parent,
            instance: None,
            pending: false,
            argv: Vec::new(),
            linked: Vec::new(),
            package: None,
            directory: None,
            filename: String::new(),
            comm: "gone".to_owned(),
            uid: 0,
            file: FileId::default(),
            links: 0,
            owner: None,
            loader: false,
            killed: false,
            held: false,
            verified: false,
            is_wrapper: false,
            wrapped_as: None,
            wrapper_id: None,
        }
    }

    #[test_case(&[30, 20, 10], &[40, 30, 20, 10] => vec![40, 30, 20, 10]; "all of it lives")]
    #[test_case(&[30, 20, 10], &[40, 30, 1] => vec![40, 30, 20, 10]; "the parent has ended since")]
    #[test_case(&[30, 20, 10], &[] => vec![30, 20, 10]; "the server has ended since")]
    #[test_case(&[30, 20, 10], &[40, 1] => vec![30, 20, 10]; "the launch has ended since")]
    #[test_case(&[], &[] => Vec::<u32>::new(); "nothing could be looked at")]
    #[test_case(&[], &[40, 30, 5] => vec![40, 30, 5]; "looked at only later")]
    fn what_was_above_a_launch_then_counts(then: &[u32], now: &[u32]) -> Vec<u32> {
        let launch = LaunchDescent {
            first: process(30),
            above: chain_of(then),
            serving: None,
        };
        let joined = launch.joined(chain_of(now));
        joined.iter().map(|ancestor| ancestor.process.pid).collect()
    }

    #[test]
    fn what_the_kernel_told_holds_of_processes_that_are_gone() {
        let mut descent = Descent::default();
        descent.executes(&exec(process(30), process(20)));
        descent.launches(INSTANCE, &exec(process(30), process(20)));
        descent.forked(process(35), process(30));
        descent.executes(&exec(process(35), process(1)));
        descent.executes(&exec(process(40), process(35)));
        descent.executes(&exec(process(41), process(36)));
        descent.serves(INSTANCE, process(40));
        let above = descent.above(INSTANCE);
        assert!(above.ancestors.is_empty(), "{above:?}");
        assert_eq!(
            above.processes,
            [40, 35, 30, 20, 30, 20].map(process),
            "and neither another server nor who took in what was left behind"
        );
        descent.retain(|_| false);
        assert!(descent.above(INSTANCE).processes.is_empty());
    }

    #[test]
    fn a_number_alone_is_no_process() {
        let own = host::identify(std::process::id()).expect("own stat");
        let before = ProcessId { start: 1, ..own };
        let mut descent = Descent::default();
        descent.launches(INSTANCE, &exec(before, own));
        let above = descent.above(INSTANCE);
        assert_eq!(
            (above.ancestors[0].process, &*above.ancestors[0].comm),
            (before, "gone")
        );
        assert_eq!(above.ancestors[1].process, own);
        let mut descent = Descent::default();
        descent.launches(INSTANCE, &exec(before, ProcessId { start: 2, ..own }));
        descent.serves(INSTANCE, before);
        assert!(!descent.above(INSTANCE).processes.contains(&own));
    }

    #[test]
    fn who_starts_many_is_not_remembered_for_ever() {
        let mut parents = Parents::default();
        let many = u32::try_from(2 * MAX_PARENTS).expect("small");
        for pid in 2..many {
            parents.note(process(pid), process(1));
        }
        assert_eq!(
            (parents.of.len(), parents.order.len()),
            (MAX_PARENTS, MAX_PARENTS)
        );
        assert!(parents.of.contains_key(&process(many - 1)));
        parents.note(process(1), process(many - 1));
        assert_eq!(parents.line(process(1)).count(), MAX_LINE, "a circle ends");
    }
}
