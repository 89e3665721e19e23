//! From what was found to what follows: suppressions, the threshold, and what only tells of an attack.

use mcpmon_model::{Action, Event, Finding, Severity, Standing, Subject};
use mcpmon_policy::{OnOutput, Policy};

use super::tell::Teller;
use crate::{
    rules::{ARGUMENT_INSPECTION, Effect, Objection},
    wording::{accepting, command, shown},
};
pub(super) use mcpmon_detect::scan::MAX_TOLD;

/// The findings in a message, with their effect.
#[derive(Debug)]
pub(super) struct Sieved {
    /// The findings that are not suppressed.
    pub(super) findings: Vec<Finding>,
    /// The reason why the message is stopped, or noted.
    pub(super) objection: Option<Objection>,
}

/// Judges what was found in `subject`; `name` is the tool's, for suppressions.
pub(super) fn sieve(
    teller: &Teller<'_>,
    policy: &Policy,
    subject: Subject,
    name: &str,
    mut findings: Vec<Finding>,
) -> Sieved {
    let server = &teller.conversation.identity.server;
    findings.retain(|finding| !policy.accepts(rule(subject), finding, server, name, teller.now));
    let worst = findings
        .iter()
        .filter(|finding| finding.severity >= policy.inspection.alert_threshold)
        .max_by_key(|finding| (effect(finding, policy), finding.severity));
    let objection = worst.map(|finding| Objection {
        rule: rule(subject).into(),
        effect: effect(finding, policy),
        severity: finding.severity,
        reason: format!(
            "{} of {server} matches {} ({})",
            noun(subject),
            shown(&finding.pattern),
            finding.category.as_str()
        ),
        remedy: Some(match effect(finding, policy) {
            Effect::Block => {
                let acting = findings
                    .iter()
                    .filter(|finding| effect(finding, policy) == Effect::Block);
                let rules = acting.flat_map(|finding| &finding.rules).map(String::as_str);
                accepting(rules, rule(subject), server.as_str(), name)
            }
            Effect::Audit | Effect::Ask => command(&["detections", "--server", server.as_str()]),
        }),
    });
    Sieved { findings, objection }
}

/// Returns the effect of a finding: one that only describes an attack, or is below the threshold for action,
/// never blocks.
fn effect(finding: &Finding, policy: &Policy) -> Effect {
    let acts = finding.severity >= policy.inspection.act_threshold;
    match (policy.outputs.on_detection, finding.standing) {
        (OnOutput::Block, Standing::Asserted) if acts => Effect::Block,
        (OnOutput::Block | OnOutput::Alert, Standing::Asserted | Standing::Quoted) => Effect::Audit,
    }
}

impl Sieved {
    /// Returns whether the message is stopped for it.
    pub(super) fn blocks(&self) -> bool {
        self.objection
            .as_ref()
            .is_some_and(|objection| objection.effect == Effect::Block)
    }

    /// An event for each finding.
    pub(super) fn events(
        &self,
        teller: &Teller<'_>,
        policy: &Policy,
        subject: Subject,
        name: Option<&str>,
    ) -> Vec<Event> {
        let action = |finding: &Finding| {
            if self.blocks() {
                Action::Block
            } else if finding.severity >= policy.inspection.alert_threshold {
                Action::Audit
            } else {
                Action::Allow
            }
        };
        let told = self.findings.iter().take(MAX_TOLD);
        told.map(|finding| teller.detection(subject, name, finding, action(finding), self.objection.as_ref()))
            .collect()
    }

    /// The worst of what was found.
    pub(super) fn severity(&self) -> Severity {
        self.findings
            .iter()
            .map(|finding| finding.severity)
            .max()
            .unwrap_or_default()
    }
}

/// The rule that speaks where something was found in `subject`.
pub(super) const fn rule(subject: Subject) -> &'static str {
    match subject {
        Subject::Definition | Subject::Instructions => "tool_poisoning",
        Subject::Output | Subject::Prompt | Subject::Resource | Subject::Error | Subject::Notification => {
            "output_poisoning"
        }
        Subject::Argument => ARGUMENT_INSPECTION,
        Subject::Sampling => "sampling_poisoning",
        Subject::Elicitation => "elicitation_poisoning",
    }
}

pub(super) const fn noun(subject: Subject) -> &'static str {
    match subject {
        Subject::Definition => "a definition",
        Subject::Output => "a result",
        Subject::Argument => "an argument",
        Subject::Instructions => "the instructions",
        Subject::Prompt => "a prompt",
        Subject::Resource => "a resource",
        Subject::Sampling => "a sampling request",
        Subject::Elicitation => "a question to the user",
        Subject::Error => "an error message",
        Subject::Notification => "a notification",
    }
}
