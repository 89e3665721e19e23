//! One name for two definitions.

use mcpmon_model::Severity;
use mcpmon_policy::OnChange;

use super::{About, Objection, ObjectionEffect, Rule, RuleContext};
use crate::wording::command;

/// The list has the name twice, and clients differ in which of the two they take. It is judged like a change, because
/// it is a change within a single list.
pub(super) struct Contradicted;

impl Rule for Contradicted {
    fn about(&self) -> &'static About {
        &About {
            names: &["duplicate_name"],
            keys: &["mcp.version_pinning.on_change"],
            what: "a name that stands twice in a list, with two definitions, is judged like a change",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        if !scene.entry()?.is_contradicted {
            return None;
        }
        let pinning = scene.policy.definition_pinning;
        let effect = match pinning.on_change {
            OnChange::Block if pinning.enabled => ObjectionEffect::Block,
            OnChange::Block | OnChange::Alert | OnChange::Allow => ObjectionEffect::Audit,
        };
        Some(Objection {
            rule: "duplicate_name".into(),
            effect,
            severity: Severity::High,
            reason: format!(
                "{} was listed twice at once, with different definitions",
                scene.subject()
            ),
            remedy: Some(command(&["events", "--server", scene.server.as_str()])),
        })
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::rules::fixture::Stage;

    #[test_case("b", OnChange::Block => Some(ObjectionEffect::Block); "another definition")]
    #[test_case("b", OnChange::Alert => Some(ObjectionEffect::Audit); "another definition, where changes are reported")]
    #[test_case("a", OnChange::Block => None; "the same definition twice")]
    fn names_that_stand_twice(second: &str, on_change: OnChange) -> Option<ObjectionEffect> {
        let mut policy = mcpmon_policy::Policy::default();
        policy.definition_pinning.on_change = on_change;
        let mut stage = Stage::new(policy);
        stage.list(&[("read", "a"), ("read", second)]);
        stage.judge(&Contradicted, "read")
    }
}
