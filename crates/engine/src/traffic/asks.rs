//! Requests of a server to its client, and unasked messages: sampling, questions to the user, notifications.

use mcpmon_model::{Event, Finding, InspectionSubject, RawJson, ServerRequestKind, Severity};

use super::{
    Traffic,
    requests::{handled, judged, note, verdict},
    sieve::sieve,
    tell::Teller,
};
use crate::{
    effect::Judgement,
    rules::{Objection, ObjectionEffect, Ruling},
    wording::{command, explaining, shown},
};

impl Traffic {
    /// Judges a request of the server.
    pub(super) fn ask(
        &self,
        teller: &Teller<'_>,
        ask: ServerRequestKind,
        method: &str,
        params: Option<RawJson<'_>>,
    ) -> Judgement {
        let (ruling, events) = self.asked(teller, ask, method, params);
        Judgement {
            verdict: verdict(&ruling),
            events,
            ..Judgement::default()
        }
    }

    /// Returns the objection to a server's request, which comes alone or within a result, and the events about it.
    pub(super) fn asked(
        &self,
        teller: &Teller<'_>,
        ask: ServerRequestKind,
        method: &str,
        params: Option<RawJson<'_>>,
    ) -> (Ruling, Vec<Event>) {
        let mut ruling = self.server_ruling(teller);
        let subject = match ask {
            ServerRequestKind::Sampling => InspectionSubject::Sampling,
            ServerRequestKind::Elicitation => InspectionSubject::Elicitation,
            ServerRequestKind::Roots | ServerRequestKind::Other => {
                let is_told = ruling.told().is_some();
                let told = is_told.then(|| judged(teller, method, "", &ruling).events);
                return (ruling, told.unwrap_or_default());
            }
        };
        let requests = self.policy.requests;
        let mut found = params.map_or_else(Vec::new, |params| self.scanner.text(subject, params));
        match ask {
            ServerRequestKind::Sampling => {
                note(
                    &mut ruling,
                    handled(requests.sampling, "sampling", || {
                        "an LLM call of the server".to_owned()
                    }),
                );
                note(&mut ruling, params.and_then(context_of_others));
            }
            ServerRequestKind::Elicitation => {
                for (finding, objection) in params
                    .into_iter()
                    .flat_map(|params| self.forbidden(teller, params))
                {
                    note(&mut ruling, Some(objection));
                    found.push(finding);
                }
                note(
                    &mut ruling,
                    handled(requests.elicitation, "elicitation", || {
                        "a question to the user".to_owned()
                    }),
                );
            }
            ServerRequestKind::Roots | ServerRequestKind::Other => {}
        }
        let sieved = sieve(teller, &self.policy, subject, "", found);
        let detections = sieved.events(teller, &self.policy, subject, None);
        note(&mut ruling, sieved.objection);
        let mut events = judged(teller, method, &summary(ask, params), &ruling).events;
        events.extend(detections);
        (ruling, events)
    }

    /// Returns the objections to a question to the user that apply whatever the policy about questions.
    fn forbidden(&self, teller: &Teller<'_>, params: RawJson<'_>) -> Vec<(Finding, Objection)> {
        let server = teller.conversation.identity.server.as_str();
        let objection = |rule: &'static str, severity, reason| Objection {
            rule: rule.into(),
            effect: ObjectionEffect::Block,
            severity,
            reason,
            remedy: Some(command(&["detections", "--server", server])),
        };
        let credentials = self.scanner.asks_for_credentials(params).map(|finding| {
            let field = shown(&finding.field);
            let reason = format!("a question to the user asks for credentials ({field})");
            let objection = objection("elicitation_credentials", finding.severity, reason);
            (finding, objection)
        });
        let address = self.scanner.leads_astray(params).map(|(finding, why)| {
            let reason = format!("the address that a question leads the user to misleads: {why}");
            let objection = objection("elicitation_address", finding.severity, reason);
            (finding, objection)
        });
        credentials.into_iter().chain(address).collect()
    }

    /// Judges a notification of the server. Some clients show its text to the model.
    pub(super) fn notice(&self, teller: &Teller<'_>, method: &str, params: Option<RawJson<'_>>) -> Judgement {
        let subject = InspectionSubject::Notification;
        let Some(params) = params else {
            return Judgement::default();
        };
        let (mut ruling, mut asked) = (Ruling::default(), Judgement::default());
        if method.starts_with("notifications/tasks") {
            self.input_requests(teller, params, &mut ruling, &mut asked);
        }
        let found = match self.policy.outputs.enabled {
            true => self.scanner.text(subject, params),
            false => Vec::new(),
        };
        let sieved = sieve(teller, &self.policy, subject, "", found);
        let told = sieved.events(teller, &self.policy, subject, None);
        note(&mut ruling, sieved.objection);
        let mut judgement = match ruling.told() {
            Some(_) => judged(teller, method, "", &ruling),
            None => Judgement::default(),
        };
        judgement.events.extend(asked.events);
        judgement.events.extend(told);
        judgement
    }
}

/// Returns the objection to a server's request for an LLM call that includes earlier messages, to it or to
/// other servers.
fn context_of_others(params: RawJson<'_>) -> Option<Objection> {
    let (severity, whose) = match &*params.member("includeContext")?.text()? {
        "allServers" => (Severity::Medium, "all servers"),
        "thisServer" => (Severity::Low, "the server"),
        _ => return None,
    };
    Some(Objection {
        rule: "sampling_context".into(),
        effect: ObjectionEffect::Audit,
        severity,
        reason: format!("an LLM call of the server asks for the context of {whose} (`includeContext`)"),
        remedy: Some(explaining("sampling_context")),
    })
}

/// Summarises a request in a line.
fn summary(ask: ServerRequestKind, params: Option<RawJson<'_>>) -> String {
    let Some(params) = params else {
        return String::new();
    };
    match ask {
        ServerRequestKind::Elicitation => {
            let message = params.member("message").and_then(RawJson::text);
            message.map_or(String::new(), |message| shown(&message).into_owned())
        }
        ServerRequestKind::Sampling | ServerRequestKind::Roots | ServerRequestKind::Other => {
            format!("{} bytes", params.as_str().len())
        }
    }
}
