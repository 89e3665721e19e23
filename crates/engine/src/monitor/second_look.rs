//! The time after a server was released: a change of a file between its hash and its use is detected, by the change
//! itself or by a second comparison.

use std::{path::Path, time::Duration};

use mcpmon_model::{Action, InstanceId, PinState, Timestamp};
use mcpmon_policy::Gate;

use super::Monitor;
use crate::{
    effect::{FileWatch, Judgement, KernelEffect},
    instances::{Phase, SecondLook, ServingProcess},
    pins::{Part, ServerFiles},
    tell,
};

/// The times after which a server is compared again: on a quiet host, and on a busy one, it has opened its files by
/// then.
const DELAYS: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];

impl Monitor {
    /// Notes that the pins of a server allow it to run.
    pub(super) fn let_run(&mut self, now: Timestamp, number: InstanceId, serving: &ServingProcess) {
        let Some(instance) = self.instances.get_mut(number) else {
            return;
        };
        match &mut instance.second_look {
            Some(look) if look.process == serving.process => look.let_go = Some(now),
            _ => instance.second_look = None,
        }
    }

    /// Orders the comparisons that are due.
    pub(super) fn look_again(&mut self, now: Timestamp, judgement: &mut Judgement) {
        for number in self.instances.numbers() {
            let Some(instance) = self.instances.get_mut(number) else {
                continue;
            };
            let (Phase::Serving(serving), Some(look)) = (&instance.phase, &mut instance.second_look) else {
                continue;
            };
            let delay = DELAYS.get(look.ordered);
            let is_due = delay
                .zip(look.let_go)
                .is_some_and(|(delay, then)| now.since(then) >= *delay);
            if !is_due || look.process != serving.process {
                continue;
            }
            self.attempts += 1;
            look.ordered += 1;
            let order = look.order(self.attempts, number, serving);
            judgement.kernel_effects.push(order);
        }
    }

    /// Judges that code of a server was replaced or written after it was compared, and before its server can have
    /// opened all its files. The code may be unchanged again, but it is not known what ran. If only the times of files
    /// can show a change, the server is compared again with these.
    pub(super) fn touched(
        &mut self,
        now: Timestamp,
        number: InstanceId,
        attempt: u64,
        path: Option<&Path>,
    ) -> Judgement {
        let mut judgement = Judgement::default();
        let blocks = self.may_block_starts();
        let Some(instance) = self.instances.get_mut(number) else {
            return judgement;
        };
        let Phase::Serving(serving) = &instance.phase else {
            return judgement; // it will be compared again
        };
        let Some(look) = &mut instance.second_look else {
            return judgement; // it has started
        };
        if serving.attempt != attempt || look.process != serving.process || look.let_go.is_none() {
            return judgement;
        }
        let Some(path) = path else {
            self.attempts += 1;
            let order = look.order(self.attempts, number, serving);
            judgement.kernel_effects.push(order);
            return judgement;
        };
        let cause = format!(
            "{} was replaced or written while the server started, after it was compared with its pin",
            path.display()
        );
        let (mut event, denial) = tell::denied_uncompared(now, instance, serving, cause);
        instance.second_look = None;
        match blocks {
            true => judgement.kernel_effects.push(KernelEffect::Kill {
                instance: number,
                denial,
            }),
            false => event.action = Action::Audit,
        }
        judgement.events.push(event);
        judgement
    }

    /// Returns whether this is the number of a second comparison.
    pub(super) fn is_second_look(&self, number: InstanceId, attempt: u64) -> bool {
        let look = self
            .instances
            .get(number)
            .and_then(|instance| instance.second_look.as_ref());
        look.is_some_and(|look| look.attempt == attempt)
    }

    /// Judges the second hash of a running server's files: a difference from the first one is a change in between.
    pub(super) fn looked_again(
        &mut self,
        now: Timestamp,
        number: InstanceId,
        files: ServerFiles,
    ) -> Judgement {
        let mut judgement = Judgement::default();
        let Some(instance) = self.instances.get_mut(number) else {
            return judgement;
        };
        let look = instance.second_look.take();
        let (Phase::Serving(serving), Some(mut look)) = (&instance.phase, look) else {
            return judgement;
        };
        if serving.process != look.process {
            return judgement; // the process has become another program since
        }
        let mut serving = serving.clone();
        serving.held = false;
        let key = instance.pin_key(&serving);
        let accepted = self.pins.accepted(&key);
        let pinning = self.policy.file_pinning(&instance.server, &instance.derived);
        let mode = self.policy.mode;
        let mut verdict = self.pins.compare(&key, accepted, files.clone(), pinning, mode);
        let lost_sight = verdict.state == PinState::Unknown && is_unreadable(&files);
        if verdict.state != PinState::Mismatch && !lost_sight {
            look.attempt = 0;
            instance.second_look = (look.ordered < DELAYS.len()).then_some(look);
            return judgement;
        }
        // Nothing is accepted because it runs.
        verdict.store = None;
        if self.policy.exec.gate == Gate::Off && verdict.action == Action::Block {
            verdict.action = Action::Audit;
        }
        judgement
            .events
            .extend(tell::mismatches(now, instance, &serving, &verdict));
        if verdict.action == Action::Block || verdict.awaits_approval() {
            self.remember_refused(&key, files);
        }
        self.enforce_pins(now, number, &key, &serving, verdict, &mut judgement);
        for event in &mut judgement.events {
            let reason = event.reason.get_or_insert_default();
            let separator = if reason.is_empty() { "" } else { "; " };
            reason.push_str(separator);
            reason.push_str("it was as pinned when the server was let go, and was changed then");
        }
        judgement
    }
}

/// Returns whether the code of a process that lives cannot be read any more, or is open for writing.
const fn is_unreadable(files: &ServerFiles) -> bool {
    let is_alive = matches!(files.executable, Part::Hashed(_));
    let of_code = matches!(files.script, Some(Part::Unknown { .. }))
        || matches!(files.package, Some(Part::Unknown { .. }));
    is_alive && of_code
}

impl SecondLook {
    /// Orders a comparison of this number.
    fn order(&mut self, attempt: u64, instance: InstanceId, serving: &ServingProcess) -> KernelEffect {
        self.attempt = attempt;
        KernelEffect::Hash {
            instance,
            process: serving.process,
            launcher: self.launcher.clone(),
            uid: serving.uid,
            attempt,
            stage: serving.stage.clone(),
            loaded: serving.loaded.clone(),
            since: serving.executed,
            // Content that was put back is equal; the time of its last change is not.
            watch: FileWatch::WhileRead,
        }
    }

    /// Returns the second look at a process that is held for its first comparison.
    pub(super) fn new(serving: &ServingProcess, launcher: Option<Vec<Vec<String>>>) -> Self {
        Self {
            process: serving.process,
            launcher,
            let_go: None,
            ordered: 0,
            attempt: 0,
        }
    }
}
