//! Secrets in what a client gives a server beside the arguments of calls: arguments of prompts, addresses of
//! resources, completions, and answers to what the server asked.

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

/// Something that a client says.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientText<'a> {
    /// The description of it, for a reason.
    pub(super) what: &'a str,
    /// The name of it in suppressions and events.
    pub(super) name: &'a str,
    /// All of it.
    pub(super) json: RawJson<'a>,
    /// Member whose texts are what something is asked for: with others it is another question.
    pub(super) fixed: Option<&'static str>,
}

/// The events about its secrets.
#[derive(Debug, Default)]
pub(super) struct SecretEvents {
    events: Vec<Event>,
    redactions: Vec<Redaction>,
}

impl Traffic {
    /// Adds what stands against something that a client says to `ruling`.
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

    /// Adds what a call gives that goes on with an earlier one: answers to what the server asked.
    pub(super) fn resumed(
        &self,
        teller: &Teller<'_>,
        call: &Call<'_>,
        ruling: &mut Ruling,
        events: &mut Vec<Event>,
    ) {
        // `requestState` is a string, and the server's own.
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

    /// The address of a resource that the server did not list: in one that it did, it says nothing new.
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

    /// The answer to something the server asked.
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
            // What is found and not notable is told all the same.
            None => revealed.with(Judgement {
                verdict: verdict(&ruling),
                ..Judgement::default()
            }),
        }
    }
}

impl SecretEvents {
    /// A judgement, told with what was found and without what is replaced.
    pub(super) fn with(self, mut judgement: Judgement) -> Judgement {
        judgement.events.extend(self.events);
        if judgement.verdict == Verdict::Allow && !self.redactions.is_empty() {
            judgement.verdict = Verdict::Redact(self.redactions);
        }
        judgement
    }
}

/// Returns whether a secret stands in a member of the whole; everything is in the one without a name.
fn is_in(secret: &Secret, member: &str) -> bool {
    let rest = secret.finding.field.strip_prefix(member);
    rest.is_some_and(|rest| member.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']))
}
