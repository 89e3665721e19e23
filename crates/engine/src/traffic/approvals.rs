//! Approvals: who was asked, and what a person's word or silence does. Whoever asks the person is outside.

use mcpmon_model::{
    Action, ApprovalState, Conversation, DefinitionKey, DefinitionKind, Event, EventKind, Layer, ServerId,
    Severity, Timestamp,
};
use mcpmon_policy::{Approvals, OnTimeout};

use super::{
    Traffic,
    tell::{Teller, about},
};
use crate::{
    definitions::{Approval, DefinitionEntry},
    effect::Judgement,
    wording::shown,
};

/// A definition that was never seen, or not as it was named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSeen {
    /// Nothing of that name was listed.
    #[error("{server} never listed {name}; see `mcpmon registry list`")]
    Definition {
        /// The server.
        server: ServerId,
        /// The name, as it may be shown.
        name: String,
    },
}

/// A person is asked about a definition.
#[derive(Clone, Debug)]
struct ApprovalRequest {
    key: DefinitionKey,
    conversation: Conversation,
    deadline: Timestamp,
}

/// Everything a person is asked about.
#[derive(Debug, Default)]
pub(super) struct Pending(Vec<ApprovalRequest>);

/// Requests that wait at a time; a definition beyond them stays hidden without one.
const MAX_PENDING: usize = 256;

impl Pending {
    /// Asks about `entry`, where there is room.
    pub(super) fn ask(
        &mut self,
        teller: &Teller<'_>,
        entry: &mut DefinitionEntry,
        approvals: Approvals,
    ) -> Option<Event> {
        if self.0.len() >= MAX_PENDING {
            return None;
        }
        entry.approval = Approval::Asked;
        let timeout = i64::try_from(approvals.timeout.as_nanos()).unwrap_or(i64::MAX);
        self.0.push(ApprovalRequest {
            key: entry.record.key.clone(),
            conversation: teller.conversation.clone(),
            deadline: Timestamp(teller.now.0.saturating_add(timeout)),
        });
        let mut event = teller.event(approval(&entry.record.key, "mcpmon", ApprovalState::Requested));
        event.severity = Severity::High;
        event.action = Action::Audit;
        Some(event)
    }

    /// Takes the requests that nobody answered by `now`.
    fn overdue(&mut self, now: Timestamp) -> Vec<ApprovalRequest> {
        self.0.extract_if(.., |request| request.deadline <= now).collect()
    }

    /// Takes the request about `key`.
    fn answered(&mut self, key: &DefinitionKey) -> Option<ApprovalRequest> {
        let position = self.0.iter().position(|request| request.key == *key)?;
        Some(self.0.remove(position))
    }
}

impl Traffic {
    /// Time passes: whoever did not answer in time has answered.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Judgement {
        let mut judgement = Judgement {
            events: self.repeats.over(now),
            ..Judgement::default()
        };
        for request in self.pending.overdue(now) {
            let Some(entry) = self.book.entry_mut(&request.key) else {
                continue;
            };
            if !entry.standing.needs_approval(&self.policy) {
                continue; // approved elsewhere, or it is another by now
            }
            entry.approval = match self.policy.approvals.on_timeout {
                OnTimeout::Deny => Approval::Refused,
                OnTimeout::Allow => Approval::Waived,
            };
            let kind = approval(&request.key, "mcpmon", ApprovalState::TimedOut);
            let mut event = about(now, &request.conversation, kind);
            event.action = match self.policy.approvals.on_timeout {
                OnTimeout::Deny => Action::Block,
                OnTimeout::Allow => Action::Audit,
            };
            judgement.events.push(event);
        }
        self.tick_held_calls(now, &mut judgement);
        judgement
    }

    /// A person accepts a definition as it is listed: it is pinned so, whatever was found in it.
    pub(crate) fn approve(
        &mut self,
        now: Timestamp,
        key: &DefinitionKey,
        by: &str,
    ) -> Result<Judgement, NotSeen> {
        let entry = self.seen(key)?;
        entry.pin(Some(by));
        entry.record.hidden = false;
        Ok(self.word_of(now, key, by, ApprovalState::Granted))
    }

    /// A person refuses a definition: it stays hidden, or is hidden again where it was approved.
    pub(crate) fn refuse(
        &mut self,
        now: Timestamp,
        key: &DefinitionKey,
        by: &str,
    ) -> Result<Judgement, NotSeen> {
        let entry = self.seen(key)?;
        entry.approval = Approval::Refused;
        entry.unpin();
        Ok(self.word_of(now, key, by, ApprovalState::Denied))
    }

    fn seen(&mut self, key: &DefinitionKey) -> Result<&mut DefinitionEntry, NotSeen> {
        self.book.entry_mut(key).ok_or_else(|| NotSeen::Definition {
            server: key.identity.server.clone(),
            name: shown(&key.name).into_owned(),
        })
    }

    /// Applies a person's decision.
    fn word_of(&mut self, now: Timestamp, key: &DefinitionKey, by: &str, state: ApprovalState) -> Judgement {
        let mut judgement = Judgement::default();
        let kind = approval(key, by, state);
        let event = match self.pending.answered(key) {
            Some(request) => about(now, &request.conversation, kind),
            None => {
                let mut event = Event::new(now, Layer::Agent, kind);
                event.server_id = Some(key.identity.server.clone());
                event
            }
        };
        judgement.events.push(event);
        if let Some(entry) = self.book.entry_mut(key) {
            entry.stand(now, &self.policy);
            judgement.store(&entry.record);
        }
        if let Some(offers) = self.book.get_mut(&key.identity) {
            offers.note_poisoned(&self.policy);
        }
        judgement
    }

    /// The next list of a server is judged as its first; `name` is that of one tool, prompt or resource.
    pub(crate) fn forget(&mut self, now: Timestamp, server: &ServerId, name: Option<&str>) -> Judgement {
        let forgotten = self.book.forget(server, name);
        self.renew(now);
        Judgement {
            store_effects: forgotten
                .into_iter()
                .map(crate::StoreEffect::ForgetDefinition)
                .collect(),
            ..Judgement::default()
        }
    }
}

fn approval(key: &DefinitionKey, by: &str, state: ApprovalState) -> EventKind {
    let server = &key.identity.server;
    let subject = match key.kind {
        DefinitionKind::Instructions => format!("{server}:"),
        DefinitionKind::Tool
        | DefinitionKind::Prompt
        | DefinitionKind::Resource
        | DefinitionKind::Template
        | DefinitionKind::Skill
        | DefinitionKind::App => {
            format!("{server}:{}", key.name)
        }
    };
    EventKind::Approval {
        subject,
        by: by.to_owned(),
        state,
        held_call: None,
    }
}
