//! Running servers: from the recognised launch to the process that serves, and to its end.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    time::Duration,
};

use crate::{gated::last_component, monitor::Former, recognise::pin_name};
use mcpmon_detect::launch::{LaunchRules, Stage};
use mcpmon_model::{Exec, Exit, FileId, InstanceId, Package, PinKey, ProcessId, ServerId, Timestamp};
use mcpmon_policy::ServerNames;

/// A server that was launched.
#[derive(Debug)]
pub(super) struct Instance {
    /// The server: the id that its wrapper was given, else the derived one.
    pub(super) server: ServerId,
    /// The id that is derived from its launch.
    pub(super) derived: ServerId,
    /// The id by which a list permits it: the same, unless that is the id of declarations of other packages.
    pub(super) permitting: ServerId,
    /// Package, module, image or program, as the launch named it.
    pub(super) name: String,
    /// The package of its program, if it is known.
    pub(super) package: Option<Package>,
    /// Pattern that recognised it.
    pub(super) pattern: String,
    /// Servers in whose process trees it runs, the outermost first: their egress lists apply to it too.
    pub(super) inside: Vec<ServerId>,
    /// Real user id of the launch.
    pub(super) uid: u32,
    /// First process of the launch.
    pub(super) launcher: ProcessId,
    /// Arguments of the launch.
    pub(super) argv: Vec<String>,
    /// The same, with links into installed packages resolved; empty if there are none.
    pub(super) linked: Vec<String>,
    /// Live processes, as far as they were seen; only [`Instances`] changes them.
    members: BTreeSet<ProcessId>,
    /// True if any process but the first has ever belonged to it.
    has_forked: bool,
    /// A shell that the launch names, and that serves unless it starts or becomes something else. Its age counts from the
    /// latest end of another process of the server.
    pub(super) shell: Option<ServingProcess>,
    /// The candidate that lived longest, of those that have ended, and its lifetime.
    pub(super) ended_candidate: Option<EndedCandidate>,
    /// The owner of the pins, if this launch made the first ones.
    pub(super) pinned: Option<PinKey>,
    /// The second comparison of a process that was held for the first one.
    pub(super) second_look: Option<SecondLook>,
    /// The phase of the launch.
    pub(super) phase: Phase,
}

/// A comparison that is made again when the server has run for a while.
#[derive(Debug)]
pub(super) struct SecondLook {
    /// The process that was compared.
    pub(super) process: ProcessId,
    /// Files that were executed before it, by process; `None` if they are not known.
    pub(super) launcher: Option<Vec<Vec<String>>>,
    /// The time at which it was released.
    pub(super) let_go: Option<Timestamp>,
    /// Number of comparisons ordered since then.
    pub(super) ordered: usize,
    /// Number of the hash that was ordered last; 0 if none is pending.
    pub(super) attempt: u64,
}

/// A process that may have been the server, and has ended.
#[derive(Clone, Debug)]
pub(super) struct EndedCandidate {
    pub(super) serving: ServingProcess,
    pub(super) exit: Exit,
    pub(super) lived: Duration,
}

/// The phase of a launch.
#[derive(Debug)]
pub(super) enum Phase {
    /// The process that serves is not known yet; these live and may be it, the oldest first.
    Starting(Vec<ServingProcess>),
    /// Its files are being hashed. If the process has ended, its end is reported after the result.
    Hashing(ServingProcess, Option<Exit>),
    /// The process serves.
    Serving(ServingProcess),
}

/// The process that serves.
#[derive(Clone, Debug)]
pub(super) struct ServingProcess {
    pub(super) process: ProcessId,
    pub(super) comm: String,
    /// The name of its program, in full: what a dynamic loader was told to run, else what was executed.
    pub(super) program: String,
    pub(super) uid: u32,
    pub(super) stage: Stage,
    /// The program that a dynamic loader was told to run.
    pub(super) loaded: Option<String>,
    pub(super) file: FileId,
    /// Number of hard links to that file; 0 if unknown.
    pub(super) links: u32,
    pub(super) owner: Option<u32>,
    /// The time from which the process exists, and may be the server.
    pub(super) since: Timestamp,
    /// The time at which it began to run this program.
    pub(super) executed: Timestamp,
    pub(super) held: bool,
    /// The kernel found the digest of its file among the accepted ones, and did not stop it.
    pub(super) verified: bool,
    /// Number of the hash that was ordered for it.
    pub(super) attempt: u64,
    /// The time of that order.
    pub(super) ordered: Timestamp,
}

/// The name of the program that an exec started. The kernel cuts command names, and not the path that it was given.
fn program_name<'e>(exec: &'e Exec, loaded: Option<&'e str>) -> &'e str {
    let executed = last_component(&exec.filename);
    let is_whole = !exec.comm.is_empty() && executed.starts_with(&exec.comm);
    let executed = if is_whole { executed } else { &exec.comm };
    loaded.map_or(executed, last_component)
}

impl ServingProcess {
    pub(super) fn new(exec: &Exec, stage: Stage, since: Timestamp) -> Self {
        let loaded = LaunchRules::loaded_program(&exec.argv);
        Self {
            process: exec.process,
            comm: exec.comm.clone(),
            program: program_name(exec, loaded).to_owned(),
            uid: exec.uid,
            stage,
            loaded: loaded.map(str::to_owned),
            file: exec.file,
            links: exec.links,
            owner: exec.owner,
            since,
            executed: since,
            held: false,
            verified: exec.verified,
            attempt: 0,
            ordered: since,
        }
    }

    pub(super) const fn is_shell(&self) -> bool {
        matches!(self.stage, Stage::Shell { .. })
    }
}

impl Instance {
    pub(super) fn new(
        server: ServerId,
        name: String,
        package: Option<Package>,
        pattern: String,
        inside: Vec<ServerId>,
        exec: &Exec,
    ) -> Self {
        Self {
            package,
            inside,
            uid: exec.uid,
            derived: server.clone(),
            permitting: server.clone(),
            server,
            name,
            pattern,
            launcher: exec.process,
            argv: exec.argv.clone(),
            linked: exec.linked.clone(),
            members: BTreeSet::new(),
            has_forked: false,
            shell: None,
            ended_candidate: None,
            pinned: None,
            second_look: None,
            phase: Phase::Starting(Vec::new()),
        }
    }

    /// Returns an instance that an earlier monitor followed; its launch is no longer known.
    pub(super) fn restored(former: Former, launcher: ProcessId) -> Self {
        Self {
            package: former.package,
            inside: former.inside,
            uid: former.uid,
            permitting: former.derived.clone().unwrap_or_else(|| former.server.clone()),
            derived: former.derived.unwrap_or_else(|| former.server.clone()),
            server: former.server,
            name: former.name,
            pattern: String::new(),
            launcher,
            argv: Vec::new(),
            linked: Vec::new(),
            members: BTreeSet::new(),
            has_forked: true,
            shell: None,
            ended_candidate: None,
            pinned: None,
            second_look: None,
            phase: Phase::Starting(Vec::new()),
        }
    }

    /// Returns its names.
    pub(super) const fn names(&self) -> ServerNames<'_> {
        ServerNames {
            given: &self.server,
            derived: &self.derived,
            permitting: &self.permitting,
            package: self.package.as_ref(),
        }
    }

    pub(super) const fn members(&self) -> &BTreeSet<ProcessId> {
        &self.members
    }

    /// Notes a process that may be the server. A process that executes again keeps its age: otherwise a server could
    /// stay young for ever by executing programs.
    pub(super) fn propose(&mut self, proposed: ServingProcess) {
        let Phase::Starting(candidates) = &mut self.phase else {
            return;
        };
        match candidates
            .iter_mut()
            .find(|candidate| candidate.process == proposed.process)
        {
            Some(candidate) => {
                let since = candidate.since;
                *candidate = ServingProcess { since, ..proposed };
            }
            None => candidates.push(proposed),
        }
    }

    /// Returns the shell that the launch names, if it has no child: every other live process is older than it.
    pub(super) fn childless_shell(&self) -> Option<&ServingProcess> {
        let shell = self.shell.as_ref()?;
        let is_no_child = |member: &ProcessId| *member == shell.process || member.start < shell.process.start;
        self.members.iter().all(is_no_child).then_some(shell)
    }

    /// Returns the process that served, if `process` is the shell that the launch names and no other
    /// candidate is left: the shell itself if nothing was ever started below it, else the longest-lived
    /// process that it started.
    pub(super) fn served_below(&self, exit: Exit) -> Option<(ServingProcess, Exit)> {
        let shell = self
            .shell
            .as_ref()
            .filter(|shell| shell.process == exit.process)?;
        match (&self.phase, &self.ended_candidate) {
            (Phase::Starting(_), _) if !self.has_forked => Some((shell.clone(), exit)),
            (Phase::Starting(candidates), Some(ended)) if candidates.is_empty() => {
                Some((ended.serving.clone(), ended.exit))
            }
            (Phase::Starting(_) | Phase::Hashing(..) | Phase::Serving(_), _) => None,
        }
    }

    /// Notes the end of a process that may have been the server. A process that `is_build_tool` was not the server.
    pub(super) fn end_candidate(
        &mut self,
        now: Timestamp,
        exit: Exit,
        is_build_tool: fn(&ServingProcess) -> bool,
    ) {
        let Phase::Starting(candidates) = &mut self.phase else {
            return;
        };
        let Some(position) = candidates
            .iter()
            .position(|candidate| candidate.process == exit.process)
        else {
            return;
        };
        let serving = candidates.remove(position);
        let lived = now.since(serving.since);
        let is_longest = self
            .ended_candidate
            .as_ref()
            .is_none_or(|ended| ended.lived <= lived);
        if is_longest && !is_build_tool(&serving) {
            self.ended_candidate = Some(EndedCandidate { serving, exit, lived });
        }
    }

    /// Notes that a process executes something: if it was the shell that the launch names, it is that shell no longer,
    /// and no longer serves.
    pub(super) fn leave_shell(&mut self, process: ProcessId) {
        self.shell.take_if(|shell| shell.process == process);
        let served = |serving: &ServingProcess| serving.process == process && serving.is_shell();
        if self.serving().is_some_and(served) {
            self.phase = Phase::Starting(Vec::new());
        }
    }

    /// Returns the owner of this server's pins while `serving` serves.
    pub(super) fn pin_key(&self, serving: &ServingProcess) -> PinKey {
        PinKey {
            server: self.server.clone(),
            name: pin_name(self.package.as_ref(), &self.name),
            uid: serving.uid,
        }
    }

    /// Returns the serving process, if it is known.
    pub(super) const fn serving(&self) -> Option<&ServingProcess> {
        match &self.phase {
            Phase::Starting(_) => None,
            Phase::Hashing(serving, _) | Phase::Serving(serving) => Some(serving),
        }
    }
}

/// All running servers.
#[derive(Debug, Default)]
pub(super) struct Instances {
    last: u32,
    running: BTreeMap<InstanceId, Instance>,
    /// Number of servers by user.
    of_user: BTreeMap<u32, usize>,
    /// Users who run so many servers that the next ones may be too many.
    crowded: BTreeSet<u32>,
    /// A user has become crowded, or is so no longer.
    crowding_changed: bool,
    by_process: BTreeMap<ProcessId, InstanceId>,
}

/// Most servers of one user at a time, so that one user's launches leave room for those of others.
pub(super) const MAX_INSTANCES: usize = 1024;
/// Servers of one user from which on the next ones may be too many before the kernel knows their number.
pub(super) const CROWDED: usize = MAX_INSTANCES - 64;
/// A crowded user is so until it runs fewer: at each change the kernel's tables are filled anew, and one who starts and ends
/// the same server must not change it each time.
const CALM: usize = CROWDED - 64;

impl Instances {
    /// Sets the number after which new servers are numbered.
    pub(super) fn number_from(&mut self, last: InstanceId) {
        self.last = self.last.max(last.0);
    }

    /// Adds an instance under its earlier number. Returns false if the number is taken.
    pub(super) fn restore(&mut self, number: InstanceId, instance: Instance) -> bool {
        let uid = instance.uid;
        let Entry::Vacant(vacant) = self.running.entry(number) else {
            return false;
        };
        vacant.insert(instance);
        self.note_one_of(uid);
        true
    }

    /// Adds a launch. Returns `None` if its user has too many.
    pub(super) fn add(&mut self, instance: Instance) -> Option<InstanceId> {
        if self.number_of(instance.uid) >= MAX_INSTANCES {
            return None;
        }
        self.note_one_of(instance.uid);
        // Numbers of running servers are skipped after an overflow; there are far fewer than numbers.
        loop {
            self.last = self.last.checked_add(1).unwrap_or(1);
            let number = InstanceId(self.last);
            if let Entry::Vacant(vacant) = self.running.entry(number) {
                vacant.insert(instance);
                return Some(number);
            }
        }
    }

    pub(super) fn get(&self, number: InstanceId) -> Option<&Instance> {
        self.running.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: InstanceId) -> Option<&mut Instance> {
        self.running.get_mut(&number)
    }

    /// Returns the server that a process belongs to.
    pub(super) fn of(&self, process: ProcessId) -> Option<InstanceId> {
        self.by_process.get(&process).copied()
    }

    /// Notes that a process belongs to a server, and no longer to its former server. Does nothing if the server is not
    /// followed.
    pub(super) fn join(&mut self, number: InstanceId, process: ProcessId) {
        if !self.running.contains_key(&number) {
            return;
        }
        if let Some(before) = self
            .by_process
            .insert(process, number)
            .filter(|before| *before != number)
        {
            self.part(before, process);
        }
        if let Some(instance) = self.running.get_mut(&number) {
            instance.has_forked |= process != instance.launcher;
            instance.members.insert(process);
        }
    }

    /// Notes that a process ended; a server without processes is forgotten.
    pub(super) fn leave(&mut self, number: InstanceId, process: ProcessId) {
        self.by_process.remove(&process);
        self.part(number, process);
    }

    fn part(&mut self, number: InstanceId, process: ProcessId) {
        let Some(instance) = self.running.get_mut(&number) else {
            return;
        };
        instance.members.remove(&process);
        if instance.members.is_empty() && !matches!(instance.phase, Phase::Hashing(..)) {
            let uid = instance.uid;
            self.running.remove(&number);
            self.forget_one_of(uid);
        }
    }

    fn number_of(&self, uid: u32) -> usize {
        self.of_user.get(&uid).copied().unwrap_or_default()
    }

    /// Returns whether this user runs so many servers that the next ones may be too many.
    pub(super) fn is_crowded(&self, uid: u32) -> bool {
        self.crowded.contains(&uid)
    }

    /// Returns whether that changed for any user since the last call.
    pub(super) fn take_crowding_changed(&mut self) -> bool {
        std::mem::take(&mut self.crowding_changed)
    }

    fn note_one_of(&mut self, uid: u32) {
        let count = self.of_user.entry(uid).or_default();
        *count += 1;
        if *count >= CROWDED {
            self.crowding_changed |= self.crowded.insert(uid);
        }
    }

    fn forget_one_of(&mut self, uid: u32) {
        if let Entry::Occupied(mut count) = self.of_user.entry(uid) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        if self.number_of(uid) < CALM {
            self.crowding_changed |= self.crowded.remove(&uid);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (InstanceId, &Instance)> {
        self.running.iter().map(|(number, instance)| (*number, instance))
    }

    pub(super) fn numbers(&self) -> Vec<InstanceId> {
        self.running.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_more_or_less_changes_crowding_once() {
        let mut instances = Instances::default();
        let mut after = |count: usize| {
            while instances.number_of(7) < count {
                instances.note_one_of(7);
            }
            while instances.number_of(7) > count {
                instances.forget_one_of(7);
            }
            (instances.is_crowded(7), instances.take_crowding_changed())
        };
        assert_eq!(after(959), (false, false));
        assert_eq!(after(960), (true, true));
        for count in [959, 960, 1024, 960, 959, 896] {
            assert_eq!(after(count), (true, false), "{count}");
        }
        assert_eq!(after(895), (false, true));
        for count in [896, 895, 959, 0] {
            assert_eq!(after(count), (false, false), "{count}");
        }
        assert_eq!(after(960), (true, true));
        assert_eq!(after(0), (false, true));
        assert!(!instances.is_crowded(8));
    }
}
