//! Definitions that differ from the accepted version.

use mcpmon_model::Severity;
use mcpmon_policy::OnChange;

use super::{About, Objection, ObjectionEffect, Rule, RuleContext};
use crate::{definitions::PinStanding, skills, wording::explaining};

/// The definition differs from its pin, or has no pin although one is needed.
pub(super) struct VersionPin;

impl Rule for VersionPin {
    fn about(&self) -> &'static About {
        &About {
            names: &["version_pin"],
            keys: &["mcp.version_pinning", "mcp.registry.pin_on_first_use"],
            what: "a definition that differs from its pin, or has none, is blocked or noted",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        let entry = scene.entry()?;
        let pin = entry.standing.pin;
        let effect = match pin.effect(scene.policy) {
            OnChange::Block => ObjectionEffect::Block,
            OnChange::Alert => ObjectionEffect::Audit,
            OnChange::Allow => return None,
        };
        let seen = entry.record.seen.hash.short(12);
        let (severity, reason) = match (pin, &entry.record.pinned) {
            (PinStanding::Changed, Some(pinned)) => (
                Severity::Critical,
                format!(
                    "the definition of {} changed: pinned {}, now {seen}",
                    scene.subject(),
                    pinned.hash.short(12)
                ),
            ),
            (PinStanding::Changed | PinStanding::Unpinned, _) if skills::is_dynamic(&entry.record) => (
                Severity::Medium,
                format!(
                    "{} has files that are made when they are read: nobody can know them before, so a person has to approve it",
                    scene.subject()
                ),
            ),
            (PinStanding::Changed | PinStanding::Unpinned, _) => (
                Severity::Medium,
                format!("{} is not pinned, and auto_trust_first is off", scene.subject()),
            ),
            (PinStanding::Other, _) => (
                Severity::Critical,
                format!(
                    "the definition of {} is none of those that the policy knows: it is {seen}",
                    scene.subject()
                ),
            ),
            (PinStanding::Off | PinStanding::Match | PinStanding::New | PinStanding::Known { .. }, _) => {
                return None;
            }
        };
        // A person's approval cannot change the policy's own list.
        let remedy = match pin == PinStanding::Other {
            true => explaining("version_pin"),
            false => scene.approval(),
        };
        Some(Objection {
            rule: "version_pin".into(),
            effect,
            severity,
            reason,
            remedy: Some(remedy),
        })
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::rules::fixture::Stage;

    #[test_case("b", OnChange::Block => Some(ObjectionEffect::Block); "changed")]
    #[test_case("b", OnChange::Alert => Some(ObjectionEffect::Audit); "changed, and reported")]
    #[test_case("b", OnChange::Allow => None; "changed, and allowed")]
    #[test_case("a", OnChange::Block => None; "as it is pinned")]
    fn definitions_with_a_pin(now: &str, on_change: OnChange) -> Option<ObjectionEffect> {
        let mut policy = mcpmon_policy::Policy::default();
        policy.definition_pinning.on_change = on_change;
        let mut stage = Stage::new(policy);
        stage.list(&[("read", "a")]);
        stage.with("read", |entry| entry.pin(None));
        stage.list(&[("read", now)]);
        stage.judge(&VersionPin, "read")
    }

    #[test_case("a", true => None; "known")]
    #[test_case("b", true => Some(ObjectionEffect::Block); "another one than the known")]
    #[test_case("b", false => None; "pins are off")]
    fn definitions_that_the_policy_knows(now: &str, enabled: bool) -> Option<ObjectionEffect> {
        let mut policy = mcpmon_policy::Policy::default();
        policy.definition_pinning.enabled = enabled;
        let text = r#"{"name":"read","description":"a"}"#;
        policy.known = mcpmon_policy::KnownDefinitions::new([mcpmon_policy::KnownDefinition {
            server: mcpmon_model::ServerId::new("files").expect("an id"),
            kind: mcpmon_model::DefinitionKind::Tool,
            name: "read".to_owned(),
            hash: mcpmon_model::Definition::of(mcpmon_model::RawJson::trusted(text)).hash,
        }]);
        let mut stage = Stage::new(policy);
        stage.list(&[("read", now)]);
        // Neither a person's approval nor what was found counts against the list.
        stage.with("read", |entry| entry.pin(Some("user 0")));
        stage.found("read", Severity::Critical);
        stage.with("read", |entry| {
            assert_eq!(
                entry.standing.danger.is_none(),
                now == "a" || entry.record.approved_by.is_some()
            );
        });
        stage.judge(&VersionPin, "read")
    }

    #[test_case(true, true => None; "trusted on first sight")]
    #[test_case(true, false => Some(ObjectionEffect::Block); "not trusted")]
    #[test_case(false, false => None; "pins are off")]
    fn definitions_without_one(enabled: bool, auto_trust_first: bool) -> Option<ObjectionEffect> {
        let mut policy = mcpmon_policy::Policy::default();
        policy.definition_pinning.enabled = enabled;
        policy.definition_pinning.auto_trust_first = auto_trust_first;
        let mut stage = Stage::new(policy);
        stage.list(&[("read", "a")]);
        stage.judge(&VersionPin, "read")
    }
}
