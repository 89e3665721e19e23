//! Orphans: servers that live on after the client that started them, or after their session.

use std::{collections::BTreeMap, time::Duration};

use mcpmon_model::{Action, InstanceId, OrphanCause, ProcessId, SessionId, Timestamp};
use mcpmon_policy::{Mode, Orphans};

use super::Monitor;
use crate::{
    effect::{Judgement, KernelEffect},
    tell,
};

/// The time that a server has to end after its client. It is long enough for the wrapper to ask the server to end, and
/// then to kill it.
const ORPHAN_AGE: Duration = Duration::from_secs(15);
/// The time between the request to end and the kill.
const TERMINATION_GRACE: Duration = Duration::from_secs(5);

/// The process that started a server, past shells, launchers and wrappers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerClient {
    /// The process.
    pub process: ProcessId,
    /// Its command name.
    pub comm: String,
}

/// The clients of running servers, and the servers whose client or session is gone.
#[derive(Debug, Default)]
pub(super) struct OrphanWatch {
    clients: BTreeMap<InstanceId, ServerClient>,
    orphans: BTreeMap<InstanceId, Orphan>,
}

#[derive(Clone, Copy, Debug)]
struct Orphan {
    since: Timestamp,
    cause: OrphanCause,
    stage: OrphanStage,
}

/// The last measure against an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OrphanStage {
    /// None: the server may still end without one.
    Waiting,
    /// The orphan was reported, and is still alive.
    Reported,
    /// The orphan was asked to end.
    Terminated(Timestamp),
    /// The orphan was killed.
    Killed,
}

impl OrphanWatch {
    /// Notes that a process has ended: the servers that it started have no client any more.
    pub(super) fn client_ended(&mut self, now: Timestamp, process: ProcessId) {
        let of_client = self
            .clients
            .iter()
            .filter(|(_, client)| client.process == process);
        for (number, _) in of_client {
            self.orphans
                .entry(*number)
                .or_insert_with(|| Orphan::new(now, OrphanCause::ClientEnded));
        }
    }
}

impl Orphan {
    const fn new(since: Timestamp, cause: OrphanCause) -> Self {
        Self {
            since,
            cause,
            stage: OrphanStage::Waiting,
        }
    }
}

impl Monitor {
    /// Returns the clients of running servers, each once. The caller has to check which of them live, and report each
    /// one that does not as an [`Observation::Gone`](super::Observation::Gone).
    pub fn clients(&self) -> Vec<ProcessId> {
        let clients = self.orphans.clients.iter();
        let clients = clients.filter(|(number, _)| !self.orphans.orphans.contains_key(number));
        let mut clients: Vec<ProcessId> = clients.map(|(_, client)| client.process).collect();
        clients.sort_unstable();
        clients.dedup();
        clients
    }

    pub(super) fn started_by(&mut self, number: InstanceId, client: ServerClient) -> Judgement {
        if self.instances.get(number).is_some() {
            self.orphans.clients.insert(number, client);
        }
        Judgement::default()
    }

    pub(super) fn session_over(&mut self, now: Timestamp, session: &SessionId) -> Judgement {
        let Self {
            orphans, sessions, ..
        } = self;
        let of_session = sessions
            .iter()
            .filter(|(_, known)| known.is_of_same_root(session));
        for (number, _) in of_session {
            orphans
                .orphans
                .entry(*number)
                .or_insert_with(|| Orphan::new(now, OrphanCause::SessionEnded));
        }
        Judgement::default()
    }

    /// Notes that a session which was over continues, as after a restart of the daemon.
    pub(super) fn session_lives(&mut self, session: &SessionId) {
        let Self {
            orphans, sessions, ..
        } = self;
        let is_of = |number: &InstanceId| {
            let known = sessions.get(number);
            known.is_some_and(|known| known.is_of_same_root(session))
        };
        orphans.orphans.retain(|number, orphan| {
            orphan.cause != OrphanCause::SessionEnded
                || orphan.stage != OrphanStage::Waiting
                || !is_of(number)
        });
    }

    /// Reports the servers that did not end in time, and ends them if the policy says so.
    pub(super) fn judge_orphans(&mut self, now: Timestamp, judgement: &mut Judgement) {
        let Self {
            orphans: OrphanWatch { clients, orphans },
            instances,
            policy,
            ..
        } = self;
        clients.retain(|number, _| instances.get(*number).is_some());
        orphans.retain(|number, _| instances.get(*number).is_some());
        let treatment = (policy.exec.orphans, policy.mode);
        for (number, orphan) in orphans {
            let Some(instance) = instances.get(*number) else {
                continue;
            };
            let client = clients.get(number);
            match orphan.stage {
                OrphanStage::Waiting if now.since(orphan.since) >= ORPHAN_AGE => {
                    let action = match treatment {
                        (Orphans::Report, _) => Action::Audit,
                        (Orphans::Stop, Mode::Observe) => Action::WouldBlock,
                        (Orphans::Stop, Mode::Enforce) => Action::Block,
                    };
                    orphan.stage = OrphanStage::Reported;
                    if action == Action::Block {
                        orphan.stage = OrphanStage::Terminated(now);
                        judgement
                            .kernel_effects
                            .push(KernelEffect::Terminate { instance: *number });
                    }
                    let (cause, since) = (orphan.cause, orphan.since);
                    judgement
                        .events
                        .push(tell::orphaned(now, instance, cause, client, since, action));
                }
                OrphanStage::Terminated(at) if now.since(at) >= TERMINATION_GRACE => {
                    orphan.stage = OrphanStage::Killed;
                    judgement.kernel_effects.push(KernelEffect::Kill {
                        instance: *number,
                        denial: tell::orphan_denial(orphan.cause, client),
                    });
                }
                OrphanStage::Waiting
                | OrphanStage::Reported
                | OrphanStage::Terminated(_)
                | OrphanStage::Killed => {}
            }
        }
    }
}
