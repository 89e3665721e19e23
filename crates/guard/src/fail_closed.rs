//! The denial of uses while `mcp.fail_closed` is set and the shared state is not available.

use mcpmon_engine::Judgement;
use mcpmon_model::{Action, Content, Denial, Event, EventKind, FromClient, Severity, Timestamp, Verdict};
use mcpmon_policy::Mode;

use crate::{Absence, Guard};

/// The name of the rule.
pub const FAIL_CLOSED: &str = "mcp.fail_closed";

impl Guard {
    /// Blocks a use because the shared state, which would say whether it is allowed, is not available.
    pub(crate) fn refuse(&self, now: Timestamp, absence: Absence, judgement: &mut Judgement) {
        let Absence { reason, remedy } = absence;
        let action = match self.policy().mode {
            Mode::Enforce => Action::Block,
            Mode::Observe => Action::WouldBlock,
        };
        self.tell_call_judged(&mut judgement.events);
        // A blocked call reaches no server.
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
            }
            refused |= is_judgement;
        }
        if !refused {
            let cause = reason.to_owned();
            let mut event = Event::new(now, self.conversation.layer, EventKind::ServerDenied { cause });
            mark(&mut event, action, reason);
            judgement.events.push(event);
        }
        if action == Action::Block && !matches!(judgement.verdict, Verdict::Block(_)) {
            judgement.verdict = Verdict::Block(Denial {
                rule: FAIL_CLOSED.to_owned(),
                reason: reason.to_owned(),
                remedy: Some(remedy.to_owned()),
                event: None,
            });
        }
    }

    /// Adds the event that a call was judged, if the only event so far says that it was called.
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
                origin: _,
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
    event.rule = Some(FAIL_CLOSED.to_owned());
    event.reason = Some(reason.to_owned());
}

/// Returns whether the client asks a server to do something, or for something that a model reads.
pub(crate) const fn is_use(content: &Content<'_>) -> bool {
    match content {
        Content::Client(FromClient::Call(_) | FromClient::Read { .. } | FromClient::Prompt { .. }) => true,
        Content::Client(
            FromClient::Request { .. } | FromClient::Reply { .. } | FromClient::Notice { .. },
        )
        | Content::Server(_) => false,
    }
}
