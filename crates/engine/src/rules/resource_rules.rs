//! The configured rules over resources.

use mcpmon_detect::meaning::uris;
use mcpmon_policy::{
    Decision,
    rules::{ResourceRule, Rules},
};

use super::{About, Objection, Rule, RuleContext, stated};

/// Rules over resources that match and do not allow. Each gives its own objection; the first that blocks decides.
pub(super) struct ResourceRules;

impl Rule for ResourceRules {
    fn about(&self) -> &'static About {
        &About {
            names: &[],
            keys: &["mcp.resource_rules"],
            what: "configured rules over resources: of those that match the most restrictive holds",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        self.every(scene)
            .into_iter()
            .max_by_key(|objection| objection.effect)
    }

    fn every(&self, scene: &RuleContext<'_>) -> Vec<Objection> {
        let mut rules = scene
            .policy
            .rules
            .layers()
            .flat_map(|rules| &rules.resources)
            .peekable();
        let Some(uri) = scene.uri().filter(|_| rules.peek().is_some()) else {
            return Vec::new();
        };
        let forms = uris(uri);
        // A list shows what cannot be read at all.
        let meant = rules.filter(|rule| !scene.is_listing || rule.decision == Decision::Block);
        let mut said: Vec<Objection> = meant
            .filter(|rule| rule.matches(&forms))
            .filter_map(|rule| stated(scene, &rule.id, rule.decision, &rule.reason))
            .collect();
        said.sort_by_key(|objection| objection.effect);
        said
    }
}

/// Returns the rules that certainly match: with one of them, the default does not apply.
pub(super) fn beyond_doubt<'a>(scene: &RuleContext<'a>, rules: &'a Rules) -> Vec<&'a ResourceRule> {
    let rules = &rules.resources;
    let Some(uri) = scene.uri().filter(|_| !rules.is_empty()) else {
        return Vec::new();
    };
    let forms = uris(uri);
    let is_certain = |rule: &&ResourceRule| rule.is_beyond_doubt(&forms);
    rules.iter().filter(is_certain).collect()
}

#[cfg(test)]
mod tests {
    use mcpmon_model::DefinitionKind;
    use mcpmon_policy::{
        Policy,
        rules::{Pattern, UriGlob},
    };
    use test_case::test_case;

    use super::*;
    use crate::rules::{ObjectionEffect, fixture::Stage};

    fn rule(decision: Decision) -> ResourceRule {
        ResourceRule {
            id: "id".to_owned(),
            uri: None,
            regex: None,
            scheme: None,
            decision,
            reason: "because".to_owned(),
        }
    }

    fn judge(rule: ResourceRule, uri: &str) -> Option<ObjectionEffect> {
        let mut policy = Policy::default();
        policy.rules.resources = vec![rule];
        Stage::new(policy).judge_kind(&ResourceRules, DefinitionKind::Resource, uri)
    }

    #[test_case("postgres://db/users" => Some(ObjectionEffect::Block); "the scheme")]
    #[test_case("POSTGRES://db" => Some(ObjectionEffect::Block); "in another case")]
    #[test_case("postgres:db" => Some(ObjectionEffect::Block); "without an authority")]
    #[test_case("postgresql://db" => None; "another scheme")]
    #[test_case("https://postgres/" => None; "a host of that name")]
    fn schemes(uri: &str) -> Option<ObjectionEffect> {
        judge(
            ResourceRule {
                scheme: Some("postgres".to_owned()),
                ..rule(Decision::Block)
            },
            uri,
        )
    }

    #[test_case("https://internal.corp.example/x" => Some(ObjectionEffect::Audit); "in the host")]
    #[test_case("https://INTERNAL.corp.example/x" => Some(ObjectionEffect::Audit); "in another case")]
    #[test_case("https://internal%2ecorp.example/x" => Some(ObjectionEffect::Audit); "escaped")]
    #[test_case("https://internal-corp.example/x" => None; "another name")]
    fn regular_expressions(uri: &str) -> Option<ObjectionEffect> {
        judge(
            ResourceRule {
                regex: Pattern::new(r"internal\.corp").ok(),
                ..rule(Decision::Audit)
            },
            uri,
        )
    }

    #[test]
    fn all_conditions_must_be_met() {
        let both = || ResourceRule {
            uri: Some(UriGlob::new("file:///srv/*")),
            scheme: Some("file".to_owned()),
            ..rule(Decision::Block)
        };
        assert_eq!(judge(both(), "file:///srv/a"), Some(ObjectionEffect::Block));
        assert_eq!(judge(both(), "file:///home/a"), None);
    }

    #[test_case("file:///srv/a" => true; "as written")]
    #[test_case("file:///srv/../etc/shadow" => false; "a step back")]
    #[test_case("file:///srv/%2e%2e/etc/shadow" => false; "an escaped step back")]
    fn what_allows_holds_for_every_meaning(uri: &str) -> bool {
        let allow = ResourceRule {
            uri: Some(UriGlob::new("file:///srv/*")),
            ..rule(Decision::Allow)
        };
        allow.is_beyond_doubt(&uris(uri))
    }
}
