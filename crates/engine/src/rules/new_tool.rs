//! A tool that its server did not list when the others were pinned.

use mcpmon_model::Severity;
use mcpmon_policy::OnNewTool;

use super::{About, Objection, ObjectionEffect, Rule, RuleContext};

/// The tool came after the pinned ones, and no person has accepted it.
pub(super) struct NewTool;

/// The name of the rule.
pub(crate) const RULE: &str = "new_tool";

impl Rule for NewTool {
    fn about(&self) -> &'static About {
        &About {
            names: &["new_tool"],
            keys: &["mcp.detection.on_new_tool"],
            what: "a tool that its server did not list when the others were pinned is blocked or noted, or each call of it waits for a person's answer",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        scene.tool()?;
        let inspection = &scene.policy.inspection;
        let effect = match inspection.on_new_tool {
            _ if !inspection.enabled => return None,
            OnNewTool::Allow => return None,
            OnNewTool::Ask if scene.call.is_some() => ObjectionEffect::Ask,
            OnNewTool::Alert | OnNewTool::Ask => ObjectionEffect::Audit,
            OnNewTool::Hide => ObjectionEffect::Block,
        };
        let is_new = scene.offer()?.is_latecomer(scene.entry()?);
        is_new.then(|| Objection {
            rule: RULE.into(),
            effect,
            severity: Severity::Medium,
            reason: format!(
                "{} was not on the list that was pinned (`mcp.detection.on_new_tool`)",
                scene.subject()
            ),
            remedy: Some(scene.approval()),
        })
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_policy::Policy;
    use test_case::test_case;

    use super::*;
    use crate::rules::fixture::Stage;

    fn stage(on_new_tool: OnNewTool) -> Stage {
        let mut policy = Policy::default();
        policy.inspection.on_new_tool = on_new_tool;
        Stage::new(policy)
    }

    #[test_case(OnNewTool::Allow => None; "allow")]
    #[test_case(OnNewTool::Alert => Some(ObjectionEffect::Audit); "alert")]
    #[test_case(OnNewTool::Hide => Some(ObjectionEffect::Block); "hide")]
    fn a_tool_beside_pinned_ones(on_new_tool: OnNewTool) -> Option<ObjectionEffect> {
        let mut stage = stage(on_new_tool);
        stage.list(&[("read", "")]);
        stage.with("read", |entry| entry.pin(None));
        stage.list(&[("read", ""), ("send", "")]);
        assert_eq!(stage.judge(&NewTool, "read"), None);
        stage.judge(&NewTool, "send")
    }

    #[test]
    fn the_first_list_is_new_to_nobody() {
        let mut stage = stage(OnNewTool::Hide);
        stage.list(&[("read", ""), ("send", "")]);
        stage.with("read", |entry| entry.pin(None));
        assert_eq!(stage.judge(&NewTool, "send"), None);
    }

    #[test]
    fn without_pins_nothing_is_new() {
        let mut stage = stage(OnNewTool::Hide);
        stage.list(&[("read", "")]);
        stage.list(&[("read", ""), ("send", "")]);
        assert_eq!(stage.judge(&NewTool, "send"), None);
    }

    #[test]
    fn an_approval_ends_it() {
        let mut stage = stage(OnNewTool::Hide);
        stage.list(&[("read", "")]);
        stage.with("read", |entry| entry.pin(None));
        stage.list(&[("read", ""), ("send", "")]);
        stage.with("send", |entry| entry.pin(Some("eve")));
        assert_eq!(stage.judge(&NewTool, "send"), None);
    }
}
