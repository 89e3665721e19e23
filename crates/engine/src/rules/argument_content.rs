//! Secrets in what a client sends to a server: the arguments of a call, and other texts.

use mcpmon_detect::secrets::{MAX_SECRETS, Secret};
use mcpmon_model::{InspectionSubject, ServerId, Timestamp};
use mcpmon_policy::{Mode, OnSecret, Policy};

use super::{About, Objection, ObjectionEffect, Rule, RuleContext};
use crate::wording::{acceptance_remedy, command, shown};

/// Its name, which suppressions use.
pub(crate) const RULE: &str = "argument_inspection";

/// Something in the arguments is a secret, at or above the threshold, and not accepted.
pub(super) struct ArgumentContent;

impl Rule for ArgumentContent {
    fn about(&self) -> &'static About {
        &About {
            names: &["argument_inspection"],
            keys: &["mcp.argument_inspection"],
            what: "secrets in arguments are reported, stopped, or replaced",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        InspectedText::of(scene)?.objection(|| format!("an argument of {}", scene.subject()))
    }
}

/// The name of the rule over answers of a server.
pub(crate) const OUTPUT_RULE: &str = "output_secrets";

/// A text that a client gives to a server, or that a server answers, with the secrets in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InspectedText<'a> {
    /// The policy in force.
    pub(crate) policy: &'a Policy,
    /// The subject of the inspection.
    pub(crate) subject: InspectionSubject,
    /// The effect of a secret in it.
    pub(crate) on_secret: OnSecret,
    /// The server that receives or sends it.
    pub(crate) server: &'a ServerId,
    /// The time.
    pub(crate) now: Timestamp,
    /// The tool or prompt, the resource or the method, as suppressions and events name it.
    pub(crate) name: &'a str,
    /// The secrets found.
    pub(crate) secrets: &'a [Secret],
    /// True if replacing a text in it does not change its meaning.
    pub(crate) is_replaceable: bool,
}

impl<'a> InspectedText<'a> {
    /// Returns the arguments of a call as an inspected text.
    pub(crate) fn of(scene: &RuleContext<'a>) -> Option<Self> {
        let calling = scene.call?;
        Some(Self {
            policy: scene.policy,
            subject: InspectionSubject::Argument,
            on_secret: scene.policy.arguments.on_detection,
            server: scene.server,
            now: scene.now,
            name: &calling.call.tool,
            secrets: calling.secrets,
            is_replaceable: true,
        })
    }

    /// Returns the rule about secrets in it.
    pub(crate) const fn rule(&self) -> &'static str {
        match self.subject {
            InspectionSubject::Argument => RULE,
            InspectionSubject::Definition
            | InspectionSubject::Output
            | InspectionSubject::Instructions
            | InspectionSubject::Prompt
            | InspectionSubject::Resource
            | InspectionSubject::Sampling
            | InspectionSubject::Elicitation
            | InspectionSubject::Error
            | InspectionSubject::Notification => OUTPUT_RULE,
        }
    }

    /// Returns the objection to it; `what` describes it.
    pub(crate) fn objection(&self, what: impl Fn() -> String) -> Option<Objection> {
        let alarming = self.alarming();
        let worst = alarming
            .iter()
            .rev()
            .max_by_key(|secret| secret.finding.severity)?;
        // Nothing is let through in part, and a member is not given another name.
        let is_replaceable = self.is_replaceable
            && self.secrets.len() < MAX_SECRETS
            && Secret::redactions(alarming.iter().copied()).is_some();
        let (effect, follows) = match (self.on_secret, self.policy.mode) {
            (OnSecret::Alert, _) => (ObjectionEffect::Audit, ""),
            (OnSecret::Redact, Mode::Enforce) if is_replaceable => {
                (ObjectionEffect::Audit, ", replaced by a placeholder")
            }
            (OnSecret::Redact, Mode::Observe) if is_replaceable => {
                (ObjectionEffect::Audit, ", which would be replaced")
            }
            (OnSecret::Redact, _) => (ObjectionEffect::Block, ", which cannot be replaced"),
            (OnSecret::Block, _) => (ObjectionEffect::Block, ""),
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
            rule: self.rule().into(),
            effect,
            severity: worst.finding.severity,
            reason: format!(
                "{}{field} holds a secret: {}{others}{follows}",
                what(),
                worst.finding.pattern,
            ),
            remedy: Some(match effect {
                ObjectionEffect::Block => {
                    let rules = alarming.iter().flat_map(|secret| &secret.finding.rules);
                    let rules = rules.map(String::as_str);
                    acceptance_remedy(rules, self.rule(), self.server.as_str(), self.name)
                }
                ObjectionEffect::Audit | ObjectionEffect::Ask => {
                    command(&["detections", "--server", self.server.as_str()])
                }
            }),
        })
    }

    /// Returns the secrets that have an effect.
    pub(crate) fn alarming(&self) -> Vec<&'a Secret> {
        let threshold = self.policy.inspection.act_threshold;
        let alarms = |secret: &&Secret| secret.finding.severity >= threshold && !self.accepts(secret);
        self.secrets.iter().filter(alarms).collect()
    }

    /// Returns whether a suppression covers it.
    pub(crate) fn accepts(&self, secret: &Secret) -> bool {
        self.policy
            .accepts(self.rule(), &secret.finding, self.server, self.name, self.now)
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{NameGlob, Severity};
    use mcpmon_policy::Suppression;
    use test_case::test_case;

    use super::*;
    use crate::rules::fixture::Stage;

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

    #[test_case(OnSecret::Alert => ObjectionEffect::Audit; "reported")]
    #[test_case(OnSecret::Block => ObjectionEffect::Block; "blocked")]
    #[test_case(OnSecret::Redact => ObjectionEffect::Audit; "replaced")]
    fn a_secret_in_a_value(on_detection: OnSecret) -> ObjectionEffect {
        let objection =
            judged(policy(on_detection), &format!(r#"{{"body":["x {TOKEN}"]}}"#)).expect("an objection");
        assert_eq!(objection.severity, Severity::Critical);
        assert!(
            objection.reason.contains("body[0]") && objection.reason.contains("github_token"),
            "{}",
            objection.reason
        );
        assert!(!objection.reason.contains(TOKEN));
        let remedy = match on_detection {
            OnSecret::Block => "mcpmon policy accept github_token --server files --tool send",
            OnSecret::Alert | OnSecret::Redact => "mcpmon detections --server files",
        };
        assert_eq!(objection.remedy.as_deref(), Some(remedy));
        objection.effect
    }

    #[test]
    fn a_secret_in_a_key_cannot_be_replaced() {
        let objection =
            judged(policy(OnSecret::Redact), &format!(r#"{{"{TOKEN}":1}}"#)).expect("an objection");
        assert_eq!(objection.effect, ObjectionEffect::Block);
        assert!(!objection.reason.contains(TOKEN), "{}", objection.reason);
    }

    #[test]
    fn more_secrets_than_are_told_cannot_be_replaced() {
        let many = vec![format!("\"{TOKEN}\""); MAX_SECRETS + 1].join(",");
        let objection =
            judged(policy(OnSecret::Redact), &format!(r#"{{"a":[{many}]}}"#)).expect("an objection");
        assert_eq!(objection.effect, ObjectionEffect::Block);
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
    #[test_case("stripe_key", Some(ObjectionEffect::Block); "another pattern")]
    fn what_is_accepted(rule: &str, effect: Option<ObjectionEffect>) {
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
