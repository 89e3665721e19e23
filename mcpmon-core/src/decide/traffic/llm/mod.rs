//! What passes between agents and models: tools that are offered, calls that are wanted, servers and tools that a
//! provider uses by itself; and secrets in what goes to a model.
//!
//! A wanted call is judged by what its server's own pipe would judge it by, and spends nothing: the call itself does
//! that when it comes.

mod redact;

use super::Traffic;
use crate::{
    decide::order::Judgement,
    model::{Exchange, Spoken, Timestamp},
    policy::ProxyMode,
};

pub use self::redact::Tally;

impl Traffic {
    /// Something that has to do with tools passed between an agent and a model.
    pub(in crate::decide) fn spoken(
        &mut self,
        now: Timestamp,
        exchange: &Exchange,
        said: &Spoken<'_>,
    ) -> Judgement {
        if self.policy.llm.mode == ProxyMode::Disabled {
            return Judgement::default();
        }
        let _ = (now, exchange, said);
        Judgement::default()
    }
}
