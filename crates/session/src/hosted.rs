//! Sessions of one process that serves many conversations. They share a recorder and a policy; other shared state is in
//! memory if the process is the daemon, and in the store otherwise.

use std::{fmt, sync::Arc, time::Duration};

use mcpmon_config::LoadedConfiguration;
use mcpmon_detect::protected_paths::Places;
use mcpmon_guard::Absence;
use mcpmon_model::{Conversation, Digest, Event, Recent, SharedCall, SharedCallAnswer, Timestamp};
use mcpmon_policy::Policy;
use mcpmon_store::{
    Access, Destination, Generation, Recorder, RecorderSettings, SessionMember, Store, StoreError,
};

use super::{
    JOIN_GRACE, JudgeError, Options, Parts, Session, files, launch, lone_session, process,
    protocol::SharedSessionState,
    reading::ResultReader,
    shared::{SharedError, StateHolder, watch},
    stored::StoreHolder,
};

/// The time within which the recorder has to write that a member left, before a new member reads the list of members.
pub(super) const FLUSH: Duration = Duration::from_secs(1);

/// The daemon's services for sessions in its own process.
pub trait DaemonServices: fmt::Debug + Send + Sync {
    /// Adds a server to a session.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    fn join(&self, now: Timestamp, member: &SessionMember) -> Result<(), StoreError>;

    /// Returns the shared state, without the policy.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    fn look(&self, member: &SessionMember) -> Result<SharedSessionState, StoreError>;

    /// Checks a call together with the other calls of its session, and counts it.
    fn check(&self, member: &SessionMember, call: SharedCall) -> SharedCallAnswer;

    /// Adds a recent call to the session of `member`.
    fn take(&self, member: &SessionMember, recent: Recent);
}

/// The shared state of a conversation in the daemon that is this process.
#[derive(Debug)]
pub(super) struct DaemonHolder {
    host: Arc<dyn DaemonServices>,
    /// This conversation.
    member: SessionMember,
    generation: Option<Generation>,
}

impl DaemonHolder {
    pub(super) const fn new(host: Arc<dyn DaemonServices>, member: SessionMember) -> Self {
        Self {
            host,
            member,
            generation: None,
        }
    }
}

impl StateHolder for DaemonHolder {
    fn number(&self) -> Option<&Generation> {
        self.generation.as_ref()
    }

    fn name(&self) -> &'static str {
        "store"
    }

    fn absence(&self) -> Absence {
        Absence {
            reason: "the daemon's store cannot be used, and mcp.fail_closed is set",
            remedy: "mcpmon doctor",
        }
    }

    fn look(&mut self, _policy: Digest) -> Result<SharedSessionState, SharedError> {
        let state = self.host.look(&self.member)?;
        // A store that was moved has the number in another file.
        self.generation = watch(&state.generation);
        Ok(state)
    }

    /// The daemon applies its own policy.
    fn check(&mut self, _policy: &Policy, call: &SharedCall) -> Result<SharedCallAnswer, SharedError> {
        Ok(self.host.check(&self.member, call.clone()))
    }

    fn take(&mut self, recent: Recent) -> Result<(), SharedError> {
        self.host.take(&self.member, recent);
        Ok(())
    }
}

/// The state that the sessions of one process share. Clones share it.
#[derive(Clone, Debug)]
pub struct HostedParts {
    recorder: Recorder,
    host: Option<Arc<dyn DaemonServices>>,
    places: Places,
}

impl HostedParts {
    /// The parts without a daemon: all state is in the store of `recorder`, which must be [one that reads
    /// results](recorder).
    pub fn alone(recorder: Recorder, options: &Options) -> Self {
        Self {
            recorder,
            host: None,
            places: files::places(options),
        }
    }

    /// The parts in the daemon, whose records go to `destination`.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn of_daemon(
        host: Arc<dyn DaemonServices>,
        destination: impl Destination + 'static,
        settings: RecorderSettings,
        options: &Options,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            recorder: Recorder::with(Box::new(ResultReader(destination)), settings)?,
            host: Some(host),
            places: files::places(options),
        })
    }

    /// Returns the recorder of all events.
    pub const fn recorder(&self) -> &Recorder {
        &self.recorder
    }
}

/// Creates a recorder that writes to a store, and searches results for sensitive content on the way.
///
/// # Errors
/// Returns an error if the store cannot be opened or made, or no thread can be started.
pub fn recorder(settings: RecorderSettings) -> Result<Recorder, StoreError> {
    let store = Store::open_at(&settings.location, settings.access)?;
    Recorder::with(Box::new(ResultReader(store)), settings)
}

impl Session {
    /// Joins the session of `conversation` as one of many sessions of this process, under the policy `loaded`.
    ///
    /// # Errors
    /// Returns an error if the store cannot be used.
    pub fn hosted(
        now: Timestamp,
        hosting: &HostedParts,
        loaded: &LoadedConfiguration,
        mut conversation: Conversation,
        agent: Option<String>,
    ) -> Result<Self, JudgeError> {
        let session = conversation.session.get_or_insert_with(lone_session).clone();
        let member = SessionMember {
            session,
            agent,
            identity: conversation.identity.clone(),
            process: process::identify(std::process::id()).ok_or(JudgeError::NoProcess)?,
        };
        let recorder = hosting.recorder.clone();
        // The same server may have left this session a moment ago; this must not be written after it has joined again.
        if let Err(unsettled) = recorder.flush(FLUSH) {
            tracing::warn!(%unsettled, "a conversation may not know the latest definitions");
        }
        let mut shared: Box<dyn StateHolder> = match &hosting.host {
            Some(host) => {
                host.join(now, &member)?;
                Box::new(DaemonHolder::new(Arc::clone(host), member.clone()))
            }
            None => {
                let path = recorder.path();
                Store::open(&path, Access::default())?.join(now, &member)?;
                let generation = watch(&Generation::path(&path));
                Box::new(StoreHolder::new(path, member.clone(), generation))
            }
        };
        let state = shared.look(loaded.hash)?;
        let generation = shared.as_of(state.changes);
        let parts = Parts {
            member,
            recorder,
            shared,
            reloader: None,
            own: None,
            generation,
            launch: launch::PinHolder::ByDaemon, // nothing is started
            entrance: None,
            faults: Vec::new(),
            db: None,
        };
        let mut judge = Self::start(now, conversation, loaded, parts);
        judge.guard.monitor_mut().know_places(hosting.places.clone());
        judge.take(now, state);
        judge.changed.clear(); // nobody has seen a list yet
        judge.introduce(now);
        Ok(judge)
    }

    /// Puts another policy in force.
    pub fn install(&mut self, now: Timestamp, loaded: &LoadedConfiguration) {
        // The policy of a user can have the same hash as the host's, so the policies are compared too.
        if loaded.hash != self.policy_hash || !Arc::ptr_eq(&loaded.policy, self.policy()) {
            self.adopt(now, loaded);
        }
    }

    /// Returns whether judging the next message may take a moment: because shared state changed and is read first, or
    /// because calls of other processes in the session have to be considered.
    pub fn may_wait(&self) -> bool {
        let is_behind = self.host.shared.generation() != self.generation || !self.host.presence.is_here();
        is_behind || !self.others.is_empty() || self.twins || self.host.joined.elapsed() < JOIN_GRACE
    }

    /// Returns whether a tool is on the server's list, as it was read in this conversation and not reported as changed
    /// since.
    pub fn is_listed(&self, tool: &str) -> bool {
        self.guard.is_listed(tool)
    }

    /// Records an event of this conversation that is no message.
    pub fn tell(&self, event: Event) {
        self.host.push(event);
    }

    /// Leaves the session; the recorder continues for the others.
    pub fn leave(&mut self, now: Timestamp) {
        self.tell_left(now);
    }
}
