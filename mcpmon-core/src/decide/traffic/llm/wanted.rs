//! Calls that a model wants.

use std::borrow::Cow;

use super::{
    Traffic,
    meant::{MAX_MEANT, Meaning, Meant},
    tell::{Given, Speaker, ruled},
};
use crate::{
    decide::{
        definitions::Offers,
        names::joined,
        order::{Judgement, Order},
        rules::{Calling, Effect, Objection, Ruling, blocked_tools, too_much, tool_policy, unknown},
        traffic::{
            calls::Local,
            requests::{note, verdict},
            tell::{MAX_TEXT, Teller, cut},
        },
        wording::{command, shown},
    },
    inspect::{arguments::Arguments, secrets::Secret},
    model::{
        Call, Content, Conversation, Era, Event, EventKind, FromClient, Intent, Message, Severity, Trace,
    },
};

/// A call that is wanted, read once for all tools that it can mean.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) speaker: Speaker<'a>,
    /// The tool, as the model knows it.
    pub(super) visible: &'a str,
    pub(super) intent: &'a Intent<'a>,
    pub(super) given: &'a Given,
    pub(super) arguments: &'a Arguments<'a>,
    pub(super) secrets: &'a [Secret],
}

impl Traffic {
    /// A model wants a tool called.
    pub(super) fn wanted(&mut self, speaker: Speaker<'_>, intent: &Intent<'_>) -> Judgement {
        let visible = joined(&intent.name);
        match self.meaning_of(speaker.exchange, &intent.name) {
            Meaning::Native => self.native(speaker, &visible, intent),
            Meaning::Unclear => self.unclear(speaker, &visible, intent),
            Meaning::Tools(meant) => self.given(intent, |traffic, given, arguments, secrets| {
                let wanted = Wanted {
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

    /// Reads what a tool is to be called with.
    pub(super) fn given<T>(
        &mut self,
        intent: &Intent<'_>,
        then: impl FnOnce(&mut Self, &Given, &Arguments<'_>, &[Secret]) -> T,
    ) -> T {
        let given = Given::of(&intent.input);
        let arguments = given.json().map(Arguments::walk).unwrap_or_default();
        let secrets = self.secrets(given.json(), &arguments);
        then(self, &given, &arguments, &secrets)
    }

    /// A name that only an MCP tool has, and that tells nothing else.
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
        Judgement {
            verdict: verdict(&ruling),
            events: vec![event],
            ..Judgement::default()
        }
    }

    /// The strictest of what is said of the tools that are meant.
    fn wanted_tool(&mut self, wanted: Wanted<'_>, meant: &[Meant]) -> Judgement {
        let mut strictest: Option<(&Meant, Local)> = None;
        for meant in meant.iter().take(MAX_MEANT) {
            let local = self.as_meant(wanted, meant);
            let is_stricter = |(_, known): &(&Meant, Local)| rank(&local.ruling) > rank(&known.ruling);
            if strictest.as_ref().is_none_or(is_stricter) {
                strictest = Some((meant, local));
            }
        }
        let Some((first, mut local)) = strictest else {
            return Judgement::default(); // a name without meaning is unclear
        };
        if meant.len() > MAX_MEANT {
            let what = format!("tool {}", shown(wanted.visible));
            note(&mut local.ruling, Some(too_much(&what, "can be too many tools")));
        }
        let mut orders = Vec::new();
        if let [only] = meant
            && !only.is_seen
            && self.goes_on(&local.ruling)
        {
            orders.extend(self.spend(wanted, only, &mut local.ruling, &mut local.events));
        }
        // The layer that sees the call tells what it finds in it.
        if first.is_seen && self.goes_on(&local.ruling) {
            local.events.clear();
        }
        let mut event = self.intent_event(wanted, first);
        ruled(&mut event, &local.ruling);
        if let (Some(reason), true, 2..) = (&mut event.reason, local.ruling.block.is_some(), meant.len()) {
            let others = meant.len() - 1;
            reason.push_str(&format!(
                "; the name can stand for {others} more, and the strictest ruling holds"
            ));
        }
        let mut events = local.events;
        events.push(event);
        Judgement {
            verdict: verdict(&local.ruling),
            events,
            orders,
            ..Judgement::default()
        }
    }

    /// What stands against a call if it is one of this tool.
    pub(super) fn as_meant(&mut self, wanted: Wanted<'_>, meant: &Meant) -> Local {
        let server = &meant.identity.server;
        let stranger = Offers::of_stranger(server, &self.policy);
        let mut local = self.in_call(wanted, meant, |traffic, teller, calling| {
            traffic.local(teller, calling, Some(&stranger))
        });
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
        if matches!(wanted.given, Given::Malformed) {
            note(&mut local.ruling, Some(malformed(&subject())));
        }
        local
    }

    /// Counts a call that no other layer sees, in this process, and tells those who hold the calls of the session.
    pub(super) fn spend(
        &mut self,
        wanted: Wanted<'_>,
        meant: &Meant,
        ruling: &mut Ruling,
        events: &mut Vec<Event>,
    ) -> Option<Order> {
        if !self.policy.cross_server.enabled && !self.policy.rate_limits.enabled {
            return None;
        }
        self.in_call(wanted, meant, |traffic, teller, calling| {
            let shared = traffic.shared(teller, calling.call, calling.arguments);
            let window = &mut traffic.companies.session(teller.conversation).window;
            let (checked, recent) = window.admit(&traffic.policy, &shared);
            traffic.note_checked(teller, calling.call, &checked, ruling, events);
            recent.map(|recent| Order::Share(Box::new(recent)))
        })
    }

    /// The call as it would come to its server.
    fn in_call<T>(
        &mut self,
        wanted: Wanted<'_>,
        meant: &Meant,
        then: impl FnOnce(&mut Self, &Teller<'_>, Calling<'_>) -> T,
    ) -> T {
        let Wanted {
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
        let calling = Calling {
            call: &call,
            arguments: wanted.arguments,
            secrets: wanted.secrets,
        };
        then(self, &teller, calling)
    }

    /// The event that a tool is wanted.
    pub(super) fn intent_event(&self, wanted: Wanted<'_>, meant: &Meant) -> Event {
        let Wanted { speaker, visible, .. } = wanted;
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

/// How strict a ruling is: one that blocks is, else the one with the worst audit.
fn rank(ruling: &Ruling) -> (bool, Option<Severity>) {
    (
        ruling.block.is_some(),
        ruling.told().map(|objection| objection.severity),
    )
}

/// Files are always protected, so there is always a rule over arguments that could match.
fn malformed(subject: &str) -> Objection {
    Objection {
        rule: "malformed_arguments".into(),
        effect: Effect::Block,
        severity: Severity::Medium,
        reason: format!(
            "the arguments of {subject} are no strict JSON, so no rule can look at them: send them again as JSON"
        ),
        remedy: None,
    }
}
