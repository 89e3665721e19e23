//! Items of a server beyond the capacity for definitions.

use mcpmon_model::Severity;

use super::{About, Objection, ObjectionEffect, Rule, RuleContext};
use crate::wording::command;

/// The rule against a tool that may be one of those for which there was no room, so that it was never inspected.
pub(super) struct NoRoom;

impl Rule for NoRoom {
    fn about(&self) -> &'static About {
        &About {
            names: &["max_tools"],
            keys: &["mcp.limits.max_tools"],
            what: "what a list that is too long may have held is blocked",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        let is_overfull = scene.offer()?.is_overfull();
        if !is_overfull
            || scene
                .entry()
                .is_some_and(crate::definitions::DefinitionEntry::is_listed)
        {
            return None;
        }
        Some(Objection {
            rule: "max_tools".into(),
            effect: ObjectionEffect::Block,
            severity: Severity::Medium,
            reason: format!(
                "{} is beyond what is inspected: its server offers too much",
                scene.subject()
            ),
            remedy: Some(command(&["registry", "list", "--server", scene.server.as_str()])),
        })
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::rules::fixture::Stage;

    #[test_case(&["a", "b"], "b" => None; "within the limit")]
    #[test_case(&["a", "b", "c"], "c" => Some(ObjectionEffect::Block); "beyond the limit")]
    #[test_case(&["a", "b", "c"], "a" => None; "one that had room")]
    #[test_case(&["a", "b"], "c" => None; "unknown, where there was room for all")]
    fn tools_without_room(listed: &[&str], name: &str) -> Option<ObjectionEffect> {
        let mut policy = mcpmon_policy::Policy::default();
        policy.limits.max_tools = 2;
        let mut stage = Stage::new(policy);
        let tools: Vec<(&str, &str)> = listed.iter().map(|name| (*name, "")).collect();
        stage.list(&tools);
        stage.judge(&NoRoom, name)
    }
}
