//! Servers that come and go, and names that are too much like others. What other processes recorded.

use std::collections::BTreeSet;

use mcpmon_detect::similarity::{resembles, well_known};
use mcpmon_model::{
    Action, Conversation, DefinitionKind, DefinitionRecord, EventKind, PinKey, ServerId, SessionId, Severity,
    Timestamp,
};

use super::{SessionPeers, Traffic, tell::about};
use crate::effect::Judgement;

/// Names beside those of servers in sight that are compared.
const MAX_KNOWN: usize = 4096;
/// Resemblances that are told of one server.
const MAX_TOLD: usize = 16;

impl Traffic {
    /// A conversation is part of a session with `others`: its server's name is compared with theirs, with those
    /// that are known, and with those that everybody knows.
    pub(crate) fn joined(
        &mut self,
        now: Timestamp,
        conversation: &Conversation,
        company: SessionPeers<'_>,
    ) -> Judgement {
        self.present.join(conversation);
        self.companies.joined(conversation, company);
        let others = company.others;
        // What is said of the tools of others is another matter once there are others.
        self.generation += 1;
        let Some(threshold) = self.policy.name_similarity else {
            return Judgement::default();
        };
        let server = &conversation.identity.server;
        let is_own = |name: &str| ServerId::new(name).is_ok_and(|id| id.is_spelling_of(server));
        let is_declared = self.policy.servers.iter().any(|declared| declared.id == *server);
        if is_declared || well_known().iter().any(|name| is_own(name)) {
            return Judgement::default();
        }
        let ids = others
            .iter()
            .chain(&self.known)
            .chain(self.book.servers())
            .chain(self.policy.servers.iter().map(|declared| &declared.id));
        let known: BTreeSet<&str> = ids
            .map(ServerId::as_str)
            .chain(well_known().iter().copied())
            .filter(|name| !is_own(name))
            .collect();
        let Some(found) = resembles(server.as_str(), known, threshold) else {
            return Judgement::default();
        };
        if self
            .policy
            .suppresses(&["name_similarity", found.method], server, "", now)
        {
            return Judgement::default();
        }
        let Some(offers) = self.book.open(&conversation.identity, &self.policy) else {
            return Judgement::default();
        };
        if offers.resembles.contains(&found.similar_to) || offers.resembles.len() >= MAX_TOLD {
            return Judgement::default();
        }
        offers.resembles.push(found.similar_to.clone());
        let mut event = about(
            now,
            conversation,
            EventKind::NameSimilarity {
                similar_to: found.similar_to.clone(),
                score: thousandths(found.score),
                method: found.method.to_owned(),
            },
        );
        event.action = Action::Audit;
        event.severity = Severity::High;
        event.rule = Some("name_similarity".to_owned());
        event.reason = Some(format!(
            "server {server} has nearly the name of {}; if it is meant to be there, declare it in `mcp.servers`",
            found.similar_to
        ));
        Judgement::of_event(event)
    }

    /// A conversation is over: its server offers nothing any more, unless another session still speaks with it.
    pub(crate) fn left(&mut self, now: Timestamp, conversation: &Conversation) -> Judgement {
        let mut judgement = Judgement {
            events: self.repeats.finish(),
            ..Judgement::default()
        };
        self.withdraw_calls(now, &mut judgement);
        if self.present.leave(conversation) {
            return judgement;
        }
        self.registry.remove_server(&conversation.identity.server);
        if let Some(offers) = self.book.get_mut(&conversation.identity) {
            offers.of_mut(DefinitionKind::Tool).unregister();
        }
        judgement
    }

    /// Other processes see what `session` says to these servers, and to no others.
    pub(crate) fn know_members(&mut self, session: Option<&SessionId>, members: &[PinKey]) {
        self.present.replace(session, members);
    }

    /// Servers that names are compared with too.
    pub(crate) fn know(&mut self, servers: Vec<ServerId>) {
        self.known = servers;
        self.known.truncate(MAX_KNOWN);
    }

    /// Takes what other processes recorded.
    pub(crate) fn load(&mut self, now: Timestamp, records: Vec<DefinitionRecord>) {
        self.book.load(records, &self.policy);
        self.renew(now);
    }

    /// Every definition that is known.
    pub(crate) fn records(&self) -> impl Iterator<Item = &DefinitionRecord> {
        self.book.entries().map(|entry| &entry.record)
    }
}

/// A score from 0 to 1 in thousandths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it was brought into the range just before"
)]
fn thousandths(score: f64) -> u16 {
    (score.clamp(0.0, 1.0) * 1000.0).round() as u16
}
