//! Opinions of all rules on a use, for `policy explain`: also of those after the first that blocks, and of those that
//! allow.

use mcpmon_model::Severity;
use mcpmon_policy::{Decision, Rules};

use super::{
    Objection, ObjectionEffect, RULES, RuleContext, Ruling, call_rules,
    default_decision::{self, DEFAULTS},
    resource_rules, tool_policy,
};

/// The opinion of one rule on a use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// The name of the rule: of a built-in one, or the id of a configured one.
    pub rule: String,
    /// The decision of the rule.
    pub decision: Decision,
    /// The severity.
    pub severity: Severity,
    /// The reason, as a sentence without a full stop.
    pub reason: String,
    /// A command that helps, if there is one.
    pub remedy: Option<String>,
    /// True if this opinion decides the use.
    pub decides: bool,
}

/// Returns the opinions of all rules, in the order of precedence; one of them decides. The kill switch, which stops
/// every use, comes first.
pub(crate) fn explain(scene: &RuleContext<'_>, stopped: Option<Objection>) -> Vec<Opinion> {
    let rules = RULES.iter().flat_map(|rule| rule.every(scene));
    let objections: Vec<Objection> = stopped.into_iter().chain(rules).collect();
    let ruling = Ruling::of(objections.iter().cloned());
    let told = ruling.told();
    let mut opinions: Vec<Opinion> = objections.iter().map(Opinion::of).collect();
    let allowing = |rules| allowing(scene, rules);
    opinions.extend(scene.policy.rules.layers().flat_map(allowing));
    // The first that blocks decides; else the first that asks; else the first that allows, because the default does not
    // apply then; else the one that is reported.
    let (blocks, asks) = (ruling.block.as_ref(), ruling.asks.first());
    let deciding = opinions.iter().position(|opinion| match (blocks, asks) {
        (Some(block), _) => opinion.decision == Decision::Block && opinion.reason == block.reason,
        (None, Some(ask)) => opinion.decision == Decision::Ask && opinion.reason == ask.reason,
        (None, None) if opinion.decision == Decision::Allow => true,
        (None, None) => false,
    });
    let deciding = deciding.or_else(|| {
        let told = told?;
        opinions.iter().position(|opinion| opinion.reason == told.reason)
    });
    if let Some(opinion) = deciding.and_then(|position| opinions.get_mut(position)) {
        opinion.decides = true;
    }
    opinions
}

/// Returns those of `rules` that allow a use.
fn allowing(scene: &RuleContext<'_>, rules: &Rules) -> Vec<Opinion> {
    let subject = scene.subject();
    let calls = call_rules::beyond_doubt(scene, rules)
        .into_iter()
        .map(|rule| (rule.decision, &rule.id, &rule.reason));
    let resources = resource_rules::beyond_doubt(scene, rules)
        .into_iter()
        .map(|rule| (rule.decision, &rule.id, &rule.reason));
    let stated = calls
        .chain(resources)
        .filter(|(decision, ..)| *decision == Decision::Allow);
    let mut opinions: Vec<Opinion> = stated
        .map(|(_, id, reason)| {
            Opinion::allowing(
                id,
                super::because(format!("{subject} matches the rule {id}"), reason),
            )
        })
        .collect();
    if tool_policy::is_allowed(scene, rules) {
        opinions.push(Opinion::allowing(
            "tool_policy",
            format!("{subject} is among the allowed ones (`mcp.allowed_tools`)"),
        ));
    }
    if rules.default == Decision::Allow && default_decision::holds(scene, rules) {
        opinions.push(Opinion::allowing(
            DEFAULTS,
            format!("{subject} is named by no rule (`mcp.defaults`)"),
        ));
    }
    opinions
}

impl Opinion {
    fn of(objection: &Objection) -> Self {
        Self {
            rule: objection.rule.clone().into_owned(),
            decision: match objection.effect {
                ObjectionEffect::Audit => Decision::Audit,
                ObjectionEffect::Ask => Decision::Ask,
                ObjectionEffect::Block => Decision::Block,
            },
            severity: objection.severity,
            reason: objection.reason.clone(),
            remedy: objection.remedy.clone(),
            decides: false,
        }
    }

    fn allowing(rule: &str, reason: String) -> Self {
        Self {
            rule: rule.to_owned(),
            decision: Decision::Allow,
            severity: Severity::Info,
            reason,
            remedy: None,
            decides: false,
        }
    }
}
