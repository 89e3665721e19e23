//! A definition with an attack in it.

use super::{Effect, Objection, Rule, Scene};
use crate::{decide::wording::shown, policy::OnDetection};

/// Something in the definition is at or above the threshold.
pub(super) struct ToolPoisoning;

impl Rule for ToolPoisoning {
    fn judge(&self, scene: &Scene<'_>) -> Option<Objection> {
        let entry = scene.entry()?;
        let (severity, index) = entry.standing.danger?;
        if severity < scene.policy.inspection.alert_threshold {
            return None;
        }
        let effect = match scene.policy.inspection.on_detection {
            OnDetection::Alert => Effect::Audit,
            OnDetection::Hide | OnDetection::Block => Effect::Block,
        };
        let finding = entry.record.findings.get(index)?;
        let place = if finding.field.is_empty() { "" } else { " in " };
        Some(Objection {
            rule: "tool_poisoning",
            effect,
            severity,
            reason: format!(
                "{} matches {} ({}){place}{}",
                scene.subject(),
                shown(&finding.pattern),
                finding.category.as_str(),
                if finding.field.is_empty() {
                    "".into()
                } else {
                    shown(&finding.field)
                },
            ),
            remedy: Some(scene.approval()),
        })
    }
}
