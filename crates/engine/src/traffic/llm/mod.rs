//! Traffic between agents and models: offered tools, requested calls, servers and tools that a provider uses without
//! the client, and secrets in requests to a model.
//!
//! An intent is judged by the rules that its server's own conversation applies, and uses up no quota: the call itself
//! does, when it comes. Only if no other layer sees what a session sends to a server are its calls counted here,
//! together with those that other layers see.

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

use mcpmon_model::{Exchange, LlmMention, Timestamp};
use mcpmon_policy::ProxyMode;

use self::{
    lists::InspectedDefinitions,
    meant::KnownTools,
    remote::Remotes,
    scanned::ScannedTexts,
    tell::{RecordedOnce, Speaker},
};
use super::Traffic;
use crate::effect::{Judgement, SharedOutcome, SharedQuestion};

pub use self::redact::Tally;

/// The state of the traffic between agents and models.
#[derive(Debug, Default)]
pub(super) struct Llm {
    /// Tools by the names that models use.
    known: KnownTools,
    /// Definitions that were inspected.
    inspected: InspectedDefinitions,
    /// Keys of the events that are recorded only once.
    told: RecordedOnce,
    /// The servers that the labels in requests mean.
    remotes: Remotes,
    /// Texts that were searched for secrets.
    scanned: ScannedTexts,
}

impl Traffic {
    /// Judges a fact about tools in an exchange between an agent and a model.
    pub(crate) fn spoken(&mut self, now: Timestamp, exchange: &Exchange, said: &LlmMention<'_>) -> Judgement {
        if self.policy.llm.mode == ProxyMode::Disabled {
            return Judgement::default();
        }
        let speaker = Speaker { now, exchange };
        let judgement = match said {
            LlmMention::Call(intent) => self.wanted(speaker, intent),
            LlmMention::Hosted { kind } => self.hosted(speaker, kind),
            LlmMention::Remote(remote) => self.remote(speaker, remote),
            LlmMention::Called { server, intent } => self.provider_called(speaker, server.as_deref(), intent),
            LlmMention::Offered(tools) => self.offered(speaker, tools),
            LlmMention::Listed { server, tools } => self.provider_listed(speaker, server, tools),
        };
        self.files.real.clear();
        self.in_mode(judgement)
    }
}

impl Traffic {
    /// Completes the judgement of a call with the answer about shared state.
    pub(crate) fn spoken_answered(
        &mut self,
        now: Timestamp,
        exchange: &Exchange,
        said: &LlmMention<'_>,
        ask: SharedQuestion,
        shared: SharedOutcome,
    ) -> Judgement {
        let speaker = Speaker { now, exchange };
        let (intent, is_done) = match said {
            LlmMention::Call(intent) => (intent, false),
            LlmMention::Called { intent, .. } => (intent, true),
            // Only calls have such questions.
            LlmMention::Offered(_)
            | LlmMention::Remote(_)
            | LlmMention::Hosted { .. }
            | LlmMention::Listed { .. } => {
                return Judgement::default();
            }
        };
        let judgement = self.wanted_answered(speaker, intent, ask, shared, is_done);
        self.in_mode(judgement)
    }
}

/// Inserts an entry; removes the first entry of a full map.
fn keep<K: Ord, V>(map: &mut BTreeMap<K, V>, most: usize, key: K, value: V) {
    if map.len() >= most && !map.contains_key(&key) {
        map.pop_first();
    }
    map.insert(key, value);
}
