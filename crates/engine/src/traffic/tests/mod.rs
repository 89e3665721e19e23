//! Conversations as the Monitor observes them: messages in, verdicts, events and effects out.

mod answers;
mod approvals;
mod apps;
mod asks;
mod calls;
mod files;
mod given;
mod held_calls;
mod incidents;
mod killed;
mod listings;
mod llm;
mod policies;
mod relisted;
mod repeats;
mod requests;
mod sessions;
mod skills;

use std::{borrow::Cow, sync::Arc};

use mcpmon_detect::protected_paths::RealPath;
use mcpmon_model::{
    Action, Answer, AnswerOutcome, AnsweredRequest, Call, Category, ClientRequestKind, Content, Conversation,
    CustomPattern, DefinitionKey, DefinitionKind, Era, FromClient, FromServer, Incident, Introduction, Layer,
    ListKind, ListedItem, Listing, Message, PinKey, RawJson, RequestId, ResultKind, ServerId,
    ServerRequestKind, ServerType, SessionId, Severity, Timestamp, Trace, Verdict,
};
use mcpmon_policy::{Decision, Mode, Policy, network::table::Tables};

use crate::{Judgement, Monitor, Observation, SessionPeers, StoreEffect, pins::PinBook};

/// A Monitor, a conversation, and a clock.
pub(super) struct World {
    pub(super) monitor: Monitor,
    pub(super) conversation: Conversation,
    pub(super) now: Timestamp,
}

/// A policy that finds `EVIL-HIGH`, `EVIL-CRITICAL` and `EVIL-LOW`, trusts what is listed first, and allows what no
/// rule names.
pub(super) fn policy() -> Policy {
    let pattern = |severity: Severity| CustomPattern {
        name: format!("evil_{}", severity.as_str()),
        pattern: format!("EVIL-{}", severity.as_str().to_uppercase()),
        category: Category::Custom,
        severity,
    };
    let mut policy = Policy::default();
    policy.rules.default = Decision::Allow;
    policy.inspection.custom = [Severity::Low, Severity::High, Severity::Critical]
        .map(pattern)
        .into();
    policy
}

pub(super) fn id(name: &str) -> ServerId {
    ServerId::new(name).expect("an id")
}

pub(super) fn conversation(server: &str) -> Conversation {
    Conversation {
        identity: PinKey {
            server: id(server),
            name: server.to_owned(),
            uid: 1000,
        },
        server_type: ServerType::Stdio,
        session: Some(SessionId::new("s1")),
        layer: Layer::Stdio,
    }
}

impl World {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            monitor: Monitor::new(Arc::new(policy), &Tables::default(), PinBook::default()),
            conversation: conversation("files"),
            now: Timestamp(0),
        }
    }

    pub(super) fn install(&mut self, policy: Policy) {
        drop(
            self.monitor
                .install(self.now, Arc::new(policy), &Tables::default()),
        );
    }

    pub(super) fn say(&mut self, content: Content<'_>) -> Judgement {
        self.say_with_paths(content, Vec::new())
    }

    /// Says the same with these links resolved.
    pub(super) fn say_with_paths(&mut self, content: Content<'_>, real_paths: Vec<RealPath>) -> Judgement {
        let id = RequestId::Number("7".into());
        let message = Message {
            era: Era::Handshake,
            id: Some(&id),
            trace: Trace {
                tool_call: Some("toolu_1".into()),
                parent: Some("00-1-2-01".into()),
            },
            size: 300,
            content,
        };
        self.monitor.observe(
            self.now,
            Observation::Message(&self.conversation, &message, real_paths),
        )
    }

    /// The whole list of tools, each with its description.
    pub(super) fn tools(&mut self, tools: &[(&str, &str)]) -> Judgement {
        self.page(ListKind::Tools, tools, false, false)
    }

    /// A page of a list.
    pub(super) fn page(
        &mut self,
        kind: ListKind,
        items: &[(&str, &str)],
        continued: bool,
        more: bool,
    ) -> Judgement {
        let member = match kind {
            ListKind::Tools | ListKind::Prompts => "name",
            ListKind::Resources | ListKind::Skills => "uri",
            ListKind::Templates => "uriTemplate",
        };
        let texts: Vec<String> = items
            .iter()
            .map(|(name, description)| format!(r#"{{"{member}":"{name}","description":"{description}"}}"#))
            .collect();
        let items = items.iter().zip(&texts).map(|((name, _), text)| ListedItem {
            name: Cow::Borrowed(name),
            definition: RawJson::trusted(text),
        });
        let listing = Listing {
            kind,
            items: items.collect(),
            continued,
            more,
            is_part: false,
            result: RawJson::trusted("{}"),
            again: None,
        };
        self.say(Content::Server(FromServer::Listing(listing)))
    }

    pub(super) fn introduce(&mut self, instructions: Option<&str>) -> Judgement {
        let introduction = Introduction {
            instructions: instructions.map(Cow::Borrowed),
            name: None,
            result: RawJson::trusted("{}"),
        };
        self.say(Content::Server(FromServer::Introduction(introduction)))
    }

    pub(super) fn changed(&mut self, list: ListKind) -> Judgement {
        self.say(Content::Server(FromServer::ListChanged(list)))
    }

    pub(super) fn call(&mut self, tool: &str) -> Judgement {
        let call = Call {
            tool: Cow::Borrowed(tool),
            arguments: Some(RawJson::trusted(r#"{"path":"/tmp"}"#)),
            resumes: None,
        };
        self.say(Content::Client(FromClient::Call(call)))
    }

    pub(super) fn answer(&mut self, what: ClientRequestKind, outcome: AnswerOutcome<'_>) -> Judgement {
        let answer = Answer {
            to: AnsweredRequest {
                what,
                at: Timestamp(0),
            },
            outcome,
        };
        self.say(Content::Server(FromServer::Answer(answer)))
    }

    pub(super) fn result(&mut self, what: ClientRequestKind, result: &str, kind: ResultKind) -> Judgement {
        let result = RawJson::trusted(result);
        self.answer(what, AnswerOutcome::Result { result, kind })
    }

    pub(super) fn ask(&mut self, ask: ServerRequestKind, params: &str) -> Judgement {
        let method = match ask {
            ServerRequestKind::Sampling => "sampling/createMessage",
            ServerRequestKind::Elicitation => "elicitation/create",
            ServerRequestKind::Roots => "roots/list",
            ServerRequestKind::Other => "ping",
        };
        let params = Some(RawJson::trusted(params));
        self.say(Content::Server(FromServer::Ask {
            ask,
            method: method.into(),
            params,
        }))
    }

    pub(super) fn incident(&mut self, incident: &Incident) -> Judgement {
        self.monitor
            .observe(self.now, Observation::Incident(&self.conversation, incident))
    }

    pub(super) fn key(&self, tool: &str) -> DefinitionKey {
        DefinitionKey {
            identity: self.conversation.identity.clone(),
            kind: DefinitionKind::Tool,
            name: tool.to_owned(),
        }
    }
}

/// Every event as `type action rule`.
pub(super) fn told(judgement: &Judgement) -> Vec<String> {
    let events = judgement.events.iter().map(|event| {
        let (name, action) = (event.kind.name(), event.action.as_str());
        match &event.rule {
            Some(rule) => format!("{name} {action} {rule}"),
            None => format!("{name} {action}"),
        }
    });
    events.collect()
}

/// The rule that stopped the message.
pub(super) fn blocked_by(judgement: &Judgement) -> Option<&str> {
    match &judgement.verdict {
        Verdict::Block(denial) => Some(&denial.rule),
        Verdict::Allow
        | Verdict::Hide(_)
        | Verdict::StripInstructions
        | Verdict::Redact(_)
        | Verdict::Ask(_) => None,
    }
}

/// Names of the definitions that are to be stored.
pub(super) fn stored(judgement: &Judgement) -> Vec<&str> {
    let mut stored = Vec::new();
    for order in &judgement.store_effects {
        if let StoreEffect::StoreDefinition(record) = order {
            stored.push(record.key.name.as_str());
        }
    }
    stored
}

/// Returns whether nothing is stopped, hidden or stripped, and no event says that something was.
pub(super) fn lets_everything_through(judgement: &Judgement) -> bool {
    judgement.verdict == Verdict::Allow && judgement.events.iter().all(|event| event.action != Action::Block)
}

pub(super) fn observing(mut policy: Policy) -> Policy {
    policy.mode = Mode::Observe;
    policy
}
