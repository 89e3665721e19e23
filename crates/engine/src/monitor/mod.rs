//! The monitor: takes observations and returns judgements. It owns the compiled policy, the running servers and their
//! pins, takes the time as `now`, and does no I/O.

mod connections;
mod entry;
mod former;
mod holding;
mod killed;
mod launches;
mod observe;
mod orphans;
mod proxied;
mod refused_files;
mod second_look;
mod tracking;

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::OsStr,
    path::Path,
    sync::Arc,
};

use mcpmon_detect::launch::{LaunchRules, Stage};
use mcpmon_model::{
    Action, Connection, Event, Exec, Exit, Fork, InstanceId, Kills, PinKey, PinState, ProcessId, ServerId,
    SessionId, Timestamp,
};
use mcpmon_policy::{Gate, Policy, network::table::Tables};

pub(super) use connections::RepeatedCuts;
pub use connections::refused_by_now;
use entry::{candidate_age, is_build_tool};
pub use former::Former;
pub use holding::StartNames;
use launches::settle;
pub use observe::Observation;
use orphans::OrphanWatch;
pub use orphans::ServerClient;
pub use proxied::ProxiedSession;
use proxied::ProxiedSessions;
pub use tracking::all_of;

use super::{
    effect::{Judgement, KernelEffect},
    gated::LearnedNames,
    installers::InstallerRuns,
    instances::{Instance, Instances, Phase, ServingProcess},
    lineage::Lineage,
    loaders,
    own_names::permitting_id,
    pins::{
        AcceptanceGround, AddedSet, NewPins, PinBook, PinVerdict, PinnedFile, Pins, PinsFull, ServerFiles,
    },
    recognise::{launch_rules, pin_name},
    refused,
    rulebook::RuleBook,
    tell,
    traffic::Traffic,
    ways::ExecPaths,
};

/// Judges the observations of all layers.
#[derive(Debug)]
pub struct Monitor {
    policy: Arc<Policy>,
    launches: LaunchRules,
    rules: RuleBook,
    egress: BTreeMap<ServerId, u32>,
    instances: Instances,
    pins: PinBook,
    learned: LearnedNames,
    /// True if pins, names or the policy changed since the gated names were last queried.
    gated_changed: bool,
    /// Files of the servers refused most recently, kept for an approval.
    refused: VecDeque<(PinKey, Pins)>,
    attempts: u64,
    lineage: Lineage,
    ways: ExecPaths,
    installers: InstallerRuns,
    traffic: Traffic,
    kills: Kills,
    /// Sessions of running servers, if they are known.
    sessions: BTreeMap<InstanceId, SessionId>,
    proxied: ProxiedSessions,
    former: BTreeMap<InstanceId, Former>,
    orphans: OrphanWatch,
}

/// A running server, for status and listings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitoredServer {
    /// Its number.
    pub instance: InstanceId,
    /// Its name.
    pub server: ServerId,
    /// Package, module, image or program, as the launch named it.
    pub name: String,
    /// Real user id of the launch.
    pub uid: u32,
    /// The serving process; the launcher, if the serving one is not known yet.
    pub process: ProcessId,
    /// True if it serves already.
    pub serving: bool,
    /// Its processes.
    pub members: Vec<ProcessId>,
}

impl Monitor {
    /// Returns a monitor with the pins of earlier runs.
    pub fn new(policy: Arc<Policy>, tables: &Tables, pins: PinBook) -> Self {
        let mut monitor = Self {
            launches: launch_rules(&policy),
            traffic: Traffic::new(Arc::clone(&policy)),
            policy,
            rules: RuleBook::default(),
            egress: tables.egress.clone(),
            instances: Instances::default(),
            pins,
            learned: LearnedNames::default(),
            gated_changed: true,
            refused: VecDeque::new(),
            attempts: 0,
            lineage: Lineage::default(),
            ways: ExecPaths::default(),
            installers: InstallerRuns::default(),
            kills: Kills::default(),
            sessions: BTreeMap::new(),
            proxied: ProxiedSessions::default(),
            former: BTreeMap::new(),
            orphans: OrphanWatch::default(),
        };
        monitor.rules.replace(tables.rules.clone());
        monitor
    }

    /// The policy in force.
    pub const fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// Puts another policy in force, for running servers too.
    pub fn install(&mut self, now: Timestamp, policy: Arc<Policy>, tables: &Tables) -> Judgement {
        let mut judgement = Judgement::default();
        self.rules.replace(tables.rules.clone());
        let lists_changed = self.egress != tables.egress;
        self.egress = tables.egress.clone();
        self.gated_changed |= lists_changed;
        let policy_changed = !Arc::ptr_eq(&policy, &self.policy);
        if policy_changed {
            self.launches = launch_rules(&policy);
            self.policy = policy;
            self.gated_changed = true;
        }
        for number in self.instances.numbers() {
            let renamed = policy_changed && self.rename(number);
            if lists_changed || renamed {
                self.track_members(number, &mut judgement);
            }
            if policy_changed {
                self.deny(now, number, &mut judgement);
            }
        }
        judgement
    }

    /// Renames a running server if the policy now declares it under another name.
    fn rename(&mut self, number: InstanceId) -> bool {
        let Some(instance) = self.instances.get(number) else {
            return false;
        };
        let Some(launch) = self.recognise(&instance.argv, &instance.linked) else {
            return false;
        };
        let derived = self.tied(launch.server, instance.package.as_ref(), Some(&instance.server));
        let permitting = match launch.is_declared {
            true => derived.clone(),
            false => permitting_id(&self.policy, &derived, instance.package.as_ref()),
        };
        let Some(instance) = self.instances.get_mut(number) else {
            return false;
        };
        let renamed = derived != instance.derived;
        // A name that its wrapper was given stays.
        if instance.server == instance.derived {
            instance.server = derived.clone();
        }
        instance.permitting = permitting;
        instance.derived = derived;
        renamed
    }

    /// Forgets the pins of a server, for every package and user: its next start is judged as the first. Returns whether
    /// there were any, or files with which it was refused.
    pub fn forget_pins(&mut self, server: &ServerId) -> bool {
        let was_refused = self.refused.iter().any(|(key, _)| key.server == *server);
        self.gated_changed = true;
        self.pins.forget(server) || was_refused
    }

    /// Also accepts the files with which a server was last refused. Returns `None` if it was not refused.
    pub fn trust_refused(&mut self, server: &ServerId) -> Option<AddedSet> {
        let position = self.refused.iter().position(|(key, _)| key.server == *server)?;
        let (key, pins) = self.refused.remove(position)?;
        self.gated_changed = true;
        Some(self.pins.add(key, pins))
    }

    /// Accepts the file at a path as it is now, for every server that is pinned with another file at that path.
    pub fn trust_executable(&mut self, executable: &PinnedFile) -> Vec<AddedSet> {
        self.gated_changed = true;
        self.pins.add_executable(executable)
    }

    /// Returns the limits that are reached: nothing more is pinned without approval for these users, or on this host.
    pub fn without_room(&self) -> Vec<PinsFull> {
        self.pins.without_room()
    }

    /// Returns the running servers, by number.
    pub fn running(&self) -> impl Iterator<Item = MonitoredServer> {
        self.instances.iter().map(|(number, instance)| MonitoredServer {
            instance: number,
            server: instance.server.clone(),
            name: pin_name(instance.package.as_ref(), &instance.name),
            uid: instance.uid,
            process: instance
                .serving()
                .map_or(instance.launcher, |serving| serving.process),
            serving: matches!(instance.phase, Phase::Serving(_)),
            members: instance.members().iter().copied().collect(),
        })
    }

    /// Returns whether a server is still followed, that is, may have a live process.
    pub fn follows(&self, instance: InstanceId) -> bool {
        self.instances.get(instance).is_some()
    }

    /// Returns the server that a process belongs to.
    pub fn server_of(&self, process: ProcessId) -> Option<InstanceId> {
        self.instances.of(process)
    }

    /// Returns whether the server that a process belongs to, or belonged to when it ended, is held until its
    /// files are compared with its pins.
    pub fn holds(&self, process: ProcessId) -> bool {
        let is_of = |instance: &Instance, serving: &ServingProcess| {
            serving.process == process
                || instance.launcher == process
                || instance.members().contains(&process)
        };
        self.instances.iter().any(|(_, instance)| {
            matches!(&instance.phase, Phase::Hashing(serving, _) if serving.held && is_of(instance, serving))
        })
    }

    /// Notes the first message of a server to its wrapper: one of the candidates is the server, and need not live for
    /// some time to be recognised. Does nothing if there is no candidate yet.
    fn spoke(&mut self, now: Timestamp, process: ProcessId) -> Judgement {
        let mut judgement = Judgement::default();
        let number = self.instances.of(process);
        let Some((number, instance)) = number.and_then(|number| Some((number, self.instances.get(number)?)))
        else {
            return judgement;
        };
        let Phase::Starting(candidates) = &instance.phase else {
            return judgement;
        };
        let mut candidates = candidates.iter().chain(instance.childless_shell());
        if let Some(serving) = candidates.find(|candidate| !is_build_tool(candidate)).cloned() {
            self.serve(now, number, serving, &mut judgement);
        }
        judgement
    }

    /// Judges the start of a program.
    fn exec(&mut self, now: Timestamp, exec: &Exec) -> Judgement {
        self.installers.note(now, exec.uid, &exec.argv);
        let is_server = exec.loader && self.is_server_by_its_words(exec);
        let mut judgement = self.executed(now, &loaders::by_file(exec, is_server));
        self.let_go(exec, &mut judgement);
        judgement
    }

    fn executed(&mut self, now: Timestamp, exec: &Exec) -> Judgement {
        let known = exec
            .instance
            .filter(|number| self.instances.get(*number).is_some());
        // A child that was forked before the kernel knew its parent's server did not inherit it.
        let inherited = || {
            self.lineage
                .ancestry(exec.process)
                .chain([exec.parent])
                .find_map(|process| self.instances.of(process))
        };
        let number = known.or_else(inherited);
        let chain = self.ways.chain(exec);
        let launch = self.launch_of(exec, chain.as_ref());
        self.ways.executes(exec, chain.as_ref());
        if exec.killed {
            let own = number
                .or(exec.instance)
                .and_then(|number| self.server_named(number));
            let server = own.or_else(|| launch.as_ref().map(|launch| &launch.server));
            return Judgement {
                kernel_effects: vec![KernelEffect::KillProcess {
                    process: exec.process,
                    denial: refused::killed_denial(server),
                }],
                events: vec![refused::killed(now, server, exec)],
                ..Judgement::default()
            };
        }
        let mut judgement = match (number, launch) {
            (None, None) => {
                return Judgement {
                    kernel_effects: settle(exec),
                    ..Judgement::default()
                };
            }
            (None, Some(launch)) => return self.launched(now, exec, launch, None),
            (Some(number), launch) => self.within(now, number, exec, launch, chain.as_ref()),
        };
        if known.is_none()
            && let Some(number) = self.instances.of(exec.process)
        {
            judgement
                .kernel_effects
                .insert(0, self.track(exec.process, number));
        }
        judgement
    }

    /// Judges a fork by a process of a server, or by a process that is not judged yet.
    fn fork(&mut self, fork: Fork) -> Judgement {
        let mut judgement = Judgement::default();
        self.ways.forked(fork);
        match (fork.instance, self.instances.of(fork.parent)) {
            (Some(number), _) => self.instances.join(number, fork.process),
            (None, Some(number)) => {
                // The process forked before the kernel learned where it belongs.
                self.instances.join(number, fork.process);
                judgement.kernel_effects.push(self.track(fork.process, number));
            }
            (None, None) => self.lineage.note(fork.process, fork.parent),
        }
        judgement
    }

    /// Judges the end of a process of a server.
    fn exit(&mut self, now: Timestamp, mut exit: Exit) -> Judgement {
        let mut judgement = Judgement::default();
        self.ways.ended(exit.process);
        // The process may have ended before the kernel learned where it belongs.
        if let Some(number) = self.instances.of(exit.process) {
            exit.instance = number;
        }
        let Some(instance) = self.instances.get_mut(exit.instance) else {
            return judgement;
        };
        instance.end_candidate(now, exit, is_build_tool);
        let served = instance.served_below(exit);
        instance.shell.take_if(|shell| shell.process == exit.process);
        if let Some(shell) = &mut instance.shell {
            shell.since = now;
        }
        match &mut instance.phase {
            Phase::Hashing(serving, ended) if serving.process == exit.process => {
                *ended = Some(exit);
            }
            Phase::Serving(serving) if serving.process == exit.process => {
                let serving = serving.clone();
                judgement
                    .events
                    .push(tell::exited(now, instance, &serving, exit.status));
                instance.phase = Phase::Starting(Vec::new());
            }
            Phase::Starting(_) | Phase::Hashing(..) | Phase::Serving(_) => {}
        }
        if let Some((served, exit)) = served {
            self.serve_ended(now, served, exit, &mut judgement);
        }
        let made_first_pins = self
            .instances
            .get(exit.instance)
            .is_some_and(|instance| instance.pinned.is_some());
        self.instances.leave(exit.instance, exit.process);
        // From now on the kernel may compare what that launch could still have added to.
        self.gated_changed |= made_first_pins && self.instances.get(exit.instance).is_none();
        judgement
    }

    /// Returns at most `count` processes whose life the caller should check: the ends of most processes are not
    /// reported, and the capacity for what they executed is bounded.
    pub fn next_to_check(&mut self, count: usize) -> Vec<ProcessId> {
        self.ways.next_to_check(count)
    }

    /// Notes that a process has ended, of a server or not.
    fn ended(&mut self, now: Timestamp, process: ProcessId) -> Judgement {
        self.ways.ended(process);
        self.orphans.client_ended(now, process);
        Judgement::default()
    }

    /// Notes that time passed: candidates that lived long enough become the server.
    fn tick(&mut self, now: Timestamp) -> Judgement {
        let mut judgement = Judgement::default();
        self.end_long_holds(now, &mut judgement);
        self.look_again(now, &mut judgement);
        for number in self.instances.numbers() {
            let Some(instance) = self.instances.get_mut(number) else {
                continue;
            };
            let Phase::Starting(candidates) = &instance.phase else {
                continue;
            };
            let grown = candidates
                .iter()
                .chain(instance.childless_shell())
                .find(|candidate| now.since(candidate.since) >= candidate_age(candidate));
            if let Some(serving) = grown.cloned() {
                self.serve(now, number, serving, &mut judgement);
            }
        }
        self.judge_orphans(now, &mut judgement);
        judgement
    }

    /// Compares the hashed files of a serving process with its pins; `environment` are names of its variables.
    fn hashed(
        &mut self,
        now: Timestamp,
        number: InstanceId,
        attempt: u64,
        files: ServerFiles,
        environment: Vec<String>,
    ) -> Judgement {
        if self.is_second_look(number, attempt) {
            return self.looked_again(now, number, files);
        }
        let mut judgement = Judgement::default();
        let Some(instance) = self.instances.get_mut(number) else {
            return judgement;
        };
        let Phase::Hashing(serving, ended) = &instance.phase else {
            return judgement;
        };
        if serving.attempt != attempt {
            return judgement; // the process has become another program since
        }
        let (serving, ended) = (serving.clone(), *ended);
        let key = instance.pin_key(&serving);
        let mut accepted = self.pins.accepted(&key);
        // Trust on first use covers all that the first launch starts, for example an install script before the server.
        if instance.pinned.as_ref() == Some(&key) {
            accepted = accepted.for_first_launch();
        }
        let pinning = self.policy.file_pinning(&instance.server, &instance.derived);
        let mode = self.policy.mode;
        let mut verdict = self.pins.compare(&key, accepted, files.clone(), pinning, mode);
        if ended.is_some() {
            verdict = verdict.for_ended();
        }
        verdict.installer = self.installers.explain(now, serving.uid, &verdict, &files);
        if verdict.action == Action::Block && self.policy.exec.gate == Gate::Off {
            verdict.action = Action::Audit;
        }
        judgement.events.push(tell::started(
            now,
            instance,
            &serving,
            &files,
            environment,
            &verdict,
        ));
        judgement
            .events
            .extend(tell::mismatches(now, instance, &serving, &verdict));
        instance.phase = Phase::Serving(serving.clone());
        if verdict.action == Action::Block || verdict.awaits_approval() {
            self.remember_refused(&key, files);
        }
        if verdict.action != Action::Block {
            self.let_run(now, number, &serving);
        }
        self.enforce_pins(now, number, &key, &serving, verdict, &mut judgement);
        if let Some(exit) = ended {
            let told = self.exit(now, exit);
            judgement.events.extend(told.events);
            judgement.kernel_effects.extend(told.kernel_effects);
        }
        judgement
    }

    /// Returns the event about a requested connection, which the kernel has decided.
    fn connection(&self, now: Timestamp, connection: &Connection) -> Event {
        let rule = connection.rule.and_then(|number| self.rules.get(number));
        let own = connection.instance.and_then(|number| self.server_named(number));
        let mut event = tell::connection(now, connection, rule, own, &self.policy);
        // A connection to a declared server is about that one.
        event.package = own
            .filter(|own| event.server_id.as_ref() == Some(*own))
            .and_then(|_| self.package_of(connection.instance?))
            .cloned();
        event.session_id = self.session_of(connection);
        event
    }

    fn enforce_pins(
        &mut self,
        now: Timestamp,
        number: InstanceId,
        key: &PinKey,
        serving: &ServingProcess,
        mut verdict: PinVerdict,
        judgement: &mut Judgement,
    ) {
        let server = &key.server;
        if let Some(NewPins { pins, ground }) = verdict.store.take() {
            let added = self.pins.add(key.clone(), pins);
            self.gated_changed = true;
            judgement
                .kernel_effects
                .push(KernelEffect::StorePins { added, ground });
            if ground == AcceptanceGround::FirstUse
                && let Some(instance) = self.instances.get_mut(number)
            {
                instance.pinned = Some(key.clone());
            }
        }
        if matches!(verdict.state, PinState::Match | PinState::Pinned) && self.learned.learn(key, serving) {
            self.gated_changed = true;
        }
        if verdict.action == Action::Block {
            if let Some(instance) = self.instances.get(number) {
                judgement
                    .events
                    .push(tell::denied_by_pin(now, instance, serving, &verdict));
            }
            judgement.kernel_effects.push(KernelEffect::Kill {
                instance: number,
                denial: verdict.denial(server),
            });
            if self
                .instances
                .get(number)
                .is_some_and(|instance| is_refusable(instance, serving, &verdict))
            {
                judgement.kernel_effects.push(KernelEffect::Refuse {
                    server: server.clone(),
                    file: serving.file,
                });
            }
        }
        if serving.held {
            judgement.kernel_effects.push(KernelEffect::Release {
                process: serving.process,
            });
        }
    }
}

/// Returns whether the changed executable may be refused to the whole host: it must be the server's own
/// program, and neither a shell or interpreter that carries a server's name nor a file that has another name
/// too.
fn is_refusable(instance: &Instance, serving: &ServingProcess, verdict: &PinVerdict) -> bool {
    let Some(file) = verdict
        .executable_changed_in_place()
        .and_then(Path::file_name)
        .and_then(OsStr::to_str)
    else {
        return false;
    };
    let recognised = instance.argv.first().and_then(|name| name.rsplit('/').next());
    // A user can mount any file over a path in its own mount namespace, but cannot become the owner of another user's
    // file.
    let is_own = serving.owner == Some(serving.uid);
    serving.stage == Stage::Program && serving.links == 1 && is_own && recognised == Some(file)
}

#[cfg(test)]
mod tests;
