//! A definition that a person has to see first.

use super::{Effect, Objection, Rule, Scene};
use crate::decide::{definitions::Approval, wording::shown};

/// Something in the definition is so bad that only an approval lets it be used.
pub(super) struct Unapproved;

impl Rule for Unapproved {
    fn judge(&self, scene: &Scene<'_>) -> Option<Objection> {
        let entry = scene.entry()?;
        let (severity, index) = entry.standing.danger?;
        let is_needed = severity >= scene.policy.approvals.required_for && entry.approval != Approval::Waived;
        if !is_needed {
            return None;
        }
        let pattern = entry
            .record
            .findings
            .get(index)
            .map_or("", |finding| &finding.pattern);
        Some(Objection {
            rule: "approval",
            effect: Effect::Block,
            severity,
            reason: format!(
                "{} matches {} and nobody approved it",
                scene.subject(),
                shown(pattern)
            ),
            remedy: Some(scene.approval()),
        })
    }
}
