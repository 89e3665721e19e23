//! Intents: calls that a model wants.

use std::borrow::Cow;

use mcpmon_detect::{arguments::Arguments, secrets::Secret};
use mcpmon_model::{
    Call, Content, Conversation, Era, Event, EventKind, FromClient, Intent, Message, Recent, RecentIntent,
    Severity, SharedCall, Trace,
};

use super::{
    Traffic,
    meant::{IntendedTool, MAX_MEANT, NameMeaning},
    tell::{IntentInput, Speaker, ruled},
};
use crate::{
    definitions::Offers,
    effect::{Judgement, SharedOutcome, SharedQuestion, StoreEffect},
    names::joined,
    rules::{CallContext, Objection, ObjectionEffect, Ruling, blocked_tools, too_much, tool_policy, unknown},
    traffic::{
        calls::{Elsewhere, LocalJudgement},
        disclosed::DisclosedSecrets,
        requests::{note, verdict},
        tell::{MAX_TEXT, Teller, cut, named},
    },
    wording::{command, shown},
};

/// An intent, read once for all tools that it can mean.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedCall<'a> {
    pub(super) speaker: Speaker<'a>,
    /// The name of the tool, as the model uses it.
    pub(super) visible: &'a str,
    pub(super) intent: &'a Intent<'a>,
    pub(super) given: &'a IntentInput,
    pub(super) arguments: &'a Arguments<'a>,
    pub(super) secrets: &'a [Secret],
}

impl Traffic {
    /// Judges an intent of a model.
    pub(super) fn wanted(&mut self, speaker: Speaker<'_>, intent: &Intent<'_>) -> Judgement {
        let visible = joined(&intent.name);
        match self.meaning_of(speaker.exchange, &intent.name) {
            NameMeaning::Native => self.native(speaker, &visible, intent),
            NameMeaning::Unclear => self.unclear(speaker, &visible, intent),
            NameMeaning::Tools(meant) => self.given(intent, |traffic, given, arguments, secrets| {
                let wanted = WantedCall {
                    speaker,
                    visible: &visible,
                    intent,
                    given,
                    arguments,
                    secrets,
                };
                traffic.wanted_tool(wanted, &meant)
            }),
        }
    }

    /// Reads the arguments of an intent, and gives them to `then`.
    pub(super) fn given<T>(
        &mut self,
        intent: &Intent<'_>,
        then: impl FnOnce(&mut Self, &IntentInput, &Arguments<'_>, &[Secret]) -> T,
    ) -> T {
        let given = IntentInput::of(&intent.input);
        let arguments = given.json().map(Arguments::walk).unwrap_or_default();
        let secrets = self.secrets(given.json(), &arguments);
        then(self, &given, &arguments, &secrets)
    }

    /// Judges an intent whose name is an MCP tool's, but does not show server and tool.
    fn unclear(&self, speaker: Speaker<'_>, visible: &str, intent: &Intent<'_>) -> Judgement {
        let subject = || format!("tool {}", shown(visible));
        let mut ruling = Ruling::default();
        note(&mut ruling, self.stop_of(speaker.exchange.session.as_ref()));
        note(
            &mut ruling,
            blocked_tools::blocked(&self.policy, visible, subject),
        );
        note(
            &mut ruling,
            tool_policy::denied(&self.policy, None, visible, subject),
        );
        let remedy = command(&["registry", "list"]);
        note(
            &mut ruling,
            Some(unknown::unlisted(&self.policy, &subject(), remedy)),
        );
        let mut event = speaker.event(speaker.intercepted(visible, Some(intent)));
        ruled(&mut event, &ruling);
        Judgement::of(verdict(&ruling), event)
    }

    /// Judges an intent by the strictest of the rulings on the tools that it can mean.
    fn wanted_tool(&mut self, wanted: WantedCall<'_>, meant: &[IntendedTool]) -> Judgement {
        let mut strictest: Option<(&IntendedTool, LocalJudgement)> = None;
        for meant in meant.iter().take(MAX_MEANT) {
            let local = self.as_meant(wanted, meant);
            let is_stricter =
                |(_, known): &(&IntendedTool, LocalJudgement)| rank(&local.ruling) > rank(&known.ruling);
            if strictest.as_ref().is_none_or(is_stricter) {
                strictest = Some((meant, local));
            }
        }
        let Some((first, mut local)) = strictest else {
            return Judgement::default(); // a name without any tool is unclear
        };
        if meant.len() > MAX_MEANT {
            let what = format!("tool {}", shown(wanted.visible));
            note(&mut local.ruling, Some(too_much(&what, "can be too many tools")));
        }
        let goes_on = self.goes_on(&local.ruling);
        if let [only] = meant
            && !only.is_seen
            && goes_on
            && self.is_counted()
        {
            return self.ask_of(wanted, only, local);
        }
        // The layer that sees the call reports the findings in it.
        if first.is_seen && goes_on {
            local.events.clear();
        }
        if let [only] = meant
            && goes_on
            && self.policy.cross_server.enabled
        {
            self.beside_unseen(wanted, only, &mut local);
        }
        let effects = match self.goes_on(&local.ruling) && self.policy.cross_server.enabled {
            true => self.turn_of(wanted, meant),
            false => Vec::new(),
        };
        self.tell_wanted(wanted, first, meant.len() - 1, local, effects)
    }

    /// Records an intent whose name can also mean `others` other tools.
    fn tell_wanted(
        &self,
        wanted: WantedCall<'_>,
        meant: &IntendedTool,
        others: usize,
        local: LocalJudgement,
        effects: Vec<StoreEffect>,
    ) -> Judgement {
        let LocalJudgement {
            ruling, mut events, ..
        } = local;
        let mut event = self.intent_event(wanted, meant);
        ruled(&mut event, &ruling);
        if let (Some(reason), true, 1..) = (&mut event.reason, ruling.block.is_some(), others) {
            reason.push_str(&format!(
                "; the name can stand for {others} more, and the strictest ruling holds"
            ));
        }
        events.push(event);
        Judgement {
            verdict: verdict(&ruling),
            events,
            store_effects: effects,
            ..Judgement::default()
        }
    }

    /// Judges an intent as a call of this tool.
    pub(super) fn as_meant(&mut self, wanted: WantedCall<'_>, meant: &IntendedTool) -> LocalJudgement {
        let server = &meant.identity.server;
        let elsewhere = Elsewhere {
            stranger: &Offers::of_stranger(server, &self.policy),
            is_seen: meant.is_seen,
        };
        let mut local = self.in_call(wanted, meant, |traffic, teller, calling| {
            traffic.local(teller, calling, Some(elsewhere))
        });
        settle_ask(&mut local.ruling, meant.is_seen);
        let subject = || format!("tool {} of {server}", shown(&meant.tool));
        let known_as = || format!("{}, which a model knows as {},", subject(), shown(wanted.visible));
        if wanted.visible != meant.tool {
            note(
                &mut local.ruling,
                blocked_tools::blocked(&self.policy, wanted.visible, known_as),
            );
            let denied = tool_policy::denied(&self.policy, Some(server), wanted.visible, known_as);
            note(&mut local.ruling, denied);
        }
        if matches!(wanted.given, IntentInput::Malformed) {
            note(&mut local.ruling, Some(malformed(&subject())));
        }
        local
    }

    /// Returns whether calls are counted.
    pub(super) fn is_counted(&self) -> bool {
        self.policy.cross_server.enabled || self.policy.rate_limits.enabled
    }

    /// Asks the holder of the session's calls about an intent for a server that no other layer sees.
    pub(super) fn ask_of(
        &mut self,
        wanted: WantedCall<'_>,
        meant: &IntendedTool,
        local: LocalJudgement,
    ) -> Judgement {
        let call = self.shared_wanted(wanted, meant);
        let ask = SharedQuestion {
            call,
            wanted: Some((meant.identity.clone(), meant.tool.clone())),
            ruling: local.ruling,
            disclosed: DisclosedSecrets::default(),
            events: local.events,
        };
        Judgement {
            ask: Some(Box::new(ask)),
            ..Judgement::default()
        }
    }

    /// Completes the judgement of an intent with the answer about shared state; `is_done` if the provider has made the
    /// call.
    pub(super) fn wanted_answered(
        &mut self,
        speaker: Speaker<'_>,
        intent: &Intent<'_>,
        ask: SharedQuestion,
        shared: SharedOutcome,
        is_done: bool,
    ) -> Judgement {
        let Some((identity, tool)) = ask.wanted else {
            return Judgement::default(); // this question is about a call of a conversation
        };
        let meant = IntendedTool {
            identity,
            tool,
            is_seen: false,
        };
        let visible = joined(&intent.name);
        self.given(intent, |traffic, given, arguments, secrets| {
            let wanted = WantedCall {
                speaker,
                visible: &visible,
                intent,
                given,
                arguments,
                secrets,
            };
            let mut local = LocalJudgement {
                ruling: ask.ruling,
                events: ask.events,
                ..LocalJudgement::default()
            };
            let effects = traffic.in_call(wanted, &meant, |traffic, teller, calling| {
                let (checked, effects) = traffic.settled(teller.conversation, &ask.call, shared);
                traffic.note_checked(
                    teller,
                    calling.call,
                    &checked,
                    &mut local.ruling,
                    &mut local.events,
                );
                effects
            });
            match is_done {
                true => traffic.was_called(wanted, &meant, local.ruling, effects),
                false => traffic.tell_wanted(wanted, &meant, 0, local, effects),
            }
        })
    }

    /// Checks a call that another layer will see with the calls that no other layer sees, because that layer does not
    /// know them. It is not counted here: that layer counts it.
    fn beside_unseen(&mut self, wanted: WantedCall<'_>, meant: &IntendedTool, local: &mut LocalJudgement) {
        let shared = self.shared_wanted(wanted, meant);
        self.in_call(wanted, meant, |traffic, teller, calling| {
            let window = &mut traffic.companies.session(teller.conversation).window;
            let (mut checked, _) = window.check(&traffic.policy, &shared);
            checked.over_rate = None;
            traffic.note_checked(
                teller,
                calling.call,
                &checked,
                &mut local.ruling,
                &mut local.events,
            );
        });
    }

    /// Returns the effects that announce the model's turn, for calls that another layer will see.
    fn turn_of(&self, wanted: WantedCall<'_>, meant: &[IntendedTool]) -> Vec<StoreEffect> {
        let intent = |meant: &IntendedTool| {
            let id = wanted.intent.id.as_deref();
            Recent::Intent(RecentIntent {
                origin: None,
                at: wanted.speaker.now,
                server: meant.identity.server.clone(),
                tool: named(&meant.tool, MAX_TEXT),
                tool_call: id.map(|id| cut(id, MAX_TEXT).into()),
                turn: wanted.speaker.exchange.request.clone(),
            })
        };
        let seen = meant.iter().take(MAX_MEANT).filter(|meant| meant.is_seen);
        seen.map(|meant| StoreEffect::Share(Box::new(intent(meant))))
            .collect()
    }

    /// Describes an intent for the holder of the session's calls.
    fn shared_wanted(&mut self, wanted: WantedCall<'_>, meant: &IntendedTool) -> SharedCall {
        let exchange = wanted.speaker.exchange;
        let server = &meant.identity.server;
        let has_others = self.present.has_others(exchange.session.as_ref(), server);
        self.in_call(wanted, meant, |traffic, teller, calling| {
            let session = traffic.companies.session(teller.conversation);
            session.is_several |= has_others || session.window.has_others(server);
            SharedCall {
                turn: Some(exchange.request.clone()),
                request: Some(exchange.request.clone()),
                ..traffic.shared(teller, calling.call, calling.arguments)
            }
        })
    }

    /// Gives the call, as it would arrive at its server, to `then`.
    fn in_call<T>(
        &mut self,
        wanted: WantedCall<'_>,
        meant: &IntendedTool,
        then: impl FnOnce(&mut Self, &Teller<'_>, CallContext<'_>) -> T,
    ) -> T {
        let WantedCall {
            speaker,
            intent,
            given,
            ..
        } = wanted;
        let (server_type, _) = self.reached(speaker, meant);
        let conversation: Conversation = speaker.conversation(meant, server_type);
        let call = Call {
            tool: Cow::Borrowed(&meant.tool),
            arguments: given.json(),
            resumes: None,
        };
        let message = Message {
            era: Era::default(),
            id: None,
            trace: Trace {
                tool_call: intent.id.clone(),
                parent: None,
            },
            size: given.json().map_or(0, |json| json.as_str().len()),
            content: Content::Client(FromClient::Call(call.clone())),
        };
        let teller = Teller {
            now: speaker.now,
            conversation: &conversation,
            message: &message,
        };
        let calling = CallContext {
            call: &call,
            arguments: wanted.arguments,
            secrets: wanted.secrets,
            is_by_model: intent.id.is_some(),
        };
        then(self, &teller, calling)
    }

    /// Builds the event about an intent.
    pub(super) fn intent_event(&self, wanted: WantedCall<'_>, meant: &IntendedTool) -> Event {
        let WantedCall { speaker, visible, .. } = wanted;
        let mut kind = speaker.intercepted(&meant.tool, Some(wanted.intent));
        if let EventKind::ToolCallIntercepted {
            visible_name,
            server_type,
            server_addr,
            tool_hash,
            input,
            ..
        } = &mut kind
        {
            *visible_name = (visible != meant.tool).then(|| cut(visible, MAX_TEXT).to_owned());
            (*server_type, *server_addr) = self.reached(speaker, meant);
            *tool_hash = self.hash_of(&meant.identity, &meant.tool);
            *input = wanted.given.told(wanted.arguments, wanted.secrets);
        }
        speaker.about(meant, kind)
    }
}

/// Returns the strictness of a ruling: a blocking one is strictest, else the one with the most severe audit.
fn rank(ruling: &Ruling) -> (bool, Option<Severity>) {
    (
        ruling.block.is_some(),
        ruling.told().map(|objection| objection.severity),
    )
}

/// Replaces the asking objections, because intents are not held: the layer that sees the call asks a person, and a call
/// that no other layer sees is refused.
fn settle_ask(ruling: &mut Ruling, is_seen: bool) {
    let asks = std::mem::take(&mut ruling.asks);
    if ruling.block.is_some() {
        return;
    }
    if is_seen {
        ruling.audits.extend(asks.into_iter().map(|ask| Objection {
            effect: ObjectionEffect::Audit,
            reason: format!("{}; a person is asked when it is called", ask.reason),
            ..ask
        }));
        return;
    }
    ruling.block = asks.into_iter().next().map(|ask| Objection {
        effect: ObjectionEffect::Block,
        reason: format!(
            "{}; no person can be asked, for the call would not pass through mcpmon",
            ask.reason
        ),
        remedy: Some(command(&["setup"])),
        ..ask
    });
}

/// Builds the objection to arguments that are no strict JSON. Files are always protected, so some rule over arguments
/// could always match.
fn malformed(subject: &str) -> Objection {
    Objection {
        rule: "malformed_arguments".into(),
        effect: ObjectionEffect::Block,
        severity: Severity::Medium,
        reason: format!(
            "the arguments of {subject} are no strict JSON, so no rule can look at them: send them again as JSON"
        ),
        remedy: None,
    }
}
