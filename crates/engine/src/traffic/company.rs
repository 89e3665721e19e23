//! Sessions as far as this process knows them: their members, the calls through this process, and the categories of
//! tools.

use std::collections::BTreeMap;

use mcpmon_detect::category;
use mcpmon_model::{Conversation, Digest, RawJson, ServerId, SessionId, ToolCategory};
use mcpmon_policy::{Classifier, CrossServerDecision, Policy};

use crate::{
    cross_server::{CallWindow, Visible, naming},
    names::NamingClient,
    registry::Registry,
};

/// Most sessions that are kept.
const MAX_SESSIONS: usize = 1024;
/// Most tools of a session that wait for input, and most waiting calls of one of them.
const MAX_ASKING: usize = 256;
const MAX_ASKED: u32 = 1024;
/// Most definitions whose category is kept.
const MAX_CATEGORIES: usize = 1 << 14;

/// The other members of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionPeers<'a> {
    /// The other servers.
    pub others: &'a [ServerId],
    /// True if another process has a conversation with the same server.
    pub twins: bool,
}

impl<'a> SessionPeers<'a> {
    /// Returns peers of other servers only.
    pub const fn of(others: &'a [ServerId]) -> Self {
        Self { others, twins: false }
    }
}

/// Knowledge about every session.
#[derive(Debug, Default)]
pub(super) struct Companies {
    sessions: BTreeMap<Option<SessionId>, SessionKnowledge>,
    categories: BTreeMap<Digest, ToolCategory>,
    visible: Option<Visible>,
}

/// Knowledge about one session.
#[derive(Debug, Default)]
pub(super) struct SessionKnowledge {
    /// True if the session has several servers.
    pub(super) is_several: bool,
    /// True if other processes make calls in the session.
    pub(super) is_shared: bool,
    /// The client, which names the tools, if it is known.
    pub(super) client: Option<NamingClient>,
    /// The calls that were made through this process.
    pub(super) window: CallWindow,
    /// The number of calls by tool that were answered with a request for input, and were not continued yet.
    asking: BTreeMap<(ServerId, String), u32>,
}

impl SessionKnowledge {
    /// Notes that a call was answered with a request for input. A call beyond the limit counts again when it is
    /// resumed.
    pub(super) fn asks(&mut self, server: &ServerId, tool: &str) {
        let key = (server.clone(), tool.to_owned());
        if self.asking.len() >= MAX_ASKING && !self.asking.contains_key(&key) {
            return;
        }
        let asked = self.asking.entry(key).or_default();
        *asked = MAX_ASKED.min(*asked + 1);
    }

    /// Returns whether a call of the tool was answered with a request for input, and was not continued yet.
    pub(super) fn is_asking(&self, server: &ServerId, tool: &str) -> bool {
        self.asking.contains_key(&(server.clone(), tool.to_owned()))
    }

    /// Returns whether a call that claims to resume an earlier one does: each request for input allows it once.
    pub(super) fn goes_on(&mut self, server: &ServerId, tool: &str) -> bool {
        let key = (server.clone(), tool.to_owned());
        let Some(asked) = self.asking.get_mut(&key) else {
            return false;
        };
        *asked -= 1;
        if *asked == 0 {
            self.asking.remove(&key);
        }
        true
    }
}

impl Companies {
    /// Returns the session of `conversation`.
    pub(super) fn session(&mut self, conversation: &Conversation) -> &mut SessionKnowledge {
        if !self.sessions.contains_key(&conversation.session) && self.sessions.len() >= MAX_SESSIONS {
            self.sessions.pop_first();
        }
        self.sessions.entry(conversation.session.clone()).or_default()
    }

    /// Returns the client of a session, if a server knows it.
    pub(super) fn client(&self, session: &Option<SessionId>) -> Option<NamingClient> {
        self.sessions.get(session)?.client
    }

    /// Notes that a conversation belongs to a session with these peers.
    pub(super) fn joined(&mut self, conversation: &Conversation, company: SessionPeers<'_>) {
        let session = self.session(conversation);
        session.is_several = !company.others.is_empty();
        session.is_shared = session.is_several || company.twins;
    }

    /// Notes the name of the client, if the message is `initialize`.
    pub(super) fn introduced(
        &mut self,
        conversation: &Conversation,
        method: &str,
        params: Option<RawJson<'_>>,
    ) {
        if method != "initialize" {
            return;
        }
        let name = params
            .and_then(|params| params.member("clientInfo")?.member("name")?.text())
            .unwrap_or_default();
        self.session(conversation).client = NamingClient::of(&name);
    }

    /// Forgets the categories of tools.
    pub(super) fn forget_categories(&mut self) {
        self.categories.clear();
    }

    /// Returns the category of `tool` of `server`; `definition` is its listed definition, if there is one.
    pub(super) fn category(
        &mut self,
        policy: &Policy,
        server: &ServerId,
        tool: &str,
        definition: Option<(Digest, RawJson<'_>)>,
    ) -> ToolCategory {
        if let Some(said) = policy.categories.said(server, tool) {
            return said;
        }
        match (policy.categories.classifier, definition) {
            (Classifier::Names, _) => category::by_prefix(tool),
            (Classifier::Evidence, None) => category::classify(tool, None),
            (Classifier::Evidence, Some((hash, definition))) => {
                if let Some(known) = self.categories.get(&hash) {
                    return *known;
                }
                if self.categories.len() >= MAX_CATEGORIES {
                    self.categories.clear();
                }
                let told = category::classify(tool, Some(definition));
                self.categories.insert(hash, told);
                told
            }
        }
    }

    /// Returns every tool by the name that the client of this session gives it.
    pub(super) fn visible(
        &mut self,
        conversation: &Conversation,
        registry: &Registry,
        decision: CrossServerDecision,
    ) -> (&Visible, bool) {
        let client = self.session(conversation).client;
        let renewed = Visible::renewed(self.visible.take(), registry, naming(decision, client));
        (self.visible.insert(renewed), client.is_some())
    }
}
