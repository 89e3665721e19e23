//! Secrets in what a server answers: told, replaced before the client gets it, or withheld.

use mcpmon_detect::{
    arguments::Arguments,
    secrets::{self, MAX_SECRETS},
};
use mcpmon_model::{AnswerOutcome, Event, Redaction, Subject};
use mcpmon_policy::OnSecret;

use super::{
    Traffic,
    disclosed::{detections, redactions},
    requests::{beyond, note},
    sieve::noun,
    tell::Teller,
};
use crate::rules::{Given, Ruling};

/// The secrets in an answer.
#[derive(Debug, Default)]
pub(super) struct Leaked {
    /// The events about them.
    pub(super) events: Vec<Event>,
    /// The replacements before the answer is forwarded.
    pub(super) redactions: Vec<Redaction>,
}

impl Traffic {
    /// Adds what stands against an answer with secrets in it to `ruling`; `name` is the tool's, for suppressions.
    pub(super) fn leaked(
        &self,
        teller: &Teller<'_>,
        subject: Subject,
        name: &str,
        answered: &AnswerOutcome<'_>,
        ruling: &mut Ruling,
    ) -> Leaked {
        let (AnswerOutcome::Result { result: json, .. } | AnswerOutcome::Error { error: json, .. }) =
            *answered;
        if !self.policy.outputs.enabled || !secrets::may_hold(json.as_str()) {
            return Leaked::default();
        }
        let on_secret = self.policy.outputs.secrets;
        let said = Arguments::walk(json);
        if on_secret != OnSecret::Alert {
            note(ruling, beyond(&said, noun(subject)));
        }
        let secrets = secrets::in_result(json, &said);
        if secrets.is_empty() {
            return Leaked::default();
        }
        let server = &teller.conversation.identity.server;
        let given = Given {
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
        Leaked {
            events: detections(teller, &given, ruling),
            redactions: redactions(&given, ruling),
        }
    }
}
