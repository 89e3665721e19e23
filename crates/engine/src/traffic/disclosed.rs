//! Secrets in the arguments of a call or in an answer: events about them, and their redaction.

use mcpmon_detect::secrets::Secret;
use mcpmon_model::{Action, Event, Redaction};
use mcpmon_policy::OnSecret;

use super::{sieve::MAX_REPORTED, tell::Teller};
use crate::rules::{InspectedText, Objection, ObjectionEffect, Ruling};

/// The secrets in the arguments of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct DisclosedSecrets {
    /// Every secret in them.
    pub(super) secrets: Vec<Secret>,
    /// The replacements before the call is forwarded.
    pub(super) redactions: Vec<Redaction>,
    /// True if some arguments were not inspected.
    pub(super) is_cut: bool,
}

/// Builds an event for each secret that is not accepted.
pub(super) fn detections(teller: &Teller<'_>, given: &InspectedText<'_>, ruling: &Ruling) -> Vec<Event> {
    let threshold = given.policy.inspection.act_threshold;
    let event = |secret: &Secret| {
        let of_rule = |objection: &&Objection| objection.rule == given.rule();
        let objection = ruling.block.iter().chain(&ruling.audits).find(of_rule);
        let action = match objection.map(|objection| objection.effect) {
            Some(ObjectionEffect::Block) => Action::Block,
            Some(ObjectionEffect::Audit | ObjectionEffect::Ask) if secret.finding.severity >= threshold => {
                Action::Audit
            }
            Some(ObjectionEffect::Audit | ObjectionEffect::Ask) | None => Action::Allow,
        };
        teller.detection(
            given.subject,
            Some(given.name).filter(|name| !name.is_empty()),
            &secret.finding,
            action,
            objection,
        )
    };
    let notable = given.secrets.iter().filter(|secret| !given.accepts(secret));
    notable.take(MAX_REPORTED).map(event).collect()
}

/// Returns the replacements before the call is forwarded.
pub(super) fn redactions(given: &InspectedText<'_>, ruling: &Ruling) -> Vec<Redaction> {
    if given.on_secret != OnSecret::Redact || ruling.block.is_some() {
        return Vec::new();
    }
    Secret::redactions(given.alarming()).unwrap_or_default()
}
