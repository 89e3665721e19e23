//! Connected wrappers: their sessions and servers, and the processes that they started.

mod calls;
mod claims;
mod handshake;
mod hosted;
mod lines;
mod peer;
mod readers;
mod records;
mod refused;
mod service;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use mcpmon_config::Sources;
use mcpmon_http::shares::{Quota, QuotaOwner, QuotaPermit};
use mcpmon_model::{CallAnswer, Digest, Event, Kills, ProcessId, SessionId};
use mcpmon_session::{Hello, clock, pins, protocol::StartedProcess};
use mcpmon_store::{Recorder, SessionMember, Store, StoreEntry, StoreReader, Urgency};
use tokio::net::UnixStream;

use self::{calls::SessionCalls, peer::OwnProgram, refused::RefusedWrappers};
pub(crate) use self::{claims::ClaimedStart, hosted::HostedRecords, service::ServiceRefusal};
use super::status::CodeSession;
use crate::app::{
    approval::{self, ApprovalDecision, ApprovalSubject, Decider},
    control::Rates,
    engine::EngineMessage,
    held_calls,
    inbox::Sender,
    kill, owners,
};

/// Most wrappers that are connected at a time, of the host and of one user.
const MAX_WRAPPERS: usize = 1024;
const MAX_OF_USER: usize = 256;
/// Most copies of users' records that are made at a time, for all users and for one.
const MAX_COPIES: usize = 4;
const MAX_COPIES_OF_USER: usize = 1;
/// Lines a second of one user's wrappers, and how many may come at once.
const RATE: u32 = 4000;
const BURST: u32 = 8000;
/// Most lines of [`MAX_SAID`](mcpmon_session::protocol::MAX_SAID) bytes in memory at a time, of all users and of one.
const MAX_LONG_LINES: usize = 32;
const MAX_LONG_LINES_OF_USER: usize = 8;
/// The longest wait until the recorder has written earlier records of wrappers.
const FLUSH: Duration = Duration::from_secs(1);
/// The time for which the servers of a departed wrapper are remembered: the start of a short-lived server is reported
/// when its files are hashed.
const REMEMBERED: Duration = Duration::from_secs(120);

/// The daemon's state of connected wrappers. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Wrappers(Arc<WrappersState>);

#[derive(Debug)]
struct WrappersState {
    own: OwnProgram,
    /// The engine, when it runs.
    engine: OnceLock<Sender<EngineMessage>>,
    recorder: Recorder,
    /// For writes that must be done before a request is answered; all others go through the recorder.
    store: Mutex<Store>,
    policy: Mutex<(Digest, Arc<Sources>)>,
    sessions: SessionCalls,
    connected: Mutex<BTreeMap<u64, ConnectedWrapper>>,
    /// Conversations that the daemon judges itself.
    hosted: Mutex<Vec<SessionMember>>,
    /// The wrappers that left, latest last.
    left: Mutex<VecDeque<LeftWrapper>>,
    /// The wrappers that were refused lately.
    refused: Mutex<RefusedWrappers>,
    places: Quota,
    /// The places of connections with their records, which are counted separately from those with requests.
    record_places: Quota,
    /// The places of connections with a question that takes time.
    question_places: Quota,
    /// The lines of wrappers, which are slowed down beyond it.
    rates: Rates,
    /// Copies of users' records that are being made.
    copies: Quota,
    /// The lines that are longer than usual, and are in memory.
    long_lines: Quota,
}

/// A connected wrapper.
#[derive(Clone, Debug)]
struct ConnectedWrapper {
    member: SessionMember,
    /// True if it starts its server as a process of this host.
    starts_server: bool,
    /// The program that it is about to start, until that start is reported.
    start: Option<Arc<ClaimedStart>>,
    /// The serving process that it started.
    child: Option<ProcessId>,
}

/// A wrapper that left.
#[derive(Clone, Debug)]
struct LeftWrapper {
    since: Instant,
    /// The ids of its processes, with their start times, are never those of other processes, even after their end.
    wrapper: ConnectedWrapper,
}

impl Wrappers {
    /// Makes the state without any wrapper.
    ///
    /// # Errors
    /// Returns an error if `/proc` does not show which file this process runs.
    pub(crate) fn new(
        recorder: Recorder,
        mut store: Store,
        hash: Digest,
        policy: Arc<Sources>,
    ) -> io::Result<Self> {
        let earlier = store.read(StoreReader::recent_of_users).unwrap_or_else(|error| {
            tracing::warn!(%error, "calls are not compared with those before this start");
            Vec::new()
        });
        Ok(Self(Arc::new(WrappersState {
            own: OwnProgram::look()?,
            engine: OnceLock::new(),
            sessions: SessionCalls::new(&policy, recorder.clone(), clock::now(), earlier),
            recorder,
            store: Mutex::new(store),
            policy: Mutex::new(shown(hash, policy)),
            connected: Mutex::default(),
            hosted: Mutex::default(),
            left: Mutex::default(),
            refused: Mutex::default(),
            places: Quota::of_each(MAX_WRAPPERS, MAX_OF_USER),
            record_places: Quota::of_each(MAX_WRAPPERS, MAX_OF_USER),
            question_places: Quota::of_each(MAX_WRAPPERS, MAX_OF_USER),
            rates: Rates::new(RATE, BURST),
            copies: Quota::of_each(MAX_COPIES, MAX_COPIES_OF_USER),
            long_lines: Quota::of_each(MAX_LONG_LINES, MAX_LONG_LINES_OF_USER),
        })))
    }

    /// Sets the engine, which receives the wrappers' claims about processes.
    pub(crate) fn tell(&self, engine: Sender<EngineMessage>) {
        if self.0.engine.set(engine).is_err() {
            tracing::warn!("wrappers have an engine already");
        }
    }

    /// Serves a wrapper that introduced itself, until it leaves.
    pub(crate) async fn serve(self, stream: UnixStream, hello: Hello) {
        // Without a place it is refused at once, and the wrapper continues with the user's own store.
        let place = place(&self.0.places, &stream);
        match place {
            Some(_) => service::serve(self, stream, hello).await,
            None => {
                let uid = stream.peer_cred().map(|peer| peer.uid());
                if let Ok(uid) = uid {
                    let refusal = ServiceRefusal::TooMany;
                    let owner = owners::owner(uid);
                    self.note_refused(clock::now(), owner, hello.identity.server, &refusal);
                }
                service::refuse(stream, &ServiceRefusal::TooMany).await;
            }
        }
    }

    /// Stores the records of a connected wrapper, until it leaves.
    pub(crate) async fn serve_records(self, stream: UnixStream, hello: Hello) {
        let place = place(&self.0.record_places, &stream);
        match place {
            Some(_) => service::serve_records(self, stream, hello).await,
            None => service::refuse(stream, &ServiceRefusal::TooMany).await,
        }
    }

    /// Answers a connected wrapper why a process that it started must not run, when that is decided.
    pub(crate) async fn serve_fate(self, stream: UnixStream, hello: Hello, process: StartedProcess) {
        let place = place(&self.0.question_places, &stream);
        match place {
            Some(_) => service::serve_fate(self, stream, hello, process.into()).await,
            None => service::refuse(stream, &ServiceRefusal::TooMany).await,
        }
    }

    /// Gives wrappers another policy from now on.
    pub(crate) fn publish(&self, hash: Digest, policy: Arc<Sources>) {
        self.0.sessions.adopt(&policy);
        *lock(&self.0.policy) = shown(hash, policy);
        if self
            .0
            .recorder
            .put(StoreEntry::PolicyChanged, Urgency::InOrder)
            .is_err()
        {
            tracing::warn!("running wrappers do not hear of the new policy");
        }
    }

    /// Carries out a decision about definitions: root's, or that of the user `own` about the own ones.
    ///
    /// # Errors
    /// Returns the obstacle, as a sentence.
    pub(crate) async fn decide(
        &self,
        subject: ApprovalSubject,
        word: ApprovalDecision,
        own: Option<u32>,
    ) -> Result<Vec<String>, String> {
        let shared = Arc::clone(&self.0);
        let decided = tokio::task::spawn_blocking(move || {
            // Definitions that a wrapper reported a moment ago are included.
            if let Err(unsettled) = shared.recorder.flush(FLUSH) {
                tracing::warn!(%unsettled, "the latest definitions are not in the store yet");
            }
            let mut store = lock(&shared.store);
            approval::decide(&mut store, clock::now(), &subject, &word, &decider(own))
        });
        let (done, events) = decided
            .await
            .map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())?;
        for event in events {
            self.0.recorder.push(event);
        }
        Ok(done)
    }

    /// Records an answer to a held call: root's, or that of the user `own` to an own one. Returns the subject of the
    /// call.
    ///
    /// # Errors
    /// Returns the obstacle, as a sentence.
    pub(crate) async fn answer_call(
        &self,
        id: String,
        answer: CallAnswer,
        own: Option<u32>,
    ) -> Result<String, String> {
        let shared = Arc::clone(&self.0);
        let answered = tokio::task::spawn_blocking(move || {
            // A call that was held a moment ago is included.
            if let Err(unsettled) = shared.recorder.flush(FLUSH) {
                tracing::warn!(%unsettled, "the latest held calls are not in the store yet");
            }
            let mut store = lock(&shared.store);
            held_calls::answer(&mut store, clock::now(), &id, answer, &decider(own))
        });
        let held = answered.await.map_err(|error| error.to_string())?;
        held.map(|held| held.subject()).map_err(|error| error.to_string())
    }

    /// Stops a session, or the host if the order names no session, or lifts the stop. Every wrapper learns of it at its
    /// next message.
    ///
    /// # Errors
    /// Returns the obstacle, as a sentence.
    pub(crate) async fn kill(&self, word: kill::KillOrder) -> Result<(Event, Kills), String> {
        let shared = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || {
            let mut store = lock(&shared.store);
            let event = kill::carry_out(&mut store, clock::now(), &word)?;
            Ok::<_, kill::KillError>((event, store.read(StoreReader::kills)?))
        });
        let done = done.await.map_err(|error| error.to_string())?;
        done.map_err(|error| error.to_string())
    }

    /// Returns the session of the wrapper that started a server. `processes` are the server's process and its known
    /// ancestors; the wrapper may have left.
    pub(crate) fn session_of(&self, processes: &[ProcessId]) -> Option<SessionId> {
        let connected = lock(&self.0.connected);
        let mut claims = connected
            .values()
            .filter_map(|wrapper| Some((wrapper.child?, wrapper)));
        let claim = claims.find(|(child, _)| processes.contains(child));
        if let Some((_, wrapper)) = claim {
            return Some(wrapper.member.session.clone());
        }
        let left = lock(&self.0.left);
        let mut left = left.iter().filter(|left| left.since.elapsed() < REMEMBERED);
        let is_claim =
            |left: &&LeftWrapper| left.wrapper.child.is_some_and(|child| processes.contains(&child));
        let claim = left.find(is_claim)?;
        Some(claim.wrapper.member.session.clone())
    }

    /// Returns whether a wrapper started a server. `processes` are the server's process and its known ancestors.
    pub(crate) fn cover(&self, processes: &[ProcessId]) -> bool {
        self.session_of(processes).is_some()
    }

    /// Removes a wrapper that has left.
    fn remove(&self, number: u64) {
        let mut connected = lock(&self.0.connected);
        let Some(wrapper) = connected.remove(&number) else {
            return;
        };
        let mut left = lock(&self.0.left);
        while left
            .front()
            .is_some_and(|first| first.since.elapsed() >= REMEMBERED || left.len() >= MAX_WRAPPERS)
        {
            left.pop_front();
        }
        claims::release_old(&mut left);
        left.push_back(LeftWrapper {
            since: Instant::now(),
            wrapper,
        });
    }

    /// Returns whether one of these processes runs this program, and may still claim to be a wrapper.
    pub(crate) fn may_cover(&self, processes: &[ProcessId]) -> bool {
        processes.iter().any(|process| self.0.own.is_run_by(*process))
    }

    /// Returns whether a process runs this program. `size` is that of the file that it runs, 0 if unknown: a file of
    /// another size is not opened.
    pub(crate) fn is_wrapper(&self, process: ProcessId, size: u64) -> bool {
        (size == 0 || size == self.0.own.size()) && self.0.own.is_run_by(process)
    }

    /// Returns the sessions whose models had code run recently that can call tools.
    pub(crate) fn sessions_with_code(&self) -> Vec<CodeSession> {
        let sessions = self.0.sessions.with_code(clock::now());
        let sessions = sessions.into_iter().map(|(uid, session)| CodeSession {
            session: session.as_str().to_owned(),
            uid,
        });
        sessions.collect()
    }

    /// Returns the number of connected wrappers.
    pub(crate) fn len(&self) -> usize {
        lock(&self.0.connected).len()
    }
}

/// Returns the policy as wrappers get it: without the sections that only the daemon uses.
fn shown(hash: Digest, policy: Arc<Sources>) -> (Digest, Arc<Sources>) {
    match policy.for_users() {
        Some(policy) => (policy.digest(), Arc::new(policy)),
        None => (hash, policy),
    }
}

/// Takes a place for the user at the other end, before the connection is verified.
fn place(places: &Quota, stream: &UnixStream) -> Option<QuotaPermit> {
    let peer = stream.peer_cred().ok()?;
    places.take(QuotaOwner::User(owners::owner(peer.uid()))).ok()
}

/// Returns root, or the user `own`, as the person who decides.
fn decider(own: Option<u32>) -> Decider {
    Decider {
        name: own.map_or_else(|| pins::APPROVED.to_owned(), |uid| format!("user {uid}")),
        own,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No operation leaves the guarded value half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
