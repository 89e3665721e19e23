//! Processes that are stopped until their files are compared: which starts the kernel stops, and what ends a stop
//! without a comparison.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use mcpmon_model::{Exec, InstanceId, PinKey, ProcessId, RefusedStart, Resume, Timestamp};
use mcpmon_policy::{Gate, Mode, ServerPolicy};

use super::Monitor;
use crate::{
    candidates::{self, CandidateName},
    checked::{CheckedProgram, checked_programs},
    effect::{Judgement, KernelEffect},
    gated::GatedName,
    instances::Phase,
    pins::{PinnedFile, Pins},
    refused, tell,
};

/// The longest time for which a server is stopped. Clients give up after about as long.
const MAX_HOLD: Duration = Duration::from_secs(60);

/// The names by which the kernel recognises starts that it stops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartNames {
    /// Those of pinned servers, whose files are compared.
    pub pinned: BTreeSet<GatedName>,
    /// Those of programs that may be servers with an egress list.
    pub candidates: BTreeSet<CandidateName>,
}

impl Monitor {
    /// Returns the names of starts that the kernel has to stop; `None` if they did not change since the last call.
    pub fn changed_start_names(&mut self) -> Option<StartNames> {
        self.gated_changed |= self.instances.take_crowding_changed();
        if !std::mem::take(&mut self.gated_changed) {
            return None;
        }
        let pinned = if self.may_block_starts() {
            self.learned.with_pins(&self.pins)
        } else {
            BTreeSet::new()
        };
        // Only what is declared: names of a user's pins would stop the programs of every user.
        let candidates = candidates::declared(&self.policy, &self.launches, &self.egress);
        Some(StartNames { pinned, candidates })
    }

    /// Returns whether candidates are stopped until they are judged; otherwise they are only restricted.
    pub fn may_stop_candidates(&self) -> bool {
        self.policy.mode == Mode::Enforce && self.policy.exec.gate == Gate::Auto
    }

    /// Returns the programs whose digest the kernel has to compare when they are started, with what is accepted.
    pub fn checked_programs(&self) -> BTreeSet<CheckedProgram> {
        if !self.may_block_starts() {
            return BTreeSet::new();
        }
        let first_launches = self
            .instances
            .iter()
            .filter_map(|(_, instance)| instance.pinned.as_ref());
        let first_launches: BTreeSet<&PinKey> = first_launches.collect();
        let is_alone = |key: &PinKey, program: &str| {
            let launch = self.recognise(&[program.to_owned()], &[]);
            launch.is_some_and(|launch| launch.server == key.server)
        };
        let may_add = |key: &PinKey| first_launches.contains(key);
        // A server policy goes by the command: one with arguments, or by a link, may be another server than the program alone.
        let has_server_policy = self.policy.server_policy != ServerPolicy::None;
        let may_be_refused = |uid| has_server_policy || self.instances.is_crowded(uid);
        checked_programs(&self.pins, is_alone, may_add, may_be_refused)
    }

    /// Tells that a changed server was not started, and keeps its files for an approval.
    pub(super) fn refused_start(&mut self, now: Timestamp, start: &RefusedStart) -> Judgement {
        let changed = PinnedFile {
            path: start.path.clone(),
            digest: start.digest,
        };
        let of_start = |(key, sets): (&PinKey, &BTreeMap<u32, Pins>)| {
            let mut of_path = sets
                .values()
                .rev()
                .filter(|pins| pins.executable.path == start.path);
            let newest = of_path.next()?;
            (key.uid == start.uid).then(|| (key.clone(), newest.clone()))
        };
        let servers: Vec<(PinKey, Pins)> = self.pins.iter().filter_map(of_start).collect();
        let mut judgement = Judgement::default();
        for (key, pinned) in servers {
            judgement
                .events
                .push(refused::not_started(now, &key.server, &pinned.executable, start));
            let files = Pins {
                executable: changed.clone(),
                ..pinned
            };
            self.keep_refused(&key, files);
        }
        judgement
    }

    /// Releases a process that the kernel stopped, unless it has to wait for its comparison.
    pub(super) fn let_go(&self, exec: &Exec, judgement: &mut Judgement) {
        if exec.held && self.held_instance(exec.process).is_none() {
            judgement.kernel_effects.push(KernelEffect::Release {
                process: exec.process,
            });
        }
    }

    /// Notes that a process other than the daemon resumed a stopped one. A server is refused if it was not compared
    /// yet.
    pub(super) fn resumed(&mut self, now: Timestamp, resume: &Resume) -> Judgement {
        let mut judgement = Judgement::default();
        if let Some(number) = self.held_instance(resume.process) {
            let cause = format!(
                "{} let it go on with SIGCONT before its files were compared with its pins",
                resume.by
            );
            self.refuse_held(now, number, cause, &mut judgement);
        }
        judgement
    }

    /// Refuses the servers that are still stopped, because the daemon ends and no comparison will follow.
    pub(super) fn ending(&mut self, now: Timestamp) -> Judgement {
        let mut judgement = Judgement::default();
        for number in self.instances.numbers() {
            if self.is_held(number) {
                let cause = "the daemon ended before its files were compared with its pins".to_owned();
                self.refuse_held(now, number, cause, &mut judgement);
            }
        }
        judgement
    }

    /// Ends stops that last too long.
    pub(super) fn end_long_holds(&mut self, now: Timestamp, judgement: &mut Judgement) {
        for number in self.instances.numbers() {
            let ordered = match self.instances.get(number).map(|instance| &instance.phase) {
                Some(Phase::Hashing(serving, _)) if serving.held => serving.ordered,
                Some(Phase::Starting(_) | Phase::Hashing(..) | Phase::Serving(_)) | None => continue,
            };
            if now.since(ordered) >= MAX_HOLD {
                let cause = format!(
                    "its files could not be compared with its pins within {} s",
                    MAX_HOLD.as_secs()
                );
                self.refuse_held(now, number, cause, judgement);
            }
        }
    }

    fn held_instance(&self, process: ProcessId) -> Option<InstanceId> {
        let number = self.instances.of(process)?;
        let instance = self.instances.get(number)?;
        let is_held = matches!(&instance.phase, Phase::Hashing(serving, _) if serving.held && serving.process == process);
        is_held.then_some(number)
    }

    fn is_held(&self, number: InstanceId) -> bool {
        let instance = self.instances.get(number);
        instance.is_some_and(|instance| matches!(&instance.phase, Phase::Hashing(serving, _) if serving.held))
    }

    /// Kills a stopped server without a comparison; a result that still arrives is ignored.
    fn refuse_held(&mut self, now: Timestamp, number: InstanceId, cause: String, judgement: &mut Judgement) {
        let Some(instance) = self.instances.get_mut(number) else {
            return;
        };
        let Phase::Hashing(serving, _) = &instance.phase else {
            return;
        };
        let mut serving = serving.clone();
        serving.held = false;
        let (event, denial) = tell::denied_uncompared(now, instance, &serving, cause);
        judgement.events.push(event);
        judgement.kernel_effects.extend([
            KernelEffect::Kill {
                instance: number,
                denial,
            },
            KernelEffect::Release {
                process: serving.process,
            },
        ]);
        instance.phase = Phase::Serving(serving);
    }
}
