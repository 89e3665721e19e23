//! Approvals of definitions: pending requests, and the effects of a person's answer or of none. Another component asks
//! the person.

use mcpmon_model::{
    Action, ApprovalState, Conversation, DefinitionKey, Event, EventKind, Layer, ServerId, Severity,
    Timestamp,
};
use mcpmon_policy::{Approvals, OnTimeout};

use super::{
    Traffic,
    tell::{Teller, about, because},
};
use crate::{
    definitions::{Approval, DefinitionEntry},
    effect::Judgement,
    wording::{command, shown},
};

/// The error that a definition was never seen, or not under this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSeen {
    /// No definition of that name was listed.
    #[error("{server} never listed {name}; see `mcpmon registry list`")]
    Definition {
        /// The server.
        server: ServerId,
        /// The name, in a form that may be displayed.
        name: String,
    },
}

/// A pending request to approve a definition.
#[derive(Clone, Debug)]
struct ApprovalRequest {
    key: DefinitionKey,
    conversation: Conversation,
    deadline: Timestamp,
}

/// All pending requests.
#[derive(Debug, Default)]
pub(super) struct Pending(Vec<ApprovalRequest>);

/// Most pending requests; a further definition stays hidden without a request.
const MAX_PENDING: usize = 256;

impl Pending {
    /// Asks for approval of `entry`, unless too many requests are pending.
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
        let mut event = teller.event(approval(entry, "mcpmon", ApprovalState::Requested));
        event.severity = Severity::High;
        event.action = Action::Audit;
        event.rule = Some(RULE.to_owned());
        Some(event)
    }

    /// Takes the requests that were not answered by `now`.
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
    /// Notes that time passed: each request that was not answered in time gets the default answer of the policy.
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
                continue; // approved elsewhere, or changed
            }
            let approvals = self.policy.approvals;
            let kind = approval(entry, "mcpmon", ApprovalState::TimedOut);
            let mut event = about(now, &request.conversation, kind);
            if let Some((severity, _)) = entry.standing.danger {
                event.severity = severity;
            }
            event.rule = Some(RULE.to_owned());
            let server = &request.key.identity.server;
            let silence = format!("nobody answered within {} s", approvals.timeout.as_secs());
            match approvals.on_timeout {
                OnTimeout::Deny => {
                    entry.approval = Approval::Refused;
                    event.action = Action::Block;
                    let reason = format!("{silence}: {} stays hidden", shown(&request.key.name));
                    let subject = format!("{server}:{}", request.key.name);
                    because(&mut event, &reason, Some(&command(&["approve", &subject])));
                }
                OnTimeout::Allow => {
                    entry.approval = Approval::Waived;
                    entry.record.hidden = false;
                    judgement.store(&entry.record);
                    event.action = Action::Audit;
                    let reason = format!(
                        "{silence}, and `mcp.approvals.on_timeout` is `allow`: {} can be used without an approval",
                        shown(&request.key.name)
                    );
                    let subject = format!("{server}:{}", request.key.name);
                    because(
                        &mut event,
                        &reason,
                        Some(&command(&["approvals", "deny", &subject])),
                    );
                }
            }
            judgement.events.push(event);
        }
        self.tick_held_calls(now, &mut judgement);
        judgement
    }

    /// Accepts a definition as it is listed, in a person's name: it is pinned, whatever was found in it.
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

    /// Refuses a definition in the name of a person, whom `by` names with the time: it stays hidden, or is hidden again
    /// if it was approved.
    pub(crate) fn refuse(
        &mut self,
        now: Timestamp,
        key: &DefinitionKey,
        by: &str,
    ) -> Result<Judgement, NotSeen> {
        let entry = self.seen(key)?;
        entry.approval = Approval::Refused;
        entry.denied_by = Some(by.to_owned());
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
        if let Some(entry) = self.book.entry_mut(key) {
            let kind = approval(entry, by, state);
            let mut event = match self.pending.answered(key) {
                Some(request) => about(now, &request.conversation, kind),
                None => {
                    let mut event = Event::new(now, Layer::Agent, kind);
                    event.server_id = Some(key.identity.server.clone());
                    event.package = key.identity.package();
                    event
                }
            };
            event.rule = Some(RULE.to_owned());
            judgement.events.push(event);
            entry.stand(now, &self.policy);
            judgement.store(&entry.record);
        }
        if let Some(offers) = self.book.get_mut(&key.identity) {
            offers.note_poisoned(&self.policy);
        }
        judgement
    }

    /// Forgets a server's definitions, or those named `name`: its next list is judged as the first.
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

/// The name of the rule in events.
const RULE: &str = "approval";

fn approval(entry: &DefinitionEntry, by: &str, state: ApprovalState) -> EventKind {
    EventKind::approval(&entry.record, by, state)
}
