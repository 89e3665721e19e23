//! Launches: servers that an exec starts, and the process of a launch that serves.

use std::path::Path;

use mcpmon_detect::launch::{Launch, LaunchRules, Stage};
use mcpmon_model::{Action, Exec, Exit, InstanceId, Package, PackageKind, PinKey, ServerId, Timestamp};
use mcpmon_policy::{Admission, Gate, Mode};

use super::{Monitor, entry::is_installed_entry};
use crate::{
    chain::{ScriptChain, shortened},
    effect::{FileWatch, Judgement, KernelEffect},
    instances::{Instance, MAX_INSTANCES, Phase, SecondLook, ServingProcess},
    loaders,
    own_names::{permitting_id, tied_to},
    recognise::{recognise_linked, started_by_wrapper},
    tell,
};

/// Endings of scripts that are no commands of an installed package.
const SCRIPT_ENDINGS: [&str; 8] = ["py", "pyw", "js", "mjs", "cjs", "ts", "sh", "rb"];
/// Most ids of enclosing servers that are remembered for a server, two for each.
const MAX_NESTING: usize = 16;

impl Monitor {
    pub(super) fn recognise(&self, argv: &[String], linked: &[String]) -> Option<Launch> {
        recognise_linked(&self.policy, &self.launches, argv, linked)
    }

    /// Returns the server that an exec starts: by its arguments, or by the report of the wrapper that started it. A
    /// wrapper is no process of its server, so neither it nor a command that leads to it is a start.
    pub(super) fn launch_of(&self, exec: &Exec, chain: Option<&ScriptChain>) -> Option<Launch> {
        // The words of a command prove nothing against the claim of a verified wrapper.
        let is_claimed = exec.wrapped_as.is_some();
        if exec.is_wrapper || !is_claimed && LaunchRules::leads_to_wrapper(&exec.argv) {
            return None;
        }
        let short = chain.map(|chain| chain.shortened(exec));
        let by_chain = short.and_then(|short| self.recognise(&short.argv, &short.linked));
        let by_wrapper = || {
            let server = exec.wrapped_as.as_ref()?;
            Some(started_by_wrapper(server, &exec.argv))
        };
        let by_arguments = || self.recognise(&exec.argv, &exec.linked);
        let is_by_chain = by_chain.is_some();
        let launch = by_chain.or_else(by_arguments).or_else(by_wrapper)?;
        // The wrapper has the whole command; this process may be a shim of an interpreter. Files are more exact than arguments.
        let claimed = exec.wrapped_as.as_ref().and_then(PinKey::package);
        let by_files = exec.package.clone().filter(|_| !is_by_chain);
        let proved = claimed.or(by_files);
        let given = exec.wrapped_as.as_ref().map(|key| &key.server);
        let given = given.or(exec.wrapper_id.as_ref());
        let package = proved.clone().or_else(|| launch.package.clone());
        let server = self.tied(launch.server, package.as_ref(), given);
        let certain = proved.or_else(|| launch.package.filter(is_certain));
        let permitting = permitting_id(&self.policy, &server, certain.as_ref());
        Some(Launch {
            permitting: Some(permitting).filter(|permitting| !launch.is_declared && *permitting != server),
            server,
            package,
            ..launch
        })
    }

    /// Returns the id of the declaration of a package, if `derived` is not that of a declaration itself.
    pub(super) fn tied(
        &self,
        derived: ServerId,
        package: Option<&Package>,
        given: Option<&ServerId>,
    ) -> ServerId {
        if self.policy.servers.iter().any(|server| server.id == derived) {
            return derived;
        }
        let tied = package.and_then(|package| tied_to(&self.policy, package, given));
        tied.cloned().unwrap_or(derived)
    }

    /// Returns the id of the server that an exec starts: the one that its wrapper was given, else `derived`.
    fn server_id(exec: &Exec, derived: &ServerId) -> ServerId {
        let claimed = exec.wrapped_as.as_ref().map(|key| &key.server);
        claimed.or(exec.wrapper_id.as_ref()).unwrap_or(derived).clone()
    }

    /// Returns whether the words of a command make it a server, whatever its program is. A launcher waits for what it
    /// starts, so it is one only if what it would load as a loader is no server.
    pub(super) fn is_server_by_its_words(&self, exec: &Exec) -> bool {
        let stage = |exec: &Exec| {
            let launch = self.launch_of(exec, self.ways.chain(exec).as_ref());
            launch.map(|launch| launch.stage)
        };
        match stage(exec) {
            None => false,
            Some(Stage::Launcher | Stage::Shell { script: None }) => {
                stage(&loaders::by_file(exec, false)).is_none()
            }
            Some(_) => true,
        }
    }

    pub(super) fn launched(
        &mut self,
        now: Timestamp,
        exec: &Exec,
        launch: Launch,
        outer: Option<InstanceId>,
    ) -> Judgement {
        let mut judgement = Judgement::default();
        let Launch {
            server,
            stage,
            pattern,
            name,
            package,
            is_declared: _,
            permitting,
        } = launch;
        let inside = self.inside(outer);
        let derived = server;
        let server = Self::server_id(exec, &derived);
        let mut instance = Instance::new(server.clone(), name, package, pattern, inside, exec);
        instance.permitting = permitting.unwrap_or_else(|| derived.clone());
        instance.derived = derived;
        let is_denied = self.policy.server_policy.denies_named(instance.names());
        let Some(number) = self.instances.add(instance) else {
            return self.too_many(now, exec, &server, is_denied);
        };
        self.instances.join(number, exec.process);
        self.track_members(number, &mut judgement);
        judgement.kernel_effects.push(KernelEffect::MarkStarter {
            process: exec.parent,
            instance: number,
        });
        self.deny(now, number, &mut judgement);
        let serving = ServingProcess::new(exec, stage, now);
        match serving.stage {
            Stage::Launcher => {}
            Stage::Shell { .. } => {
                if let Some(instance) = self.instances.get_mut(number) {
                    instance.shell = Some(serving);
                }
            }
            Stage::Script { .. }
            | Stage::Module { .. }
            | Stage::Program
            | Stage::Container { .. }
            | Stage::Inline => self.serve(now, number, serving, &mut judgement),
        }
        judgement
    }

    /// Stops a server that the server policy denies.
    pub(super) fn deny(&self, now: Timestamp, number: InstanceId, judgement: &mut Judgement) {
        let Some(instance) = self.instances.get(number) else {
            return;
        };
        if !self.policy.server_policy.denies_named(instance.names()) {
            return;
        }
        let Some(denial) = Admission::Denied.denial_named(instance.names()) else {
            return;
        };
        let mut event = tell::denied_by_policy(now, instance);
        match self.policy.mode {
            Mode::Enforce => {
                event.action = Action::Block;
                judgement.kernel_effects.push(KernelEffect::Kill {
                    instance: number,
                    denial,
                });
            }
            Mode::Observe => event.action = Action::WouldBlock,
        }
        judgement.events.push(event);
    }

    /// Returns the servers that enclose one started from within `outer`.
    pub(super) fn inside(&self, outer: Option<InstanceId>) -> Vec<ServerId> {
        let Some(outer) = outer.and_then(|number| self.instances.get(number)) else {
            return Vec::new();
        };
        let named = (outer.server != outer.derived).then_some(&outer.server);
        let around = outer.inside.iter().chain([&outer.derived]).chain(named);
        around.take(MAX_NESTING).cloned().collect()
    }

    /// Judges a launch that is not followed, because its user has too many: every egress list still applies to it, and
    /// it is killed if the policy could refuse its start.
    fn too_many(&self, now: Timestamp, exec: &Exec, server: &ServerId, is_denied: bool) -> Judgement {
        let mut judgement = Judgement::default();
        let refused = is_denied || self.may_block_starts();
        let mut event = tell::too_many(now, server, exec, MAX_INSTANCES);
        if refused && self.policy.mode == Mode::Enforce {
            event.action = Action::Block;
            judgement.kernel_effects.push(KernelEffect::KillProcess {
                process: exec.process,
                denial: tell::too_many_denial(exec.uid, MAX_INSTANCES),
            });
        }
        judgement.events.push(event);
        judgement
    }

    /// Returns whether a start can be refused because of its files.
    pub(super) fn may_block_starts(&self) -> bool {
        self.policy.can_block_starts()
            && self.policy.mode == Mode::Enforce
            && self.policy.exec.gate == Gate::Auto
    }

    /// Judges an exec inside a server's process tree.
    pub(super) fn within(
        &mut self,
        now: Timestamp,
        number: InstanceId,
        exec: &Exec,
        launch: Option<Launch>,
        chain: Option<&ScriptChain>,
    ) -> Judgement {
        let mut judgement = Judgement {
            kernel_effects: settle(exec),
            ..Judgement::default()
        };
        self.instances.join(number, exec.process);
        let launch = match launch {
            Some(launch) if self.is_another(number, exec, &launch) => {
                // A server that starts another one: the other is followed as a server of its own.
                let nested = self.launched(now, exec, launch, Some(number));
                judgement.events.extend(nested.events);
                judgement.kernel_effects.extend(nested.kernel_effects);
                return judgement;
            }
            own => own,
        };
        let Some(instance) = self.instances.get_mut(number) else {
            return judgement;
        };
        let stage = launch.as_ref().map_or_else(
            || LaunchRules::stage(&shortened(exec, chain).argv),
            |launch| launch.stage.clone(),
        );
        instance.leave_shell(exec.process);
        let is_installed = is_installed_entry(&stage, &instance.name);
        match stage {
            Stage::Launcher => return judgement,
            // Package managers probe interpreters with inline code before they start the server; a server that is declared by its
            // code may come from a shim of its interpreter.
            Stage::Inline if launch.is_none() => return judgement,
            Stage::Shell { .. } => {
                if launch.is_some() || is_installed {
                    instance
                        .shell
                        .get_or_insert_with(|| ServingProcess::new(exec, stage, now));
                }
                return judgement;
            }
            Stage::Script { .. }
            | Stage::Module { .. }
            | Stage::Program
            | Stage::Container { .. }
            | Stage::Inline => {}
        }
        // A shell serves only until it starts the program that serves.
        let serving = instance.serving().filter(|serving| !serving.is_shell());
        let replaces = serving.is_some_and(|serving| serving.process == exec.process);
        match (serving, launch) {
            (Some(_), _) if replaces => {
                self.serve(now, number, ServingProcess::new(exec, stage, now), &mut judgement)
            }
            (Some(_), _) => {}
            // A server under another name than the launcher's: `npx @scope/thing` starts `thing-mcp`.
            (None, Some(_)) => self.serve(now, number, ServingProcess::new(exec, stage, now), &mut judgement),
            (None, None) if is_installed => {
                self.serve(now, number, ServingProcess::new(exec, stage, now), &mut judgement);
            }
            (None, None) => instance.propose(ServingProcess::new(exec, stage, now)),
        }
        judgement
    }

    /// Returns whether a launch within an instance is that of another server. Before the instance begins to serve, only
    /// a server that the policy declares or denies by name counts as another: a package often starts its server under
    /// another name.
    fn is_another(&self, number: InstanceId, exec: &Exec, launch: &Launch) -> bool {
        let Some(instance) = self.instances.get(number) else {
            return false;
        };
        let own = [&instance.server, &instance.derived];
        if own.contains(&&launch.server) || launch.name == instance.name {
            return false;
        }
        match instance.serving().filter(|serving| !serving.is_shell()) {
            Some(serving) => serving.process != exec.process,
            None => {
                let is_declared = self
                    .policy
                    .servers
                    .iter()
                    .any(|server| server.id == launch.server);
                is_declared || self.policy.server_policy.names_denied(&launch.server)
            }
        }
    }

    /// Notes that `serving` is the process that serves, and orders its files hashed; it is held meanwhile if a
    /// difference would block.
    pub(super) fn serve(
        &mut self,
        now: Timestamp,
        number: InstanceId,
        mut serving: ServingProcess,
        judgement: &mut Judgement,
    ) {
        let can_block = self.may_block_starts();
        let Some(instance) = self.instances.get_mut(number) else {
            return;
        };
        if let Phase::Hashing(before, _) = &instance.phase
            && before.held
            && before.process != serving.process
        {
            judgement.kernel_effects.push(KernelEffect::Release {
                process: before.process,
            });
        }
        let launcher = self
            .ways
            .before(instance.launcher, serving.process, &serving.stage)
            .ok();
        if launcher.is_none() {
            judgement
                .events
                .push(tell::way_forgotten(now, instance, &serving));
        }
        let key = instance.pin_key(&serving);
        // What the kernel compared needs no stop, if there is nothing else to compare.
        let is_direct = launcher.as_ref().is_some_and(Vec::is_empty);
        let is_compared = serving.verified && is_direct && self.pins.is_program_alone(&key);
        let is_known = self.pins.knows(&key);
        let must_match = is_known || !self.policy.pinning.auto_trust_first;
        serving.held = can_block && must_match && !is_compared;
        if serving.held {
            judgement.kernel_effects.push(KernelEffect::Hold {
                process: serving.process,
            });
        }
        instance.second_look = serving.held.then(|| SecondLook::new(&serving, launcher.clone()));
        self.attempts += 1;
        serving.attempt = self.attempts;
        serving.ordered = now;
        judgement.kernel_effects.push(KernelEffect::Hash {
            instance: number,
            process: serving.process,
            launcher,
            uid: serving.uid,
            attempt: serving.attempt,
            stage: serving.stage.clone(),
            loaded: serving.loaded.clone(),
            since: serving.executed,
            watch: match serving.held {
                true => FileWatch::UntilStarted,
                false => FileWatch::None,
            },
        });
        instance.phase = Phase::Hashing(serving, None);
    }

    /// Notes that `serving` was the server and has ended, so that it cannot be held.
    pub(super) fn serve_ended(
        &mut self,
        now: Timestamp,
        serving: ServingProcess,
        exit: Exit,
        judgement: &mut Judgement,
    ) {
        let process = serving.process;
        self.serve(now, exit.instance, serving, judgement);
        judgement
            .kernel_effects
            .retain(|order| !matches!(order, KernelEffect::Hold { process: held } if *held == process));
        let instance = self.instances.get_mut(exit.instance);
        if let Some(Phase::Hashing(serving, ended)) = instance.map(|instance| &mut instance.phase) {
            serving.held = false;
            *ended = Some(exit);
        }
    }
}

/// Returns the effect that exempts a process from all egress lists, once it is known to be no server.
pub(super) fn settle(exec: &Exec) -> Vec<KernelEffect> {
    if exec.pending {
        vec![KernelEffect::Settle {
            process: exec.process,
        }]
    } else {
        Vec::new()
    }
}

/// Returns whether the words of a command tell its package without doubt: a program, and a script without an ending, can be a
/// command that an installer wrote for a package.
fn is_certain(package: &Package) -> bool {
    match package.kind() {
        PackageKind::Npm | PackageKind::Oci => true,
        PackageKind::Script => {
            let ending = Path::new(package.name()).extension();
            ending.is_some_and(|ending| SCRIPT_ENDINGS.iter().any(|known| ending == *known))
        }
        PackageKind::Pypi | PackageKind::Program => false,
    }
}
