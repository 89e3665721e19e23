//! Sessions: a Monitor with a recorder and the state that it shares with others. Every transport calls one.
//!
//! Judging is local. The daemon, or the user's own store if there is none, is read at the start, and again when the
//! number of changes has risen.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "I/O")]

mod alone;
mod awaited;
mod beside;
pub mod clock;
mod comparison;
mod daemon;
mod desktop;
pub mod files;
mod host;
pub mod hosted;
mod http;
mod kept;
mod last_mode;
mod launch;
mod link;
mod loss;
pub mod models;
mod note;
mod own;
pub mod pins;
mod policies;
mod process;
pub mod protocol;
mod reading;
mod renewal;
mod settings;
pub mod shared;
mod stdio;
mod stored;
mod tapped;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use mcpmon_config::{
    ConfigError, LoadedConfiguration, Reloader, Search, Sources, Trust, load_sources_or_built_in,
};
use mcpmon_engine::{Judgement, Monitor, StoreEffect, pins::PinBook};
use mcpmon_guard::{Guard, JudgementOutcome};
use mcpmon_model::{
    Conversation, DefinitionKey, Denial, DerivedId, Digest, Incident, ListKind, Message, ProcessId,
    SESSION_ROOT, SensitivityLabel, ServerId, ServerType, SessionId, Timestamp, Verdict,
};
use mcpmon_policy::{Policy, network::table::Tables};
use mcpmon_store::{
    Destination, OpenError, QueryError, Recorder, RecorderSettings, RecorderStatus, SessionMember, Store,
    StoreEntry, StoreError, Urgency,
};

pub use self::{
    alone::{SessionFault, describe_faults, own_policy},
    comparison::{Comparison, ComparisonOutcome},
    hosted::{HostedParts, recorder},
    http::OfferQueue,
    last_mode::note_mode,
    launch::{LaunchEnd, StartedServer},
    note::note,
    policies::Policies,
    protocol::Hello,
};
use self::{
    daemon::DaemonLink,
    host::{JOIN_GRACE, SessionHost, SharedStatePresence},
    kept::ThroughDaemon,
    link::{Link, LinkError},
    loss::LastLoss,
    own::FollowedFile,
    protocol::SharedSessionState,
    reading::ResultReader,
    shared::StateHolder,
};
pub use self::{own::mistakes, settings::own_settings};

/// Most events in one transaction: each server has a queue, and each queue may hold this many in memory.
const BATCH: usize = 250;
/// The longest time until this process's own records are visible to others.
const FLUSH: Duration = Duration::from_secs(2);
/// Number of waiting records above which results are no longer searched for sensitive content.
const MANY_QUEUED: usize = 256;
/// The interval at which the user's own policy files are checked.
const POLICY_INTERVAL: Duration = Duration::from_secs(2);

/// The options of a session for one conversation.
#[derive(Clone, Debug)]
pub struct Options {
    /// The places of the policy, unless a daemon has one.
    pub search: Search,
    /// The policy files that are trusted.
    pub trust: Trust,
    /// The configuration, if it was read already; `None` to read it.
    pub loaded: Option<LoadedConfiguration>,
    /// The daemon's socket; `None` to work without a daemon.
    pub socket: Option<PathBuf>,
    /// The store without a daemon; `None` for the policy's `record.path`, or the user's own.
    pub db: Option<PathBuf>,
    /// The parties of the conversation.
    pub conversation: Conversation,
    /// The agent's command name, if known.
    pub agent: Option<String>,
}

/// The reason why a session cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// The policy is invalid or cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store cannot be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// There is no directory for a store.
    #[error("there is no place for a store: neither XDG_STATE_HOME nor HOME is set; name one with --db FILE")]
    NoPlace,
    /// This process cannot be found in `/proc`.
    #[error("cannot tell which process this is: is /proc mounted?")]
    NoProcess,
}

/// Judges one conversation. Records are written from [`join`](Self::join) on; they wait until then.
#[derive(Debug)]
pub struct Session {
    guard: Guard,
    host: SessionHost,
    /// Follows the user's own policy file, if there is no daemon.
    reloader: Option<Reloader>,
    /// The user's own policy on top of the daemon's.
    own: Option<FollowedFile>,
    next_poll: Timestamp,
    policy_hash: Digest,
    /// The number of changes when the shared state was last read.
    generation: u64,
    others: Vec<ServerId>,
    /// True if another process serves the same server in the session.
    twins: bool,
    /// The last report of entries that could not be stored because the queue was full.
    loss: LastLoss,
    /// Definitions of this server in the shared state, to notice when one is reset.
    known: BTreeSet<DefinitionKey>,
    /// The definitions that this session added, and the times at which they were last listed.
    put: BTreeMap<DefinitionKey, Timestamp>,
    /// Definitions of this server that are hidden from its client.
    unseen: BTreeSet<DefinitionKey>,
    /// Lists whose visible content changed because the shared state changed.
    changed: BTreeSet<ListKind>,
    /// The serving process, as the daemon knows it.
    served: Option<ProcessId>,
    /// The id that follows from the server's program or its declaration, once it is admitted.
    derived: Option<ServerId>,
    launch: launch::PinHolder,
    /// The state of joining the session, until it is joined.
    entrance: Option<Entrance>,
    /// The faults at the start that were not repaired since.
    faults: Vec<SessionFault>,
    /// The store that was named.
    db: Option<PathBuf>,
}

/// The work that remains before anything but the server's start can be judged.
#[derive(Debug)]
enum Entrance {
    /// Take over the state that the daemon sent.
    Told(Link, Box<SharedSessionState>),
    /// Read the user's own store.
    Ask(Box<Store>),
    /// Take over what could be read of a store that cannot be written yet.
    Await(Box<SharedSessionState>),
}

impl Session {
    /// Joins the session, through the daemon if it answers, else in the user's own store.
    ///
    /// # Errors
    /// Returns an error if the policy cannot be used, or there is neither a daemon nor a store.
    pub fn open(now: Timestamp, options: Options) -> Result<Self, JudgeError> {
        let mut judge = Self::prepare(now, options)?;
        judge.join(now)?;
        Ok(judge)
    }

    /// Reads what decides whether the server may start, and no more, so that the start does not wait for the rest. In
    /// any case, [`join`](Self::join) is to be called before anything else is judged, or the records are lost.
    ///
    /// # Errors
    /// Returns an error if the policy cannot be used, or there is neither a daemon nor a store.
    pub fn prepare(now: Timestamp, mut options: Options) -> Result<Self, JudgeError> {
        let lookups = files::Lookups::of(&mut options);
        let mut judge = Self::admitted(now, options)?;
        judge.host.lookups = lookups;
        Ok(judge)
    }

    fn admitted(now: Timestamp, mut options: Options) -> Result<Self, JudgeError> {
        let session = options.conversation.session.get_or_insert_with(lone_session);
        let session = session.clone();
        let member = SessionMember {
            session,
            agent: options.agent.clone(),
            identity: options.conversation.identity.clone(),
            process: process::identify(std::process::id()).ok_or(JudgeError::NoProcess)?,
        };
        let Some(socket) = &options.socket else {
            return Self::alone(now, options, member);
        };
        let hello = Hello {
            identity: member.identity.clone(),
            session: options.conversation.session.clone(),
            agent: member.agent.clone(),
            starts_server: options.conversation.server_type == ServerType::Stdio,
            child: None,
        };
        match Link::open(socket, hello) {
            Ok((link, state)) => Self::with_daemon(now, options, member, link, state),
            Err(LinkError::NotRunning(_)) => Self::alone(now, options, member),
            Err(error) => Self::beside_daemon(now, options, member, &error.to_string()),
        }
    }

    fn with_daemon(
        now: Timestamp,
        options: Options,
        member: SessionMember,
        link: Link,
        mut state: SharedSessionState,
    ) -> Result<Self, JudgeError> {
        let own = options.db.clone().or_else(mcpmon_store::own_store);
        let own = own.unwrap_or_else(|| alone::NO_PLACE.into());
        let shared = DaemonLink::new(link.clone(), &state);
        let generation = shared.as_of(state.changes);
        let loaded = match (state.policy.take().and_then(Sources::of_parts), options.loaded) {
            (Some(sources), _) => load_sources_or_built_in(&sources),
            (None, Some(loaded)) => loaded,
            (None, None) => own_policy(&options.search, options.trust, options.db.as_deref()),
        };
        let faults = alone::policy_fault(&loaded).into_iter().collect();
        let (loaded, own_policy) = FollowedFile::over(loaded, options.search, options.trust);
        let parts = Parts {
            member,
            recorder: Recorder::new(RecorderSettings {
                batch: BATCH,
                ..RecorderSettings::new(own)
            }),
            shared: Box::new(shared),
            reloader: None,
            own: Some(own_policy),
            generation,
            launch: launch::PinHolder::ByDaemon,
            entrance: Some(Entrance::Told(link, Box::new(state))),
            faults,
            db: options.db,
        };
        Ok(Self::start(now, options.conversation, &loaded, parts))
    }

    /// Joins the session, and begins to write the records. If they cannot be written, they wait, and the fault is
    /// reported.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read, and the policy enforces.
    pub fn join(&mut self, now: Timestamp) -> Result<(), JudgeError> {
        self.host.lookups.place(self.guard.monitor_mut());
        let Some(entrance) = self.entrance.take() else {
            return Ok(());
        };
        let (destination, snapshot): (Box<dyn Destination>, SharedSessionState) = match entrance {
            Entrance::Told(link, snapshot) => {
                let own = self.host.recorder.path();
                (Box::new(ResultReader(ThroughDaemon::new(link, own))), *snapshot)
            }
            Entrance::Ask(store) => self.enter(now, store)?,
            Entrance::Await(snapshot) => (self.awaited(), *snapshot),
        };
        if let Err(error) = self.host.recorder.begin(destination) {
            self.note_lost_record(&error);
        }
        self.host.joined = Instant::now();
        self.take(now, snapshot);
        self.changed.clear(); // nobody has seen a list yet
        self.introduce(now);
        self.report_faults(now);
        Ok(())
    }

    fn start(now: Timestamp, conversation: Conversation, loaded: &LoadedConfiguration, parts: Parts) -> Self {
        let monitor = Monitor::new(Arc::clone(&loaded.policy), &Tables::default(), PinBook::default());
        Self {
            guard: Guard::new(conversation, monitor, mcpmon_store::new_event_id),
            host: SessionHost {
                member: parts.member,
                recorder: parts.recorder,
                shared: parts.shared,
                presence: SharedStatePresence::Here,
                is_beside_daemon: false,
                child: None,
                lookups: files::Lookups::default(),
                joined: Instant::now(),
                has_gaps: false,
            },
            reloader: parts.reloader,
            own: parts.own,
            next_poll: now,
            policy_hash: loaded.hash,
            generation: parts.generation,
            others: Vec::new(),
            twins: false,
            loss: LastLoss::default(),
            known: BTreeSet::new(),
            put: BTreeMap::new(),
            unseen: BTreeSet::new(),
            changed: BTreeSet::new(),
            served: None,
            derived: None,
            launch: parts.launch,
            entrance: parts.entrance,
            faults: parts.faults,
            db: parts.db,
        }
    }

    /// Returns the policy in force.
    pub const fn policy(&self) -> &Arc<Policy> {
        self.guard.monitor().policy()
    }

    /// Returns the policy with what it says about this server.
    fn for_server(&self, policy: &Arc<Policy>) -> Arc<Policy> {
        match &self.derived {
            Some(derived) => Policy::for_server(policy, self.server(), derived),
            None => Arc::clone(policy),
        }
    }

    /// Returns the server.
    pub const fn server(&self) -> &ServerId {
        &self.guard.conversation().identity.server
    }

    /// Returns the session of the server.
    pub const fn session_id(&self) -> Option<&SessionId> {
        self.guard.conversation().session.as_ref()
    }

    /// Returns the session's other servers.
    pub fn others(&self) -> &[ServerId] {
        &self.others
    }

    /// Judges a message, and records the outcome.
    pub fn message(&mut self, now: Timestamp, message: &Message<'_>) -> Verdict {
        self.refresh(now);
        let mut outcome = JudgementOutcome::default();
        let verdict = self.guard.message(now, message, &mut self.host, &mut outcome);
        self.carry_out(&mut outcome);
        verdict
    }

    /// Records input that is not a message.
    pub fn incident(&mut self, now: Timestamp, incident: &Incident) {
        let mut outcome = JudgementOutcome::default();
        self.guard.incident(now, incident, &mut outcome);
        self.carry_out(&mut outcome);
    }

    /// Returns whether the server may run at all, whatever its files are. Call it before the server is started. `derived` is
    /// the id that follows from its program or its declaration.
    pub fn admit(&mut self, now: Timestamp, derived: &DerivedId) -> Verdict {
        if let Some(denial) = self.fault_denial() {
            return Verdict::Block(self.refuse(now, denial));
        }
        let mut outcome = JudgementOutcome::default();
        self.derived = Some(derived.id.clone());
        let policy = self.for_server(self.policy());
        let judgement = self.guard.monitor_mut().install(now, policy, &Tables::default());
        drop(self.conclude(judgement));
        let verdict = self.guard.admit(now, derived, &mut outcome);
        self.carry_out(&mut outcome);
        verdict
    }

    /// Returns the denial of every request while a person has stopped the session or the host.
    pub fn halted(&mut self, now: Timestamp) -> Option<Denial> {
        self.refresh(now);
        let mut outcome = JudgementOutcome::default();
        let denial = self.guard.halted(now, &mut outcome);
        self.carry_out(&mut outcome);
        denial
    }

    /// Applies changes of the shared state. If nothing changed, it only reads a page of memory.
    pub fn refresh(&mut self, now: Timestamp) {
        let generation = self.host.shared.generation();
        let is_up = self.host.presence.is_here() && (!self.policy().fail_closed || self.host.shared.is_up());
        if generation == self.generation && is_up && !self.host.shared.was_joined_again() {
            return;
        }
        if !is_up && !self.host.presence.is_due(now) {
            return;
        }
        // Own records that are not written yet would look as if they had been reset.
        let patience = match self.host.recorder.status().last_error {
            Some(_) => Duration::ZERO, // it is tried again and again
            None => FLUSH,
        };
        if let Err(unsettled) = self.host.recorder.flush(patience) {
            self.heed_kills();
            return self
                .host
                .tell_away(now, self.guard.policy(), &unsettled.to_string());
        }
        match self.host.shared.look(self.policy_hash) {
            Ok(state) => {
                self.generation = self.host.shared.as_of(state.changes);
                self.host.tell_back(now);
                self.take(now, state);
            }
            Err(error) => self.host.tell_away(now, self.guard.policy(), &error.to_string()),
        }
    }

    /// Handles the passing of time: approvals expire, the policy's files may have changed, the daemon may have ended.
    /// To be called about once a second.
    pub fn tick(&mut self, now: Timestamp) {
        let mut outcome = JudgementOutcome::default();
        self.guard.tick(now, &mut outcome);
        let before = (!outcome.effects.is_empty()).then(|| self.unseen.clone());
        self.carry_out(&mut outcome);
        if let Some(before) = before {
            self.note_changed(&before);
        }
        if !self.host.shared.is_up() && self.host.presence.is_here() {
            self.host
                .tell_away(now, self.guard.policy(), "its connection ended");
        }
        self.refresh(now);
        if now >= self.next_poll {
            self.next_poll = Timestamp(now.0.saturating_add(nanoseconds(POLICY_INTERVAL)));
            self.poll_policy(now);
        }
    }

    /// Returns the lists whose visible content has changed since the client read them, because of a person or another
    /// policy.
    pub fn take_changed_lists(&mut self) -> BTreeSet<ListKind> {
        std::mem::take(&mut self.changed)
    }

    /// Returns the state of the recorder.
    pub fn recorded(&self) -> RecorderStatus {
        self.host.recorder.status()
    }

    /// Leaves the session, and waits until its records are written.
    pub fn close(mut self, now: Timestamp) -> RecorderStatus {
        self.tell_left(now);
        self.host.recorder.close()
    }

    /// Records that this conversation has left the session.
    fn tell_left(&mut self, now: Timestamp) {
        let mut outcome = JudgementOutcome::default();
        self.guard.leave(now, &mut outcome);
        self.carry_out(&mut outcome);
        let left = StoreEntry::Leave(now, self.host.member.clone());
        if self.host.recorder.put(left, Urgency::InOrder).is_err() {
            tracing::warn!("the session does not hear that a server left");
        }
    }

    /// Returns whether no other process makes calls in the session.
    const fn is_alone(&self) -> bool {
        self.others.is_empty() && !self.twins
    }

    /// Applies a judgement that was not made by the guard.
    fn conclude(&mut self, judgement: Judgement) -> Verdict {
        let mut outcome = JudgementOutcome::default();
        let verdict = self.guard.conclude(judgement, &mut outcome);
        self.carry_out(&mut outcome);
        verdict
    }

    fn carry_out(&mut self, outcome: &mut JudgementOutcome) {
        for event in outcome.events.drain(..) {
            self.host.push(event);
        }
        for effect in outcome.effects.drain(..) {
            let entry = match effect {
                StoreEffect::StoreDefinition(record) => {
                    match record.hidden {
                        true => self.unseen.insert(record.key.clone()),
                        false => self.unseen.remove(&record.key),
                    };
                    self.put.insert(record.key.clone(), record.last_seen);
                    StoreEntry::Definition(*record)
                }
                StoreEffect::ForgetDefinition(key) => {
                    self.unseen.remove(&key);
                    self.put.remove(&key);
                    StoreEntry::ForgetDefinition(key)
                }
                StoreEffect::HoldCall(held) => {
                    desktop::notify(&held);
                    StoreEntry::HoldCall(self.host.member.process, held)
                }
                StoreEffect::ReleaseCall(id) => {
                    StoreEntry::ReleaseCall(self.host.member.identity.clone(), id)
                }
                StoreEffect::Share(recent) => {
                    StoreEntry::Recent(self.host.member.session.clone(), recent, None)
                }
                StoreEffect::ShareResult { mut output, result } => {
                    // While many records wait, results are not searched, because they would have to be kept in memory.
                    // Their content counts as unread then.
                    let waiting = match self.is_alone() {
                        true => self.host.recorder.status().queued,
                        false => self.host.recorder.waits_ahead(),
                    };
                    let result = match waiting > MANY_QUEUED {
                        true => {
                            output.labels.push(SensitivityLabel::Unread);
                            Box::default()
                        }
                        false => result,
                    };
                    StoreEntry::Unread(self.host.member.session.clone(), output, result)
                }
            };
            let is_shared = matches!(entry, StoreEntry::Recent(..) | StoreEntry::Unread(..));
            let urgency = match (is_shared, self.is_alone()) {
                (false, _) => Urgency::InOrder,
                (true, false) => Urgency::Ahead,
                // No other process reads it.
                (true, true) => Urgency::Soon,
            };
            let put = self.host.recorder.put(entry, urgency);
            if put.is_err() && self.loss.is_news(Instant::now()) {
                tracing::error!(
                    "what is judged cannot be stored: definitions hold until this process ends, other servers of the \
                     session do not hear of calls"
                );
            }
        }
    }
}

/// The parts of a session that depend on whether there is a daemon.
struct Parts {
    member: SessionMember,
    recorder: Recorder,
    shared: Box<dyn StateHolder>,
    reloader: Option<Reloader>,
    own: Option<FollowedFile>,
    generation: u64,
    launch: launch::PinHolder,
    entrance: Option<Entrance>,
    faults: Vec<SessionFault>,
    db: Option<PathBuf>,
}

/// Returns the id of a session for a conversation without one. It is unique on this host and in all its containers.
fn lone_session() -> SessionId {
    let unique = Digest::of(uuid::Uuid::now_v7().as_bytes()).short(SESSION_ROOT);
    SessionId::new(format!("pid-{}-{unique}", std::process::id()))
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
