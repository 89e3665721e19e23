//! Tools that their server does not list.

use mcpmon_model::{DefinitionKind, Severity};
use mcpmon_policy::Policy;

use super::{About, Objection, ObjectionEffect, Rule, RuleContext};
use crate::wording::command;

/// The tool was never listed, or is no longer listed: its definition is unknown.
pub(super) struct UnknownTool;

impl Rule for UnknownTool {
    fn about(&self) -> &'static About {
        &About {
            names: &["unknown_tool"],
            keys: &["mcp.fail_closed"],
            what: "a tool that was never listed is noted, or blocked",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        // A resource can match a template, and a prompt has no effect.
        if scene.kind() != Some(DefinitionKind::Tool) || scene.entry().is_some() {
            return None;
        }
        let remedy = command(&["registry", "list", "--server", scene.server.as_str()]);
        Some(unlisted(scene.policy, &scene.subject(), remedy))
    }
}

/// Returns the objection to a tool that no server listed.
pub(crate) fn unlisted(policy: &Policy, subject: &str, remedy: String) -> Objection {
    let (effect, severity) = match policy.fail_closed {
        true => (ObjectionEffect::Block, Severity::Medium),
        false => (ObjectionEffect::Audit, Severity::Low),
    };
    Objection {
        rule: "unknown_tool".into(),
        effect,
        severity,
        reason: format!("{subject} was never listed"),
        remedy: Some(remedy),
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::rules::fixture::Stage;

    #[test_case("other", DefinitionKind::Tool, false => Some(ObjectionEffect::Audit); "never listed")]
    #[test_case("other", DefinitionKind::Tool, true => Some(ObjectionEffect::Block); "never listed, and the unknown is refused")]
    #[test_case("read", DefinitionKind::Tool, true => None; "listed")]
    #[test_case("other", DefinitionKind::Resource, true => None; "a resource can come of a template")]
    fn tools_that_were_not_listed(
        name: &str,
        kind: DefinitionKind,
        fail_closed: bool,
    ) -> Option<ObjectionEffect> {
        let mut stage = Stage::new(Policy {
            fail_closed,
            ..Default::default()
        });
        stage.list(&[("read", "")]);
        stage.judge_kind(&UnknownTool, kind, name)
    }
}
