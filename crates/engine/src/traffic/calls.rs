//! Tool calls: judged by the local rules, then with the other calls of their session, then recorded.

use mcpmon_detect::{arguments::Arguments, fingerprint, labels};
use mcpmon_model::{
    Action, Call, CallOrigin, ClientRequestKind, Content, Conversation, CrossServerMatch, CrossServerRule,
    DefinitionKind, Digest, Event, EventKind, Fingerprint, FromClient, Message, PinKey, RawJson, Recent,
    RecentCall, RecentOutput, Redaction, Severity, SharedCall, SharedCallAnswer, Timestamp, Verdict,
};
use mcpmon_policy::Mode;

use super::{
    Traffic,
    disclosed::{DisclosedSecrets, detections, redactions},
    held_calls::Asked,
    requests::{note, verdict},
    tell::{MAX_TEXT, Teller, because, cut, input, named, ruled},
};
use crate::{
    cross_server::{blocks, shadowed},
    definitions::Offers,
    effect::{Judgement, SharedOutcome, SharedQuestion, StoreEffect},
    rules::{self, CallContext, InspectedText, Objection, ObjectionEffect, RuleContext, Ruling},
    wording::{command, explaining},
};

/// Most bytes of a result that are read for sensitive data.
const MAX_READ: usize = 256 << 10;

/// The judgement of a call by local knowledge.
#[derive(Debug, Default)]
pub(super) struct LocalJudgement {
    /// The combined result of the rules.
    pub(super) ruling: Ruling,
    /// The replacements in the call.
    pub(super) redactions: Vec<Redaction>,
    /// The events about findings.
    pub(super) events: Vec<Event>,
}

/// The LLM layer's knowledge of a server whose conversation it does not see.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elsewhere<'a> {
    /// The offers that are assumed for a server of which nothing is known.
    pub(super) stranger: &'a Offers,
    /// True if another layer sees the conversation.
    pub(super) is_seen: bool,
}

impl Traffic {
    /// Judges a tool call. A call to which the local rules do not object is checked with the others of its session, if
    /// there are any.
    pub(super) fn call(&mut self, teller: &Teller<'_>, call: &Call<'_>) -> Judgement {
        let arguments = call.arguments.map(Arguments::walk).unwrap_or_default();
        let secrets = self.secrets(call.arguments, &arguments);
        let calling = CallContext {
            call,
            arguments: &arguments,
            secrets: &secrets,
            is_by_model: teller.message.trace.tool_call.is_some(),
        };
        let LocalJudgement {
            ruling,
            redactions,
            events,
        } = self.local(teller, calling, None);
        let disclosed = DisclosedSecrets {
            secrets,
            redactions,
            is_cut: arguments.is_cut(),
        };
        let ruling = match self.asked_about(teller, call, &disclosed, ruling) {
            Asked::Ruled(ruling) => ruling,
            Asked::Held(judgement) => return judgement,
        };
        let mut judgement = Judgement {
            events,
            ..Judgement::default()
        };
        let is_watched = self.policy.cross_server.enabled || self.policy.rate_limits.enabled;
        if !is_watched {
            return self.tell_call(teller, call, &ruling, &disclosed, None, judgement);
        }
        let shared = self.shared(teller, call, &arguments);
        if !self.goes_on(&ruling) {
            judgement.store_effects.push(refused(shared));
            return self.tell_call(teller, call, &ruling, &disclosed, None, judgement);
        }
        let ask = SharedQuestion {
            call: shared,
            wanted: None,
            ruling,
            disclosed,
            events: judgement.events,
        };
        if self.companies.session(teller.conversation).is_shared {
            return Judgement {
                ask: Some(Box::new(ask)),
                ..Judgement::default()
            };
        }
        let (checked, effects) = self.admit(teller.conversation, &ask.call);
        self.checked(teller, call, ask, &checked, effects)
    }

    /// Judges a call by local knowledge, for every layer.
    pub(super) fn local(
        &mut self,
        teller: &Teller<'_>,
        calling: CallContext<'_>,
        elsewhere: Option<Elsewhere<'_>>,
    ) -> LocalJudgement {
        let mut local = self.call_ruling(teller, calling, elsewhere);
        let tool = &calling.call.tool;
        if let Some(crossing) = self.shadow(teller, tool) {
            local.events.push(self.crossed(teller, tool, &crossing));
            precede(&mut local.ruling, objection(&crossing));
        }
        local
    }

    /// Completes the judgement of a call with the answer about shared state.
    pub(crate) fn answered(
        &mut self,
        now: Timestamp,
        conversation: &Conversation,
        message: &Message<'_>,
        ask: SharedQuestion,
        shared: SharedOutcome,
    ) -> Judgement {
        let Content::Client(FromClient::Call(call)) = &message.content else {
            return Judgement::default(); // only calls have such questions
        };
        let teller = Teller {
            now,
            conversation,
            message,
        };
        let (checked, effects) = self.settled(conversation, &ask.call, shared);
        let judgement = self.checked(&teller, call, ask, &checked, effects);
        self.in_mode(judgement)
    }

    /// Combines the answer about a call from shared state with the local judgement.
    pub(super) fn settled(
        &mut self,
        conversation: &Conversation,
        call: &SharedCall,
        shared: SharedOutcome,
    ) -> (SharedCallAnswer, Vec<StoreEffect>) {
        let SharedOutcome::Checked(mut checked) = shared else {
            return self.admit(conversation, call);
        };
        if !checked.blocks() {
            // This process keeps its server's bucket too, in case the holder of the session is gone; and the policy of
            // this user can be stricter than the holder's.
            let window = &mut self.companies.session(conversation).window;
            checked = checked.and(window.admit(&self.policy, call).0);
            let decision = self.policy.cross_server.strictest();
            for crossing in &mut checked.crossings {
                crossing.blocks |= blocks(decision, &crossing.evidence);
            }
        }
        (checked, Vec::new())
    }

    /// Counts a call among those of this process, and shares it with the holder of the session's calls.
    fn admit(
        &mut self,
        conversation: &Conversation,
        call: &SharedCall,
    ) -> (SharedCallAnswer, Vec<StoreEffect>) {
        let window = &mut self.companies.session(conversation).window;
        let (checked, recent) = window.admit(&self.policy, call);
        let order = recent.map(|recent| StoreEffect::Share(Box::new(recent)));
        (checked, order.into_iter().collect())
    }

    /// Returns the judgement of a call in view of the session's other calls.
    fn checked(
        &self,
        teller: &Teller<'_>,
        call: &Call<'_>,
        ask: SharedQuestion,
        checked: &SharedCallAnswer,
        effects: Vec<StoreEffect>,
    ) -> Judgement {
        let mut ruling = ask.ruling;
        let mut judgement = Judgement {
            events: ask.events,
            store_effects: effects,
            ..Judgement::default()
        };
        self.note_checked(teller, call, checked, &mut ruling, &mut judgement.events);
        self.tell_call(teller, call, &ruling, &ask.disclosed, checked.origin, judgement)
    }

    /// Adds the objections that come from the session's other calls.
    pub(super) fn note_checked(
        &self,
        teller: &Teller<'_>,
        call: &Call<'_>,
        checked: &SharedCallAnswer,
        ruling: &mut Ruling,
        events: &mut Vec<Event>,
    ) {
        for crossing in &checked.crossings {
            events.push(self.crossed(teller, &call.tool, crossing));
            note(ruling, Some(objection(crossing)));
        }
        let over_rate = checked.over_rate.as_ref().map(|reason| Objection {
            rule: "rate_limit".into(),
            effect: ObjectionEffect::Block,
            severity: Severity::Medium,
            reason: reason.clone(),
            remedy: Some(explaining("rate_limit")),
        });
        note(ruling, over_rate);
    }

    /// Judges a tool call by the rules and returns its replacements; secrets in it become events.
    fn call_ruling(
        &self,
        teller: &Teller<'_>,
        calling: CallContext<'_>,
        elsewhere: Option<Elsewhere<'_>>,
    ) -> LocalJudgement {
        if let Some(ruling) = self.stopped(teller) {
            return LocalJudgement {
                ruling,
                ..LocalJudgement::default()
            };
        }
        let identity = &teller.conversation.identity;
        let stranger = elsewhere.map(|elsewhere| elsewhere.stranger);
        let Some(offers) = self.book.get(identity).or(stranger) else {
            return LocalJudgement::default();
        };
        let (server, kind) = (&identity.server, DefinitionKind::Tool);
        let scene = RuleContext {
            call: Some(calling),
            is_listed_elsewhere: elsewhere.is_some_and(|elsewhere| elsewhere.is_seen),
            files: &self.files,
            ..RuleContext::of(&self.policy, server, offers, kind, &calling.call.tool, teller.now)
        };
        let mut ruling = rules::judge(&scene);
        let Some(given) = InspectedText::of(&scene) else {
            return LocalJudgement {
                ruling,
                ..LocalJudgement::default()
            };
        };
        let mut events = Vec::new();
        self.resumed(teller, calling.call, &mut ruling, &mut events);
        events.extend(detections(teller, &given, &ruling));
        LocalJudgement {
            events,
            redactions: redactions(&given, &ruling),
            ruling,
        }
    }

    /// Finds a tool of the same name on another server.
    fn shadow(&mut self, teller: &Teller<'_>, tool: &str) -> Option<CrossServerMatch> {
        let rules = &self.policy.cross_server;
        let server = &teller.conversation.identity.server;
        let is_suppressed = || {
            self.policy.suppresses(
                &["cross_server", CrossServerRule::ShadowTool.as_str()],
                server,
                tool,
                teller.now,
            )
        };
        if !rules.enabled || !rules.shadow_tool || is_suppressed() {
            return None;
        }
        let since = self
            .scene(teller, DefinitionKind::Tool, tool)
            .and_then(|scene| Some(scene.entry()?.record.first_seen));
        let (visible, is_client_known) =
            self.companies
                .visible(teller.conversation, &self.registry, rules.strictest());
        shadowed(&self.policy, visible, is_client_known, (server, tool, since))
    }

    /// Describes a call for the holder of the session's calls.
    pub(super) fn shared(
        &mut self,
        teller: &Teller<'_>,
        call: &Call<'_>,
        arguments: &Arguments<'_>,
    ) -> SharedCall {
        let identity = &teller.conversation.identity;
        let server = &identity.server;
        let entry = self
            .book
            .get(identity)
            .and_then(|offers| offers.of(DefinitionKind::Tool).get(&call.tool));
        let definition = entry.map(|entry| {
            (
                entry.record.seen.hash,
                RawJson::trusted(&entry.record.seen.canonical),
            )
        });
        let category = self
            .companies
            .category(&self.policy, server, &call.tool, definition);
        let session = self.companies.session(teller.conversation);
        let looks_back = session.is_several && self.policy.cross_server.wants_outputs();
        let tool = cut(&call.tool, MAX_TEXT);
        // The claim of the client alone is not enough: the server must have asked for input.
        let resumes = call.resumes.is_some() && session.goes_on(server, tool);
        SharedCall {
            at: teller.now,
            server: server.clone(),
            tool: named(tool, MAX_TEXT),
            category,
            request: teller.message.id.map(|id| cut(&id.to_string(), MAX_TEXT).into()),
            tool_call: teller
                .message
                .trace
                .tool_call
                .as_deref()
                .map(|id| cut(id, MAX_TEXT).into()),
            turn: None,
            labels: labels::labels_of_call(&call.tool, arguments),
            arguments: match looks_back {
                true => fingerprint::of_arguments(arguments),
                false => Fingerprint::default(),
            },
            resumes,
            several: session.is_several,
        }
    }

    /// Returns the output that went to the client, for the holder of the session's calls.
    pub(super) fn shared_output(
        &self,
        teller: &Teller<'_>,
        asked: &ClientRequestKind,
        result: RawJson<'_>,
    ) -> Option<StoreEffect> {
        if !self.policy.cross_server.wants_outputs() {
            return None;
        }
        let (name, labels) = match asked {
            ClientRequestKind::Call { tool } => (tool.as_deref().unwrap_or_default(), Vec::new()),
            ClientRequestKind::Read { uri } => (&**uri, labels::labels_of_resource(uri)),
            ClientRequestKind::Prompt { .. }
            | ClientRequestKind::List(_)
            | ClientRequestKind::Part { .. }
            | ClientRequestKind::Other { .. } => return None,
        };
        Some(StoreEffect::ShareResult {
            output: Box::new(RecentOutput {
                at: teller.now,
                server: teller.conversation.identity.server.clone(),
                tool: named(name, MAX_TEXT),
                labels,
                print: Fingerprint::default(),
            }),
            result: cut(result.as_str(), MAX_READ).into(),
        })
    }

    pub(super) fn goes_on(&self, ruling: &Ruling) -> bool {
        ruling.block.is_none() || self.policy.mode == Mode::Observe
    }

    /// Builds the events about a call: that it was called, if it is forwarded; and how it was judged, if there is an
    /// objection.
    fn tell_call(
        &self,
        teller: &Teller<'_>,
        call: &Call<'_>,
        ruling: &Ruling,
        disclosed: &DisclosedSecrets,
        origin: Option<CallOrigin>,
        mut judgement: Judgement,
    ) -> Judgement {
        let told = |kind| {
            let mut event = teller.event(kind);
            ruled(&mut event, ruling);
            event
        };
        let trace = &teller.message.trace;
        let tool_call_id = || trace.tool_call.as_deref().map(|id| cut(id, MAX_TEXT).to_owned());
        let trace_parent = || {
            trace
                .parent
                .as_deref()
                .map(|parent| cut(parent, MAX_TEXT).to_owned())
        };
        let arguments = || {
            // Arguments that are too large were not searched completely for secrets, so they are not recorded.
            let given = call.arguments.filter(|_| !disclosed.is_cut)?;
            Some(input(given.as_str(), &disclosed.secrets))
        };
        if ruling.is_notable() {
            judgement.events.push(told(EventKind::ToolCallIntercepted {
                tool_name: named(&call.tool, MAX_TEXT),
                visible_name: None,
                dialect: None,
                request_id: None,
                jsonrpc_id: teller.message.id.cloned(),
                tool_call_id: tool_call_id(),
                trace_parent: trace_parent(),
                server_type: Some(teller.conversation.server_type),
                server_addr: self.address_of(&teller.conversation.identity),
                tool_hash: self.hash_of(&teller.conversation.identity, &call.tool),
                input: arguments(),
                client_uid: teller.conversation.client_uid(),
            }));
        }
        if self.goes_on(ruling)
            && let Some(id) = teller.message.id
        {
            judgement.events.push(told(EventKind::ToolCalled {
                tool_name: named(&call.tool, MAX_TEXT),
                jsonrpc_id: id.clone(),
                tool_call_id: tool_call_id(),
                trace_parent: trace_parent(),
                origin,
                input: arguments(),
                client_uid: teller.conversation.client_uid(),
            }));
        }
        let verdict = verdict(ruling);
        judgement.verdict = match verdict == Verdict::Allow && !disclosed.redactions.is_empty() {
            true => Verdict::Redact(disclosed.redactions.clone()),
            false => verdict,
        };
        judgement
    }

    /// Returns the digest of a tool as it was last listed.
    pub(super) fn hash_of(&self, identity: &PinKey, tool: &str) -> Option<Digest> {
        let offers = self.book.get(identity)?;
        Some(offers.of(DefinitionKind::Tool).get(tool)?.record.seen.hash)
    }

    /// Builds the event that a rule over several servers matched.
    fn crossed(&self, teller: &Teller<'_>, tool: &str, crossing: &CrossServerMatch) -> Event {
        let objection = objection(crossing);
        let mut event = teller.event(EventKind::CrossServerBlocked {
            blocked_tool_name: named(tool, MAX_TEXT),
            related_calls: crossing.related.clone(),
            evidence: crossing.evidence.clone(),
        });
        event.action = match crossing.blocks {
            true => Action::Block,
            false => Action::Audit,
        };
        event.severity = objection.severity;
        because(&mut event, &objection.reason, objection.remedy.as_deref());
        event.rule = Some(objection.rule.into_owned());
        event
    }
}

/// Shares a call that was refused locally: it counts as requested.
fn refused(call: SharedCall) -> StoreEffect {
    StoreEffect::Share(Box::new(Recent::Call(RecentCall {
        origin: None,
        at: call.at,
        server: call.server,
        tool: call.tool,
        category: call.category,
        request: call.request,
        turn: call.turn,
        action: Action::Block,
        labels: call.labels,
        left: None,
    })))
}

/// Puts an objection before all others except the one to an unknown tool.
fn precede(ruling: &mut Ruling, objection: Objection) {
    let is_unknown = ruling
        .block
        .as_ref()
        .is_some_and(|block| block.rule == "unknown_tool");
    match objection.effect {
        ObjectionEffect::Block if !is_unknown => ruling.block = Some(objection),
        ObjectionEffect::Block => {}
        ObjectionEffect::Ask => ruling.asks.push(objection),
        ObjectionEffect::Audit => ruling.audits.push(objection),
    }
}

/// Builds the objection of a match to a call.
fn objection(crossing: &CrossServerMatch) -> Objection {
    let severity = match crossing.rule {
        // Without evidence, it is what agents do all day.
        _ if !crossing.blocks && crossing.evidence.is_empty() => Severity::Low,
        CrossServerRule::ShadowTool | CrossServerRule::ReadThenSend => Severity::Critical,
        CrossServerRule::Burst | CrossServerRule::CrossServerFlow => Severity::High,
    };
    Objection {
        rule: crossing.rule.as_str().into(),
        effect: match crossing.blocks {
            true => ObjectionEffect::Block,
            false => ObjectionEffect::Audit,
        },
        severity,
        reason: crossing.reason.clone(),
        remedy: Some(command(&["events", "--type", "mcp_cross_server_blocked"])),
    }
}
