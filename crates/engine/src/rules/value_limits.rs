//! Bounds of numbers in arguments.

use mcpmon_detect::{
    arguments::ArgumentKind,
    meaning::{Numeral, looks, numeral},
};
use mcpmon_model::{Decimal, Severity};
use mcpmon_policy::{
    Decision,
    rules::{ConditionReading, Spellings, ValueLimit},
};

use super::{About, Objection, ObjectionEffect, Rule, RuleContext, call_rules::covers};
use crate::wording::explaining;

/// A number exceeds a bound in one of its possible readings, or cannot be read with certainty.
pub(super) struct ValueLimits;

impl Rule for ValueLimits {
    fn about(&self) -> &'static About {
        &About {
            names: &[],
            keys: &["mcp.value_limits"],
            what: "numbers in arguments outside of their bounds are blocked or noted, or a person is asked",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        self.every(scene)
            .into_iter()
            .max_by_key(|objection| objection.effect)
    }

    fn every(&self, scene: &RuleContext<'_>) -> Vec<Objection> {
        let mut limits = scene
            .policy
            .rules
            .layers()
            .flat_map(|rules| &rules.limits)
            .peekable();
        let Some(tool) = scene
            .tool()
            .filter(|_| scene.call.is_some() && limits.peek().is_some())
        else {
            return Vec::new();
        };
        let name = Spellings::new(tool, &looks(tool));
        let meant = limits.filter(|limit| limit.tool.matches(&name, ConditionReading::Wide));
        let mut said: Vec<Objection> = meant.filter_map(|limit| exceeded(scene, limit)).collect();
        said.sort_by_key(|objection| objection.effect);
        said
    }
}

/// The way in which a value exceeds a limit.
enum Excess {
    Above(Decimal, Decimal),
    Below(Decimal, Decimal),
    Doubtful,
}

fn exceeded(scene: &RuleContext<'_>, limit: &ValueLimit) -> Option<Objection> {
    let arguments = scene.call?.arguments;
    let (path, excess) = arguments.iter().find_map(|argument| {
        let is_meant = argument.kind() != ArgumentKind::Key && covers(&limit.argument, &argument);
        let excess = is_meant.then(|| excess(limit, argument.text()))??;
        Some((argument.path(), excess))
    })?;
    let (effect, severity) = match limit.decision {
        Decision::Block => (ObjectionEffect::Block, Severity::High),
        Decision::Ask => (ObjectionEffect::Ask, Severity::Medium),
        Decision::Allow | Decision::Audit => (ObjectionEffect::Audit, Severity::Medium),
    };
    let path = crate::wording::shown(&path);
    let what = match excess {
        Excess::Above(value, max) => format!("{path} can be read as {value}, more than {max}"),
        Excess::Below(value, min) => format!("{path} can be read as {value}, less than {min}"),
        Excess::Doubtful => format!("{path} begins like a number, and may be read as any"),
    };
    Some(Objection {
        rule: limit.id.clone().into(),
        effect,
        severity,
        reason: super::because(format!("{}: {what}", scene.subject()), &limit.reason),
        remedy: Some(explaining(&limit.id)),
    })
}

/// Returns the way in which `text` exceeds a limit; `None` if it does not, or is not a number.
fn excess(limit: &ValueLimit, text: &str) -> Option<Excess> {
    let readings = match numeral(text) {
        Numeral::None => return None,
        Numeral::Doubtful => return Some(Excess::Doubtful),
        Numeral::Read(readings) => readings,
    };
    readings
        .into_iter()
        .find_map(|value| match (&limit.min, &limit.max) {
            (_, Some(max)) if value > *max => Some(Excess::Above(value, max.clone())),
            (Some(min), _) if value < *min => Some(Excess::Below(value, min.clone())),
            (_, _) => None,
        })
}

#[cfg(test)]
mod tests {
    use mcpmon_policy::{
        Policy,
        rules::{ArgumentPath, SpellingGlob, ToolMatch},
    };
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;
    use crate::rules::fixture::Stage;

    fn number(text: &str) -> Decimal {
        text.parse().expect("a number")
    }

    fn limit(argument: &str, min: Option<&str>, max: Option<&str>) -> ValueLimit {
        ValueLimit {
            id: "limit".to_owned(),
            tool: ToolMatch {
                name: Some(SpellingGlob::new("pay_*")),
                ..ToolMatch::default()
            },
            argument: ArgumentPath::new(argument).expect("a way"),
            min: min.map(number),
            max: max.map(number),
            decision: Decision::Block,
            reason: "too much".to_owned(),
        }
    }

    fn stage(limit: ValueLimit) -> Stage {
        let mut policy = Policy::default();
        policy.rules.limits = vec![limit];
        Stage::new(policy)
    }

    #[test_case(r#"{"amount":1000}"#, false; "at the bound")]
    #[test_case(r#"{"amount":1000.0000000000000000001}"#, true; "just beyond it")]
    #[test_case(r#"{"amount":1e3}"#, false; "exponent at the bound")]
    #[test_case(r#"{"amount":1e9}"#, true; "exponent")]
    #[test_case(r#"{"amount":0}"#, false; "at the lower bound")]
    #[test_case(r#"{"amount":-1}"#, true; "below it")]
    #[test_case(r#"{"amount":"1001"}"#, true; "text")]
    #[test_case(r#"{"amount":"1,001"}"#, true; "thousands")]
    #[test_case(r#"{"amount":"1 001"}"#, true; "thousands with a space")]
    #[test_case(r#"{"amount":"0x3e9"}"#, true; "hexadecimal")]
    #[test_case(r#"{"amount":"0x3e8"}"#, false; "hexadecimal at the bound")]
    #[test_case(r#"{"amount":"１００１"}"#, true; "full width")]
    #[test_case(r#"{"amount":"١٠٠١"}"#, true; "arabic digits")]
    #[test_case(r#"{"amount":"$1001"}"#, true; "currency")]
    #[test_case(r#"{"amount":"NaN"}"#, true; "nan")]
    #[test_case(r#"{"amount":"Infinity"}"#, true; "infinity")]
    #[test_case(r#"{"amount":"52M"}"#, true; "millions")]
    #[test_case(r#"{"amount":"ten"}"#, false; "no number")]
    #[test_case(r#"{"amount":null}"#, false; "null")]
    #[test_case(r#"{"amount":true}"#, false; "a literal")]
    #[test_case(r#"{"amount":[1,2,5000]}"#, true; "a list")]
    #[test_case(r#"{"amount":{"value":5000,"currency":"EUR"}}"#, true; "within")]
    #[test_case(r#"{"order":{"amount":5000}}"#, true; "further down")]
    #[test_case(r#"{"Amount":5000}"#, true; "another case")]
    #[test_case(r#"{"amounts":5000}"#, false; "another argument")]
    #[test_case(r#"{"5000":"amount"}"#, false; "a key")]
    #[test_case("{}", false; "no argument")]
    fn numbers_are_read(arguments: &str, blocks: bool) {
        let mut stage = stage(limit("amount", Some("0"), Some("1000")));
        assert_eq!(
            stage.judge_call(&ValueLimits, "pay_bill", arguments).is_some(),
            blocks
        );
        assert_eq!(stage.judge_call(&ValueLimits, "show_bill", arguments), None);
    }

    #[test_case("order.amount", r#"{"order":{"amount":11}}"# => true; "a way")]
    #[test_case("order.amount", r#"{"amount":11}"# => false; "part of a way")]
    #[test_case("items[].price", r#"{"items":[{"price":1},{"price":11}]}"# => true; "items")]
    #[test_case("items[].price", r#"{"price":11}"# => false; "no item")]
    #[test_case("*.price", r#"{"x":{"price":11}}"# => true; "any name")]
    fn ways(argument: &str, arguments: &str) -> bool {
        stage(limit(argument, None, Some("10")))
            .judge_call(&ValueLimits, "pay_bill", arguments)
            .is_some()
    }

    #[test_case("9007199254740993" => true; "one more")]
    #[test_case("9007199254740992" => false; "the bound")]
    fn integers_beyond_doubles_are_exact(value: &str) -> bool {
        stage(limit("amount", None, Some("9007199254740992")))
            .judge_call(&ValueLimits, "pay_bill", &format!(r#"{{"amount":{value}}}"#))
            .is_some()
    }

    #[test]
    fn a_reason_names_place_value_and_bound() {
        let mut stage = stage(limit("amount", None, Some("10")));
        let objection = stage.judge_call(&ValueLimits, "pay_bill", r#"{"order":{"amount":"1,500"}}"#);
        assert_eq!(
            objection.expect("too much").reason,
            "tool pay_bill of files: order.amount can be read as 1500, more than 10: too much"
        );
    }

    #[test]
    fn limits_that_note_add_up() {
        let mut audit = limit("amount", None, Some("10"));
        audit.decision = Decision::Audit;
        let mut stage = stage(audit.clone());
        stage.policy.rules.limits = vec![limit("amount", None, Some("20")), audit];
        let effects = |arguments, stage: &mut Stage| -> Vec<ObjectionEffect> {
            let said = stage.every(&ValueLimits, "pay_bill", arguments);
            said.into_iter().map(|objection| objection.effect).collect()
        };
        assert_eq!(effects(r#"{"amount":15}"#, &mut stage), [ObjectionEffect::Audit]);
        assert_eq!(
            effects(r#"{"amount":25}"#, &mut stage),
            [ObjectionEffect::Audit, ObjectionEffect::Block]
        );
    }

    proptest! {
        #[test]
        fn a_lower_bound_never_lets_more_through(value in any::<i64>(), low in any::<i32>(), high in any::<i32>()) {
            let (low, high) = (low.min(high).to_string(), low.max(high).to_string());
            let arguments = format!(r#"{{"amount":"{value}"}}"#);
            let stops = |max: &str| {
                stage(limit("amount", None, Some(max))).judge_call(&ValueLimits, "pay_x", &arguments).is_some()
            };
            prop_assert!(stops(&low) || !stops(&high));
        }
    }
}
