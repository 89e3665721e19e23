//! Traffic between agents and models: offered tools, requested calls, servers and tools that a provider uses
//! by itself; and secrets on the way to a model.
//!
//! A wanted call is judged by what its server's own pipe would judge it by, and spends nothing: the call itself does
//! that when it comes. Only where no other layer sees what a session says to a server are its calls counted here, beside
//! those that the others see.

mod halted;
mod lists;
mod meant;
mod native;
mod redact;
mod remote;
mod scanned;
mod tell;
mod wanted;

use std::collections::BTreeMap;

use mcpmon_model::{Exchange, Spoken, Timestamp};
use mcpmon_policy::ProxyMode;

use self::{
    lists::Inspected,
    meant::Known,
    remote::Remotes,
    scanned::Scanned,
    tell::{Speaker, Told},
};
use super::Traffic;
use crate::effect::{Ask, Judgement, Shared};

pub use self::redact::Tally;

/// The state of the traffic between agents and models.
#[derive(Debug, Default)]
pub(super) struct Llm {
    /// Tools by the names that models use.
    known: Known,
    /// Definitions that were inspected.
    inspected: Inspected,
    /// The events that are recorded only once.
    told: Told,
    /// The servers that the labels of requests stand for.
    remotes: Remotes,
    /// Texts that were searched for secrets.
    scanned: Scanned,
}

impl Traffic {
    /// Something that has to do with tools passed between an agent and a model.
    pub(crate) fn spoken(&mut self, now: Timestamp, exchange: &Exchange, said: &Spoken<'_>) -> Judgement {
        if self.policy.llm.mode == ProxyMode::Disabled {
            return Judgement::default();
        }
        let speaker = Speaker { now, exchange };
        let judgement = match said {
            Spoken::Call(intent) => self.wanted(speaker, intent),
            Spoken::Hosted { kind } => self.hosted(speaker, kind),
            Spoken::Remote(remote) => self.remote(speaker, remote),
            Spoken::Called { server, intent } => self.provider_called(speaker, server.as_deref(), intent),
            Spoken::Offered(tools) => self.offered(speaker, tools),
            Spoken::Listed { server, tools } => self.provider_listed(speaker, server, tools),
        };
        self.files.real.clear();
        self.in_mode(judgement)
    }
}

impl Traffic {
    /// Applies the answer to what the judgement of a call asked.
    pub(crate) fn spoken_answered(
        &mut self,
        now: Timestamp,
        exchange: &Exchange,
        said: &Spoken<'_>,
        ask: Ask,
        shared: Shared,
    ) -> Judgement {
        let speaker = Speaker { now, exchange };
        let (intent, is_done) = match said {
            Spoken::Call(intent) => (intent, false),
            Spoken::Called { intent, .. } => (intent, true),
            // Nothing else is asked.
            Spoken::Offered(_) | Spoken::Remote(_) | Spoken::Hosted { .. } | Spoken::Listed { .. } => {
                return Judgement::default();
            }
        };
        let judgement = self.wanted_answered(speaker, intent, ask, shared, is_done);
        self.in_mode(judgement)
    }
}

/// Drops what came first where there is no room.
fn keep<K: Ord, V>(map: &mut BTreeMap<K, V>, most: usize, key: K, value: V) {
    if map.len() >= most && !map.contains_key(&key) {
        map.pop_first();
    }
    map.insert(key, value);
}
