//! Presence: the sessions that talk to each server now.

use std::collections::{BTreeMap, BTreeSet};

use mcpmon_model::{Conversation, PinKey, ServerId, SessionId};

/// Most conversations that are kept. Others count as absent when another conversation of their server ends: the tools
/// are then taken for gone until they are listed again.
const MAX_CONVERSATIONS: usize = 1 << 16;

/// Conversations that joined and did not leave.
#[derive(Debug, Default)]
pub(super) struct Present {
    of_server: BTreeMap<ServerId, BTreeSet<(PinKey, Option<SessionId>)>>,
    conversations: usize,
}

impl Present {
    /// Notes that a conversation exists.
    pub(super) fn join(&mut self, conversation: &Conversation) {
        if self.conversations >= MAX_CONVERSATIONS {
            return;
        }
        let server = conversation.identity.server.clone();
        let is_new = self
            .of_server
            .entry(server)
            .or_default()
            .insert(key(conversation));
        self.conversations += usize::from(is_new);
    }

    /// Sets the complete list of servers that `session` uses.
    pub(super) fn replace(&mut self, session: Option<&SessionId>, members: &[PinKey]) {
        self.of_server.clear();
        self.conversations = 0;
        for member in members.iter().take(MAX_CONVERSATIONS) {
            let key = (member.clone(), session.cloned());
            let is_new = self
                .of_server
                .entry(member.server.clone())
                .or_default()
                .insert(key);
            self.conversations += usize::from(is_new);
        }
    }

    /// Returns whether `session` uses a server other than `server`.
    pub(super) fn has_others(&self, session: Option<&SessionId>, server: &ServerId) -> bool {
        let mut others = self.of_server.iter().filter(|(other, _)| *other != server);
        others.any(|(_, present)| present.iter().any(|(_, known)| known.as_ref() == session))
    }

    /// Returns the identities under which `session` uses `server`.
    pub(super) fn identities<'p>(
        &'p self,
        session: Option<&'p SessionId>,
        server: &ServerId,
    ) -> impl Iterator<Item = &'p PinKey> {
        let present = self.of_server.get(server).into_iter().flatten();
        let of_session = present.filter(move |(_, known)| known.as_ref() == session);
        of_session.map(|(identity, _)| identity)
    }

    /// Notes the end of a conversation. Returns whether there is another one with its server.
    pub(super) fn leave(&mut self, conversation: &Conversation) -> bool {
        let server = &conversation.identity.server;
        let Some(present) = self.of_server.get_mut(server) else {
            return false;
        };
        self.conversations -= usize::from(present.remove(&key(conversation)));
        if present.is_empty() {
            self.of_server.remove(server);
            return false;
        }
        true
    }
}

fn key(conversation: &Conversation) -> (PinKey, Option<SessionId>) {
    (conversation.identity.clone(), conversation.session.clone())
}
