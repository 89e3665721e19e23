//! The guard of one conversation, between the filter that reads the conversation and the engine.
//!
//! A transport hands over the bytes that a side wrote, and gets bytes to write, events to record and effects to carry out.
//! The events come first: a denial is recorded before the answer that names it is written. The guard asks its
//! [`GuardHost`] for what pure code cannot know.
//!
//! The crate is pure: it uses no clock, file, socket, environment, task, log or randomness.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod admission;
mod arbiter;
mod fail_closed;
mod held_calls;
mod host;
mod http;
mod stdio;
#[cfg(test)]
mod tests;

use mcpmon_engine::{Judgement, Monitor, Observation, SessionPeers, StoreEffect, file_lookups};
use mcpmon_model::{
    Content, Conversation, Denial, Event, EventId, FromServer, Incident, Message, Timestamp, Verdict,
};
use mcpmon_policy::Policy;

pub use self::{
    fail_closed::FAIL_CLOSED,
    held_calls::HeldCallState,
    host::{Absence, GuardHost},
    http::HttpGuard,
    stdio::GuardOutput,
};

/// Judges one conversation.
#[derive(Debug)]
pub struct Guard {
    conversation: Conversation,
    monitor: Monitor,
    new_event_id: fn(Timestamp) -> EventId,
    /// The denial of every request while a person has stopped the session or the host.
    halted: Option<Denial>,
    /// The denial of every message of the client while the server may not be used.
    barred: Option<Denial>,
    server_messages: u64,
}

/// The results of a judgement besides its verdict. Record the events and carry out the effects before the bytes are
/// written.
#[derive(Debug, Default)]
pub struct JudgementOutcome {
    /// The events to record, in order.
    pub events: Vec<Event>,
    /// The effects to carry out, in order.
    pub effects: Vec<StoreEffect>,
}

impl Guard {
    /// Creates a guard over `conversation`. An event that a denial names gets its id from `new_event_id`.
    pub const fn new(
        conversation: Conversation,
        monitor: Monitor,
        new_event_id: fn(Timestamp) -> EventId,
    ) -> Self {
        Self {
            conversation,
            monitor,
            new_event_id,
            halted: None,
            barred: None,
            server_messages: 0,
        }
    }

    /// Returns the conversation.
    pub const fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Returns the engine.
    pub const fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// Returns the engine, for changes of the policy and of shared state.
    pub const fn monitor_mut(&mut self) -> &mut Monitor {
        &mut self.monitor
    }

    /// Returns the policy in force.
    pub fn policy(&self) -> &Policy {
        self.monitor.policy()
    }

    /// Judges a message. A call that passes every local rule is then checked with the other calls of its session.
    pub fn message(
        &mut self,
        now: Timestamp,
        message: &Message<'_>,
        host: &mut dyn GuardHost,
        outcome: &mut JudgementOutcome,
    ) -> Verdict {
        match &message.content {
            Content::Client(_) => {}
            Content::Server(said) => {
                self.server_messages += 1;
                let is_offer = matches!(said, FromServer::Listing(_) | FromServer::Introduction(_));
                if is_offer && let Some(definitions) = host.definitions() {
                    self.monitor.load_definitions(now, definitions);
                }
            }
        }
        let lookups = file_lookups(message);
        let real_paths = match lookups.is_empty() {
            true => Vec::new(),
            false => host.real_paths(lookups),
        };
        let observation = Observation::Message(&self.conversation, message, real_paths);
        let mut judgement = self.monitor.observe(now, observation);
        if let Some(ask) = judgement.ask.take() {
            let shared = host.check(now, self.monitor.policy(), ask.call());
            let observation = Observation::Shared(&self.conversation, message, ask, shared);
            judgement = self.monitor.observe(now, observation);
        }
        let held_call = match &judgement.verdict {
            Verdict::Ask(held_call) => Some(held_call.clone()),
            Verdict::Allow
            | Verdict::Hide(_)
            | Verdict::StripInstructions
            | Verdict::Redact(_)
            | Verdict::Block(_) => None,
        };
        if self.policy().fail_closed
            && fail_closed::is_use(&message.content)
            && let Some(absence) = host.absence()
        {
            self.refuse(now, absence, &mut judgement);
        }
        let verdict = self.conclude(judgement, outcome);
        let verdict = match (&message.content, &verdict, &self.barred) {
            (_, Verdict::Block(_), _) | (Content::Server(_), ..) | (.., None) => verdict,
            (Content::Client(_), _, Some(denial)) => Verdict::Block(denial.clone()),
        };
        if let (Some(held_call), Verdict::Block(_)) = (held_call, &verdict) {
            self.withdraw(now, &held_call, outcome);
        }
        verdict
    }

    /// Judges bytes that are no message, or a message that may not pass.
    pub fn incident(&mut self, now: Timestamp, incident: &Incident, outcome: &mut JudgementOutcome) {
        let judgement = self
            .monitor
            .observe(now, Observation::Incident(&self.conversation, incident));
        drop(self.conclude(judgement, outcome));
    }

    /// Tells the engine which other servers are in the session.
    pub fn join(&mut self, now: Timestamp, company: SessionPeers<'_>, outcome: &mut JudgementOutcome) {
        let judgement = self
            .monitor
            .observe(now, Observation::Joined(&self.conversation, company));
        drop(self.conclude(judgement, outcome));
    }

    /// Tells the engine that the conversation is over.
    pub fn leave(&mut self, now: Timestamp, outcome: &mut JudgementOutcome) {
        let judgement = self.monitor.observe(now, Observation::Left(&self.conversation));
        drop(self.conclude(judgement, outcome));
    }

    /// Tells the engine that time has passed: approvals expire.
    pub fn tick(&mut self, now: Timestamp, outcome: &mut JudgementOutcome) {
        let judgement = self.monitor.observe(now, Observation::Tick);
        drop(self.conclude(judgement, outcome));
    }

    /// Returns whether a tool is on the server's list, as it was read in this conversation and not announced as changed
    /// since. Returns true for every tool while the server may not be used, because its list is then not requested.
    pub fn is_listed(&self, tool: &str) -> bool {
        self.barred.is_some() || self.monitor.is_listed(&self.conversation.identity, tool)
    }

    /// Returns the number of messages of the server so far.
    pub const fn server_messages(&self) -> u64 {
        self.server_messages
    }

    /// Adds the id of its event to a denial, and the events and effects to `outcome`.
    pub fn conclude(&self, mut judgement: Judgement, outcome: &mut JudgementOutcome) -> Verdict {
        judgement.name_refusal(self.new_event_id);
        outcome.events.append(&mut judgement.events);
        outcome.effects.append(&mut judgement.store_effects);
        judgement.verdict
    }
}
