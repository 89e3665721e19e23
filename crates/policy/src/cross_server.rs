//! `mcp.cross_server` and `mcp.categories`: what calls to several servers may do together.

use std::{collections::BTreeSet, time::Duration};

use mcpmon_model::{NameGlob, ServerId, ToolCategory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rules over the calls to several servers of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrossServer {
    /// True if any of them is checked.
    pub enabled: bool,
    /// The effect of a match.
    pub decision: CrossServerDecision,
    /// True if a match stops the call although the decision is a weaker one: a second policy demands it, while the
    /// matching stays that of this policy.
    pub stops_all: bool,
    /// True if a tool with the name of another server's tool matches.
    pub shadow_tool: bool,
    /// The time after a read in which nothing may be sent through another server; `None` if this is not checked.
    pub read_then_send: Option<Duration>,
    /// The number of calls one server may get; `None` if this is not checked.
    pub burst: Option<Burst>,
    /// The calls that may not follow a read of another server; `None` if this is not checked.
    pub flow: Option<Flow>,
}

/// The effect of a cross-server rule that matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CrossServerDecision {
    /// The match is recorded, and stops the call if there is evidence.
    #[default]
    Evidence,
    /// The match stops the call.
    Block,
    /// The match is recorded.
    Audit,
}

/// `mcp.cross_server.burst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Calls within the window; the next one matches.
    pub max_calls: u32,
    /// The time for which a call counts.
    pub window: Duration,
}

/// `mcp.cross_server.cross_server_flow`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// True if only calls of one turn count.
    pub same_turn_only: bool,
    /// The time after the read.
    pub window: Duration,
    /// The categories of calls that count.
    pub categories: BTreeSet<ToolCategory>,
}

impl Default for CrossServer {
    fn default() -> Self {
        let window = Duration::from_secs(30);
        Self {
            enabled: true,
            decision: CrossServerDecision::default(),
            stops_all: false,
            shadow_tool: true,
            read_then_send: Some(window),
            burst: Some(Burst {
                max_calls: 10,
                window: Duration::from_secs(5),
            }),
            flow: Some(Flow {
                same_turn_only: true,
                window,
                categories: BTreeSet::from([ToolCategory::Write, ToolCategory::Send]),
            }),
        }
    }
}

impl CrossServer {
    /// Returns the longest time for which a call counts.
    pub fn reach(&self) -> Duration {
        let windows = [
            self.read_then_send,
            self.burst.map(|burst| burst.window),
            self.flow.as_ref().map(|flow| flow.window),
        ];
        windows.into_iter().flatten().max().unwrap_or_default()
    }

    /// Returns the effect of a match, with that of stricter policies.
    pub const fn strictest(&self) -> CrossServerDecision {
        match self.stops_all {
            true => CrossServerDecision::Block,
            false => self.decision,
        }
    }

    /// Returns whether results are remembered, to be found again.
    pub fn wants_outputs(&self) -> bool {
        self.enabled && self.decision != CrossServerDecision::Block
    }
}

impl CrossServer {
    /// Combines two sections: a match of either is one, and has the stricter effect. A match of this one keeps its effect,
    /// see [`Self::stops_all`].
    pub(super) fn tightened_by(&self, other: &Self) -> Self {
        match (self.enabled, other.enabled) {
            (true, true) => Self {
                enabled: true,
                decision: match (self.decision, other.decision) {
                    (CrossServerDecision::Audit, CrossServerDecision::Audit) => CrossServerDecision::Audit,
                    (CrossServerDecision::Block, CrossServerDecision::Block) => CrossServerDecision::Block,
                    // Evidence counts, whatever the category of a tool.
                    (_, _) => CrossServerDecision::Evidence,
                },
                stops_all: self.strictest() == CrossServerDecision::Block
                    || other.strictest() == CrossServerDecision::Block,
                shadow_tool: self.shadow_tool || other.shadow_tool,
                read_then_send: self.read_then_send.max(other.read_then_send),
                burst: match (self.burst, other.burst) {
                    (Some(own), Some(other)) => Some(Burst {
                        max_calls: own.max_calls.min(other.max_calls),
                        window: own.window.max(other.window),
                    }),
                    (own, other) => own.or(other),
                },
                flow: match (&self.flow, &other.flow) {
                    (Some(own), Some(other)) => Some(Flow {
                        same_turn_only: own.same_turn_only && other.same_turn_only,
                        window: own.window.max(other.window),
                        categories: own.categories.union(&other.categories).copied().collect(),
                    }),
                    (own, other) => own.clone().or_else(|| other.clone()),
                },
            },
            (false, true) => other.clone(),
            (_, false) => self.clone(),
        }
    }
}

/// The settings that decide the category of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Categories {
    /// The evidence by which tools are classified.
    pub classifier: Classifier,
    /// The categories of single tools, which take precedence; the first match counts.
    pub overrides: Vec<(ToolCategory, ToolGlob)>,
}

/// The evidence by which a tool is taken to read, write or send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Classifier {
    /// Words of its name, its annotations and its schema.
    #[default]
    Evidence,
    /// The start of its name.
    Names,
}

impl Categories {
    /// Returns the category that the configuration gives to `tool` of `server`.
    pub fn said(&self, server: &ServerId, tool: &str) -> Option<ToolCategory> {
        let mut overrides = self.overrides.iter();
        let said = overrides.find(|(_, glob)| glob.matches(server, tool));
        said.map(|(category, _)| *category)
    }
}

/// A glob over tools, of every server or of some: `send_*`, `mail-*:send_*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolGlob {
    server: Option<NameGlob>,
    tool: NameGlob,
}

impl ToolGlob {
    /// Reads `TOOL` or `SERVER:TOOL`. A server's name has no colon; a tool's name may have one.
    pub fn new(pattern: &str) -> Self {
        match pattern.split_once(':') {
            Some((server, tool)) => Self {
                server: Some(NameGlob::new(server)),
                tool: NameGlob::new(tool),
            },
            None => Self {
                server: None,
                tool: NameGlob::new(pattern),
            },
        }
    }

    /// Returns whether `tool` of `server` is one of them.
    pub fn matches(&self, server: &ServerId, tool: &str) -> bool {
        let is_server = self
            .server
            .as_ref()
            .is_none_or(|glob| super::is_listed(std::slice::from_ref(glob), server));
        is_server && self.tool.matches(tool)
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("send_*", "mail", "send_email" => true; "tool of any server")]
    #[test_case("mail:send_*", "mail", "send_email" => true; "tool of a server")]
    #[test_case("mail:send_*", "chat", "send_email" => false; "tool of another server")]
    #[test_case("my_mail:*", "my-mail", "a:b" => true; "server in another spelling, colon in the tool")]
    #[test_case("send_*", "mail", "resend_email" => false; "another tool")]
    fn tools_match(glob: &str, server: &str, tool: &str) -> bool {
        ToolGlob::new(glob).matches(&ServerId::new(server).expect("an id"), tool)
    }

    #[test]
    fn the_reach_is_that_of_the_longest_window() {
        let mut rules = CrossServer::default();
        assert_eq!(rules.reach(), Duration::from_secs(30));
        rules.read_then_send = None;
        rules.flow = None;
        assert_eq!(rules.reach(), Duration::from_secs(5));
        rules.burst = None;
        assert_eq!(rules.reach(), Duration::ZERO);
    }
}
