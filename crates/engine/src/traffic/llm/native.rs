//! Tools that are no MCP tools: those of the agent, and those of the provider.

use mcpmon_detect::{arguments::Arguments, secrets};
use mcpmon_model::{CallOrigin, EventKind, Intent, Recent, RecentIntent, ServerId};

use super::{
    Traffic,
    tell::{IntentInput, Speaker, ruled},
};
use crate::{
    effect::{Judgement, StoreEffect},
    names::{NamingClient, parts},
    rules::{Objection, Ruling, blocked_tools, tool_policy},
    traffic::{
        requests::{handled, note, verdict},
        tell::{MAX_TEXT, cut, named},
    },
    wording::shown,
};

/// Tools of agents that run code of the model, which can call tools of servers.
const CODE_TOOLS: [&str; 4] = ["exec", "execute_code", "run_code", "code_execution"];
/// The agent, in the place of a server's name.
const AGENT: &str = "agent";

/// The key that decides about these tools.
const KEY: &str = "native_tools";

impl Traffic {
    /// Judges an intent for a tool of the agent. Rules over MCP servers, arguments and files do not apply; only rules
    /// over names do.
    pub(super) fn native(&self, speaker: Speaker<'_>, name: &str, intent: &Intent<'_>) -> Judgement {
        let mut ruling = self.native_ruling(name, "the agent's own tool");
        if name != intent.name.name {
            note(
                &mut ruling,
                self.by_name(&intent.name.name, "the agent's own tool"),
            );
        }
        // A tool that a client calls its own may be that of a server that was not seen yet.
        let client = self.client_of(speaker.exchange);
        if !client.is_some_and(NamingClient::marks_names) {
            note(&mut ruling, self.by_parts(name));
        }
        let effects = match ruling.block {
            None => code_intent(speaker, intent).into_iter().collect(),
            Some(_) => Vec::new(),
        };
        if !ruling.is_notable() {
            return Judgement {
                store_effects: effects,
                ..Judgement::default()
            };
        }
        let given = IntentInput::of(&intent.input);
        let arguments = given.json().map(Arguments::walk).unwrap_or_default();
        // The arguments are recorded without secrets, whatever is done about them elsewhere.
        let secrets = given
            .json()
            .map(|json| secrets::inspect(json, &arguments))
            .unwrap_or_default();
        let mut kind = speaker.intercepted(name, Some(intent));
        if let EventKind::ToolCallIntercepted { input, .. } = &mut kind {
            *input = given.told(&arguments, &secrets);
        }
        Judgement {
            store_effects: effects,
            ..tell(speaker, kind, &ruling)
        }
    }

    /// Judges a request that has the provider run a tool of its own. It is recorded once for a session, and stopped
    /// each time.
    pub(super) fn hosted(&mut self, speaker: Speaker<'_>, kind: &str) -> Judgement {
        let ruling = self.native_ruling(kind, "the provider's own tool");
        let is_told = ruling.block.is_none() && !self.llm.told.is_new(&[KEY, speaker.session(), kind]);
        if !ruling.is_notable() || is_told {
            return Judgement::default();
        }
        tell(speaker, speaker.intercepted(kind, None), &ruling)
    }

    /// Judges a tool that is not an MCP tool.
    pub(super) fn native_ruling(&self, name: &str, whose: &str) -> Ruling {
        let mut ruling = Ruling::default();
        note(&mut ruling, self.by_name(name, whose));
        let subject = || format!("{whose} {}", shown(name));
        note(&mut ruling, handled(self.policy.llm.native_tools, KEY, subject));
        ruling
    }

    /// Returns the objection to a tool by a part of its name, if the rest is the name of its server.
    fn by_parts(&self, name: &str) -> Option<Objection> {
        parts(name).find_map(|(server, tool)| {
            let subject = || {
                format!(
                    "tool {}, which can be {} of {},",
                    shown(name),
                    shown(tool),
                    shown(server)
                )
            };
            let blocked = blocked_tools::blocked(&self.policy, tool, subject);
            blocked.or_else(|| {
                let server = ServerId::new(server).ok()?;
                tool_policy::denied(&self.policy, Some(&server), tool, subject)
            })
        })
    }

    fn by_name(&self, name: &str, whose: &str) -> Option<Objection> {
        let subject = || format!("{whose} {}", shown(name));
        let blocked = blocked_tools::blocked(&self.policy, name, subject);
        blocked.or_else(|| tool_policy::denied(&self.policy, None, name, subject))
    }
}

/// Records that the model wants its code run: the calls that this code makes have no intents.
fn code_intent(speaker: Speaker<'_>, intent: &Intent<'_>) -> Option<StoreEffect> {
    let name = &*intent.name.name;
    // Goose uses this name for its own extension; any other `server__tool` is a server's, which is no code of the
    // agent.
    let tool = name.strip_prefix("code__").unwrap_or(name);
    if !CODE_TOOLS.contains(&tool) {
        return None;
    }
    let recent = Recent::Intent(RecentIntent {
        origin: Some(CallOrigin::Code),
        at: speaker.now,
        server: ServerId::new(AGENT).ok()?,
        tool: named(name, MAX_TEXT),
        tool_call: intent.id.as_deref().map(|id| cut(id, MAX_TEXT).into()),
        turn: speaker.exchange.request.clone(),
    });
    Some(StoreEffect::Share(Box::new(recent)))
}

fn tell(speaker: Speaker<'_>, kind: EventKind, ruling: &Ruling) -> Judgement {
    let mut event = speaker.event(kind);
    ruled(&mut event, ruling);
    Judgement::of(verdict(ruling), event)
}
