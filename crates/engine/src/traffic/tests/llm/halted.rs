//! Requests and answers that are stopped because they cannot be judged.

use mcpmon_model::{EventKind, ExchangeHalf, HaltedExchange};
use test_case::test_case;

use super::*;

#[test_case(ExchangeHalf::Request, false => ("anthropic/request".to_owned(), "strict_json".to_owned()); "a request that cannot be read")]
#[test_case(ExchangeHalf::Response, true => ("anthropic/response".to_owned(), "max_body".to_owned()); "an answer that is too long")]
fn are_told(half: ExchangeHalf, is_too_long: bool) -> (String, String) {
    // The event is the same in observe mode, because the message was stopped there too.
    let mut world = World::new(observing(policy()));
    let halted = HaltedExchange {
        half,
        is_too_long,
        cause: "x".repeat(1 << 20),
    };
    let judgement = world
        .monitor
        .observe(world.now, Observation::Halted(&exchange(None), &halted));
    let [event] = &judgement.events[..] else {
        panic!("one event, not {judgement:?}");
    };
    assert_eq!((event.layer, event.action), (Layer::Llm, Action::Block));
    assert_eq!(event.session_id, Some(SessionId::new("s1")));
    assert!(event.reason.as_ref().is_some_and(|reason| reason.len() < 1 << 16));
    let EventKind::RequestJudged { method, .. } = &event.kind else {
        panic!("a judged request, not {event:?}");
    };
    (method.clone(), event.rule.clone().unwrap_or_default())
}

#[test]
fn an_intent_is_part_of_the_trace_of_its_request() {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut world = world(policy());
    let mut exchange = exchange(None);
    exchange.trace_parent = Some(TRACE.into());
    let input = Input::Json(RawJson::trusted("{}"));
    let said = LlmMention::Call(intent("mcp__files__read", input));
    let judgement = world
        .monitor
        .observe(world.now, Observation::Llm(&exchange, &said));
    let traced = judgement.events.iter().any(|event| {
        matches!(&event.kind, EventKind::ToolCallIntercepted { trace_parent: Some(parent), .. } if parent == TRACE)
    });
    assert!(traced, "{judgement:?}");
}
