//! Incidents: data on the wire that is not a message. It was stopped where it was seen, in every mode, because real
//! servers execute lines that a strict parser refuses. Only the tap stops nothing.

use mcpmon_model::{Action, Conversation, EventKind, Incident, Layer, RequestId, Severity, Side, Timestamp};

use super::{
    Traffic,
    tell::{about, because},
};
use crate::{
    effect::Judgement,
    wording::{command, shown},
};

/// The form of an incident in events.
struct IncidentForm {
    rule: &'static str,
    action: Action,
    severity: Severity,
    reason: String,
}

impl Traffic {
    /// Records data on the wire that was no message.
    pub(crate) fn incident(
        &mut self,
        now: Timestamp,
        conversation: &Conversation,
        incident: &Incident,
    ) -> Judgement {
        let IncidentForm {
            rule,
            action,
            severity,
            reason,
        } = told(incident, conversation.layer);
        let server = conversation.identity.server.as_str();
        let mut event = about(
            now,
            conversation,
            EventKind::RequestJudged {
                method: String::new(),
                summary: reason.clone(),
                count: 1,
            },
        );
        event.rule = Some(rule.to_owned());
        event.action = action;
        event.severity = severity;
        because(
            &mut event,
            &reason,
            Some(&command(&["events", "--server", server])),
        );
        let judgement = Judgement::of_event(event);
        match is_of_server(incident) {
            true => self.repeats.thin(now, judgement),
            false => judgement,
        }
    }
}

/// Returns whether a server causes it, which can do so by the million.
const fn is_of_server(incident: &Incident) -> bool {
    match incident {
        Incident::Noise { .. } | Incident::Unasked { .. } => true,
        Incident::TooLong { side, .. } | Incident::Refused { side, .. } => matches!(side, Side::Server),
        Incident::Unparsable { .. } | Incident::HeaderMismatch { .. } => false,
    }
}

fn told(incident: &Incident, layer: Layer) -> IncidentForm {
    let is_stopped = layer != Layer::Tap;
    let block = match is_stopped {
        true => Action::Block,
        false => Action::WouldBlock,
    };
    let refused = if is_stopped { "was" } else { "would have been" };
    let then = |consequence| if is_stopped { consequence } else { "" };
    let (rule, action, severity, reason) = match incident {
        Incident::Unparsable { cause } => (
            "strict_json",
            block,
            Severity::Medium,
            format!("what the client said is no strict JSON-RPC: {cause}"),
        ),
        Incident::HeaderMismatch { cause } => (
            "header_mismatch",
            block,
            Severity::Medium,
            format!("the headers of a request do not say what its body does: {cause}"),
        ),
        Incident::TooLong { side, limit } => (
            "max_line",
            block,
            Severity::Medium,
            format!(
                "a message of {} is over {limit} bytes (`mcp.limits.max_line`)",
                name(*side)
            ),
        ),
        Incident::Noise { bytes } => (
            "noise",
            Action::Audit,
            Severity::Info,
            format!(
                "what the server said is no message ({bytes} bytes){}",
                then("; it did not reach the client")
            ),
        ),
        Incident::Unasked { side, id } => (
            "unasked_answer",
            block,
            Severity::Low,
            format!(
                "{} answered {}, which nobody waits for{}",
                name(*side),
                request(id),
                then("; it was dropped")
            ),
        ),
        Incident::Refused { side, id, cause } => (
            "request_id",
            block,
            Severity::Medium,
            format!("{} of {} {} refused: {cause}", request(id), name(*side), refused),
        ),
    };
    IncidentForm {
        rule,
        action,
        severity,
        reason,
    }
}

fn request(id: &RequestId) -> String {
    format!("request {}", shown(&id.to_string()))
}

const fn name(side: Side) -> &'static str {
    match side {
        Side::Client => "the client",
        Side::Server => "the server",
    }
}
