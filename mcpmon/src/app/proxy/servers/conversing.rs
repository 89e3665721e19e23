//! Conversations with remote servers: each has a session that judges one request at a time.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use mcpmon_config::LoadedConfiguration;
use mcpmon_guard::{HeldCallState, HttpGuard};
use mcpmon_http::mcp::{HeldPostState, NoAnswer, ServerGuard};
use mcpmon_model::{Denial, Event, EventKind, Incident, Layer, ListKind, Severity, Timestamp};
use mcpmon_protocol::filter::mcp_http::{
    HttpOutput, HttpResponse, HttpSession, Post, PostDecision, ReadState, ResponseFault, UnlistedTools,
    WholeResponseHead,
};
use mcpmon_session::{OfferQueue, Policies, Session};
use tokio::task::block_in_place;

use crate::app::certificate::mismatch;

/// Number of bytes whose judging takes so long that other tasks of the thread are moved meanwhile.
const LONG: usize = 64 << 10;
/// The time for which the same trouble of a server is not reported again, and the time after which another trouble is.
const SAME: Duration = Duration::from_secs(600);
const OTHER: Duration = Duration::from_secs(5);

/// The policies, and the user of the conversation.
#[derive(Debug)]
pub(super) struct PolicyOf {
    pub(super) policies: Policies,
    pub(super) uid: u32,
}

/// A conversation.
#[derive(Debug)]
pub(super) struct ServerConversation {
    /// URL of the server, as events show it.
    url: String,
    policy: PolicyOf,
    inner: Mutex<Inner>,
    used: AtomicI64,
    offers: Arc<OfferQueue>,
}

#[derive(Debug)]
struct Inner {
    judge: Session,
    loaded: Arc<LoadedConfiguration>,
    /// The trouble that was reported last.
    trouble: Option<ReportedTrouble>,
}

/// A trouble of a server that was reported.
#[derive(Debug)]
struct ReportedTrouble {
    kind: EventKind,
    at: Timestamp,
    /// The number of the server's messages until then.
    messages: u64,
}

impl ServerConversation {
    /// Makes a conversation that is judged by `judge`, under `loaded` at first, and under the user's changed policies
    /// later.
    pub(super) fn new(
        now: Timestamp,
        url: String,
        mut judge: Session,
        loaded: Arc<LoadedConfiguration>,
        policy: PolicyOf,
        offers: Arc<OfferQueue>,
    ) -> Self {
        judge.admit_messages(now);
        Self {
            url,
            policy,
            offers,
            used: AtomicI64::new(now.0),
            inner: Mutex::new(Inner {
                judge,
                loaded,
                trouble: None,
            }),
        }
    }

    /// Notes a use.
    pub(super) fn touch(&self, now: Timestamp) {
        self.used.store(now.0, Ordering::Relaxed);
    }

    /// Returns the time of the last use.
    pub(super) fn used(&self) -> Timestamp {
        Timestamp(self.used.load(Ordering::Relaxed))
    }

    /// Applies a changed policy, and does what is due at this time.
    pub(super) fn tick(&self, now: Timestamp) {
        let mut inner = lock(&self.inner);
        inner.follow(now, &self.policy);
        inner.judge.tick(now);
    }

    /// Ends the conversation.
    pub(super) fn leave(&self, now: Timestamp) {
        let mut inner = lock(&self.inner);
        inner.judge.leave(now);
    }

    /// Does `work` with the session. If this may take long, or another request has the session, other tasks of this
    /// thread are moved to another one meanwhile.
    fn with<T>(&self, now: Timestamp, size: usize, work: impl FnOnce(&mut Inner) -> T) -> T {
        self.touch(now);
        let work = |inner: &mut Inner| {
            inner.follow(now, &self.policy);
            work(inner)
        };
        match self.inner.try_lock() {
            Ok(mut inner)
                if size < LONG && !inner.judge.may_wait() && inner.is_up_to_date(now, &self.policy) =>
            {
                work(&mut inner)
            }
            Ok(mut inner) => block_in_place(|| work(&mut inner)),
            Err(TryLockError::Poisoned(poisoned)) => work(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => block_in_place(|| work(&mut lock(&self.inner))),
        }
    }

    /// Locks the session until the guard is dropped, like a long request.
    #[cfg(test)]
    pub(super) fn busy(&self) -> impl Drop + '_ {
        lock(&self.inner)
    }
}

impl Inner {
    /// Returns whether the session has the current policy; false if this cannot be told without waiting.
    fn is_up_to_date(&self, now: Timestamp, policy: &PolicyOf) -> bool {
        let loaded = policy.policies.at_once(now, Some(policy.uid));
        loaded.is_some_and(|loaded| Arc::ptr_eq(&loaded, &self.loaded))
    }

    /// Applies the current policy.
    fn follow(&mut self, now: Timestamp, policy: &PolicyOf) {
        let loaded = policy.policies.of(now, Some(policy.uid));
        if !Arc::ptr_eq(&loaded, &self.loaded) {
            self.judge.install(now, &loaded);
            self.loaded = loaded;
            self.judge.admit_messages(now);
        }
    }

    /// Returns whether a trouble is to be reported: the same one only after a while, or if the server has sent messages
    /// meanwhile.
    fn is_news(&mut self, now: Timestamp, kind: &EventKind) -> bool {
        let messages = self.judge.server_messages();
        let is_news = self.trouble.as_ref().is_none_or(|told| {
            let pause = if told.kind == *kind { SAME } else { OTHER };
            told.messages != messages || now.since(told.at) >= pause
        });
        if is_news {
            self.trouble = Some(ReportedTrouble {
                kind: kind.clone(),
                at: now,
                messages,
            });
        }
        is_news
    }
}

impl ServerConversation {
    /// Does `work` on `size` bytes with the session's guard.
    fn guarded<T>(&self, now: Timestamp, size: usize, work: impl FnOnce(&mut HttpGuard<'_>) -> T) -> T {
        self.with(now, size, |inner| inner.judge.http(now, &self.offers, work))
    }
}

impl ServerGuard for ServerConversation {
    fn post(
        &self,
        now: Timestamp,
        session: &mut HttpSession,
        post: &Post<'_>,
        out: &mut HttpOutput,
    ) -> Result<PostDecision, UnlistedTools> {
        self.guarded(now, post.body.len(), |guard| guard.post(session, post, out))
    }

    fn push(
        &self,
        now: Timestamp,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        bytes: &[u8],
        out: &mut HttpOutput,
    ) -> ReadState {
        let size = response.held() + bytes.len();
        self.guarded(now, size, |guard| guard.push(session, response, bytes, out))
    }

    fn end(
        &self,
        now: Timestamp,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        out: &mut HttpOutput,
    ) -> WholeResponseHead {
        let size = response.held();
        self.guarded(now, size, |guard| guard.end(session, response, out))
    }

    fn fail(
        &self,
        now: Timestamp,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        fault: &ResponseFault,
        out: &mut HttpOutput,
    ) -> WholeResponseHead {
        self.guarded(now, 0, |guard| guard.fail(session, response, fault, out))
    }

    fn halted(&self, now: Timestamp) -> Option<Denial> {
        self.with(now, 0, |inner| inner.judge.halted(now))
    }

    fn incident(&self, now: Timestamp, incident: &Incident) {
        self.with(now, 0, |inner| inner.judge.incident(now, incident));
    }

    fn changed(&self, now: Timestamp) -> BTreeSet<ListKind> {
        self.with(now, 0, |inner| {
            inner.judge.refresh(now);
            inner.judge.take_changed_lists()
        })
    }

    fn is_listed(&self, tool: &str) -> bool {
        let now = self.used();
        self.with(now, 0, |inner| inner.judge.is_listed(tool))
    }

    fn held_call(&self, now: Timestamp, held_call: &str) -> HeldPostState {
        let state = self.with(now, 0, |inner| inner.judge.held_call(now, held_call));
        match state {
            HeldCallState::Waiting => HeldPostState::Waiting,
            HeldCallState::Settled => HeldPostState::Settled,
            HeldCallState::Gone => HeldPostState::Gone,
        }
    }

    fn withdraw_call(&self, now: Timestamp, held_call: &str) {
        self.with(now, 0, |inner| inner.judge.withdraw_call(now, held_call));
    }

    fn failed(&self, now: Timestamp, failure: &NoAnswer) {
        let event = trouble(now, &self.url, failure);
        self.with(now, 0, |inner| {
            if inner.is_news(now, &event.kind) {
                inner.judge.tell(event);
            }
        });
    }
}

/// Builds the event about a server that did not answer properly.
fn trouble(now: Timestamp, url: &str, failure: &NoAnswer) -> Event {
    let url = url.to_owned();
    match failure {
        NoAnswer::Unreachable { cause } | NoAnswer::Unfit { cause } => {
            let cause = cause.clone();
            let mut event = Event::new(now, Layer::McpHttp, EventKind::DiscoveryFailed { url, cause });
            event.severity = Severity::Medium;
            event
        }
        NoAnswer::Certificate { pinned, shown } => mismatch(now, url, *pinned, *shown),
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    // A session that panicked in the middle of a message still judges the next one.
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}
