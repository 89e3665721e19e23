//! Known MCP sessions: each belongs to the conversation in which it was opened.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hyper::Uri;
use mcpmon_model::{ListKind, ServerId, Timestamp};
use mcpmon_protocol::filter::mcp_http::{DecodeLimits, HttpSession, ServerKnowledge};
use tokio::sync::{Mutex as Turns, OwnedMutexGuard};

use super::{ServerGuard, old::Aside, own::Lists, server::TooMany};
use crate::shares::{QuotaOwner, may_take};

/// The interval at which unused sessions are searched for.
const SWEEP: Duration = Duration::from_secs(60);

/// The time for which a conversation without sessions and requests is remembered.
const UNUSED: Duration = Duration::from_secs(1800);

/// The state common to all sessions of a conversation, and to requests without a session.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) server: ServerId,
    pub(super) guard: Arc<dyn ServerGuard>,
    /// The knowledge gained about the server's tools.
    pub(super) learned: ServerKnowledge,
    /// The lists that the proxy itself asked for.
    pub(super) lists: Lists,
    news: Mutex<News>,
    owner: QuotaOwner,
    used: Used,
}

/// The lists whose content changed, and the number of changes at that time.
#[derive(Debug, Default)]
struct News {
    count: u64,
    latest: BTreeMap<ListKind, u64>,
}

/// A session with a server.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) conversation: Arc<Conversation>,
    session: Arc<Turns<HttpSession>>,
    /// Output for the one stream of the transport of 2024-11-05.
    pub(super) aside: Aside,
    owner: QuotaOwner,
    used: Used,
}

impl Live {
    /// A new session.
    pub(super) fn new(
        conversation: &Arc<Conversation>,
        limits: DecodeLimits,
        owner: QuotaOwner,
    ) -> Arc<Self> {
        let session = HttpSession::new(limits, conversation.learned.clone());
        Self::with(conversation, session, owner)
    }

    /// A new session of the transport of 2024-11-05.
    pub(super) fn old(
        conversation: &Arc<Conversation>,
        limits: DecodeLimits,
        owner: QuotaOwner,
    ) -> Arc<Self> {
        let session = HttpSession::legacy(limits, conversation.learned.clone());
        Self::with(conversation, session, owner)
    }

    fn with(conversation: &Arc<Conversation>, session: HttpSession, owner: QuotaOwner) -> Arc<Self> {
        Arc::new(Self {
            conversation: Arc::clone(conversation),
            session: Arc::new(Turns::new(session)),
            aside: Aside::default(),
            owner,
            used: Used::now(),
        })
    }

    /// Locks the state of the session. The guard of a message holds it for as long as the judgement takes, so
    /// waiting for it never blocks a thread: other tasks run on it.
    pub(super) fn session(&self) -> impl Future<Output = OwnedMutexGuard<HttpSession>> + Send + use<> {
        Arc::clone(&self.session).lock_owned()
    }

    /// Locks the session if it is free.
    pub(super) fn free_session(&self) -> Option<OwnedMutexGuard<HttpSession>> {
        Arc::clone(&self.session).try_lock_owned().ok()
    }
}

/// The time of the last use.
#[derive(Debug)]
struct Used(Mutex<Instant>);

impl Used {
    fn now() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    fn touch(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn at(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key of a conversation: the server, and the address of its guard, which is unique as long as the guard is held.
type Whose = (ServerId, usize);
/// The second part of a session's key: `Mcp-Session-Id`, or the URL that an `endpoint` event named.
type Id = Box<str>;

/// An open session.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    pub(super) live: Arc<Live>,
    /// The URL for its messages, if that is not the endpoint.
    pub(super) place: Option<Uri>,
}

/// The sessions of all servers.
#[derive(Debug)]
pub(super) struct Sessions {
    most: usize,
    idle: Duration,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    conversations: BTreeMap<Whose, Arc<Conversation>>,
    sessions: BTreeMap<(Whose, Id), Opened>,
    swept: Instant,
}

impl Sessions {
    /// A table of at most `most` sessions, each remembered for `idle` after its last use.
    pub(super) const fn new(most: usize, idle: Duration, now: Instant) -> Self {
        Self {
            most,
            idle,
            known: Mutex::new(Known {
                conversations: BTreeMap::new(),
                sessions: BTreeMap::new(),
                swept: now,
            }),
        }
    }

    /// Returns the conversation of `guard`. If `owner` has too many, the owner's least recently used one is forgotten.
    pub(super) fn conversation(
        &self,
        server: &ServerId,
        guard: Arc<dyn ServerGuard>,
        owner: QuotaOwner,
    ) -> Result<Arc<Conversation>, TooMany> {
        let mut known = self.lock();
        let whose = whose(server, &guard);
        if let Some(conversation) = known.conversations.get(&whose) {
            conversation.used.touch();
            return Ok(Arc::clone(conversation));
        }
        known.sweep(self.idle, Instant::now());
        let used = |conversation: &Arc<Conversation>| (conversation.owner, conversation.used.at());
        make_room(&mut known.conversations, self.most, owner, used)?;
        let conversation = Arc::new(Conversation {
            server: server.clone(),
            guard,
            learned: ServerKnowledge::default(),
            lists: Lists::default(),
            news: Mutex::default(),
            owner,
            used: Used::now(),
        });
        known.conversations.insert(whose, Arc::clone(&conversation));
        Ok(conversation)
    }

    /// Returns the session with this id, if it was opened in this conversation.
    pub(super) fn find(&self, conversation: &Conversation, id: &str) -> Option<Opened> {
        let known = self.lock();
        let opened = known.sessions.get(&(conversation.whose(), id.into()))?;
        opened.live.used.touch();
        Some(opened.clone())
    }

    /// Remembers an open session, and replaces one with the same id. If the owner has too many, the owner's least
    /// recently used one is forgotten.
    pub(super) fn insert(&self, id: &str, live: &Arc<Live>, place: Option<Uri>) -> Result<(), TooMany> {
        let mut known = self.lock();
        known.sweep(self.idle, Instant::now());
        live.used.touch();
        let key = (live.conversation.whose(), id.into());
        if !known.sessions.contains_key(&key) {
            let used = |opened: &Opened| (opened.live.owner, opened.live.used.at());
            make_room(&mut known.sessions, self.most, live.owner, used)?;
        }
        let live = Arc::clone(live);
        known.sessions.insert(key, Opened { live, place });
        Ok(())
    }

    /// Forgets a session that has ended.
    pub(super) fn forget(&self, conversation: &Conversation, id: &str) {
        self.lock().sessions.remove(&(conversation.whose(), id.into()));
    }

    /// Forgets unused sessions and conversations. Cheap if that was done a moment ago.
    pub(super) fn sweep(&self, now: Instant) {
        self.lock().sweep(self.idle, now);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // A poisoned lock is used anyway: no code that holds it can leave the value half changed.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Conversation {
    /// Returns the lists that changed since `seen`, and updates `seen`: every stream of a conversation reports every
    /// change.
    pub(super) fn changed(&self, now: Timestamp, seen: &mut u64) -> Vec<ListKind> {
        let changed = self.guard.changed(now);
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        for kind in changed {
            news.count += 1;
            let count = news.count;
            news.latest.insert(kind, count);
        }
        let seen = std::mem::replace(seen, news.count);
        let newer = news.latest.iter().filter(|(_, when)| **when > seen);
        newer.map(|(kind, _)| *kind).collect()
    }

    /// Returns the number of changes so far.
    pub(super) fn changes(&self) -> u64 {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    fn whose(&self) -> Whose {
        whose(&self.server, &self.guard)
    }
}

fn whose(server: &ServerId, guard: &Arc<dyn ServerGuard>) -> Whose {
    (server.clone(), Arc::as_ptr(guard).cast::<()>().addr())
}

impl Known {
    fn sweep(&mut self, idle: Duration, now: Instant) {
        if now.saturating_duration_since(self.swept) < SWEEP {
            return;
        }
        self.swept = now;
        let is_fresh = |used: &Used, idle| now.saturating_duration_since(used.at()) < idle;
        // A session with other references is in use: by a stream or a request.
        self.sessions
            .retain(|_, opened| Arc::strong_count(&opened.live) > 1 || is_fresh(&opened.live.used, idle));
        let idle = idle.min(UNUSED);
        self.conversations.retain(|_, conversation| {
            Arc::strong_count(conversation) > 1 || is_fresh(&conversation.used, idle)
        });
    }
}

/// Makes room for one more entry of `owner` among `most`. If the owner has its share, the owner's least recently used
/// entry is removed; entries of others are kept.
fn make_room<K: Clone + Ord, T>(
    held: &mut BTreeMap<K, T>,
    most: usize,
    owner: QuotaOwner,
    used: impl Fn(&T) -> (QuotaOwner, Instant),
) -> Result<(), TooMany> {
    let own = held.iter().filter(|(_, one)| used(one).0 == owner);
    if may_take(owner, own.clone().count(), held.len(), most).is_ok() {
        return Ok(());
    }
    let Some(oldest) = own.min_by_key(|(_, one)| used(one).1).map(|(key, _)| key.clone()) else {
        return Err(TooMany::Known { most });
    };
    tracing::warn!(
        %owner,
        most,
        "more MCP sessions than mcpmon knows of one user at a time: the one that was used longest ago is forgotten"
    );
    held.remove(&oldest);
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use mcpmon_model::{Denial, Incident, Message, Verdict};
    use mcpmon_protocol::filter::mcp_http::{
        HttpOutput, HttpResponse, Post, PostDecision, ReadState, ResponseFault, UnlistedTools,
        WholeResponseHead,
    };

    use super::*;
    use crate::mcp::NoAnswer;

    /// Lets everything pass, and reports one changed list, once.
    #[derive(Debug, Default)]
    pub(in super::super) struct Open(Mutex<BTreeSet<ListKind>>);

    fn allowed(_: &Message<'_>) -> Verdict {
        Verdict::Allow
    }

    impl ServerGuard for Open {
        fn post(
            &self,
            now: Timestamp,
            session: &mut HttpSession,
            post: &Post<'_>,
            out: &mut HttpOutput,
        ) -> Result<PostDecision, UnlistedTools> {
            session.post_listed(now, post, &mut allowed, out)
        }

        fn push(
            &self,
            now: Timestamp,
            session: &mut HttpSession,
            response: &mut HttpResponse,
            bytes: &[u8],
            out: &mut HttpOutput,
        ) -> ReadState {
            response.push(now, session, bytes, &mut allowed, out)
        }

        fn end(
            &self,
            now: Timestamp,
            session: &mut HttpSession,
            response: &mut HttpResponse,
            out: &mut HttpOutput,
        ) -> WholeResponseHead {
            response.end(now, session, &mut allowed, out)
        }

        fn fail(
            &self,
            _now: Timestamp,
            session: &mut HttpSession,
            response: &mut HttpResponse,
            fault: &ResponseFault,
            out: &mut HttpOutput,
        ) -> WholeResponseHead {
            response.fail(session, fault, out)
        }

        fn halted(&self, _now: Timestamp) -> Option<Denial> {
            None
        }

        fn incident(&self, _now: Timestamp, _incident: &Incident) {}

        fn changed(&self, _now: Timestamp) -> BTreeSet<ListKind> {
            std::mem::take(&mut self.0.lock().unwrap())
        }

        fn is_listed(&self, _tool: &str) -> bool {
            false
        }

        fn failed(&self, _now: Timestamp, _failure: &NoAnswer) {}
    }

    const IDLE: Duration = Duration::from_secs(600);

    fn files() -> ServerId {
        ServerId::new("files").unwrap()
    }

    const ONE: QuotaOwner = QuotaOwner::User(1);
    const TWO: QuotaOwner = QuotaOwner::User(2);

    fn conversation(sessions: &Sessions, guard: &Arc<dyn ServerGuard>) -> Arc<Conversation> {
        sessions.conversation(&files(), Arc::clone(guard), ONE).unwrap()
    }

    fn opened(sessions: &Sessions, guard: &Arc<dyn ServerGuard>, id: &str) -> Arc<Conversation> {
        let conversation = conversation(sessions, guard);
        let live = Live::new(&conversation, DecodeLimits::default(), ONE);
        sessions.insert(id, &live, None).unwrap();
        conversation
    }

    #[test]
    fn a_session_is_of_one_conversation_with_one_server() {
        let sessions = Sessions::new(8, IDLE, Instant::now());
        let (one, two): (Arc<dyn ServerGuard>, Arc<dyn ServerGuard>) =
            (Arc::new(Open::default()), Arc::new(Open::default()));
        let conversation = opened(&sessions, &one, "abc");
        assert!(sessions.find(&conversation, "abc").is_some());
        let other = self::conversation(&sessions, &two);
        assert!(sessions.find(&other, "abc").is_none());
        let mail = ServerId::new("mail").unwrap();
        let elsewhere = sessions.conversation(&mail, Arc::clone(&one), ONE).unwrap();
        assert!(sessions.find(&elsewhere, "abc").is_none());
        let again = self::conversation(&sessions, &one);
        assert!(Arc::ptr_eq(&again, &conversation));
        sessions.forget(&again, "abc");
        assert!(sessions.find(&conversation, "abc").is_none());
    }

    #[test]
    fn what_nobody_uses_is_forgotten_and_its_guard_let_go() {
        let begun = Instant::now();
        let sessions = Sessions::new(8, IDLE, begun);
        let guard: Arc<dyn ServerGuard> = Arc::new(Open::default());
        let conversation = opened(&sessions, &guard, "idle");
        opened(&sessions, &guard, "streaming");
        let held = sessions.find(&conversation, "streaming").unwrap();
        sessions.sweep(begun + IDLE + SWEEP);
        assert!(sessions.find(&conversation, "idle").is_none());
        assert!(
            sessions.find(&conversation, "streaming").is_some(),
            "it is in use"
        );
        drop((held, conversation));
        sessions.sweep(Instant::now() + 2 * (IDLE + SWEEP));
        sessions.sweep(Instant::now() + 3 * (IDLE + SWEEP));
        assert_eq!(Arc::strong_count(&guard), 1);
    }

    #[test]
    fn conversations_are_no_more_than_may_be() {
        let sessions = Sessions::new(4, IDLE, Instant::now());
        let guards: Vec<Arc<dyn ServerGuard>> = (0..3).map(|_| Arc::new(Open::default()) as _).collect();
        for guard in &guards {
            conversation(&sessions, guard);
        }
        let held: Vec<usize> = guards.iter().map(Arc::strong_count).collect();
        assert_eq!(held, [1, 2, 2], "the oldest made room");
        let open = |owner| sessions.conversation(&files(), Arc::new(Open::default()), owner);
        assert!(
            open(TWO).is_ok() && open(QuotaOwner::User(3)).is_ok(),
            "there is room for others"
        );
        assert_eq!(open(QuotaOwner::User(4)).unwrap_err(), TooMany::Known { most: 4 });
        let held: Vec<usize> = guards.iter().map(Arc::strong_count).collect();
        assert_eq!(held, [1, 2, 2], "nobody lost anything to others");
    }

    #[test]
    fn nobody_loses_a_session_to_another_user() {
        let sessions = Sessions::new(4, IDLE, Instant::now());
        let guard: Arc<dyn ServerGuard> = Arc::new(Open::default());
        let conversation = conversation(&sessions, &guard);
        let open = |id: &str, owner| {
            sessions.insert(
                id,
                &Live::new(&conversation, DecodeLimits::default(), owner),
                None,
            )
        };
        let is_known = |id: &str| sessions.find(&conversation, id).is_some();
        open("oldest", TWO).unwrap();
        for id in ["one", "two", "three", "four"] {
            open(id, ONE).unwrap();
        }
        assert!(is_known("oldest"));
        let known: Vec<&str> = ["one", "two", "three", "four"]
            .into_iter()
            .filter(|id| is_known(id))
            .collect();
        assert_eq!(known, ["three", "four"], "its own made room");
        open("three", ONE).unwrap();
        assert!(is_known("three") && is_known("four"), "the same one needs none");
        open("last", QuotaOwner::User(3)).unwrap();
        assert_eq!(open("more", QuotaOwner::User(4)), Err(TooMany::Known { most: 4 }));
    }

    #[test]
    fn every_stream_hears_of_a_change_once() {
        let sessions = Sessions::new(8, IDLE, Instant::now());
        let open_guard = Arc::new(Open::default());
        let guard: Arc<dyn ServerGuard> = Arc::clone(&open_guard) as _;
        let conversation = conversation(&sessions, &guard);
        let (mut one, mut two) = (conversation.changes(), conversation.changes());
        open_guard.0.lock().unwrap().insert(ListKind::Tools);
        let now = Timestamp(1);
        assert_eq!(conversation.changed(now, &mut one), [ListKind::Tools]);
        assert_eq!(conversation.changed(now, &mut one), []);
        open_guard.0.lock().unwrap().insert(ListKind::Prompts);
        assert_eq!(
            conversation.changed(now, &mut two),
            [ListKind::Tools, ListKind::Prompts]
        );
        assert_eq!(conversation.changed(now, &mut one), [ListKind::Prompts]);
        let mut late = conversation.changes();
        assert_eq!(conversation.changed(now, &mut late), [], "it lists after that");
    }
}
