//! Judges for the requests to models that go through the HTTP proxy.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use mcpmon_http::{Exchanges, Peer, RequestOrigin, Who};
use mcpmon_model::{
    Exchange, ExchangeHalf, HaltedExchange, LlmMention, OmittedCall, Redaction, SessionId, Verdict,
};
use mcpmon_protocol::llm::{ContentJudge, LlmFault};
use mcpmon_session::{
    clock,
    models::{self, Models},
};
use mcpmon_store::{Keeper, KeptBodies, new_id};
use tokio::task::block_in_place;

use super::{servers::Callers, tokens::Tokens};

/// Makes a judge for each request.
#[derive(Clone, Debug)]
pub(super) struct Judges {
    pub(super) models: Models,
    pub(super) tokens: Tokens,
    pub(super) callers: Arc<Callers>,
    pub(super) keeper: Option<Keeper>,
    /// Number of requests to models so far.
    pub(super) asked: Arc<AtomicU64>,
}

#[derive(Debug)]
struct CallJudge {
    judge: models::ModelExchangeJudge,
    /// The half of the exchange that is being read.
    half: ExchangeHalf,
    kept: Option<KeptBodies>,
}

impl Exchanges for Judges {
    fn session(&self, token: &str) -> Option<SessionId> {
        self.tokens.session(token)
    }

    fn passes_unknown(&self, peer: &Peer) -> bool {
        let uid = who(peer).uid;
        let policies = self.models.policies();
        let loaded = self.in_time(uid, || policies.of(clock::now(), uid));
        !loaded.policy.fail_closed
    }

    fn judge(&self, asked: RequestOrigin) -> Box<dyn mcpmon_http::ExchangeJudge> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let Who { uid, process } = who(&asked.peer);
        let of_process = || Some(self.callers.session(process?)?.id);
        let now = clock::now();
        let session = asked.session.or_else(of_process);
        let of_session = || self.tokens.user(session.as_ref()?);
        let exchange = Exchange {
            uid: uid.or_else(of_session),
            session,
            dialect: asked.dialect,
            agent: asked.agent,
            request: new_id(now).to_string().into(),
            trace_parent: asked.trace_parent,
        };
        let keeper = self.keeper.clone();
        Box::new(CallJudge {
            kept: keeper.map(|keeper| KeptBodies::new(keeper, exchange.clone())),
            judge: self.in_time(uid, || self.models.judge(now, uid, exchange)),
            half: ExchangeHalf::Request,
        })
    }
}

impl Judges {
    /// Does `work`. If that may have to read a user's policy file for the first time, other tasks of this thread are
    /// moved to another one meanwhile.
    fn in_time<T>(&self, uid: Option<u32>, work: impl FnOnce() -> T) -> T {
        match self.models.policies().knows(uid) {
            true => work(),
            false => block_in_place(work),
        }
    }
}

fn who(peer: &Peer) -> Who {
    match peer.known() {
        Some(who) => who,
        None => block_in_place(|| peer.who()),
    }
}

impl ContentJudge for CallJudge {
    fn judge(&mut self, said: &LlmMention<'_>) -> Verdict {
        // Reading the store takes a while; other streams continue meanwhile.
        match self.judge.may_wait(said) {
            true => block_in_place(|| self.judge.judge(clock::now(), said)),
            false => self.judge.judge(clock::now(), said),
        }
    }

    fn redact(&mut self, text: &str) -> Vec<Redaction> {
        self.judge.redact(clock::now(), text)
    }

    fn left_out(&mut self, response: &str, calls: &[OmittedCall]) {
        self.judge.left_out(response, calls);
    }

    fn unanswered(&mut self, response: &str) -> Vec<OmittedCall> {
        self.judge.unanswered(response)
    }
}

impl mcpmon_http::ExchangeJudge for CallJudge {
    fn request_read(&mut self) {
        self.judge.request_read(clock::now());
    }

    fn sent(&mut self, body: &[u8]) {
        self.half = ExchangeHalf::Response;
        if let Some(kept) = &mut self.kept {
            kept.sent(clock::now(), body);
        }
    }

    fn answered(&mut self, bytes: &[u8]) {
        if let Some(kept) = &mut self.kept {
            kept.answered(clock::now(), bytes);
        }
    }

    fn failed(&mut self, fault: &LlmFault) {
        let exchange = self.judge.exchange();
        let (dialect, request) = (exchange.dialect.as_str(), &exchange.request);
        tracing::warn!(%fault, dialect, %request, "a request to a model, or its answer, does not go on");
        let is_too_long = match fault {
            // The block has been recorded.
            LlmFault::Blocked(_) => return,
            LlmFault::TooLong { .. } => true,
            LlmFault::Malformed { .. } => false,
        };
        let halted = HaltedExchange {
            half: self.half,
            is_too_long,
            cause: fault.to_string(),
        };
        self.judge.halted(clock::now(), &halted);
    }
}
