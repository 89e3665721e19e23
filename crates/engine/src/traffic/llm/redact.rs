//! Secrets in requests to a model.

use std::collections::BTreeMap;

use mcpmon_model::{Action, Event, EventKind, Exchange, Layer, Redaction, Severity, Timestamp};
use mcpmon_policy::Mode;

use super::super::Traffic;
use crate::{effect::Judgement, wording::command};

/// The name of the rule, for suppressions.
const RULE: &str = "dlp";

/// The secrets of one request, by kind. The caller keeps it until the whole request was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<&'static str, (u64, Severity)>);

impl Tally {
    fn add(&mut self, kind: &'static str, severity: Severity) {
        let (count, worst) = self.0.entry(kind).or_insert((0, severity));
        *count += 1;
        *worst = severity.max(*worst);
    }
}

impl Traffic {
    /// Returns the replacements in a text that is sent to a model, in the order of the text, and counts them in
    /// `tally`. Returns none if nothing is enforced.
    pub(crate) fn redact(&mut self, now: Timestamp, text: &str, tally: &mut Tally) -> Vec<Redaction> {
        if !self.policy.llm.redacts() {
            return Vec::new();
        }
        let found = self.llm.scanned.in_text(text);
        let threshold = self.policy.inspection.act_threshold;
        let is_accepted = |kind: &str| {
            let mut known = self.policy.suppressions.iter();
            known.any(|known| known.covers(&[RULE, kind], "", "", now))
        };
        let mut redactions = Vec::new();
        for found in found {
            if found.severity >= threshold && !is_accepted(found.kind) {
                tally.add(found.kind, found.severity);
                redactions.push(found.redaction);
            }
        }
        match self.policy.mode {
            Mode::Enforce => redactions,
            Mode::Observe => Vec::new(),
        }
    }

    /// Builds the events about a request that was read: one for each kind of replaced secret.
    pub(crate) fn redacted(&self, now: Timestamp, exchange: &Exchange, tally: &Tally) -> Judgement {
        let verb = match self.policy.mode {
            Mode::Enforce => "was",
            Mode::Observe => "would be",
        };
        let told = tally.0.iter().map(|(kind, (count, severity))| {
            let kind = (*kind).to_owned();
            let mut event = Event::new(
                now,
                Layer::Llm,
                EventKind::DlpRedaction {
                    dialect: exchange.dialect,
                    request_id: exchange.request.clone().into_string(),
                    kind: kind.clone(),
                    count: *count,
                },
            );
            event.session_id.clone_from(&exchange.session);
            event.action = Action::Audit;
            event.severity = *severity;
            event.rule = Some(RULE.to_owned());
            event.reason = Some(format!(
                "a request to a model holds secrets ({kind}: {count}), and a placeholder {verb} put in their place \
                 (`dlp.mode`); see `{}`",
                command(&["events", "--type", "mcp_dlp_redaction"])
            ));
            event
        });
        Judgement {
            events: told.collect(),
            ..Judgement::default()
        }
    }
}
