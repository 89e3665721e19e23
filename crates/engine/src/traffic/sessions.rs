//! Servers that come and go, names that are too similar to others, and definitions that other processes recorded.

use std::collections::BTreeSet;

use mcpmon_detect::similarity::{LIKE, resembles, similar, well_known};
use mcpmon_model::{
    Action, Conversation, DefinitionKind, DefinitionRecord, DerivedId, EventKind, PinKey, ServerId,
    SessionId, Severity, Timestamp,
};

use super::{SessionPeers, Traffic, tell::about};
use crate::{effect::Judgement, own_names::OwnNames};

/// Most known names that are compared besides those of observed servers.
const MAX_KNOWN: usize = 4096;
/// Most similar names that are reported of one server.
const MAX_REPORTED: usize = 16;

impl Traffic {
    /// Notes the id with which the server of a conversation starts. Returns the names by which the policy permits it.
    pub(crate) fn starts_as(&mut self, identity: &PinKey, derived: &DerivedId) -> OwnNames {
        if let Some(offers) = self.book.open(identity, &self.policy) {
            offers.starts_as(identity, derived, &self.policy);
        }
        OwnNames::of(&self.policy, identity).started_as(&self.policy, Some(derived))
    }

    /// Notes that a conversation belongs to a session with `others`: its server's name is compared with theirs, with
    /// those of known servers, and with well-known names.
    pub(crate) fn joined(
        &mut self,
        now: Timestamp,
        conversation: &Conversation,
        company: SessionPeers<'_>,
    ) -> Judgement {
        self.present.join(conversation);
        self.companies.joined(conversation, company);
        let others = company.others;
        // With other servers present, mentions of their tools in definitions are judged differently.
        self.generation += 1;
        let rule = self.policy.name_similarity;
        if !rule.is_on() {
            return Judgement::default();
        }
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
        let ids: BTreeSet<&str> = ids.map(ServerId::as_str).filter(|name| !is_own(name)).collect();
        let well_known = || well_known().iter().copied();
        let name = server.as_str();
        let built_in = || resembles(name, ids.iter().copied().chain(well_known()));
        let by_ratio = |ratio: f64| {
            // Hardly a name differs from every well-known one by more than a low threshold allows.
            similar(name, ids.iter().copied(), ratio).or_else(|| similar(name, well_known(), ratio.max(LIKE)))
        };
        let found = rule.built_in.then(built_in).flatten();
        let Some(found) = found.or_else(|| rule.ratio.and_then(by_ratio)) else {
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
        if offers.resembles.contains(&found.similar_to) || offers.resembles.len() >= MAX_REPORTED {
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

    /// Notes the end of a conversation: its server offers nothing any more, unless another session still uses it.
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

    /// Sets the complete list of servers of `session` that other processes observe.
    pub(crate) fn know_members(&mut self, session: Option<&SessionId>, members: &[PinKey]) {
        self.present.replace(session, members);
    }

    /// Sets further servers with which names are compared.
    pub(crate) fn know(&mut self, servers: Vec<ServerId>) {
        self.known = servers;
        self.known.truncate(MAX_KNOWN);
    }

    /// Loads what other processes recorded.
    pub(crate) fn load(&mut self, now: Timestamp, records: Vec<DefinitionRecord>) {
        self.book.load(records, &self.policy);
        self.renew(now);
    }

    /// Returns every known definition.
    pub(crate) fn records(&self) -> impl Iterator<Item = &DefinitionRecord> {
        self.book.entries().map(|entry| &entry.record)
    }
}

/// Returns a score from 0 to 1 in thousandths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it was brought into the range just before"
)]
fn thousandths(score: f64) -> u16 {
    (score.clamp(0.0, 1.0) * 1000.0).round() as u16
}
