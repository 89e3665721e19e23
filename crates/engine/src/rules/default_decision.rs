//! Default decision for uses that no rule matches.

use mcpmon_model::{DefinitionKind, Severity};
use mcpmon_policy::{Decision, Rules};

use super::{About, Objection, ObjectionEffect, Rule, RuleContext, call_rules, resource_rules, tool_policy};
use crate::wording::explaining;

/// No rule matches a call or a read beyond doubt, and the list of allowed tools does not name it.
pub(super) struct DefaultDecision;

/// Its name in events.
pub(crate) const DEFAULTS: &str = "defaults";

impl Rule for DefaultDecision {
    fn about(&self) -> &'static About {
        &About {
            names: &["defaults"],
            keys: &["mcp.defaults"],
            what: "what no rule matches and no list allows is let through, noted or blocked, or a call of it waits for a person's answer",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        let layers = scene.policy.rules.layers();
        let said = layers.filter_map(|rules| Self::of(scene, rules));
        said.max_by_key(|objection| objection.effect)
    }
}

impl DefaultDecision {
    fn of(scene: &RuleContext<'_>, rules: &Rules) -> Option<Objection> {
        let (effect, severity, verb) = match rules.default {
            Decision::Allow => return None,
            Decision::Audit => (ObjectionEffect::Audit, Severity::Info, "is noted"),
            // Only a call can wait for a person.
            Decision::Ask if scene.call.is_some() => (
                ObjectionEffect::Ask,
                Severity::Medium,
                "waits for a person's answer",
            ),
            Decision::Ask => (ObjectionEffect::Audit, Severity::Info, "is noted"),
            Decision::Block => (ObjectionEffect::Block, Severity::Medium, "is blocked"),
        };
        // A list is not noted.
        let is_listing = scene.is_listing || scene.tool().is_some() && scene.call.is_none();
        if !holds(scene, rules) || is_listing && effect == ObjectionEffect::Audit {
            return None;
        }
        Some(Objection {
            rule: DEFAULTS.into(),
            effect,
            severity,
            reason: format!(
                "{} is named by no rule, and so {verb} (`mcp.defaults`)",
                scene.subject()
            ),
            remedy: Some(explaining(DEFAULTS)),
        })
    }
}

/// Returns whether the default of `rules` holds.
pub(super) fn holds(scene: &RuleContext<'_>, rules: &Rules) -> bool {
    match scene.kind() {
        Some(DefinitionKind::Tool) => {
            !tool_policy::is_allowed(scene, rules) && call_rules::beyond_doubt(scene, rules).is_empty()
        }
        Some(DefinitionKind::Resource) => resource_rules::beyond_doubt(scene, rules).is_empty(),
        // A resource of a template is judged when it is read, and so is a file of a skill or an app.
        Some(
            DefinitionKind::Template
            | DefinitionKind::Prompt
            | DefinitionKind::Instructions
            | DefinitionKind::Skill
            | DefinitionKind::App,
        )
        | None => false,
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_policy::{
        Policy,
        rules::{ArgumentPath, CallRule, PathGlob, SpellingGlob, ToolEntry, ToolMatch, ToolPolicy},
    };
    use test_case::test_case;

    use super::*;
    use crate::rules::fixture::Stage;

    fn policy(default: Decision) -> Policy {
        let mut policy = Policy::default();
        policy.rules.default = default;
        policy
    }

    fn rule(decision: Decision) -> CallRule {
        CallRule {
            id: "id".to_owned(),
            tool: ToolMatch {
                name: Some(SpellingGlob::new("read")),
                ..ToolMatch::default()
            },
            server: None,
            arguments: vec![(
                ArgumentPath::new("path").expect("a way"),
                PathGlob::new("/srv/**").expect("a glob"),
            )],
            decision,
            reason: String::new(),
        }
    }

    #[test_case(Decision::Allow => None; "allow")]
    #[test_case(Decision::Audit => Some(ObjectionEffect::Audit); "audit")]
    #[test_case(Decision::Block => Some(ObjectionEffect::Block); "block")]
    fn without_rules(default: Decision) -> Option<ObjectionEffect> {
        let objection = Stage::new(policy(default)).judge_call(&DefaultDecision, "read", "{}");
        objection.map(|objection| objection.effect)
    }

    #[test_case(Decision::Allow, "read", "/srv/a" => None; "a rule that allows")]
    #[test_case(Decision::Audit, "read", "/srv/a" => None; "a rule that notes")]
    #[test_case(Decision::Audit, "read", "/srv/../etc" => Some(ObjectionEffect::Block); "a rule that notes, perhaps")]
    #[test_case(Decision::Allow, "read", "/etc/a" => Some(ObjectionEffect::Block); "other arguments")]
    #[test_case(Decision::Allow, "write", "/srv/a" => Some(ObjectionEffect::Block); "another tool")]
    fn with_a_rule(decision: Decision, tool: &str, path: &str) -> Option<ObjectionEffect> {
        let mut policy = policy(Decision::Block);
        policy.rules.calls = vec![rule(decision)];
        let arguments = format!(r#"{{"path":"{path}"}}"#);
        let objection = Stage::new(policy).judge_call(&DefaultDecision, tool, &arguments);
        objection.map(|objection| objection.effect)
    }

    #[test]
    fn with_a_list() {
        let mut policy = policy(Decision::Block);
        policy.rules.tools = ToolPolicy::Allowlist(vec![ToolEntry {
            server: SpellingGlob::new("*"),
            tool: SpellingGlob::new("read"),
            content_hash: None,
        }]);
        assert_eq!(
            Stage::new(policy).judge_call(&DefaultDecision, "read", "{}"),
            None
        );
    }

    #[test_case("read" => None; "what a rule may allow")]
    #[test_case("write" => Some(ObjectionEffect::Block); "what no rule can allow")]
    fn of_a_list(tool: &str) -> Option<ObjectionEffect> {
        let mut policy = policy(Decision::Block);
        policy.rules.calls = vec![rule(Decision::Allow)];
        Stage::new(policy).judge(&DefaultDecision, tool)
    }

    #[test_case(DefinitionKind::Resource => Some(ObjectionEffect::Block); "a resource")]
    #[test_case(DefinitionKind::Template => None; "a template")]
    #[test_case(DefinitionKind::Prompt => None; "a prompt")]
    fn of_other_things(kind: DefinitionKind) -> Option<ObjectionEffect> {
        Stage::new(policy(Decision::Block)).judge_kind(&DefaultDecision, kind, "x")
    }
}
