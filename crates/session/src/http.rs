//! Conversations over HTTP: the guard judges posts and responses, and the outcome is recorded before anything is
//! forwarded.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use mcpmon_detect::protected_paths::{Lookup, RealPath};
use mcpmon_engine::SharedOutcome;
use mcpmon_guard::{Absence, GuardHost, HeldCallState, HttpGuard, JudgementOutcome};
use mcpmon_model::{DefinitionKey, DefinitionRecord, Digest, SharedCall, Timestamp};
use mcpmon_policy::Policy;

use super::{Session, host::SessionHost, protocol::SharedSessionState};

/// The order in which the conversations of one process judge the offers of servers: one after the other, each with
/// everything that the earlier ones pinned.
#[derive(Debug)]
pub struct OfferQueue {
    turn: Mutex<()>,
    wait: fn(&mut dyn FnMut()),
}

impl OfferQueue {
    /// Creates the queue. Work that may take a while is run by `wait`.
    #[must_use]
    pub const fn new(wait: fn(&mut dyn FnMut())) -> Self {
        Self {
            turn: Mutex::new(()),
            wait,
        }
    }
}

/// The host of the guard for one post or one piece of a response.
struct HttpHost<'s, 'q> {
    session: &'s mut SessionHost,
    queue: &'q OfferQueue,
    /// The turn of this conversation in the queue; taken at its first offer.
    turn: Option<MutexGuard<'q, ()>>,
    /// The number of changes of the shared state that the guard knows.
    generation: u64,
    policy_hash: Digest,
    /// The definitions that the guard got.
    known: BTreeSet<DefinitionKey>,
}

impl GuardHost for HttpHost<'_, '_> {
    fn real_paths(&mut self, lookups: Vec<Lookup>) -> Vec<RealPath> {
        self.session.real_paths(lookups)
    }

    fn check(&mut self, now: Timestamp, policy: &Policy, call: &SharedCall) -> SharedOutcome {
        self.session.check(now, policy, call)
    }

    fn absence(&self) -> Option<Absence> {
        self.session.absence()
    }

    fn definitions(&mut self) -> Option<Vec<DefinitionRecord>> {
        let (queue, mut definitions) = (self.queue, None);
        (queue.wait)(&mut || {
            self.turn
                .get_or_insert_with(|| queue.turn.lock().unwrap_or_else(PoisonError::into_inner));
            self.session.settle();
            definitions = self.changed_definitions();
        });
        definitions
    }
}

impl HttpHost<'_, '_> {
    /// Returns the definitions as they are recorded, if something changed since the guard got them.
    fn changed_definitions(&mut self) -> Option<Vec<DefinitionRecord>> {
        let generation = self.session.shared.generation();
        if generation == self.generation {
            return None;
        }
        match self.session.shared.look(self.policy_hash) {
            Ok(SharedSessionState { definitions, .. }) => {
                self.generation = generation;
                self.known
                    .extend(definitions.iter().map(|record| record.key.clone()));
                Some(definitions)
            }
            Err(error) => {
                tracing::warn!(%error, "what a server offers may be compared with an older definition");
                None
            }
        }
    }
}

impl Session {
    /// Applies changes of the shared state, runs `work` with the guard, and records the outcome.
    pub fn http<T>(
        &mut self,
        now: Timestamp,
        queue: &OfferQueue,
        work: impl FnOnce(&mut HttpGuard<'_>) -> T,
    ) -> T {
        self.refresh(now);
        let mut outcome = JudgementOutcome::default();
        let mut host = HttpHost {
            session: &mut self.host,
            queue,
            turn: None,
            generation: self.generation,
            policy_hash: self.policy_hash,
            known: BTreeSet::new(),
        };
        let done = work(&mut self.guard.http(now, &mut host, &mut outcome));
        let HttpHost { turn, known, .. } = host;
        // If a person resets one of these before the next refresh, it is noticed then.
        self.known.extend(known);
        self.carry_out(&mut outcome);
        // The turn ends after the records were written, so that the next conversation finds them.
        drop(turn);
        done
    }

    /// Applies changes of the shared state, and returns the state of a held call.
    pub fn held_call(&mut self, now: Timestamp, held_call: &str) -> HeldCallState {
        self.refresh(now);
        self.guard.held_call(held_call)
    }

    /// Records that the client no longer waits for the answer to a held call.
    pub fn withdraw_call(&mut self, now: Timestamp, held_call: &str) {
        let mut outcome = JudgementOutcome::default();
        self.guard.withdraw(now, held_call, &mut outcome);
        self.carry_out(&mut outcome);
    }

    /// Returns the number of messages of the server so far.
    pub const fn server_messages(&self) -> u64 {
        self.guard.server_messages()
    }

    /// Judges whether the server may be used, and blocks every message of the client until it may.
    pub fn admit_messages(&mut self, now: Timestamp) {
        let mut outcome = JudgementOutcome::default();
        self.guard.admit_messages(now, &mut outcome);
        self.carry_out(&mut outcome);
    }
}
