//! Meanings of a name that a model uses: tools and servers.

use std::collections::BTreeSet;

use mcpmon_model::{DefinitionKind, Exchange, PinKey, ServerId, ServerType, ToolName};
use mcpmon_policy::Transport;

use super::tell::Speaker;
use crate::{
    names::{Names, NamingClient, guesses, joined},
    traffic::Traffic,
};

/// Most tools that one name can mean; a name with more is unclear.
pub(super) const MAX_MEANT: usize = 64;

/// The meaning of a name.
#[derive(Debug)]
pub(super) enum NameMeaning {
    /// The name means one of these tools; the strictest ruling on any of them holds.
    Tools(Vec<IntendedTool>),
    /// The name is an MCP tool's, but server and tool cannot be determined.
    Unclear,
    /// The name is no MCP tool's, but that of a tool of the agent.
    Native,
}

/// A tool that a name can mean.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IntendedTool {
    /// Its server.
    pub(super) identity: PinKey,
    /// Its name, as its server knows it.
    pub(super) tool: String,
    /// True if another layer sees the calls that the session makes to its server.
    pub(super) is_seen: bool,
}

/// Every known tool by its names, as of one moment.
#[derive(Debug, Default)]
pub(super) struct KnownTools {
    stamp: Option<(u64, usize)>,
    names: Names,
    servers: BTreeSet<ServerId>,
}

impl Traffic {
    /// Returns the meaning of `name`. Some clients ignore namespaces, so a namespace that the model gives must not hide
    /// the meaning of the name alone.
    pub(super) fn meaning_of(&mut self, exchange: &Exchange, name: &ToolName<'_>) -> NameMeaning {
        let whole = joined(name);
        let meaning = self.meaning(exchange, &whole);
        if whole == name.name {
            return meaning;
        }
        if !matches!(meaning, NameMeaning::Native) && !self.is_marked(&name.name) {
            return meaning;
        }
        match (meaning, self.meaning(exchange, &name.name)) {
            (NameMeaning::Tools(mut meant), NameMeaning::Tools(more)) => {
                meant.extend(more);
                meant.sort();
                meant.dedup();
                NameMeaning::Tools(meant)
            }
            (meaning, NameMeaning::Native) => meaning,
            (_, bare) => bare,
        }
    }

    /// Returns whether the name alone shows that it is an MCP tool's.
    fn is_marked(&self, name: &str) -> bool {
        let declared = self.policy.servers.iter().map(|server| &server.id);
        !guesses(name, None, self.llm.known.servers.iter().chain(declared)).is_empty()
    }

    /// Returns the meaning of `name`.
    pub(super) fn meaning(&mut self, exchange: &Exchange, name: &str) -> NameMeaning {
        self.know_names();
        let client = self.client_of(exchange);
        let known = &self.llm.known;
        let found = known.names.resolve(name, client);
        let mut tools: Vec<(ServerId, String)> = found
            .iter()
            .map(|candidate| (candidate.server.clone(), candidate.tool.to_owned()))
            .collect();
        if tools.is_empty() {
            let declared = self.policy.servers.iter().map(|server| &server.id);
            let guessed = guesses(name, client, known.servers.iter().chain(declared));
            if guessed.is_empty() {
                return NameMeaning::Native;
            }
            let named = guessed.into_iter();
            tools = named
                .filter_map(|guess| Some((guess.server?, guess.tool)))
                .collect();
        }
        let meant = tools
            .into_iter()
            .flat_map(|(server, tool)| self.as_served(exchange, &server, &tool));
        let meant: BTreeSet<IntendedTool> = meant.take(MAX_MEANT + 1).collect();
        match meant.is_empty() {
            true => NameMeaning::Unclear,
            false => NameMeaning::Tools(meant.into_iter().collect()),
        }
    }

    /// Returns `tool` of `server` under every identity that the server has in the session; if it has none, under every
    /// identity that was seen.
    pub(super) fn as_served(&self, exchange: &Exchange, server: &ServerId, tool: &str) -> Vec<IntendedTool> {
        let session = exchange.session.as_ref();
        let present = || self.present.identities(session, server).cloned();
        let mut identities: Vec<PinKey> = present().take(MAX_MEANT + 1).collect();
        if identities.is_empty() {
            identities = self
                .book
                .identities(server)
                .take(MAX_MEANT + 1)
                .cloned()
                .collect();
        }
        if identities.is_empty() {
            identities.push(PinKey {
                server: server.clone(),
                name: server.as_str().to_owned(),
                uid: 0,
            });
        }
        let is_seen = present().next().is_some();
        let meant = identities.into_iter().map(|identity| IntendedTool {
            identity,
            tool: tool.to_owned(),
            is_seen,
        });
        meant.collect()
    }

    /// Returns the client that names the agent's tools; `None` if it told servers and models different names.
    pub(super) fn client_of(&self, exchange: &Exchange) -> Option<NamingClient> {
        let said = exchange.agent.as_deref().and_then(NamingClient::of_agent);
        // Without a session, the servers may be talking to several agents.
        let heard = match exchange.session {
            Some(_) => self.companies.client(&exchange.session),
            None => None,
        };
        match (said, heard) {
            (Some(said), Some(heard)) if said != heard => None,
            (said, heard) => said.or(heard),
        }
    }

    /// Returns the transport and the address of a server, if they are known.
    pub(super) fn reached(
        &self,
        speaker: Speaker<'_>,
        meant: &IntendedTool,
    ) -> (Option<ServerType>, Option<String>) {
        let server = &meant.identity.server;
        let mut registered = self.registry.lookup(&meant.tool).iter();
        let registered = registered.find(|entry| entry.server == *server);
        let declared = || {
            let declared = self
                .policy
                .servers
                .iter()
                .find(|declared| declared.id == *server)?;
            Some(match &declared.transport {
                Transport::Stdio { .. } => ServerType::Stdio,
                Transport::Remote { server_type, .. } => *server_type,
            })
        };
        let server_type = registered.map(|entry| entry.server_type).or_else(declared);
        let address = self.address_of(&meant.identity);
        let labelled = || self.llm.remotes.address(speaker.exchange, server);
        (server_type, address.or_else(labelled))
    }

    /// Every tool that servers list, or listed, under the names that models use.
    fn know_names(&mut self) {
        let stamp = (self.registry.version(), self.book.extent());
        if self.llm.known.stamp == Some(stamp) {
            return;
        }
        let mut tools: BTreeSet<(ServerId, String)> = BTreeSet::new();
        for (tool, entries) in self.registry.tools() {
            tools.extend(
                entries
                    .iter()
                    .map(|entry| (entry.server.clone(), tool.to_owned())),
            );
        }
        let keys = self.book.entries().map(|entry| &entry.record.key);
        let listed = keys.filter(|key| key.kind == DefinitionKind::Tool);
        tools.extend(listed.map(|key| (key.identity.server.clone(), key.name.clone())));
        let mut servers: BTreeSet<ServerId> = tools.iter().map(|(server, _)| server.clone()).collect();
        servers.extend(self.book.servers().cloned());
        self.llm.known = KnownTools {
            stamp: Some(stamp),
            names: Names::new(tools),
            servers,
        };
    }
}
