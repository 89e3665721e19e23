//! Adds what only the host knows to an event: the executable and the container of its process.

use std::{
    collections::{HashMap, VecDeque},
    fs::{self, File},
    io,
    path::PathBuf,
};

use mcpmon_kernel::container;
use mcpmon_model::{ContainerRef, Event, ProcessId};
use nix::libc;

use super::pod_names::PodNames;

/// Looks up processes and control groups, and remembers the latest.
#[derive(Debug)]
pub(super) struct Describer {
    latest: VecDeque<(ProcessId, Facts)>,
    containers: Containers,
    pods: PodNames,
}

#[derive(Clone, Debug, Default)]
struct Facts {
    exe: Option<PathBuf>,
    container: Option<ContainerRef>,
}

/// Processes remembered. A server that connects often is looked up once.
const REMEMBERED: usize = 64;

impl Describer {
    /// Looks control groups up below `root`, the open root directory of their hierarchy.
    pub(super) fn new(root: File) -> Self {
        Self {
            latest: VecDeque::new(),
            containers: Containers::new(root),
            pods: PodNames::default(),
        }
    }

    /// Adds what the event lacks. For a process that is gone only the container can be known, from the `cgroup` that
    /// the kernel reported.
    pub(super) fn describe(&mut self, event: &mut Event, process: ProcessId, cgroup: Option<u64>) {
        let facts = self.facts(process);
        if let Some(reference) = &mut event.process
            && reference.exe.is_none()
        {
            reference.exe = facts.exe;
        }
        if event.container.is_none() {
            let of_group = cgroup.and_then(|id| self.containers.of_group(id));
            event.container = of_group.or(facts.container);
        }
        if let Some(container) = &mut event.container {
            self.pods.complete(container);
        }
    }

    /// Forgets the facts of a process that executed another program, and looks up its control group while that exists.
    pub(super) fn executed(&mut self, process: ProcessId, cgroup: u64) {
        self.latest.retain(|(known, _)| *known != process);
        self.containers.of_group(cgroup);
    }

    fn facts(&mut self, process: ProcessId) -> Facts {
        if let Some((_, facts)) = self.latest.iter().find(|(known, _)| *known == process) {
            return facts.clone();
        }
        let facts = Facts {
            exe: fs::read_link(format!("/proc/{}/exe", process.pid)).ok(),
            container: container::of_process(process.pid).ok().flatten(),
        };
        if self.latest.len() == REMEMBERED {
            self.latest.pop_front();
        }
        self.latest.push_back((process, facts.clone()));
        facts
    }
}

/// The containers of control groups. They are remembered because a group disappears soon after its container has ended;
/// the number of a group is never used again.
#[derive(Debug)]
struct Containers {
    root: File,
    known: HashMap<u64, Option<ContainerRef>>,
    /// The keys of `known`, oldest first.
    order: VecDeque<u64>,
}

impl Containers {
    /// Most control groups that are remembered; a container is one or a few of them.
    const MAX_GROUPS: usize = 1024;

    fn new(root: File) -> Self {
        Self {
            root,
            known: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Returns the container of the group with this number. Returns `None` if the group belongs to no container, or was
    /// gone before it was first looked up.
    fn of_group(&mut self, id: u64) -> Option<ContainerRef> {
        if let Some(known) = self.known.get(&id) {
            return known.clone();
        }
        let found = match container::of_cgroup(&self.root, id) {
            Ok(found) => found,
            Err(error) if is_passing(&error) => return None,
            Err(_) => None,
        };
        if self.order.len() == Self::MAX_GROUPS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(id);
        self.known.insert(id, found.clone());
        found
    }
}

/// Returns whether the lookup may succeed later: descriptors or memory ran out, or a signal came.
fn is_passing(error: &io::Error) -> bool {
    let passing = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EINTR];
    error.raw_os_error().is_some_and(|errno| passing.contains(&errno))
}

#[cfg(test)]
mod tests {
    use mcpmon_store::sample;

    use super::*;
    use crate::app::host;

    /// A number that no control group of this host has.
    const GROUP: u64 = u64::MAX - 9;

    /// Returns a describer whose root is not the root of a hierarchy of control groups.
    fn describer() -> Describer {
        Describer::new(File::open("/").expect("the root directory"))
    }

    fn exe(describer: &mut Describer, process: ProcessId) -> Option<PathBuf> {
        let mut event = sample::blocked_connection();
        let reference = event.process.as_mut()?;
        reference.exe = None;
        describer.describe(&mut event, process, None);
        event.process?.exe
    }

    #[test]
    fn another_program_is_looked_up_again() {
        let own = host::identify(std::process::id()).expect("own stat");
        let mut describer = describer();
        let before = Facts {
            exe: Some("/usr/bin/before".into()),
            container: None,
        };
        describer.latest.push_back((own, before));
        assert_eq!(exe(&mut describer, own), Some("/usr/bin/before".into()));
        describer.executed(own, GROUP);
        assert_eq!(exe(&mut describer, own), std::env::current_exe().ok());
    }

    #[test]
    fn a_container_is_named_after_it_has_ended() {
        let mut describer = describer();
        let gone = ProcessId {
            pid: u32::MAX,
            ..ProcessId::default()
        };
        let ended = ContainerRef {
            container_id: Some("3f1c".to_owned()),
            ..ContainerRef::default()
        };
        describer.containers.known.insert(GROUP, Some(ended.clone()));
        let mut named = |cgroup| {
            let mut event = sample::blocked_connection();
            event.container = None;
            describer.describe(&mut event, gone, cgroup);
            event.container
        };
        assert_eq!(named(Some(GROUP)), Some(ended));
        assert_eq!(named(Some(GROUP + 1)), None);
        assert_eq!(named(None), None);
    }

    #[test]
    fn a_look_that_may_do_better_next_time_is_not_remembered() {
        let is_passing = |errno| is_passing(&io::Error::from_raw_os_error(errno));
        assert!(is_passing(libc::EMFILE));
        assert!(!is_passing(libc::ESTALE), "it is gone");
        assert!(!is_passing(libc::EPERM), "it is always so");
    }

    #[test]
    fn so_many_groups_are_remembered() {
        let mut describer = describer();
        for group in 0..=Containers::MAX_GROUPS as u64 {
            describer.containers.of_group(group);
        }
        let containers = describer.containers;
        assert_eq!(containers.known.len(), Containers::MAX_GROUPS);
        assert_eq!(containers.order.len(), Containers::MAX_GROUPS);
        assert!(!containers.known.contains_key(&0));
    }
}
