//! Secrets in a server's answers: recorded, replaced before the client gets them, or withheld.

use mcpmon_detect::{
    arguments::Arguments,
    secrets::{self, MAX_SECRETS},
};
use mcpmon_model::{AnswerOutcome, Event, InspectionSubject, Redaction};
use mcpmon_policy::OnSecret;

use super::{
    Traffic,
    disclosed::{detections, redactions},
    requests::{beyond, note},
    sieve::noun,
    tell::Teller,
};
use crate::rules::{InspectedText, Ruling};

/// The secrets in an answer.
#[derive(Debug, Default)]
pub(super) struct LeakedSecrets {
    /// The events about them.
    pub(super) events: Vec<Event>,
    /// The replacements before the answer is forwarded.
    pub(super) redactions: Vec<Redaction>,
}

impl Traffic {
    /// Adds the objections to an answer with secrets in it to `ruling`; `name` is the tool's, for suppressions.
    pub(super) fn leaked(
        &self,
        teller: &Teller<'_>,
        subject: InspectionSubject,
        name: &str,
        answered: &AnswerOutcome<'_>,
        ruling: &mut Ruling,
    ) -> LeakedSecrets {
        let (AnswerOutcome::Result { result: json, .. } | AnswerOutcome::Error { error: json, .. }) =
            *answered;
        if !self.policy.outputs.enabled || !secrets::may_hold(json.as_str()) {
            return LeakedSecrets::default();
        }
        let on_secret = self.policy.outputs.secrets;
        let said = Arguments::walk(json);
        if on_secret != OnSecret::Alert {
            note(ruling, beyond(&said, noun(subject)));
        }
        let secrets = secrets::in_result(json, &said);
        if secrets.is_empty() {
            return LeakedSecrets::default();
        }
        let server = &teller.conversation.identity.server;
        let given = InspectedText {
            policy: &self.policy,
            subject,
            on_secret,
            server,
            now: teller.now,
            name,
            secrets: &secrets,
            is_replaceable: secrets.len() < MAX_SECRETS,
        };
        note(
            ruling,
            given.objection(|| format!("{} of {server}", noun(subject))),
        );
        LeakedSecrets {
            events: detections(teller, &given, ruling),
            redactions: redactions(&given, ruling),
        }
    }
}
