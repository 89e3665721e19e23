//! A definition that is not what was accepted.

use super::{Effect, Objection, Rule, Scene};
use crate::{decide::definitions::PinStanding, model::Severity, policy::OnChange};

/// The definition differs from its pin, or has none where one is needed.
pub(super) struct VersionPin;

impl Rule for VersionPin {
    fn judge(&self, scene: &Scene<'_>) -> Option<Objection> {
        let entry = scene.entry()?;
        let pin = entry.standing.pin;
        let effect = match pin.effect(scene.policy) {
            OnChange::Block => Effect::Block,
            OnChange::Alert => Effect::Audit,
            OnChange::Allow => return None,
        };
        let seen = entry.record.seen.hash.short(12);
        let (severity, reason) = match (pin, &entry.record.pinned) {
            (PinStanding::Changed, Some(pinned)) => (
                Severity::Critical,
                format!(
                    "{} changed: it is {seen}, pinned is {}",
                    scene.subject(),
                    pinned.hash.short(12)
                ),
            ),
            (PinStanding::Changed | PinStanding::Unpinned, _) => (
                Severity::Medium,
                format!("{} is not pinned, and auto_trust_first is off", scene.subject()),
            ),
            (PinStanding::Off | PinStanding::Match | PinStanding::New, _) => return None,
        };
        Some(Objection {
            rule: "version_pin",
            effect,
            severity,
            reason,
            remedy: Some(scene.approval()),
        })
    }
}
