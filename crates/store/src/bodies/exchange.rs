//! The bodies of one exchange, stored if `llm_storage` is on.

use mcpmon_model::{Exchange, Timestamp};

use super::{BodyLabel, BodySide, Keeper, PassingBody};

/// The bodies of one exchange. When this is dropped, the answer is handed to the keeper.
#[derive(Debug)]
pub struct KeptBodies {
    keeper: Keeper,
    exchange: Exchange,
    answer: Option<PassingBody>,
}

impl KeptBodies {
    /// An exchange at its beginning.
    pub const fn new(keeper: Keeper, exchange: Exchange) -> Self {
        Self {
            keeper,
            exchange,
            answer: None,
        }
    }

    /// Stores the body with which the request is forwarded.
    pub fn sent(&self, now: Timestamp, body: &[u8]) {
        if !body.is_empty() {
            self.gather(now, BodySide::Request).push(body);
        }
    }

    /// Adds bytes of the answer that are forwarded to the agent.
    pub fn answered(&mut self, now: Timestamp, bytes: &[u8]) {
        let mut answer = self.answer.take();
        let gathered = answer.get_or_insert_with(|| self.gather(now, BodySide::Response));
        gathered.push(bytes);
        self.answer = answer;
    }

    fn gather(&self, now: Timestamp, side: BodySide) -> PassingBody {
        self.keeper.gather(BodyLabel {
            request: self.exchange.request.to_string(),
            side,
            session: self.exchange.session.clone(),
            dialect: self.exchange.dialect.as_str().to_owned(),
            at: now,
            length: 0,
            kept: 0,
        })
    }
}
