//! Resources that may never be read.

use mcpmon_detect::meaning::uris;
use mcpmon_model::Severity;

use super::{About, Objection, ObjectionEffect, Rule, RuleContext};
use crate::wording::explaining;

/// The URI, in one of the ways in which it can be read, is blocked; nothing allows it again.
pub(super) struct BlockedResources;

impl Rule for BlockedResources {
    fn about(&self) -> &'static About {
        &About {
            names: &["blocked_resources"],
            keys: &["mcp.blocked_resources"],
            what: "a resource that may never be read is blocked",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        let uri = scene.uri()?;
        let mut blocked = scene
            .policy
            .rules
            .layers()
            .flat_map(|rules| &rules.blocked_resources)
            .peekable();
        blocked.peek()?;
        let forms = uris(uri);
        let glob = blocked.find(|glob| forms.iter().any(|form| glob.matches(form)))?;
        Some(Objection {
            rule: "blocked_resources".into(),
            effect: ObjectionEffect::Block,
            severity: Severity::High,
            reason: format!(
                "{} is blocked by {} (`mcp.blocked_resources`)",
                scene.subject(),
                glob.as_str()
            ),
            remedy: Some(explaining("blocked_resources")),
        })
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::DefinitionKind;
    use mcpmon_policy::{Policy, rules::UriGlob};
    use test_case::test_case;

    use super::*;
    use crate::rules::fixture::Stage;

    #[test_case("secret://a/b" => Some(ObjectionEffect::Block); "the scheme")]
    #[test_case("SECRET://a" => Some(ObjectionEffect::Block); "in another case")]
    #[test_case("secret:a" => Some(ObjectionEffect::Block); "without an authority")]
    #[test_case("se\ncret://a" => Some(ObjectionEffect::Block); "with a line break")]
    #[test_case("secret%3a//a" => Some(ObjectionEffect::Block); "escaped")]
    #[test_case("file:///etc/shadow" => Some(ObjectionEffect::Block); "a file")]
    #[test_case("file:///tmp/../etc/shadow" => Some(ObjectionEffect::Block); "a step back")]
    #[test_case("file://localhost/etc/shadow" => Some(ObjectionEffect::Block); "with a host")]
    #[test_case("file:/etc/%73hadow" => Some(ObjectionEffect::Block); "an escaped letter")]
    #[test_case("file:///etc/shadow-" => None; "another file")]
    #[test_case("secrets://a" => None; "another scheme")]
    #[test_case("https://a.example/secret://a" => None; "the scheme elsewhere")]
    fn resources_that_are_blocked(uri: &str) -> Option<ObjectionEffect> {
        let mut policy = Policy::default();
        policy.rules.blocked_resources = ["secret://*", "file:///etc/shadow"].map(UriGlob::new).into();
        let mut stage = Stage::new(policy);
        assert_eq!(
            stage.judge_kind(&BlockedResources, DefinitionKind::Tool, uri),
            None
        );
        stage.judge_kind(&BlockedResources, DefinitionKind::Resource, uri)
    }
}
