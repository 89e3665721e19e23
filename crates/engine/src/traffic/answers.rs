//! Answers of a server: results, errors, and requests for input that come as results.

use mcpmon_detect::{protected_paths::read_by_uri, scan::Source};
use mcpmon_model::{
    Answer, AnswerOutcome, AnsweredRequest, CallOutcome, Category, ClientRequestKind, Event, EventKind,
    Finding, InspectionSubject, Match, RawJson, ResultKind, ServerRequestKind, Severity, TextStance, Verdict,
};
use mcpmon_policy::Mode;

use super::{
    Traffic,
    requests::{judged, note, verdict},
    sieve::{InspectedMessage, MAX_REPORTED, sieve},
    tell::{MAX_TEXT, Teller, cut, named, objected, outcome, ruled},
};
use crate::{
    apps,
    effect::Judgement,
    rules::{Objection, ObjectionEffect, Ruling},
    wording::{explaining, shown},
};

impl Traffic {
    /// Judges an answer, by the request that it answers.
    pub(super) fn answer(&mut self, teller: &Teller<'_>, answer: &Answer<'_>) -> Judgement {
        let mut judgement = Judgement::default();
        let mut ruling = Ruling::default();
        if let AnswerOutcome::Result {
            result,
            kind: ResultKind::InputRequired,
        } = answer.outcome
        {
            self.input_requests(teller, result, &mut ruling, &mut judgement);
            if let ClientRequestKind::Call { tool: Some(tool) } = &answer.to.what {
                let session = self.companies.session(teller.conversation);
                session.asks(&teller.conversation.identity.server, cut(tool, MAX_TEXT));
            }
        }
        if let AnswerOutcome::Error {
            code: URL_ELICITATION_REQUIRED,
            error,
            ..
        } = answer.outcome
        {
            self.required_elicitations(teller, error, &mut ruling, &mut judgement);
        }
        let subject = self.subject(teller, &answer.to.what, &answer.outcome);
        let tool = tool(&answer.to.what);
        if let (ClientRequestKind::Read { uri }, AnswerOutcome::Result { result, kind }) =
            (&answer.to.what, &answer.outcome)
            && (*kind == ResultKind::Complete || names_contents(*result))
            && let Some(objection) = self.read_objection(teller, uri, *result)
        {
            let mut told = Ruling::default();
            note(&mut told, Some(objection.clone()));
            judgement
                .events
                .extend(judged(teller, "resources/read", uri, &told).events);
            note(&mut ruling, Some(objection));
        }
        if let (ClientRequestKind::Read { uri }, AnswerOutcome::Result { result, kind }) =
            (&answer.to.what, &answer.outcome)
            && (*kind == ResultKind::Complete || names_contents(*result))
            && apps::is_app(uri)
        {
            let objection = self.app_page(teller, uri, *result, &mut judgement);
            note(&mut ruling, objection);
        }
        let sieved = self.sieved(teller, answer, subject);
        judgement
            .events
            .extend(sieved.events(teller, &self.policy, subject, tool));
        let inspection = self.inspection(teller, tool, &sieved);
        note(&mut ruling, sieved.objection);
        judgement.events.extend(inspection);
        let leaked = self.leaked(
            teller,
            subject,
            tool.unwrap_or_default(),
            &answer.outcome,
            &mut ruling,
        );
        judgement.events.extend(leaked.events);
        if matches!(answer.to.what, ClientRequestKind::Call { .. }) {
            judgement
                .events
                .extend(self.returned(teller, &answer.to, &answer.outcome, &ruling));
        }
        if let AnswerOutcome::Result {
            result,
            kind: ResultKind::Complete | ResultKind::Failed,
        } = answer.outcome
            && (ruling.block.is_none() || self.policy.mode == Mode::Observe)
        {
            judgement
                .store_effects
                .extend(self.shared_output(teller, &answer.to.what, result));
        }
        judgement.verdict = verdict(&ruling);
        if judgement.verdict == Verdict::Allow && !leaked.redactions.is_empty() {
            judgement.verdict = Verdict::Redact(leaked.redactions);
        }
        judgement
    }

    /// Returns the objection to a resource that was read: its skill may no longer be used, or its text differs
    /// from the skill's manifest.
    fn read_objection(&self, teller: &Teller<'_>, uri: &str, result: RawJson<'_>) -> Option<Objection> {
        // The skill may have changed since the request.
        let of_skill = self.skill_ruling(teller, uri).block;
        of_skill.or_else(|| self.unverified(teller, uri, result))
    }

    fn sieved(
        &self,
        teller: &Teller<'_>,
        answer: &Answer<'_>,
        subject: InspectionSubject,
    ) -> InspectedMessage {
        let name = tool(&answer.to.what).unwrap_or_default();
        let found = match &answer.outcome {
            _ if !self.policy.outputs.enabled => Vec::new(),
            AnswerOutcome::Result { result, .. } => {
                // A skill may instruct the model; nothing else that is read may.
                let mut found = match subject == InspectionSubject::Definition {
                    true => self.found_in_skill(name, *result),
                    false => self.scanner.output(*result, &source(&answer.to.what)),
                };
                found.extend(self.protected_link(*result));
                found
            }
            AnswerOutcome::Error { error, .. } => self.scanner.text(InspectionSubject::Error, *error),
        };
        sieve(teller, &self.policy, subject, name, found)
    }

    /// Returns the subject of an inspection: a file of a skill is judged as a definition.
    fn subject(
        &self,
        teller: &Teller<'_>,
        asked: &ClientRequestKind,
        outcome: &AnswerOutcome<'_>,
    ) -> InspectionSubject {
        match (asked, outcome) {
            (ClientRequestKind::Read { uri }, AnswerOutcome::Result { .. })
                if self.is_of_skill(teller, uri) =>
            {
                InspectionSubject::Definition
            }
            _ => subject(asked, outcome),
        }
    }

    /// Finds the first item of a result that links to a protected file: the client may read that file for the model.
    fn protected_link(&self, result: RawJson<'_>) -> Option<Finding> {
        let content = result.member("content")?;
        let mut items = content.items().enumerate().take(MAX_LINKS);
        items.find_map(|(position, item)| {
            let is_link = item.member("type").and_then(RawJson::text)? == "resource_link";
            let uri = item.member("uri").filter(|_| is_link)?.text()?;
            let touch = read_by_uri(&uri, &self.files, &self.policy.guard.extra_paths)?;
            let uri = cut(&uri, MAX_TEXT);
            let matched = Match {
                text: shown(uri).chars().take(200).collect(),
                position: 0,
                context: format!("{} ({})", touch.path, touch.category.as_str()),
            };
            let (category, field) = (Category::CredentialTheft, format!("content[{position}].uri"));
            Some(Finding {
                // A listing of files has such links too; the reading of a linked file is judged.
                standing: TextStance::Quoted,
                ..Finding::built_in("protected_link", category, Severity::High, field, matched)
            })
        })
    }

    /// Builds the event about findings in a result.
    fn inspection(
        &self,
        teller: &Teller<'_>,
        tool: Option<&str>,
        sieved: &InspectedMessage,
    ) -> Option<Event> {
        if sieved.findings.is_empty() {
            return None;
        }
        let detections: Vec<Finding> = sieved.findings.iter().take(MAX_REPORTED).cloned().collect();
        let mut event = teller.event(EventKind::OutputInspection {
            tool_name: named(tool.unwrap_or_default(), MAX_TEXT),
            jsonrpc_id: teller.message.id.cloned(),
            detections,
            count: 1,
        });
        event.severity = sieved.severity();
        if let Some(objection) = &sieved.objection {
            objected(&mut event, objection);
        }
        Some(event)
    }

    /// Builds the event that a call was answered.
    fn returned(
        &self,
        teller: &Teller<'_>,
        asked: &AnsweredRequest,
        answered: &AnswerOutcome<'_>,
        ruling: &Ruling,
    ) -> Option<Event> {
        let is_withheld = ruling.block.is_some() && self.policy.mode == Mode::Enforce;
        let outcome = match answered {
            _ if is_withheld => CallOutcome::Withheld,
            AnswerOutcome::Result { kind, .. } => outcome(*kind),
            AnswerOutcome::Error { .. } => CallOutcome::Error,
        };
        let duration = teller.now.since(asked.at);
        let mut event = teller.event(EventKind::ToolReturned {
            tool_name: named(tool(&asked.what).unwrap_or_default(), MAX_TEXT),
            jsonrpc_id: teller.message.id?.clone(),
            duration_us: duration.as_micros().try_into().unwrap_or(u64::MAX),
            outcome,
            bytes: teller.message.size.try_into().unwrap_or(u64::MAX),
            client_uid: teller.conversation.client_uid(),
        });
        ruled(&mut event, ruling);
        Some(event)
    }

    /// Judges the pages that an error requires the user to visit, each as an elicitation of that URL.
    fn required_elicitations(
        &self,
        teller: &Teller<'_>,
        error: RawJson<'_>,
        ruling: &mut Ruling,
        judgement: &mut Judgement,
    ) {
        let data = error.member("data");
        let Some(required) = data.and_then(|data| data.member("elicitations")) else {
            return;
        };
        let most = self.policy.limits.max_batch;
        for (position, elicitation) in required.items().enumerate() {
            if position >= most {
                return note(ruling, Some(too_many(most)));
            }
            let (asked, events) = self.asked(
                teller,
                ServerRequestKind::Elicitation,
                "elicitation/create",
                Some(elicitation),
            );
            judgement.events.extend(events);
            note(ruling, asked.block);
        }
    }

    /// Judges the requests to the client in an incomplete result, each as if it were a separate message.
    pub(super) fn input_requests(
        &self,
        teller: &Teller<'_>,
        result: RawJson<'_>,
        ruling: &mut Ruling,
        judgement: &mut Judgement,
    ) {
        let Some(requests) = result
            .member("inputRequests")
            .filter(|requests| requests.as_str() != "null")
        else {
            return;
        };
        if !requests.as_str().starts_with('{') {
            return note(ruling, Some(no_object()));
        }
        let most = self.policy.limits.max_batch;
        for (position, (_, request)) in requests.members().enumerate() {
            if position >= most {
                return note(ruling, Some(too_many(most)));
            }
            let method = request
                .member("method")
                .and_then(RawJson::text)
                .unwrap_or_default();
            let ask = match &*method {
                "sampling/createMessage" => ServerRequestKind::Sampling,
                "elicitation/create" => ServerRequestKind::Elicitation,
                "roots/list" => ServerRequestKind::Roots,
                _ => ServerRequestKind::Other,
            };
            let (asked, events) = self.asked(teller, ask, &method, request.member("params"));
            judgement.events.extend(events);
            note(ruling, asked.block);
        }
    }
}

/// Most items of a result that are searched for links.
const MAX_LINKS: usize = 10_000;

/// The error code for a list of pages that the user has to visit before the request is answered.
const URL_ELICITATION_REQUIRED: i64 = -32042;

/// Builds the objection to more requests for input than are judged.
fn too_many(most: usize) -> Objection {
    Objection {
        rule: "max_batch".into(),
        effect: ObjectionEffect::Block,
        severity: Severity::Medium,
        reason: format!("a result asks for more than {most} inputs at once (`mcp.limits.max_batch`)"),
        remedy: Some(explaining("max_batch")),
    }
}

/// Builds the objection to requests for input that have no names, and cannot be judged therefore.
fn no_object() -> Objection {
    Objection {
        rule: "input_requests".into(),
        effect: ObjectionEffect::Block,
        severity: Severity::Medium,
        reason: "what is asked of the client is not an object (`inputRequests`)".to_owned(),
        remedy: Some(explaining("input_requests")),
    }
}

/// Returns the subject of inspection.
const fn subject(asked: &ClientRequestKind, outcome: &AnswerOutcome<'_>) -> InspectionSubject {
    match (asked, outcome) {
        (_, AnswerOutcome::Error { .. }) => InspectionSubject::Error,
        (ClientRequestKind::Read { .. }, AnswerOutcome::Result { .. }) => InspectionSubject::Resource,
        (ClientRequestKind::Prompt { .. }, AnswerOutcome::Result { .. }) => InspectionSubject::Prompt,
        (
            ClientRequestKind::Call { .. }
            | ClientRequestKind::List(_)
            | ClientRequestKind::Part { .. }
            | ClientRequestKind::Other { .. },
            AnswerOutcome::Result { .. },
        ) => InspectionSubject::Output,
    }
}

fn source(asked: &ClientRequestKind) -> Source<'_> {
    match asked {
        ClientRequestKind::Read { uri } => Source { uri: Some(uri) },
        ClientRequestKind::Call { .. }
        | ClientRequestKind::Prompt { .. }
        | ClientRequestKind::List(_)
        | ClientRequestKind::Part { .. }
        | ClientRequestKind::Other { .. } => Source::default(),
    }
}

fn tool(asked: &ClientRequestKind) -> Option<&str> {
    match asked {
        ClientRequestKind::Call { tool } => tool.as_deref(),
        ClientRequestKind::Read { uri } | ClientRequestKind::Part { uri, .. } => Some(uri),
        ClientRequestKind::Prompt { name } => Some(name),
        ClientRequestKind::List(_) | ClientRequestKind::Other { .. } => None,
    }
}

/// Returns whether a result has contents, in any case of the member's name: a client may use them whatever the type of
/// the result.
fn names_contents(result: RawJson<'_>) -> bool {
    result
        .members()
        .any(|(name, _)| name.eq_ignore_ascii_case("contents"))
}
