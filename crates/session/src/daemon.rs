//! Loss of the daemon in the middle of a session, or of the own store, and its return.

use std::time::Duration;

use mcpmon_engine::Judgement;
use mcpmon_model::{
    Action, Content, Denial, Event, EventKind, FromClient, Layer, Severity, Timestamp, Verdict,
};
use mcpmon_policy::Mode;

use super::Judge;

/// The time before an absent daemon is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// The rule by which uses are refused meanwhile.
pub(super) const RULE: &str = "mcp.fail_closed";

/// The availability of the shared state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// The shared state is available.
    Here,
    /// The shared state is unavailable; the time of the last attempt.
    Away(Timestamp),
}

impl Presence {
    pub(super) const fn is_here(self) -> bool {
        match self {
            Self::Here => true,
            Self::Away(_) => false,
        }
    }

    /// Returns whether it is time to try again.
    pub(super) fn is_due(self, now: Timestamp) -> bool {
        match self {
            Self::Here => true,
            Self::Away(tried) => now.since(tried) >= RETRY,
        }
    }
}

impl Judge {
    /// Says once that what others change is not heard of, and goes on with what is held.
    pub(super) fn tell_away(&mut self, now: Timestamp, cause: &str) {
        let was_here = self.presence.is_here();
        self.presence = Presence::Away(now);
        if !was_here {
            return;
        }
        let consequence = match self.policy().fail_closed {
            true => "uses of the server are blocked until it is back (mcp.fail_closed)",
            false => "what was known of pins, approvals and policy holds on",
        };
        let mut event = Event::new(
            now,
            Layer::Agent,
            EventKind::EnforcementDegraded {
                component: self.shared.name().to_owned(),
                cause: cause.to_owned(),
            },
        );
        event.severity = Severity::High;
        event.reason = Some(format!("{consequence}; see `mcpmon status`"));
        self.push(event);
    }

    /// Says that it is back, where it was away.
    pub(super) fn tell_back(&mut self, now: Timestamp) {
        if self.presence.is_here() {
            return;
        }
        self.presence = Presence::Here;
        let kind = EventKind::EnforcementRestored {
            component: self.shared.name().to_owned(),
            cause: "it answers again".to_owned(),
        };
        self.push(Event::new(now, Layer::Agent, kind));
    }

    /// Blocks a use because nobody can be asked whether it may be.
    pub(super) fn refuse(&self, now: Timestamp, judgement: &mut Judgement) {
        let (reason, remedy) = self.shared.absence();
        let action = match self.policy().mode {
            Mode::Enforce => Action::Block,
            Mode::Observe => Action::WouldBlock,
        };
        self.tell_call_judged(&mut judgement.events);
        // It goes to no server.
        if action == Action::Block {
            judgement
                .events
                .retain(|event| !matches!(event.kind, EventKind::ToolCalled { .. }));
        }
        let mut refused = false;
        for event in &mut judgement.events {
            let is_judgement = matches!(
                event.kind,
                EventKind::ToolCallIntercepted { .. }
                    | EventKind::ResourceRead { .. }
                    | EventKind::RequestJudged { .. }
            );
            if is_judgement && event.action < action {
                mark(event, action, reason);
                refused = true;
            }
        }
        if !refused {
            let cause = reason.to_owned();
            let mut event = Event::new(now, self.conversation.layer, EventKind::ServerDenied { cause });
            mark(&mut event, action, reason);
            judgement.events.push(event);
        }
        if action == Action::Block && !matches!(judgement.verdict, Verdict::Block(_)) {
            judgement.verdict = Verdict::Block(Denial {
                rule: RULE.to_owned(),
                reason: reason.to_owned(),
                remedy: Some(remedy.to_owned()),
                event: None,
            });
        }
    }
}

impl Judge {
    /// A call against which nothing stood until now is only told as called.
    fn tell_call_judged(&self, events: &mut Vec<Event>) {
        let is_judged = |event: &Event| matches!(event.kind, EventKind::ToolCallIntercepted { .. });
        if events.iter().any(is_judged) {
            return;
        }
        let judged = events.iter().find_map(|event| {
            let EventKind::ToolCalled {
                tool_name,
                jsonrpc_id,
                tool_call_id,
                trace_parent,
                input,
                client_uid,
            } = &event.kind
            else {
                return None;
            };
            let server = &self.conversation.identity.server;
            let mut entries = self.monitor.registry().lookup(tool_name).iter();
            let kind = EventKind::ToolCallIntercepted {
                tool_name: tool_name.clone(),
                visible_name: None,
                dialect: None,
                request_id: None,
                jsonrpc_id: Some(jsonrpc_id.clone()),
                tool_call_id: tool_call_id.clone(),
                trace_parent: trace_parent.clone(),
                server_type: Some(self.conversation.server_type),
                server_addr: self.monitor.address_of(&self.conversation.identity),
                tool_hash: entries
                    .find(|entry| entry.server == *server)
                    .map(|entry| entry.tool_hash),
                input: input.clone(),
                client_uid: *client_uid,
            };
            Some(Event {
                kind,
                ..event.clone()
            })
        });
        if let Some(judged) = judged {
            events.insert(0, judged);
        }
    }
}

fn mark(event: &mut Event, action: Action, reason: &str) {
    event.action = action;
    event.severity = event.severity.max(Severity::High);
    event.rule = Some(RULE.to_owned());
    event.reason = Some(reason.to_owned());
}

/// Returns whether the client asks a server to do something, or for something of it that a model reads.
pub(super) const fn is_use(content: &Content<'_>) -> bool {
    match content {
        Content::Client(FromClient::Call(_) | FromClient::Read { .. } | FromClient::Prompt { .. }) => true,
        Content::Client(
            FromClient::Request { .. } | FromClient::Reply { .. } | FromClient::Notice { .. },
        )
        | Content::Server(_) => false,
    }
}
