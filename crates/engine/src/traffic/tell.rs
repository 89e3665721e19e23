//! Events about conversations. Everything that a server chose is cut to a maximum length.

use mcpmon_detect::{
    mask::without_secrets,
    secrets::{MAX_SECRETS, Secret},
};
use mcpmon_model::{
    Action, CallOutcome, Conversation, Denial, Event, EventKind, Finding, InspectionSubject, Message,
    ResultKind, Severity, Timestamp, redacted,
};

use crate::rules::{Objection, Ruling};

/// Longest arguments in an event, bytes.
const MAX_INPUT: usize = 16 << 10;
/// Longest URI, name or summary in an event, bytes.
pub(super) const MAX_TEXT: usize = 1 << 10;

/// The time, conversation and message of events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Teller<'a> {
    /// The time at which it passed.
    pub(super) now: Timestamp,
    /// The conversation of the message.
    pub(super) conversation: &'a Conversation,
    /// The message.
    pub(super) message: &'a Message<'a>,
}

/// Returns an event about a conversation.
pub(super) fn about(now: Timestamp, conversation: &Conversation, kind: EventKind) -> Event {
    let mut event = Event::new(now, conversation.layer, kind);
    event.session_id.clone_from(&conversation.session);
    event.server_id = Some(conversation.identity.server.clone());
    event.package = conversation.identity.package();
    event
}

impl Teller<'_> {
    pub(super) fn event(&self, kind: EventKind) -> Event {
        about(self.now, self.conversation, kind)
    }

    /// Builds the event about a request that was judged by its method.
    pub(super) fn judged(
        &self,
        summary: &str,
        method: &str,
        against: Option<(&Denial, Action, Severity)>,
    ) -> Event {
        let mut event = self.event(EventKind::RequestJudged {
            method: named(method, MAX_TEXT),
            summary: named(summary, MAX_TEXT),
            count: 1,
        });
        if let Some((denial, action, severity)) = against {
            event.action = action;
            event.severity = severity;
            event.rule = Some(denial.rule.clone());
            because(&mut event, &denial.reason, denial.remedy.as_deref());
        }
        event
    }

    /// Builds the event about a finding.
    pub(super) fn detection(
        &self,
        subject: InspectionSubject,
        name: Option<&str>,
        finding: &Finding,
        action: Action,
        objection: Option<&Objection>,
    ) -> Event {
        let mut event = self.event(EventKind::Detection {
            subject,
            tool_name: name.map(|name| named(name, MAX_TEXT)),
            detection: finding.clone(),
            count: 1,
        });
        event.severity = finding.severity;
        event.action = action;
        if action != Action::Allow
            && let Some(objection) = objection
        {
            event.rule = Some(objection.rule.clone().into_owned());
            because(&mut event, &objection.reason, objection.remedy.as_deref());
        }
        event
    }
}

/// Adds the reported objection of a ruling to an event.
pub(super) fn ruled(event: &mut Event, ruling: &Ruling) {
    if let Some(objection) = ruling.told() {
        objected(event, objection);
    }
}

/// Adds an objection to an event.
pub(super) fn objected(event: &mut Event, objection: &Objection) {
    event.action = objection.effect.action();
    event.severity = event.severity.max(objection.severity);
    event.rule = Some(objection.rule.clone().into_owned());
    because(event, &objection.reason, objection.remedy.as_deref());
}

/// Adds the reason, and what a person can do about it.
pub(super) fn because(event: &mut Event, reason: &str, remedy: Option<&str>) {
    event.reason = Some(match remedy {
        Some(command) if command.starts_with("mcpmon ") => format!("{reason}; see `{command}`"),
        Some(advice) => format!("{reason}; {advice}"),
        None => reason.to_owned(),
    });
    event.remedy = remedy.map(str::to_owned);
}

/// Returns arguments for events, without the secrets found in them. Arguments with more secrets than are collected are
/// not recorded: one secret would be left.
pub(super) fn input(text: &str, secrets: &[Secret]) -> String {
    match secrets {
        _ if secrets.len() >= MAX_SECRETS => format!("[mcpmon: {} bytes with many secrets]", text.len()),
        [] => cut(text, MAX_INPUT).to_owned(),
        found => cut(&redacted(text, &Secret::masks(found)), MAX_INPUT).to_owned(),
    }
}

/// Returns a name, an address or a summary for events, cut to `most` bytes; secrets are removed first, because a cut
/// one would not be recognised.
pub(super) fn named(text: &str, most: usize) -> String {
    cut(&without_secrets(cut(text, MAX_INPUT)), most).to_owned()
}

/// Returns at most the first `most` bytes of `text`, ending at a character boundary.
pub(super) fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Returns the outcome of a call for events.
pub(super) const fn outcome(kind: ResultKind) -> CallOutcome {
    match kind {
        ResultKind::Complete => CallOutcome::Ok,
        ResultKind::Failed => CallOutcome::Failed,
        ResultKind::InputRequired => CallOutcome::InputRequired,
        ResultKind::Task => CallOutcome::Task,
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::Layer;
    use test_case::test_case;

    use super::*;

    #[test_case("mcpmon explain X" => "refused; see `mcpmon explain X`"; "a command")]
    #[test_case("edit the file yourself" => "refused; edit the file yourself"; "advice")]
    fn what_a_person_can_do(remedy: &str) -> String {
        let kind = EventKind::PolicyRejected {
            path: String::new(),
            errors: Vec::new(),
        };
        let mut event = Event::new(Timestamp(0), Layer::Stdio, kind);
        because(&mut event, "refused", Some(remedy));
        assert_eq!(event.remedy.as_deref(), Some(remedy));
        event.reason.unwrap_or_default()
    }
}
