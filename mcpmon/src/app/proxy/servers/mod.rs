//! Conversations behind the MCP proxy: one session judges each server in each session of a user.

mod callers;
mod conversing;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, Weak},
    thread,
    time::Duration,
};

use mcpmon_config::LoadedConfiguration;
use mcpmon_http::{
    Who,
    mcp::{AskedServer, Bounds, Crowded, NotJudged, Remote, ServerGuard, Servers},
};
use mcpmon_model::{
    Action, Conversation, Event, EventKind, Layer, NO_USER, PinKey, ServerId, SessionId, Severity, Timestamp,
};
use mcpmon_policy::Transport;
use mcpmon_session::{HostedParts, OfferQueue, Policies, Session, clock};
use tokio::task::block_in_place;

pub(super) use self::callers::Callers;
use self::conversing::{PolicyOf, ServerConversation};
use super::Tokens;
use crate::app::{discovery::DiscoveryTask, wrap};

/// Most conversations at a time, of all users and of one.
const MAX_CONVERSATIONS: usize = 1024;
const MAX_OF_USER: usize = 256;
/// The user id for clients on other hosts.
const ELSEWHERE: u32 = NO_USER;
/// The time after which an unused conversation is forgotten.
const IDLE: Duration = Duration::from_secs(1800);
/// The rule that refuses a user more than their share.
const SHARE: &str = "proxy_share";
/// The interval at which conversations are ticked.
const TICK: Duration = Duration::from_secs(1);

/// The remote servers, and the conversations with them. Clones share the state.
#[derive(Clone, Debug)]
pub struct RemoteServers(Arc<RemoteServersState>);

#[derive(Debug)]
struct RemoteServersState {
    hosting: HostedParts,
    tokens: Tokens,
    callers: Arc<Callers>,
    policies: Policies,
    /// The remote servers that the host's policy declares.
    declared: RwLock<BTreeMap<ServerId, Arc<Remote>>>,
    conversations: Mutex<BTreeMap<ConversationKey, Arc<ServerConversation>>>,
    /// Locked while a conversation is opened, so that each is opened once.
    opening: Mutex<()>,
    offers: Arc<OfferQueue>,
    discovery: OnceLock<DiscoveryTask>,
}

/// The key of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ConversationKey {
    identity: PinKey,
    session: Option<SessionId>,
}

impl RemoteServers {
    /// Makes the state for the servers that the host's policy declares; `tokens` in paths identify the session of a
    /// request.
    pub fn new(policies: Policies, hosting: HostedParts, tokens: Tokens) -> Self {
        let remotes = Self(Arc::new(RemoteServersState {
            hosting,
            tokens,
            callers: Arc::default(),
            declared: RwLock::new(remotes(&policies.host(), &BTreeMap::new())),
            policies,
            conversations: Mutex::default(),
            opening: Mutex::default(),
            offers: Arc::new(OfferQueue::new(|work| block_in_place(work))),
            discovery: OnceLock::new(),
        }));
        remotes.keep_time();
        remotes
    }

    /// Applies another policy, to open conversations too.
    pub fn follow(&self) {
        let host = self.0.policies.host();
        let mut declared = self.0.declared.write().unwrap_or_else(PoisonError::into_inner);
        *declared = remotes(&host, &declared);
        drop(declared);
        if let Some(discovery) = self.0.discovery.get() {
            discovery.install(host);
        }
    }

    /// Returns the ids of the servers.
    pub fn ids(&self) -> Vec<ServerId> {
        self.declared().keys().cloned().collect()
    }

    fn declared(&self) -> RwLockReadGuard<'_, BTreeMap<ServerId, Arc<Remote>>> {
        self.0.declared.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of conversations.
    pub fn len(&self) -> usize {
        self.conversations().len()
    }

    /// Returns whether there are no conversations.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends all conversations.
    pub fn close(&self) {
        let left = std::mem::take(&mut *self.conversations());
        for conversing in left.into_values() {
            conversing.leave(clock::now());
        }
    }

    /// Returns the tokens that are valid in paths.
    pub(super) fn tokens(&self) -> Tokens {
        self.0.tokens.clone()
    }

    /// Returns the sessions of calling processes.
    pub(super) fn callers(&self) -> Arc<Callers> {
        Arc::clone(&self.0.callers)
    }

    /// Starts the thread that ticks the conversations as long as this state exists; a tick may take a moment.
    fn keep_time(&self) {
        let shared = Arc::downgrade(&self.0);
        let started = thread::Builder::new()
            .name("mcpmon-mcp".to_owned())
            .spawn(move || {
                loop {
                    thread::sleep(TICK);
                    let Some(shared) = Weak::upgrade(&shared) else {
                        return;
                    };
                    Self(shared).tick(clock::now());
                }
            });
        if let Err(error) = started {
            tracing::error!(%error, "approvals and changes of the policy reach MCP clients late");
        }
    }

    /// Starts the task that asks the servers for their lists as long as this state exists.
    pub fn discover(&self) {
        let shared = Arc::downgrade(&self.0);
        let servers = move || Some(Arc::new(Self(shared.upgrade()?)) as Arc<dyn Servers>);
        match DiscoveryTask::start(self.0.policies.host(), servers) {
            Ok(discovery) => drop(self.0.discovery.set(discovery)),
            Err(error) => tracing::error!(%error, "servers are listed only when a client asks them"),
        }
    }

    fn tick(&self, now: Timestamp) {
        for conversing in self.retire(now) {
            conversing.leave(now);
        }
        let all: Vec<_> = self.conversations().values().cloned().collect();
        for conversing in all {
            conversing.tick(now);
        }
    }

    /// Removes the conversations that are not held and were idle for long, and returns them.
    fn retire(&self, now: Timestamp) -> Vec<Arc<ServerConversation>> {
        let mut conversations = self.conversations();
        let is_over = |conversing: &Arc<ServerConversation>| {
            !is_held(conversing) && now.since(conversing.used()) >= IDLE
        };
        let over = conversations.extract_if(.., |_, conversing| is_over(conversing));
        over.map(|(_, conversing)| conversing).collect()
    }

    fn find(&self, now: Timestamp, whose: &ConversationKey) -> Option<Arc<ServerConversation>> {
        let conversing = self.conversations().get(whose).cloned()?;
        conversing.touch(now);
        Some(conversing)
    }

    fn open(
        &self,
        now: Timestamp,
        remote: &Remote,
        whose: ConversationKey,
        agent: Option<String>,
    ) -> Result<Arc<ServerConversation>, NotJudged> {
        let uid = whose.identity.uid;
        // Reading a user's own file may take a while, so it is done before the lock is taken.
        let loaded = self.0.policies.of(now, Some(uid));
        let _turn = self.0.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(conversing) = self.find(now, &whose) {
            return Ok(conversing);
        }
        self.make_room(now, uid)?;
        let conversation = Conversation {
            identity: whose.identity.clone(),
            server_type: remote.server_type,
            session: whose.session.clone(),
            layer: Layer::McpHttp,
        };
        let judge = Session::hosted(now, &self.0.hosting, &loaded, conversation, agent).map_err(|error| {
            let id = &remote.id;
            NotJudged(format!(
                "nobody can judge what is said to `{id}`: {error}; see `mcpmon doctor`"
            ))
        })?;
        let url = bare(&remote.url).to_owned();
        let offers = Arc::clone(&self.0.offers);
        let policy = PolicyOf {
            policies: self.0.policies.clone(),
            uid,
        };
        let conversing = ServerConversation::new(now, url, judge, loaded, policy, offers);
        let conversing = Arc::new(conversing);
        self.conversations().insert(whose, Arc::clone(&conversing));
        Ok(conversing)
    }

    /// Removes a conversation if the user, or all users together, have too many: the one that is not held and was used
    /// longest ago; or else one that a client's session holds but that is idle. That client must initialise a new
    /// session.
    fn make_room(&self, now: Timestamp, uid: u32) -> Result<(), NotJudged> {
        let mut conversations = self.conversations();
        let of_user = conversations
            .keys()
            .filter(|whose| whose.identity.uid == uid)
            .count();
        if conversations.len() < MAX_CONVERSATIONS && of_user < MAX_OF_USER {
            return Ok(());
        }
        let oldest = conversations
            .iter()
            .filter(|(whose, _)| of_user < MAX_OF_USER || whose.identity.uid == uid)
            .map(|(whose, conversing)| (whose, is_held(conversing), conversing.used()))
            .filter(|(_, is_held, used)| !is_held || now.since(*used) >= IDLE)
            .min_by_key(|(_, is_held, used)| (*is_held, *used))
            .map(|(whose, ..)| whose.clone());
        let oldest = oldest.and_then(|whose| conversations.remove(&whose));
        drop(conversations);
        let Some(oldest) = oldest else {
            let message = "too many conversations with MCP servers are under way; end some of the clients";
            return Err(NotJudged(message.to_owned()));
        };
        oldest.leave(now);
        Ok(())
    }

    fn conversations(&self) -> MutexGuard<'_, BTreeMap<ConversationKey, Arc<ServerConversation>>> {
        // No operation leaves it half changed.
        self.0
            .conversations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a client's request, stream or session holds the conversation, besides the table.
fn is_held(conversing: &Arc<ServerConversation>) -> bool {
    Arc::strong_count(conversing) > 1
}

impl Servers for RemoteServers {
    fn session(&self, token: &str) -> Option<SessionId> {
        self.0.tokens.session(token)
    }

    fn remote(&self, id: &str) -> Option<Arc<Remote>> {
        let id = ServerId::new(id).ok()?;
        self.declared().get(&id).cloned()
    }

    fn ids(&self) -> Vec<ServerId> {
        Self::ids(self)
    }

    fn bounds(&self) -> Bounds {
        let limits = self.0.policies.host().policy.limits;
        Bounds {
            limits: wrap::limits(limits),
            streams: limits.max_streams,
        }
    }

    fn crowded(&self, now: Timestamp, crowded: &Crowded) {
        let Crowded { server, cause, times } = crowded;
        let kind = EventKind::RequestJudged {
            method: "proxy".to_owned(),
            summary: format!("refused {times} times within a minute: {cause}"),
            count: 1,
        };
        let mut event = Event::new(now, Layer::McpHttp, kind);
        event.server_id.clone_from(server);
        event.action = Action::Block;
        event.severity = Severity::Medium;
        event.rule = Some(SHARE.to_owned());
        event.reason = Some(format!("{cause}; end some of the clients"));
        self.0.hosting.recorder().push(event);
    }

    fn conversation(&self, asked: AskedServer) -> Result<Arc<dyn ServerGuard>, NotJudged> {
        let Who { uid, process } = match asked.peer.known() {
            Some(who) => who,
            None => block_in_place(|| asked.peer.who()),
        };
        let uid = match uid {
            Some(uid) => uid,
            None if !asked.peer.is_here() => ELSEWHERE,
            // A client whose user is not known must not count as root.
            None if nix::unistd::getuid().is_root() => {
                let message = "the kernel does not tell whose connection this is; make a new one";
                return Err(NotJudged(message.to_owned()));
            }
            None => nix::unistd::getuid().as_raw(),
        };
        let of_process = process.and_then(|process| self.0.callers.session(process));
        let (found, agent) = of_process.map(|found| (found.id, found.agent)).unzip();
        let whose = ConversationKey {
            identity: PinKey {
                server: asked.server.id.clone(),
                name: bare(&asked.server.url).to_owned(),
                uid,
            },
            session: asked.session.or(found),
        };
        let now = clock::now();
        if let Some(conversing) = self.find(now, &whose) {
            return Ok(conversing);
        }
        let agent = agent.or_else(|| asked.agent.map(String::from));
        let opened = block_in_place(|| self.open(now, &asked.server, whose, agent));
        Ok(opened?)
    }
}

/// Returns the declared servers with a URL. For a server that did not change, the value before is kept.
fn remotes(
    loaded: &LoadedConfiguration,
    before: &BTreeMap<ServerId, Arc<Remote>>,
) -> BTreeMap<ServerId, Arc<Remote>> {
    let declared = loaded.policy.servers.iter().filter_map(|server| {
        let Transport::Remote {
            server_type,
            url,
            tls_fingerprint,
            ..
        } = &server.transport
        else {
            return None;
        };
        let remote = Remote {
            id: server.id.clone(),
            url: url.clone(),
            server_type: *server_type,
            tls: *tls_fingerprint,
        };
        let same = before.get(&server.id).filter(|before| ***before == remote);
        Some((
            server.id.clone(),
            same.cloned().unwrap_or_else(|| Arc::new(remote)),
        ))
    });
    declared.collect()
}

/// Returns a URL without its query, which may be secret. Declared URLs contain no credentials.
fn bare(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}
