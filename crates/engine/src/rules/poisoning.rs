//! A definition with an attack in it.

use mcpmon_policy::OnDetection;

use super::{About, Objection, ObjectionEffect, Rule, RuleContext};
use crate::{definitions::Approval, wording::shown};

/// A finding in the definition is as severe as the threshold for effects, or more severe.
pub(super) struct ToolPoisoning;

impl Rule for ToolPoisoning {
    fn about(&self) -> &'static About {
        &About {
            names: &["tool_poisoning"],
            keys: &["mcp.detection", "mcp.suppressions"],
            what: "a definition with an attack in it is blocked or noted",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        let entry = scene.entry()?;
        let (severity, index) = entry.standing.danger?;
        if severity < scene.policy.inspection.act_threshold {
            return None;
        }
        // Somebody was asked, and the policy takes silence for consent.
        let is_waived = entry.approval == Approval::Waived && entry.standing.needs_approval(scene.policy);
        let effect = match scene.policy.inspection.on_detection {
            OnDetection::Hide | OnDetection::Block if !is_waived => ObjectionEffect::Block,
            OnDetection::Alert | OnDetection::Hide | OnDetection::Block => ObjectionEffect::Audit,
        };
        let finding = entry.record.findings.get(index)?;
        let place = if finding.field.is_empty() { "" } else { " in " };
        Some(Objection {
            rule: "tool_poisoning".into(),
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

#[cfg(test)]
mod tests {
    use mcpmon_model::Severity;
    use test_case::test_case;

    use super::*;
    use crate::rules::fixture::Stage;

    #[test_case(Severity::High, OnDetection::Hide => Some(ObjectionEffect::Block); "at the threshold")]
    #[test_case(Severity::High, OnDetection::Block => Some(ObjectionEffect::Block); "where its server is blocked too")]
    #[test_case(Severity::High, OnDetection::Alert => Some(ObjectionEffect::Audit); "where it is reported")]
    #[test_case(Severity::Medium, OnDetection::Hide => None; "below the threshold")]
    fn definitions_with_findings(severity: Severity, on_detection: OnDetection) -> Option<ObjectionEffect> {
        let mut policy = mcpmon_policy::Policy::default();
        policy.inspection.on_detection = on_detection;
        let mut stage = Stage::new(policy);
        stage.list(&[("read", ""), ("write", "")]);
        stage.found("read", severity);
        assert_eq!(stage.judge(&ToolPoisoning, "write"), None);
        stage.judge(&ToolPoisoning, "read")
    }
}
