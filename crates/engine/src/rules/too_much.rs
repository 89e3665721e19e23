//! Arguments beyond the limits of inspection.

use mcpmon_model::Severity;

use super::{About, Objection, ObjectionEffect, Rule, RuleContext};

/// The arguments exceed what the rules can inspect: nothing passes that was not inspected.
pub(super) struct TooMuch;

/// The name of the rule, whichever limit is exceeded.
pub(crate) const RULE: &str = "arguments_too_large";

impl Rule for TooMuch {
    fn about(&self) -> &'static About {
        &About {
            names: &["arguments_too_large"],
            keys: &[],
            what: "arguments with more in them than is looked at are blocked",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        scene.call.filter(|calling| calling.arguments.is_cut())?;
        let what = format!("the arguments of {}", scene.subject());
        Some(objection(&what, "hold more values than are looked at"))
    }
}

/// Builds the objection that `what` exceeds a limit of inspection.
pub(crate) fn objection(what: &str, beyond: &str) -> Objection {
    Objection {
        rule: RULE.into(),
        effect: ObjectionEffect::Block,
        severity: Severity::Medium,
        reason: format!(
            "{what} {beyond}, and nothing goes on that was not inspected: send it in several smaller calls"
        ),
        remedy: None,
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_detect::arguments::MAX_ARGUMENTS;
    use mcpmon_policy::Policy;
    use test_case::test_case;

    use super::*;
    use crate::rules::fixture::Stage;

    #[test_case(10 => None; "few")]
    #[test_case(MAX_ARGUMENTS => Some(ObjectionEffect::Block); "more than are kept")]
    fn calls(count: usize) -> Option<ObjectionEffect> {
        let arguments = format!(r#"{{"rows":[{}1]}}"#, "1,".repeat(count));
        let objection = Stage::new(Policy::default()).judge_call(&TooMuch, "insert", &arguments);
        objection.map(|objection| objection.effect)
    }
}
