//! Requests to models, and answers, that are stopped because they cannot be judged.

use mcpmon_model::{Action, EventKind, Exchange, ExchangeHalf, HaltedExchange, Severity, Timestamp};

use super::{super::Traffic, tell::Speaker};
use crate::{
    effect::Judgement,
    traffic::tell::{MAX_TEXT, cut},
    wording::command,
};

impl Traffic {
    /// Records a request or an answer that was stopped, in every mode, because its content is unknown.
    pub(crate) fn halted(now: Timestamp, exchange: &Exchange, halted: &HaltedExchange) -> Judgement {
        let (half, what) = match halted.half {
            ExchangeHalf::Request => ("request", "a request to a model"),
            ExchangeHalf::Response => ("response", "a model's answer"),
        };
        let rule = match halted.is_too_long {
            true => "max_body",
            false => "strict_json",
        };
        let cause = cut(&halted.cause, MAX_TEXT);
        let mut event = Speaker { now, exchange }.event(EventKind::RequestJudged {
            method: format!("{}/{half}", exchange.dialect.as_str()),
            summary: format!("{what} does not go on: {cause}"),
            count: 1,
        });
        event.rule = Some(rule.to_owned());
        event.action = Action::Block;
        event.severity = Severity::Medium;
        event.reason = Some(format!(
            "{what} does not go on: {cause}; see `{}`",
            command(&["events", "--type", "mcp_request_judged"])
        ));
        Judgement::of_event(event)
    }
}
