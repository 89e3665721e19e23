//! Traffic between agents and models, through the front door.

mod calls;
mod halted;
mod lists;
mod properties;
mod redact;
mod remote;

use mcpmon_model::{Dialect, Exchange, Input, Intent, LlmMention, ToolName};

use super::*;
use crate::SharedOutcome;

/// A request of the session that [`conversation`] belongs to.
pub(super) fn exchange(agent: Option<&str>) -> Exchange {
    Exchange {
        session: Some(SessionId::new("s1")),
        uid: Some(1000),
        dialect: Dialect::Anthropic,
        agent: agent.map(Into::into),
        request: "req_1".into(),
        trace_parent: None,
    }
}

pub(super) fn intent<'a>(name: &'a str, input: Input<'a>) -> Intent<'a> {
    Intent {
        id: Some("toolu_1".into()),
        name: ToolName {
            namespace: None,
            name: name.into(),
        },
        input,
    }
}

impl World {
    pub(super) fn spoken(&mut self, agent: Option<&str>, said: &LlmMention<'_>) -> Judgement {
        let exchange = exchange(agent);
        let judgement = self.monitor.observe(self.now, Observation::Llm(&exchange, said));
        match judgement.ask {
            None => judgement,
            Some(ask) => {
                assert!(judgement.events.is_empty(), "nothing is said before the answer");
                let answered = Observation::LlmShared(&exchange, said, ask, SharedOutcome::Unreachable);
                self.monitor.observe(self.now, answered)
            }
        }
    }

    /// A model of an unknown client wants a tool called.
    pub(super) fn wants(&mut self, name: &str, arguments: &str) -> Judgement {
        let input = Input::Json(RawJson::trusted(arguments));
        self.spoken(None, &LlmMention::Call(intent(name, input)))
    }

    /// The same of a client.
    pub(super) fn wants_as(&mut self, agent: &str, name: &str) -> Judgement {
        let input = Input::Json(RawJson::trusted("{}"));
        self.spoken(Some(agent), &LlmMention::Call(intent(name, input)))
    }
}

/// A world in which `files` lists `read`, and `mail` lists `send`.
pub(super) fn world(policy: Policy) -> World {
    let mut world = World::new(policy);
    for (server, tool) in [("mail", "send"), ("files", "read")] {
        world.conversation = conversation(server);
        let company = SessionPeers::default();
        drop(
            world
                .monitor
                .observe(world.now, Observation::Joined(&world.conversation, company)),
        );
        drop(world.tools(&[(tool, "Handles one file")]));
    }
    world
}
