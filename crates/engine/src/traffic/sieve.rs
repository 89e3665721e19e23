//! The sieve between findings and their effects: suppressions, the threshold, and mentions of an attack.

use mcpmon_model::{Action, Event, Finding, InspectionSubject, Severity, TextStance};
use mcpmon_policy::{OnDetection, OnOutput, Policy};

use super::tell::Teller;
use crate::{
    rules::{ARGUMENT_INSPECTION, Objection, ObjectionEffect},
    wording::{acceptance_remedy, command, shown},
};
pub(super) use mcpmon_detect::scan::MAX_REPORTED;

/// The findings in a message, with their effect.
#[derive(Debug)]
pub(super) struct InspectedMessage {
    /// The findings that are not suppressed.
    pub(super) findings: Vec<Finding>,
    /// The reason why the message is stopped, or noted.
    pub(super) objection: Option<Objection>,
}

/// Judges what was found in `subject`; `name` is the tool's, for suppressions.
pub(super) fn sieve(
    teller: &Teller<'_>,
    policy: &Policy,
    subject: InspectionSubject,
    name: &str,
    mut findings: Vec<Finding>,
) -> InspectedMessage {
    let server = &teller.conversation.identity.server;
    findings.retain(|finding| !policy.accepts(rule(subject), finding, server, name, teller.now));
    let worst = findings
        .iter()
        .filter(|finding| finding.severity >= policy.inspection.alert_threshold)
        .max_by_key(|finding| (effect(subject, finding, policy), finding.severity));
    let objection = worst.map(|finding| Objection {
        rule: rule(subject).into(),
        effect: effect(subject, finding, policy),
        severity: finding.severity,
        reason: format!(
            "{} of {server} matches {} ({})",
            noun(subject),
            shown(&finding.pattern),
            finding.category.as_str()
        ),
        remedy: Some(match effect(subject, finding, policy) {
            ObjectionEffect::Block => {
                let acting = findings
                    .iter()
                    .filter(|finding| effect(subject, finding, policy) == ObjectionEffect::Block);
                let rules = acting.flat_map(|finding| &finding.rules).map(String::as_str);
                acceptance_remedy(rules, rule(subject), server.as_str(), name)
            }
            ObjectionEffect::Audit | ObjectionEffect::Ask => {
                command(&["detections", "--server", server.as_str()])
            }
        }),
    });
    InspectedMessage { findings, objection }
}

/// Returns the effect of a finding: one that only describes an attack, or is below the threshold for action,
/// never blocks.
fn effect(subject: InspectionSubject, finding: &Finding, policy: &Policy) -> ObjectionEffect {
    let acts = finding.severity >= policy.inspection.act_threshold;
    // A file of a skill is a part of its definition.
    let blocks = match subject == InspectionSubject::Definition {
        true => policy.inspection.on_detection != OnDetection::Alert,
        false => policy.outputs.on_detection == OnOutput::Block,
    };
    match finding.standing {
        TextStance::Asserted if acts && blocks => ObjectionEffect::Block,
        TextStance::Asserted | TextStance::Quoted => ObjectionEffect::Audit,
    }
}

impl InspectedMessage {
    /// Returns whether the message is stopped for it.
    pub(super) fn blocks(&self) -> bool {
        self.objection
            .as_ref()
            .is_some_and(|objection| objection.effect == ObjectionEffect::Block)
    }

    /// Builds an event for each finding.
    pub(super) fn events(
        &self,
        teller: &Teller<'_>,
        policy: &Policy,
        subject: InspectionSubject,
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
        let told = self.findings.iter().take(MAX_REPORTED);
        told.map(|finding| teller.detection(subject, name, finding, action(finding), self.objection.as_ref()))
            .collect()
    }

    /// Returns the highest severity of the findings.
    pub(super) fn severity(&self) -> Severity {
        self.findings
            .iter()
            .map(|finding| finding.severity)
            .max()
            .unwrap_or_default()
    }
}

/// Returns the rule that acts on findings in `subject`.
pub(super) const fn rule(subject: InspectionSubject) -> &'static str {
    match subject {
        InspectionSubject::Definition | InspectionSubject::Instructions => "tool_poisoning",
        InspectionSubject::Output
        | InspectionSubject::Prompt
        | InspectionSubject::Resource
        | InspectionSubject::Error
        | InspectionSubject::Notification => "output_poisoning",
        InspectionSubject::Argument => ARGUMENT_INSPECTION,
        InspectionSubject::Sampling => "sampling_poisoning",
        InspectionSubject::Elicitation => "elicitation_poisoning",
    }
}

pub(super) const fn noun(subject: InspectionSubject) -> &'static str {
    match subject {
        InspectionSubject::Definition => "a definition",
        InspectionSubject::Output => "a result",
        InspectionSubject::Argument => "an argument",
        InspectionSubject::Instructions => "the instructions",
        InspectionSubject::Prompt => "a prompt",
        InspectionSubject::Resource => "a resource",
        InspectionSubject::Sampling => "a sampling request",
        InspectionSubject::Elicitation => "a question to the user",
        InspectionSubject::Error => "an error message",
        InspectionSubject::Notification => "a notification",
    }
}
