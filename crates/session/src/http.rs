//! A conversation over HTTP: the guard judges posts and responses, and the outcome is recorded before anything goes on.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use mcpmon_detect::protected_paths::{Lookup, RealPath};
use mcpmon_engine::SharedOutcome;
use mcpmon_guard::{Absence, GuardHost, HeldCallState, HttpGuard, JudgementOutcome};
use mcpmon_model::{DefinitionKey, DefinitionRecord, Digest, SharedCall, Timestamp};
use mcpmon_policy::Policy;

use super::{Session, host::SessionHost, shared::SharedSnapshot};

/// The order in which the conversations of one process judge what servers offer: one after the other, each with all that
/// the ones before it pinned.
#[derive(Debug)]
pub struct OfferQueue {
    turn: Mutex<()>,
    wait: fn(&mut dyn FnMut()),
}

impl OfferQueue {
    /// Creates the order. Work that may take a while is done by `wait`.
    #[must_use]
    pub const fn new(wait: fn(&mut dyn FnMut())) -> Self {
        Self {
            turn: Mutex::new(()),
            wait,
        }
    }
}

/// The session in the role of the guard's host, for one post or one piece of a response.
struct HttpHost<'s, 'q> {
    session: &'s mut SessionHost,
    queue: &'q OfferQueue,
    /// The turn of this conversation in the queue, from its first offer on.
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
            Ok(SharedSnapshot { definitions, .. }) => {
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
    /// Takes in changes of the shared state, has the guard do `work`, and records what follows from it.
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
        // What a person resets before the next refresh is forgotten then.
        self.known.extend(known);
        self.carry_out(&mut outcome);
        // The next conversation finds what this one recorded.
        drop(turn);
        done
    }

    /// Takes in changes of the shared state, and returns the state of a held call.
    pub fn held_call(&mut self, now: Timestamp, held_call: &str) -> HeldCallState {
        self.refresh(now);
        self.guard.held_call(held_call)
    }

    /// Nobody waits for the answer to a held call any longer.
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
