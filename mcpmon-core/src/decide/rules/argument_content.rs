//! A secret in the arguments of a call.

use super::{Effect, Objection, Rule, Scene};
use crate::{
    decide::wording::{command, shown},
    inspect::secrets::{MAX_SECRETS, Secret},
    policy::{Mode, OnSecret},
};

/// Its name, which suppressions use.
pub(in crate::decide) const RULE: &str = "argument_inspection";

/// Something in the arguments is a secret, at or above the threshold, and not accepted.
pub(super) struct ArgumentContent;

impl Rule for ArgumentContent {
    fn judge(&self, scene: &Scene<'_>) -> Option<Objection> {
        let call = scene.call?;
        let alarming = alarming(scene);
        let worst = alarming
            .iter()
            .rev()
            .max_by_key(|secret| secret.finding.severity)?;
        let on_detection = scene.policy.arguments.on_detection;
        // Nothing is let through in part, and a member is not given another name.
        let is_replaceable =
            call.secrets.len() < MAX_SECRETS && Secret::redactions(alarming.iter().copied()).is_some();
        let (effect, follows) = match (on_detection, scene.policy.mode) {
            (OnSecret::Alert, _) => (Effect::Audit, ""),
            (OnSecret::Redact, Mode::Enforce) if is_replaceable => {
                (Effect::Audit, ", replaced by a placeholder")
            }
            (OnSecret::Redact, Mode::Observe) if is_replaceable => {
                (Effect::Audit, ", which would be replaced")
            }
            (OnSecret::Redact, _) => (Effect::Block, ", which cannot be replaced"),
            (OnSecret::Block, _) => (Effect::Block, ""),
        };
        let others = match alarming.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let field = match worst.finding.field.as_str() {
            "" => String::new(),
            field => format!(" ({})", shown(field)),
        };
        Some(Objection {
            rule: RULE.into(),
            effect,
            severity: worst.finding.severity,
            reason: format!(
                "an argument of {}{field} holds a secret: {}{others}{follows}",
                scene.subject(),
                worst.finding.pattern,
            ),
            remedy: Some(command(&["detections", "--server", scene.server.as_str()])),
        })
    }
}

/// What of the secrets in the arguments of a call something follows from.
pub(in crate::decide) fn alarming<'a>(scene: &Scene<'a>) -> Vec<&'a Secret> {
    let secrets = scene.call.map_or(&[][..], |call| call.secrets);
    let alarms = |secret: &&Secret| {
        secret.finding.severity >= scene.policy.inspection.alert_threshold && !is_accepted(scene, secret)
    };
    secrets.iter().filter(alarms).collect()
}

/// Whether a suppression covers it.
pub(in crate::decide) fn is_accepted(scene: &Scene<'_>, secret: &Secret) -> bool {
    let tool = scene.call.map_or("", |call| &call.call.tool);
    let pattern = &secret.finding.pattern;
    scene
        .policy
        .suppresses(RULE, pattern, scene.server, tool, scene.now)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::{
        decide::rules::fixture::Stage,
        model::{NameGlob, Severity},
        policy::{Policy, Suppression},
    };

    const TOKEN: &str = concat!("gh", "p_", "0000000000000000000000000000002C8GjS");

    fn judged(policy: Policy, arguments: &str) -> Option<Objection> {
        let mut stage = Stage::new(policy);
        stage.list(&[("send", "")]);
        stage.judge_call(&ArgumentContent, "send", arguments)
    }

    fn policy(on_detection: OnSecret) -> Policy {
        let mut policy = Policy::default();
        policy.arguments.on_detection = on_detection;
        policy
    }

    #[test_case(OnSecret::Alert => Effect::Audit; "reported")]
    #[test_case(OnSecret::Block => Effect::Block; "blocked")]
    #[test_case(OnSecret::Redact => Effect::Audit; "replaced")]
    fn a_secret_in_a_value(on_detection: OnSecret) -> Effect {
        let objection =
            judged(policy(on_detection), &format!(r#"{{"body":["x {TOKEN}"]}}"#)).expect("an objection");
        assert_eq!(objection.severity, Severity::Critical);
        assert!(
            objection.reason.contains("body[0]") && objection.reason.contains("github_token"),
            "{}",
            objection.reason
        );
        assert!(!objection.reason.contains(TOKEN));
        assert_eq!(
            objection.remedy.as_deref(),
            Some("mcpmon detections --server files")
        );
        objection.effect
    }

    #[test]
    fn a_secret_in_a_key_cannot_be_replaced() {
        let objection =
            judged(policy(OnSecret::Redact), &format!(r#"{{"{TOKEN}":1}}"#)).expect("an objection");
        assert_eq!(objection.effect, Effect::Block);
        assert!(!objection.reason.contains(TOKEN), "{}", objection.reason);
    }

    #[test]
    fn more_secrets_than_are_told_cannot_be_replaced() {
        let many = vec![format!("\"{TOKEN}\""); MAX_SECRETS + 1].join(",");
        let objection =
            judged(policy(OnSecret::Redact), &format!(r#"{{"a":[{many}]}}"#)).expect("an objection");
        assert_eq!(objection.effect, Effect::Block);
        assert!(objection.reason.contains("and 63 more"), "{}", objection.reason);
    }

    #[test_case(r#"{"path":"/home/me/notes.txt","limit":10}"#; "nothing")]
    #[test_case(r#"{"key":"YOUR_API_KEY","password":"xxxxxxxx"}"#; "placeholders")]
    fn what_is_no_secret(arguments: &str) {
        assert_eq!(judged(Policy::default(), arguments), None);
    }

    #[test]
    fn what_is_switched_off_finds_nothing() {
        let mut policy = Policy::default();
        policy.arguments.enabled = false;
        assert_eq!(judged(policy, &format!(r#"{{"a":"{TOKEN}"}}"#)), None);
    }

    #[test_case("github_*", None; "by pattern")]
    #[test_case("argument_inspection", None; "by rule")]
    #[test_case("stripe_key", Some(Effect::Block); "another pattern")]
    fn what_is_accepted(rule: &str, effect: Option<Effect>) {
        let mut policy = Policy::default();
        policy.suppressions.push(Suppression {
            rule: NameGlob::new(rule),
            server: NameGlob::new("*"),
            tool: NameGlob::new("send"),
            until: None,
            reason: "known".to_owned(),
        });
        let judged = judged(policy, &format!(r#"{{"a":"{TOKEN}"}}"#));
        assert_eq!(judged.map(|objection| objection.effect), effect);
    }
}
