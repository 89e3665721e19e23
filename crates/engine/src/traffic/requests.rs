//! Requests of a client other than calls: resources, prompts, completions.

use mcpmon_detect::{
    arguments::{Argument, ArgumentKind, Arguments},
    protected_paths::RealPath,
    secrets::{self, Secret},
};
use mcpmon_model::{Call, Conversation, DefinitionKind, EventKind, RawJson, Severity, Timestamp, Verdict};
use mcpmon_policy::Handling;

use super::{
    Traffic,
    given::ClientText,
    tell::{MAX_TEXT, Teller, named, ruled},
};
use crate::{
    effect::Judgement,
    rules::{self, CallContext, Objection, ObjectionEffect, Opinion, RuleContext, Ruling, UseTarget},
    wording::{explaining, shown},
};

impl Traffic {
    /// Judges the reading of a resource.
    pub(super) fn read(&self, teller: &Teller<'_>, uri: &str) -> Judgement {
        let ruling = self.ruling(teller, DefinitionKind::Resource, uri);
        let mut ruling = ruling.and(self.skill_ruling(teller, uri));
        let revealed = self.address(teller, uri, &mut ruling);
        let mut event = teller.event(EventKind::ResourceRead {
            uri: named(uri, MAX_TEXT),
        });
        ruled(&mut event, &ruling);
        revealed.with(Judgement {
            verdict: verdict(&ruling),
            ..Judgement::of_event(event)
        })
    }

    /// Judges the use of a prompt.
    pub(super) fn prompt(
        &self,
        teller: &Teller<'_>,
        name: &str,
        arguments: Option<RawJson<'_>>,
    ) -> Judgement {
        let mut ruling = self.ruling(teller, DefinitionKind::Prompt, name);
        let subject = || format!("prompt {}", shown(name));
        note(
            &mut ruling,
            handled(self.policy.requests.prompts, "prompts", subject),
        );
        let said = arguments.map(|json| ClientText {
            what: "an argument of a prompt",
            name,
            json,
            fixed: None,
        });
        let revealed = said.map(|said| self.reveals(teller, said, &mut ruling));
        revealed
            .unwrap_or_default()
            .with(judged(teller, "prompts/get", name, &ruling))
    }

    /// Judges any other request.
    pub(super) fn request(
        &self,
        teller: &Teller<'_>,
        method: &str,
        params: Option<RawJson<'_>>,
    ) -> Judgement {
        let params = params.unwrap_or(RawJson::trusted("{}"));
        match method {
            "completion/complete" => self.completion(teller, method, params),
            "skills/get" | "resources/directory/read" => self.look_up(teller, method, params),
            "subscriptions/listen" => self.subscriptions(teller, method, params),
            _ => Judgement::default(),
        }
    }

    /// Judges a request for the entry of a skill, or for the contents of a directory, by its URI.
    fn look_up(&self, teller: &Teller<'_>, method: &str, params: RawJson<'_>) -> Judgement {
        let uri = params.member("uri").and_then(RawJson::text).unwrap_or_default();
        let mut ruling = self.ruling(teller, DefinitionKind::Resource, &uri);
        let revealed = self.address(teller, &uri, &mut ruling);
        revealed.with(judged(teller, method, &uri, &ruling))
    }

    /// Judges a completion, for a prompt or a resource template.
    fn completion(&self, teller: &Teller<'_>, method: &str, params: RawJson<'_>) -> Judgement {
        let arguments = Arguments::walk(params);
        let mut ruling = self.server_ruling(teller);
        note(&mut ruling, beyond(&arguments, "a completion"));
        for (member, kind) in [
            ("uri", DefinitionKind::Template),
            ("name", DefinitionKind::Prompt),
        ] {
            let names = texts_at(&arguments, ["ref", member]);
            ruling = ruling.and(self.ruling_of_all(teller, kind, &names));
        }
        let subject = || "a completion".to_owned();
        note(
            &mut ruling,
            handled(self.policy.requests.completion, "completion", subject),
        );
        let said = ClientText {
            what: "a completion",
            name: method,
            json: params,
            fixed: Some("ref"),
        };
        let revealed = self.reveals(teller, said, &mut ruling);
        let length = params.as_str().len();
        revealed.with(judged(teller, method, &format!("{length} bytes"), &ruling))
    }

    /// Judges a subscription to changes of resources (since 2026-07-28) as if each of them were read.
    fn subscriptions(&self, teller: &Teller<'_>, method: &str, params: RawJson<'_>) -> Judgement {
        let arguments = Arguments::walk(params);
        let uris = texts_at(&arguments, ["notifications", "resourceSubscriptions"]);
        let beyond = beyond(&arguments, "a subscription");
        if uris.is_empty() && beyond.is_none() {
            return Judgement::default();
        }
        let mut ruling = self.ruling_of_all(teller, DefinitionKind::Resource, &uris);
        note(&mut ruling, beyond);
        let said = ClientText {
            what: "a subscription",
            name: method,
            json: params,
            fixed: Some(""),
        };
        let revealed = self.reveals(teller, said, &mut ruling);
        revealed.with(judged(
            teller,
            method,
            &format!("{} resources", uris.len()),
            &ruling,
        ))
    }

    /// Judges the use of several items at once: at most as many as a server may list.
    fn ruling_of_all(&self, teller: &Teller<'_>, kind: DefinitionKind, names: &[&str]) -> Ruling {
        let most = self.policy.limits.max_tools;
        let mut ruling = Ruling::default();
        if names.len() > most {
            note(&mut ruling, Some(too_many(kind, most)));
            return ruling;
        }
        for name in names {
            ruling = ruling.and(self.ruling(teller, kind, name));
        }
        ruling
    }

    /// Returns the secrets in the arguments of a call, if arguments are inspected.
    pub(super) fn secrets(&self, given: Option<RawJson<'_>>, arguments: &Arguments<'_>) -> Vec<Secret> {
        match given {
            Some(json) if self.policy.arguments.enabled => secrets::inspect(json, arguments),
            Some(_) | None => Vec::new(),
        }
    }

    /// Returns the opinions of all rules on a call.
    pub(crate) fn explain(
        &mut self,
        now: Timestamp,
        conversation: &Conversation,
        call: &Call<'_>,
        real_paths: Vec<RealPath>,
    ) -> Vec<Opinion> {
        self.files.real = real_paths;
        let arguments = call.arguments.map(Arguments::walk).unwrap_or_default();
        let secrets = self.secrets(call.arguments, &arguments);
        let calling = CallContext {
            call,
            arguments: &arguments,
            secrets: &secrets,
            is_by_model: false,
        };
        self.explain_use(now, conversation, DefinitionKind::Tool, &call.tool, Some(calling))
    }

    /// Returns the opinions of all rules on a read.
    pub(crate) fn explain_read(
        &mut self,
        now: Timestamp,
        conversation: &Conversation,
        uri: &str,
        real_paths: Vec<RealPath>,
    ) -> Vec<Opinion> {
        self.files.real = real_paths;
        self.explain_use(now, conversation, DefinitionKind::Resource, uri, None)
    }

    fn explain_use(
        &mut self,
        now: Timestamp,
        conversation: &Conversation,
        kind: DefinitionKind,
        name: &str,
        call: Option<CallContext<'_>>,
    ) -> Vec<Opinion> {
        let stopped = self.stop_of(conversation.session.as_ref());
        let Some(offers) = self.book.open(&conversation.identity, &self.policy) else {
            return Vec::new();
        };
        let server = &conversation.identity.server;
        let scene = RuleContext {
            call,
            files: &self.files,
            ..RuleContext::of(&self.policy, server, offers, kind, name, now)
        };
        let opinions = rules::explain(&scene, stopped);
        self.files.real.clear();
        opinions
    }

    /// Judges the use of an offered item.
    pub(super) fn ruling(&self, teller: &Teller<'_>, kind: DefinitionKind, name: &str) -> Ruling {
        if let Some(stopped) = self.stopped(teller) {
            return stopped;
        }
        match self.scene(teller, kind, name) {
            Some(scene) => rules::judge(&scene),
            None => Ruling::default(),
        }
    }

    pub(super) fn scene<'a>(
        &'a self,
        teller: &'a Teller<'_>,
        kind: DefinitionKind,
        name: &'a str,
    ) -> Option<RuleContext<'a>> {
        let identity = &teller.conversation.identity;
        let offers = self.book.get(identity)?;
        let (policy, server) = (&*self.policy, &identity.server);
        Some(RuleContext {
            files: &self.files,
            ..RuleContext::of(policy, server, offers, kind, name, teller.now)
        })
    }

    /// Judges the server itself.
    pub(super) fn server_ruling(&self, teller: &Teller<'_>) -> Ruling {
        if let Some(stopped) = self.stopped(teller) {
            return stopped;
        }
        let identity = &teller.conversation.identity;
        let Some(offers) = self.book.get(identity) else {
            return Ruling::default();
        };
        let (policy, server) = (&*self.policy, &identity.server);
        rules::judge(&RuleContext {
            policy,
            server,
            offers,
            used: UseTarget::Server,
            now: teller.now,
            call: None,
            is_listing: false,
            is_listed_elsewhere: false,
            files: &self.files,
        })
    }
}

/// Returns the objection to parameters beyond the inspected size.
pub(super) fn beyond(arguments: &Arguments<'_>, what: &str) -> Option<Objection> {
    let objection = || rules::too_much(what, "holds more values than are looked at");
    arguments.is_cut().then(objection)
}

/// Returns the texts at a path of member names, which are compared without case, because readers differ about it.
fn texts_at<'t>(arguments: &'t Arguments<'_>, way: [&str; 2]) -> Vec<&'t str> {
    let stands = |argument: &Argument<'_>| {
        let is_same = |(member, step): (&str, &str)| member.eq_ignore_ascii_case(step);
        argument.kind() == ArgumentKind::Text
            && argument.members().count() == way.len()
            && argument.members().zip(way).all(is_same)
    };
    let found = arguments.iter().filter(stands);
    found.map(|argument| argument.text()).collect()
}

/// Builds the objection to more items at once than are judged.
pub(super) fn too_many(kind: DefinitionKind, most: usize) -> Objection {
    Objection {
        rule: "max_tools".into(),
        effect: ObjectionEffect::Block,
        severity: Severity::Medium,
        reason: format!(
            "a request names more than {most} {}s at once (`mcp.limits.max_tools`)",
            kind.as_str()
        ),
        remedy: Some(explaining("max_tools")),
    }
}

/// Adds an objection to a ruling, unless that blocks already.
pub(super) fn note(ruling: &mut Ruling, objection: Option<Objection>) {
    match objection {
        Some(objection) if ruling.block.is_none() => match objection.effect {
            ObjectionEffect::Audit => ruling.audits.push(objection),
            ObjectionEffect::Ask => ruling.asks.push(objection),
            ObjectionEffect::Block => ruling.block = Some(objection),
        },
        Some(_) | None => {}
    }
}

/// Returns the objection from the handling of a kind of request; `key` is its name in `mcp`.
pub(super) fn handled(
    handling: Handling,
    key: &'static str,
    subject: impl Fn() -> String,
) -> Option<Objection> {
    let (effect, severity, verb) = match handling {
        Handling::Allow => return None,
        Handling::Audit => (ObjectionEffect::Audit, Severity::Info, "is audited"),
        Handling::Block => (ObjectionEffect::Block, Severity::Medium, "is not allowed"),
    };
    Some(Objection {
        rule: key.into(),
        effect,
        severity,
        reason: format!("{} {verb} (`mcp.{key}`)", subject()),
        remedy: Some(explaining(key)),
    })
}

/// Returns the judgement of a request that is recorded by its method and `summary`.
pub(super) fn judged(teller: &Teller<'_>, method: &str, summary: &str, ruling: &Ruling) -> Judgement {
    let mut event = teller.event(EventKind::RequestJudged {
        method: named(method, MAX_TEXT),
        summary: named(summary, MAX_TEXT),
        count: 1,
    });
    ruled(&mut event, ruling);
    Judgement {
        verdict: verdict(ruling),
        ..Judgement::of_event(event)
    }
}

/// Returns the verdict for the message.
pub(super) fn verdict(ruling: &Ruling) -> Verdict {
    ruling
        .block
        .as_ref()
        .map_or(Verdict::Allow, |block| Verdict::Block(block.denial()))
}
