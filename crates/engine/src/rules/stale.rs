//! Definitions that may have changed since they were listed.

use mcpmon_model::{DefinitionKind, Severity};

use super::{About, Objection, ObjectionEffect, Rule, RuleContext, UseTarget};
use crate::wording::command;

/// The server announced a change of its list and did not list it since; or the definition was listed in an earlier run
/// only.
///
/// It blocks only a tool with `fail_closed`: the model read the listed definition, which is judged independently, and an honest
/// client may call before it lists again. Where a list can be requested from the server, that happens before.
pub(super) struct StaleDefinition;

impl Rule for StaleDefinition {
    fn about(&self) -> &'static About {
        &About {
            names: &["stale_definition"],
            keys: &["mcp.fail_closed"],
            what: "what its server called changed, and did not list since, is noted, or blocked where unknown tools are",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        let UseTarget::Offered {
            entry: Some(entry), ..
        } = scene.used
        else {
            return None;
        };
        // A list of skills may be a part of them, and no list has apps.
        let is_unlisted = matches!(scene.kind(), Some(DefinitionKind::Skill | DefinitionKind::App));
        if scene.is_listed_elsewhere || scene.offer()?.is_fresh(entry) || is_unlisted && entry.is_listed() {
            return None;
        }
        let why = if entry.is_listed() {
            "its server said that its list changed, and did not list it since"
        } else {
            "its server does not list it now; it is known from before"
        };
        let is_tool = scene.kind() == Some(DefinitionKind::Tool);
        let (effect, severity) = if is_tool && scene.policy.fail_closed {
            (ObjectionEffect::Block, Severity::Medium)
        } else {
            (ObjectionEffect::Audit, Severity::Low)
        };
        Some(Objection {
            rule: "stale_definition".into(),
            effect,
            severity,
            reason: format!("{}: {why}", scene.subject()),
            remedy: Some(command(&["registry", "list", "--server", scene.server.as_str()])),
        })
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::rules::fixture::Stage;

    #[test_case(&[DefinitionKind::Tool] => Some(ObjectionEffect::Audit); "its list changed")]
    #[test_case(&[DefinitionKind::Prompt] => None; "another list changed")]
    #[test_case(&[] => None; "nothing changed")]
    fn tools_whose_list_changed(changed: &[DefinitionKind]) -> Option<ObjectionEffect> {
        let mut stage = Stage::new(mcpmon_policy::Policy::default());
        stage.list(&[("read", "")]);
        changed.iter().for_each(|kind| stage.changed(*kind));
        stage.judge(&StaleDefinition, "read")
    }

    #[test]
    fn stale_tool_is_blocked_with_fail_closed() {
        let mut stage = Stage::new(mcpmon_policy::Policy {
            fail_closed: true,
            ..mcpmon_policy::Policy::default()
        });
        stage.list(&[("read", "")]);
        assert_eq!(stage.judge(&StaleDefinition, "read"), None);
        stage.changed(DefinitionKind::Tool);
        let objection = stage
            .judge_call(&StaleDefinition, "read", "{}")
            .expect("it is stale");
        assert_eq!(
            (objection.effect, objection.reason.as_str()),
            (
                ObjectionEffect::Block,
                "tool read of files: its server said that its list changed, and did not list it since"
            )
        );
    }

    #[test]
    fn a_tool_that_is_listed_no_more_is_stale_until_it_is() {
        let mut stage = Stage::new(mcpmon_policy::Policy::default());
        for (tools, effect) in [
            (&[("read", "")][..], None),
            (&[], Some(ObjectionEffect::Audit)),
            (&[("read", "")], None),
        ] {
            stage.list(tools);
            assert_eq!(stage.judge(&StaleDefinition, "read"), effect);
        }
    }
}
