//! The judges behind the HTTP proxy.

use mcpmon_core::{
    filter::llm::{Fault, Judge},
    model::{Exchange, Redaction, SessionId, Spoken, Verdict},
};
use tokio::task::block_in_place;
use uuid::Uuid;

use super::tokens::Tokens;
use crate::{
    agent::clock,
    intercept::http::{self, Asked, Exchanges},
    judge::models::{self, Models},
};

/// Whom the HTTP proxy asks.
#[derive(Clone, Debug)]
pub(super) struct Judges {
    pub(super) models: Models,
    pub(super) tokens: Tokens,
}

#[derive(Debug)]
struct Judging(models::ExchangeJudge);

impl Exchanges for Judges {
    fn session(&self, token: &str) -> Option<SessionId> {
        self.tokens.session(token)
    }

    fn passes_unknown(&self) -> bool {
        !self.models.policy().fail_closed
    }

    fn judge(&self, asked: Asked) -> Box<dyn http::ExchangeJudge> {
        let exchange = Exchange {
            session: asked.session,
            dialect: asked.dialect,
            agent: asked.agent,
            request: Uuid::now_v7().to_string().into(),
        };
        Box::new(Judging(self.models.judge(clock::now(), asked.uid, exchange)))
    }
}

impl Judge for Judging {
    fn judge(&mut self, said: &Spoken<'_>) -> Verdict {
        // To look into the store takes a while, in which other streams go on.
        match self.0.is_behind() {
            true => block_in_place(|| self.0.judge(clock::now(), said)),
            false => self.0.judge(clock::now(), said),
        }
    }

    fn redact(&mut self, text: &str) -> Vec<Redaction> {
        self.0.redact(clock::now(), text)
    }
}

impl http::ExchangeJudge for Judging {
    fn request_read(&mut self) {
        self.0.request_read(clock::now());
    }

    fn failed(&mut self, fault: &Fault) {
        let exchange = self.0.exchange();
        let (dialect, request) = (exchange.dialect.as_str(), &exchange.request);
        tracing::warn!(%fault, dialect, %request, "a request to a model, or its answer, does not go on");
    }
}
