//! The second comparison of a server that was let go: who changes a file between its hash and its use is found.

use std::time::Duration;

use mcpmon_model::{Action, InstanceId, PinState, Timestamp};
use mcpmon_policy::Gate;

use super::Monitor;
use crate::{
    effect::{Judgement, KernelEffect},
    instances::{Phase, SecondLook, ServingProcess},
    pins::{ServerFiles, compare},
    tell,
};

/// The time in which a server has opened the files that it starts from.
const DELAY: Duration = Duration::from_secs(2);

impl Monitor {
    /// Notes that a server may run as far as its pins are concerned.
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
            let is_due = look.let_go.is_some_and(|then| now.since(then) >= DELAY);
            if !is_due || look.process != serving.process {
                continue;
            }
            self.attempts += 1;
            look.let_go = None;
            look.attempt = self.attempts;
            judgement.kernel_effects.push(KernelEffect::Hash {
                instance: number,
                process: serving.process,
                launcher: look.launcher.clone(),
                uid: serving.uid,
                attempt: look.attempt,
                stage: serving.stage.clone(),
            });
        }
    }

    /// Returns whether this is the number of a second comparison.
    pub(super) fn is_second_look(&self, number: InstanceId, attempt: u64) -> bool {
        let look = self
            .instances
            .get(number)
            .and_then(|instance| instance.second_look.as_ref());
        look.is_some_and(|look| look.attempt == attempt)
    }

    /// The files of a server that runs were hashed once more. What was equal and differs now was changed in between.
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
        let (Phase::Serving(serving), Some(look)) = (&instance.phase, look) else {
            return judgement;
        };
        if serving.process != look.process {
            return judgement; // the process has become another program since
        }
        let mut serving = serving.clone();
        serving.held = false;
        let key = instance.pin_key(&serving);
        let accepted = self.pins.accepted(&key);
        let mut verdict = compare(accepted, files.clone(), self.policy.pinning, self.policy.mode);
        if verdict.state != PinState::Mismatch {
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
        if verdict.action == Action::Block {
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

impl SecondLook {
    /// Of a process that is held for its first comparison.
    pub(super) fn new(serving: &ServingProcess, launcher: Option<Vec<String>>) -> Self {
        Self {
            process: serving.process,
            launcher,
            let_go: None,
            attempt: 0,
        }
    }
}
