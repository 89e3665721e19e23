//! Judges the traffic between agents and models, for all sessions of one proxy: each session has a Monitor, with the
//! state of its servers from the store.

mod session;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use mcpmon_config::LoadedConfiguration;
use mcpmon_detect::protected_paths::Places;
use mcpmon_engine::{Judgement, Observation, StoreEffect, Tally};
use mcpmon_model::{
    Event, EventKind, Exchange, HaltedExchange, Layer, LlmMention, NO_USER, OmittedCall, PinKey, Redaction,
    ServerId, SessionId, Severity, Timestamp, Verdict,
};
use mcpmon_policy::Policy;
use mcpmon_store::{Generation, Recorder, SessionMember, StoreEntry, StoreLocation, StoreReader, Urgency};

use self::session::ModelSession;
use super::{
    Options, Policies, files,
    hosted::{DaemonHolder, DaemonServices},
    process,
    shared::StateHolder,
    stored::StoreHolder,
};

/// Most sessions that are known at a time; beyond it, the least recently used one is forgotten.
const MAX_SESSIONS: usize = 256;
/// The time for which an unused session is remembered.
const IDLE: Duration = Duration::from_secs(3600);
/// The longest time until this process's own records are visible to readers.
const FLUSH: Duration = Duration::from_secs(1);
/// The time before an unreadable store is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// The name of the LLM proxy among the members of a session.
const NAME: &str = "mcpmon-llm";
/// The name of this component in events.
const COMPONENT: &str = "LLM proxy's registry";

/// The key of a session: requests with the same key are judged together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionKey {
    /// The session, if known.
    pub session: Option<SessionId>,
    /// The user, if known.
    pub uid: Option<u32>,
}

/// The judges of all sessions of one proxy. Clones share them.
#[derive(Clone, Debug)]
pub struct Models(Arc<ModelsState>);

#[derive(Debug)]
struct ModelsState {
    recorder: Recorder,
    store: StoreLocation,
    places: Places,
    generation: Mutex<Option<Generation>>,
    reader: Mutex<Option<StoreReader>>,
    policies: Policies,
    /// The holder of the sessions' calls, unless that is the store.
    host: Option<Arc<dyn DaemonServices>>,
    sessions: Mutex<BTreeMap<SessionKey, Arc<Mutex<ModelSession>>>>,
    /// The time since which the store cannot be read.
    away: Mutex<Option<Timestamp>>,
}

/// Judges one request with its response.
#[derive(Debug)]
pub struct ModelExchangeJudge {
    models: Models,
    session: Arc<Mutex<ModelSession>>,
    exchange: Exchange,
    tally: Tally,
}

impl Models {
    /// Creates judges that apply `policies` and write to `recorder`. Servers are looked up in the recorder's store,
    /// which also holds the calls of sessions.
    pub fn new(policies: Policies, recorder: Recorder, options: &Options) -> Self {
        Self::with(policies, recorder, options, None)
    }

    /// Creates judges in the daemon, which holds the calls of sessions in memory.
    pub fn of_daemon(
        policies: Policies,
        recorder: Recorder,
        options: &Options,
        host: Arc<dyn DaemonServices>,
    ) -> Self {
        Self::with(policies, recorder, options, Some(host))
    }

    fn with(
        policies: Policies,
        recorder: Recorder,
        options: &Options,
        host: Option<Arc<dyn DaemonServices>>,
    ) -> Self {
        let store = recorder.location().clone();
        Self(Arc::new(ModelsState {
            places: files::places(options),
            recorder,
            store,
            generation: Mutex::default(),
            reader: Mutex::default(),
            policies,
            host,
            sessions: Mutex::default(),
            away: Mutex::default(),
        }))
    }

    /// Replaces the host's policy, also for exchanges in progress. Other users of the same policies have to be notified
    /// by the caller.
    pub fn install(&self, now: Timestamp, loaded: &LoadedConfiguration) {
        self.0.policies.adopt(loaded);
        self.follow(now);
    }

    /// Applies the current policy of each user to its sessions.
    fn follow(&self, now: Timestamp) {
        let known = lock(&self.0.sessions);
        let sessions: Vec<_> = known
            .iter()
            .map(|(whose, session)| (whose.uid, Arc::clone(session)))
            .collect();
        drop(known);
        for (uid, session) in sessions {
            let loaded = self.0.policies.of(now, uid);
            let judgement = lock(&session).install(now, &loaded.policy);
            if let Some(judgement) = judgement {
                drop(self.carry_out(None, judgement));
            }
        }
    }

    /// Returns the recorder of judgements.
    pub fn recorder(&self) -> &Recorder {
        &self.0.recorder
    }

    /// Returns the host's policy.
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.0.policies.host().policy)
    }

    /// Returns the policies in force.
    pub fn policies(&self) -> &Policies {
        &self.0.policies
    }

    /// Handles the passing of time: changed policies of users are applied, and unused sessions are forgotten. To be
    /// called about once a second.
    pub fn tick(&self, now: Timestamp) {
        self.follow(now);
        lock(&self.0.sessions).retain(|_, session| {
            let is_used = Arc::strong_count(session) > 1;
            is_used || now.since(lock(session).used) < IDLE
        });
    }

    /// Returns the number of known sessions.
    pub fn len(&self) -> usize {
        lock(&self.0.sessions).len()
    }

    /// Returns whether no session is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the judge of one request of `uid` and its response. This takes a moment for a user without recent
    /// requests.
    pub fn judge(&self, now: Timestamp, uid: Option<u32>, exchange: Exchange) -> ModelExchangeJudge {
        let whose = SessionKey {
            session: exchange.session.clone(),
            uid,
        };
        ModelExchangeJudge {
            models: self.clone(),
            session: self.session(now, whose),
            exchange,
            tally: Tally::default(),
        }
    }

    fn session(&self, now: Timestamp, whose: SessionKey) -> Arc<Mutex<ModelSession>> {
        // This may read a file. It is done without the lock, so that no other request waits.
        let loaded = self.0.policies.of(now, whose.uid);
        let mut sessions = lock(&self.0.sessions);
        if let Some(session) = sessions.get(&whose) {
            let session = Arc::clone(session);
            drop(sessions);
            lock(&session).used = now;
            return session;
        }
        if sessions.len() >= MAX_SESSIONS {
            // A session in use has an owner besides this map, and would miss changed policies once it is removed; so
            // unused sessions are removed first.
            let oldest = sessions
                .iter()
                .min_by_key(|(_, session)| {
                    let used = session.try_lock().map_or(now, |session| session.used);
                    (Arc::strong_count(session) > 1, used)
                })
                .map(|(whose, _)| whose.clone());
            if let Some(oldest) = oldest {
                sessions.remove(&oldest);
            }
        }
        let policy = Arc::clone(&loaded.policy);
        let holder = self.holder(&whose);
        let session = ModelSession::new(now, policy, self.0.places.clone(), whose.clone(), holder);
        let session = Arc::new(Mutex::new(session));
        sessions.insert(whose, Arc::clone(&session));
        session
    }

    /// Returns the holder of a session's calls. A member stands for the proxy in it.
    fn holder(&self, whose: &SessionKey) -> Option<Box<dyn StateHolder>> {
        let member = SessionMember {
            session: whose.session.clone()?,
            agent: None,
            identity: PinKey {
                server: ServerId::new(NAME).ok()?,
                name: NAME.to_owned(),
                uid: whose.uid.unwrap_or(NO_USER),
            },
            process: process::identify(std::process::id())?,
        };
        Some(match &self.0.host {
            Some(host) => Box::new(DaemonHolder::new(Arc::clone(host), member)),
            None => Box::new(StoreHolder::new(self.0.store.path(), member, None)),
        })
    }

    /// Returns the number of changes of the shared state. It reads a page in memory.
    fn generation(&self) -> u64 {
        let mut generation = lock(&self.0.generation);
        if generation.is_none() {
            // The file does not exist before the first change.
            *generation = Generation::open(self.0.store.generation()).ok();
        }
        generation.as_ref().map_or(0, Generation::now)
    }

    /// Applies changes of the shared state.
    fn refresh(&self, now: Timestamp, session: &mut ModelSession) {
        if lock(&self.0.away).is_some_and(|since| now.since(since) < RETRY) {
            return;
        }
        // Own records that are not written yet would look as if they had been reset.
        if let Err(unsettled) = self.0.recorder.flush(FLUSH) {
            tracing::warn!(%unsettled, "the LLM proxy may not know the latest definitions");
        }
        let generation = self.generation();
        let mut reader = lock(&self.0.reader);
        let store = self.0.store.path();
        let looked = match reader.take_if(|reader| reader.path() == store) {
            Some(current) => session.look(now, generation, reader.insert(current)),
            None => StoreReader::open(&store)
                .map_err(|error| error.to_string())
                .and_then(|opened| session.look(now, generation, reader.insert(opened))),
        };
        match looked {
            Ok(()) => self.tell_back(now),
            Err(cause) => {
                *reader = None;
                self.tell_away(now, cause);
            }
        }
    }

    /// Records once that names of tools may be unknown.
    fn tell_away(&self, now: Timestamp, cause: String) {
        if lock(&self.0.away).replace(now).is_some() {
            return;
        }
        let mut event = Event::new(
            now,
            Layer::Agent,
            EventKind::EnforcementDegraded {
                component: COMPONENT.to_owned(),
                cause,
            },
        );
        event.severity = Severity::High;
        event.reason =
            Some("what was known of servers and their tools holds on; see `mcpmon status`".to_owned());
        self.0.recorder.push(event);
    }

    fn tell_back(&self, now: Timestamp) {
        if lock(&self.0.away).take().is_none() {
            return;
        }
        let kind = EventKind::EnforcementRestored {
            component: COMPONENT.to_owned(),
            cause: "the store can be read again".to_owned(),
        };
        self.0.recorder.push(Event::new(now, Layer::Agent, kind));
    }

    /// Records the outcome of a judgement. A refusal is recorded before the client gets it.
    fn carry_out(&self, session: Option<&SessionId>, mut judgement: Judgement) -> Verdict {
        judgement.name_refusal(mcpmon_store::new_event_id);
        for mut event in judgement.events {
            event.session_id = event.session_id.or_else(|| session.cloned());
            self.0.recorder.push(event);
        }
        for effect in judgement.store_effects {
            let entry = match effect {
                StoreEffect::StoreDefinition(record) => StoreEntry::Definition(*record),
                StoreEffect::ForgetDefinition(key) => StoreEntry::ForgetDefinition(key),
                // Shared already.
                StoreEffect::Share(_)
                // Calls that a model asks for are not held.
                | StoreEffect::HoldCall(_)
                | StoreEffect::ReleaseCall(_)
                // Results on stdio, which other components see.
                | StoreEffect::ShareResult { .. } => continue,
            };
            if self.0.recorder.put(entry, Urgency::InOrder).is_err() {
                tracing::error!("what the LLM proxy learned could not be stored");
            }
        }
        judgement.verdict
    }
}

impl ModelExchangeJudge {
    /// Returns whether the next judgement has to read the store first, which may take a moment.
    pub fn is_behind(&self) -> bool {
        lock(&self.session).generation() != Some(self.models.generation())
    }

    /// Returns whether judging this may take a moment.
    pub fn may_wait(&self, said: &LlmMention<'_>) -> bool {
        let is_call = matches!(said, LlmMention::Call(_) | LlmMention::Called { .. });
        self.is_behind() || is_call && lock(&self.session).waits_for_disk()
    }

    /// Judges a part of an exchange that concerns tools, and records the outcome.
    pub fn judge(&mut self, now: Timestamp, said: &LlmMention<'_>) -> Verdict {
        let mut session = lock(&self.session);
        session.used = now;
        let is_behind = session.generation() != Some(self.models.generation());
        if is_behind {
            self.models.refresh(now, &mut session);
        }
        if is_behind || matches!(said, LlmMention::Call(_)) {
            session.look_around();
        }
        let mut judgement = session.observe(now, Observation::Llm(&self.exchange, said));
        if let Some(ask) = judgement.ask.take() {
            let shared = session.check(ask.call());
            let answered = Observation::LlmShared(&self.exchange, said, ask, shared);
            judgement = session.observe(now, answered);
        }
        for effect in &judgement.store_effects {
            if let StoreEffect::Share(recent) = effect {
                session.share((**recent).clone());
            }
        }
        drop(session);
        self.models.carry_out(self.exchange.session.as_ref(), judgement)
    }

    /// Returns the parts to be replaced in a text on its way to a model.
    pub fn redact(&mut self, now: Timestamp, text: &str) -> Vec<Redaction> {
        lock(&self.session).redact(now, text, &mut self.tally)
    }

    /// Records which calls were left out of a response.
    pub fn left_out(&self, response: &str, calls: &[OmittedCall]) {
        lock(&self.session).unanswered.note(response, calls);
    }

    /// Returns the calls left out of a response of the session.
    pub fn unanswered(&self, response: &str) -> Vec<OmittedCall> {
        lock(&self.session).unanswered.of(response).to_vec()
    }

    /// Records what was replaced in the request, which is now complete.
    pub fn request_read(&mut self, now: Timestamp) {
        let tally = std::mem::take(&mut self.tally);
        let observation = Observation::Redacted(&self.exchange, &tally);
        let judgement = lock(&self.session).observe(now, observation);
        drop(self.models.carry_out(self.exchange.session.as_ref(), judgement));
    }

    /// Records that the request, or its answer, is not forwarded.
    pub fn halted(&mut self, now: Timestamp, halted: &HaltedExchange) {
        let judgement = lock(&self.session).observe(now, Observation::Halted(&self.exchange, halted));
        drop(self.models.carry_out(self.exchange.session.as_ref(), judgement));
    }

    /// Returns the judged exchange.
    pub const fn exchange(&self) -> &Exchange {
        &self.exchange
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is used anyway: no code that holds it can leave the value half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
