//! A definition that a person has to see first.

use mcpmon_model::Severity;

use super::{About, Objection, ObjectionEffect, Rule, RuleContext};
use crate::{definitions::Approval, wording::shown};

/// Something in the definition is so bad that only an approval lets it be used.
pub(super) struct Unapproved;

impl Rule for Unapproved {
    fn about(&self) -> &'static About {
        &About {
            names: &["approval"],
            keys: &["mcp.approvals"],
            what: "what needs a person's approval is blocked until there is one",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        let entry = scene.entry()?;
        let danger = entry.standing.danger;
        if let Some(by) = &entry.denied_by {
            return Some(Objection {
                rule: "approval".into(),
                effect: ObjectionEffect::Block,
                severity: danger.map_or(Severity::Medium, |(severity, _)| severity),
                reason: format!("{} was denied by {by}", scene.subject()),
                remedy: Some(scene.approval()),
            });
        }
        let (severity, index) = danger?;
        if !entry.standing.needs_approval(scene.policy) || entry.approval == Approval::Waived {
            return None;
        }
        let pattern = entry
            .record
            .findings
            .get(index)
            .map_or("", |finding| &finding.pattern);
        Some(Objection {
            rule: "approval".into(),
            effect: ObjectionEffect::Block,
            severity,
            reason: format!(
                "{} matches {} and nobody approved it{}",
                scene.subject(),
                shown(pattern),
                if entry.approval == Approval::Refused {
                    " in time"
                } else {
                    ""
                }
            ),
            remedy: Some(scene.approval()),
        })
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::rules::fixture::Stage;

    #[test_case(Severity::Critical, Approval::Asked => Some(ObjectionEffect::Block); "a person is asked")]
    #[test_case(Severity::Critical, Approval::Refused => Some(ObjectionEffect::Block); "a person refused")]
    #[test_case(Severity::Critical, Approval::Waived => None; "silence is consent")]
    #[test_case(Severity::High, Approval::Unasked => None; "not so bad")]
    fn definitions_that_a_person_has_to_see(
        severity: Severity,
        approval: Approval,
    ) -> Option<ObjectionEffect> {
        let mut stage = Stage::new(mcpmon_policy::Policy::default());
        stage.list(&[("read", "")]);
        stage.found("read", severity);
        stage.with("read", |entry| entry.approval = approval);
        stage.judge(&Unapproved, "read")
    }

    #[test]
    fn where_findings_are_only_reported_nobody_is_asked() {
        let mut policy = mcpmon_policy::Policy::default();
        policy.inspection.on_detection = mcpmon_policy::OnDetection::Alert;
        let mut stage = Stage::new(policy);
        stage.list(&[("read", "")]);
        stage.found("read", Severity::Critical);
        assert_eq!(stage.judge(&Unapproved, "read"), None);
    }

    #[test]
    fn denied_definition_names_the_person() {
        let mut stage = Stage::new(mcpmon_policy::Policy::default());
        stage.list(&[("read", "")]);
        stage.with("read", |entry| {
            entry.denied_by = Some("user 1000 at noon".to_owned())
        });
        let objection = stage.judge_call(&Unapproved, "read", "{}").expect("it is denied");
        assert_eq!(
            objection.reason,
            "tool read of files was denied by user 1000 at noon"
        );
        stage.with("read", |entry| entry.pin(Some("eve")));
        assert_eq!(stage.judge(&Unapproved, "read"), None);
    }

    #[test]
    fn an_approval_ends_it() {
        let mut stage = Stage::new(mcpmon_policy::Policy::default());
        stage.list(&[("read", "")]);
        stage.found("read", Severity::Critical);
        stage.with("read", |entry| entry.pin(Some("eve")));
        assert_eq!(stage.judge(&Unapproved, "read"), None);
    }
}
