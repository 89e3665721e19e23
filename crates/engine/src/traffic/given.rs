//! Secrets in what a client sends to a server, except arguments of calls: arguments of prompts, URIs of resources,
//! completions, and answers to requests of the server.

use mcpmon_detect::{
    arguments::Arguments,
    secrets::{self, Secret},
};
use mcpmon_model::{
    Call, DefinitionKind, Event, InspectionSubject, RawJson, Redaction, ServerRequestKind, Verdict,
};

use super::{
    Traffic,
    disclosed::{detections, redactions},
    requests::{beyond, judged, note, verdict},
    tell::Teller,
};
use crate::{
    effect::Judgement,
    rules::{InspectedText, Ruling},
    wording::shown,
};

/// A text or value that a client sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientText<'a> {
    /// The description of it, for a reason.
    pub(super) what: &'a str,
    /// Its name in suppressions and events.
    pub(super) name: &'a str,
    /// The whole value.
    pub(super) json: RawJson<'a>,
    /// The member that identifies what is requested: a secret in it cannot be replaced without changing the request.
    pub(super) fixed: Option<&'static str>,
}

/// Events and replacements of the secrets in it.
#[derive(Debug, Default)]
pub(super) struct SecretEvents {
    events: Vec<Event>,
    redactions: Vec<Redaction>,
}

impl Traffic {
    /// Adds the objections to a value that a client sends to `ruling`.
    pub(super) fn reveals(
        &self,
        teller: &Teller<'_>,
        said: ClientText<'_>,
        ruling: &mut Ruling,
    ) -> SecretEvents {
        if !self.policy.arguments.enabled {
            return SecretEvents::default();
        }
        let arguments = Arguments::walk(said.json);
        note(ruling, beyond(&arguments, said.what));
        let secrets = secrets::inspect(said.json, &arguments);
        if secrets.is_empty() {
            return SecretEvents::default();
        }
        let server = &teller.conversation.identity.server;
        let mut given = InspectedText {
            policy: &self.policy,
            subject: InspectionSubject::Argument,
            on_secret: self.policy.arguments.on_detection,
            server,
            now: teller.now,
            name: said.name,
            secrets: &secrets,
            is_replaceable: true,
        };
        let is_fixed = |secret: &&Secret| said.fixed.is_some_and(|member| is_in(secret, member));
        given.is_replaceable = !given.alarming().iter().any(is_fixed);
        note(ruling, given.objection(|| format!("{} for {server}", said.what)));
        SecretEvents {
            events: detections(teller, &given, ruling),
            redactions: redactions(&given, ruling),
        }
    }

    /// Adds the objections to the client's answers in a call that resumes an earlier one.
    pub(super) fn resumed(
        &self,
        teller: &Teller<'_>,
        call: &Call<'_>,
        ruling: &mut Ruling,
        events: &mut Vec<Event>,
    ) {
        // A `requestState` is a string, and was made by the server.
        let Some(json) = call.resumes.filter(|resumes| resumes.as_str().starts_with('{')) else {
            return;
        };
        let said = ClientText {
            what: "an answer",
            name: &call.tool,
            json,
            fixed: Some(""),
        };
        events.extend(self.reveals(teller, said, ruling).events);
    }

    /// Judges the URI of a resource that the server did not list; a listed URI reveals nothing to the server.
    pub(super) fn address(&self, teller: &Teller<'_>, uri: &str, ruling: &mut Ruling) -> SecretEvents {
        let scene = self.scene(teller, DefinitionKind::Resource, uri);
        if scene.is_some_and(|scene| scene.entry().is_some()) {
            return SecretEvents::default();
        }
        let json = format!("{{\"uri\":{}}}", RawJson::quoted(uri));
        let what = format!("the address of resource {}", shown(uri));
        let said = ClientText {
            what: &what,
            name: uri,
            json: RawJson::trusted(&json),
            fixed: Some("uri"),
        };
        self.reveals(teller, said, ruling)
    }

    /// Judges the client's answer to a request of the server.
    pub(super) fn reply(&self, teller: &Teller<'_>, to: ServerRequestKind, body: RawJson<'_>) -> Judgement {
        let method = match to {
            ServerRequestKind::Sampling => "sampling/createMessage",
            ServerRequestKind::Elicitation => "elicitation/create",
            ServerRequestKind::Roots => "roots/list",
            ServerRequestKind::Other => "reply",
        };
        let said = ClientText {
            what: "an answer",
            name: method,
            json: body,
            fixed: None,
        };
        let mut ruling = Ruling::default();
        let revealed = self.reveals(teller, said, &mut ruling);
        match ruling.told() {
            Some(_) => revealed.with(judged(teller, method, "an answer", &ruling)),
            // Findings that are not notable are recorded all the same.
            None => revealed.with(Judgement {
                verdict: verdict(&ruling),
                ..Judgement::default()
            }),
        }
    }
}

impl SecretEvents {
    /// Adds the events to a judgement, and the replacements if it allows.
    pub(super) fn with(self, mut judgement: Judgement) -> Judgement {
        judgement.events.extend(self.events);
        if judgement.verdict == Verdict::Allow && !self.redactions.is_empty() {
            judgement.verdict = Verdict::Redact(self.redactions);
        }
        judgement
    }
}

/// Returns whether a secret is in this member; every secret is in the member with the empty name.
fn is_in(secret: &Secret, member: &str) -> bool {
    let rest = secret.finding.field.strip_prefix(member);
    rest.is_some_and(|rest| member.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']))
}
