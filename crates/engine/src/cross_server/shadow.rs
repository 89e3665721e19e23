//! Tools that bear the name of another server's tool. It depends on the client whether a model can take one for
//! the other: most put the server's name in front.

use std::collections::BTreeMap;

use mcpmon_model::{CrossServerMatch, CrossServerRule, ServerId, Timestamp};
use mcpmon_policy::{CrossServerDecision, Policy};

use super::blocks;
use crate::{
    names::{NamingClient, SCHEMES},
    registry::Registry,
    wording::shown,
};

/// Every tool by the name under which a model knows it.
#[derive(Clone, Debug)]
pub(crate) struct Visible {
    /// The registry's number of changes that this was made from.
    version: u64,
    /// The client that makes the names.
    client: NamingClient,
    names: BTreeMap<String, Vec<(ServerId, Timestamp)>>,
}

impl Visible {
    /// Returns the names that `client` gives the tools in `registry`; returns `held` if nothing has changed since.
    pub(crate) fn renewed(held: Option<Self>, registry: &Registry, client: NamingClient) -> Self {
        match held {
            Some(held) if held.version == registry.version() && held.client == client => held,
            Some(_) | None => Self::of(registry, client),
        }
    }

    fn of(registry: &Registry, client: NamingClient) -> Self {
        let mut names: BTreeMap<String, Vec<(ServerId, Timestamp)>> = BTreeMap::new();
        for (tool, entries) in registry.tools() {
            for entry in entries {
                let name = visible(client, &entry.server, tool);
                let offers = names.entry(name).or_default();
                offers.push((entry.server.clone(), entry.registered_at));
            }
        }
        Self {
            version: registry.version(),
            client,
            names,
        }
    }

    /// Returns the other server that was the first to offer the name.
    fn rival(&self, server: &ServerId, tool: &str) -> Option<&(ServerId, Timestamp)> {
        let offers = self.names.get(&visible(self.client, server, tool))?;
        let others = offers.iter().filter(|(other, _)| other != server);
        others.min_by_key(|(_, since)| *since)
    }
}

fn visible(client: NamingClient, server: &ServerId, tool: &str) -> String {
    let scheme = SCHEMES.iter().find(|scheme| scheme.client == client);
    scheme.map_or_else(|| tool.to_owned(), |scheme| scheme.visible(server.as_str(), tool))
}

/// Returns the client whose naming counts: the blocking rule, and any rule if the client is unknown, compare the
/// servers' own names.
pub(crate) const fn naming(decision: CrossServerDecision, client: Option<NamingClient>) -> NamingClient {
    match (decision, client) {
        (CrossServerDecision::Block, _) | (_, None) => NamingClient::Bare,
        (CrossServerDecision::Evidence | CrossServerDecision::Audit, Some(client)) => client,
    }
}

/// Returns the other servers with a tool that has the same name for the model as `tool` of `server`.
///
/// `since` is the time when this tool was first listed on this host. `decision: block` stops the call of either server.
/// By default a call is stopped if the client is known to give both tools one name, and the tool is the later one: the
/// earlier tool keeps its name.
pub(crate) fn shadowed(
    policy: &Policy,
    visible: &Visible,
    is_client_known: bool,
    (server, tool, since): (&ServerId, &str, Option<Timestamp>),
) -> Option<CrossServerMatch> {
    let rules = &policy.cross_server;
    let (other, others) = visible.rival(server, tool)?;
    let is_later = since.is_none_or(|since| *others < since);
    let decision = rules.strictest();
    let stops = match decision {
        CrossServerDecision::Evidence => is_client_known && is_later,
        CrossServerDecision::Block | CrossServerDecision::Audit => blocks(decision, &[]),
    };
    let order = match is_later {
        true => "which offered it first",
        false => "which came later",
    };
    Some(CrossServerMatch {
        rule: CrossServerRule::ShadowTool,
        blocks: stops,
        reason: format!(
            "`{}` (server `{server}`) has the name of a tool of server `{other}`, {order}",
            shown(tool)
        ),
        related: Vec::new(),
        evidence: Vec::new(),
    })
}
