//! What the arguments of a call give away, how that is told, and what is taken out of them.

use super::{sieve::MAX_TOLD, tell::Teller};
use crate::{
    decide::rules::{ARGUMENT_INSPECTION, Effect, Objection, Ruling, Scene, argument_content},
    inspect::secrets::Secret,
    model::{Action, Event, Redaction, Subject},
    policy::OnSecret,
};

/// What the arguments of a call give away.
#[derive(Clone, Debug, Default)]
pub(in crate::decide) struct Disclosed {
    /// Every secret in them.
    pub(super) secrets: Vec<Secret>,
    /// What is replaced before the call goes on.
    pub(super) redactions: Vec<Redaction>,
    /// Whether there are arguments in which nobody looked.
    pub(super) is_cut: bool,
}

/// An event for each secret in the arguments of a call that is not accepted.
pub(super) fn detections(teller: &Teller<'_>, scene: &Scene<'_>, ruling: &Ruling) -> Vec<Event> {
    let calling = scene.call.iter();
    let told = calling.flat_map(|calling| calling.secrets.iter().map(|secret| (&*calling.call.tool, secret)));
    let threshold = scene.policy.inspection.alert_threshold;
    let event = |(tool, secret): (&str, &Secret)| {
        let of_rule = |objection: &&Objection| objection.rule == ARGUMENT_INSPECTION;
        let objection = ruling.block.iter().chain(&ruling.audits).find(of_rule);
        let action = match objection.map(|objection| objection.effect) {
            Some(Effect::Block) => Action::Block,
            Some(Effect::Audit) if secret.finding.severity >= threshold => Action::Audit,
            Some(Effect::Audit) | None => Action::Allow,
        };
        teller.detection(Subject::Argument, Some(tool), &secret.finding, action, objection)
    };
    let notable = told.filter(|(_, secret)| !argument_content::is_accepted(scene, secret));
    notable.take(MAX_TOLD).map(event).collect()
}

/// What of the arguments of a call is replaced before it goes on.
pub(super) fn redactions(ruling: &Ruling, scene: &Scene<'_>) -> Vec<Redaction> {
    if scene.policy.arguments.on_detection != OnSecret::Redact || ruling.block.is_some() {
        return Vec::new();
    }
    Secret::redactions(argument_content::alarming(scene)).unwrap_or_default()
}
