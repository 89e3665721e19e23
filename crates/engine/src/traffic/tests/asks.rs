//! Requests and unasked messages of servers.

use mcpmon_policy::Handling;
use test_case::test_case;

use super::*;

#[test_case(Handling::Block, Some("sampling"); "block")]
#[test_case(Handling::Audit, None; "audit")]
#[test_case(Handling::Allow, None; "allow")]
fn sampling_is_handled(handling: Handling, rule: Option<&str>) {
    let mut policy = policy();
    policy.requests.sampling = handling;
    let mut world = World::new(policy);
    let judgement = world.ask(ServerRequestKind::Sampling, r#"{"messages":[]}"#);
    assert_eq!(blocked_by(&judgement), rule);
    assert!(told(&judgement)[0].starts_with("mcp_request_judged"));
}

#[test_case("EVIL-HIGH", Some("sampling_poisoning"); "poisoned")]
#[test_case("What is new?", None; "honest")]
fn sampling_that_is_allowed_is_inspected(text: &str, rule: Option<&str>) {
    let mut policy = policy();
    policy.requests.sampling = Handling::Allow;
    let mut world = World::new(policy);
    assert_eq!(
        blocked_by(&world.ask(
            ServerRequestKind::Sampling,
            &format!(r#"{{"messages":[{{"text":"{text}"}}]}}"#)
        )),
        rule
    );
}

#[test_case("allServers", "mcp_request_judged audit sampling_context"; "of all servers")]
#[test_case("thisServer", "mcp_request_judged audit sampling_context"; "of its own")]
#[test_case("none", "mcp_request_judged allow"; "of none")]
fn sampling_that_is_allowed_and_asks_for_context_is_an_event(context: &str, event: &str) {
    let mut policy = policy();
    policy.requests.sampling = Handling::Allow;
    let mut world = World::new(policy);
    let judgement = world.ask(
        ServerRequestKind::Sampling,
        &format!(r#"{{"messages":[],"includeContext":"{context}"}}"#),
    );
    assert_eq!(judgement.verdict, Verdict::Allow);
    assert_eq!(told(&judgement), [event]);
}

#[test_case("password", Some("elicitation_credentials"); "a password")]
#[test_case("city", None; "a city")]
fn questions_for_credentials_are_always_blocked(field: &str, rule: Option<&str>) {
    let mut policy = policy();
    policy.requests.elicitation = Handling::Allow;
    let mut world = World::new(policy);
    let params = format!(
        r#"{{"message":"Please","requestedSchema":{{"type":"object","properties":{{"{field}":{{"type":"string"}}}}}}}}"#
    );
    assert_eq!(
        blocked_by(&world.ask(ServerRequestKind::Elicitation, &params)),
        rule
    );
}

#[test_case("https://github.com/login", None; "a page")]
#[test_case("javascript:alert(1)", Some("elicitation_address"); "a script")]
#[test_case("https://github.com@evil.example/login", Some("elicitation_address"); "a host that is none")]
fn pages_that_mislead_are_always_blocked(url: &str, rule: Option<&str>) {
    let mut policy = policy();
    policy.requests.elicitation = Handling::Allow;
    let mut world = World::new(policy);
    let params = format!(r#"{{"mode":"url","message":"Log in","elicitationId":"e","url":"{url}"}}"#);
    assert_eq!(
        blocked_by(&world.ask(ServerRequestKind::Elicitation, &params)),
        rule
    );
}

#[test]
fn questions_can_be_blocked() {
    let mut policy = policy();
    policy.requests.elicitation = Handling::Block;
    let mut world = World::new(policy);
    assert_eq!(
        blocked_by(&world.ask(ServerRequestKind::Elicitation, r#"{"message":"Which city?"}"#)),
        Some("elicitation")
    );
}

#[test]
fn other_requests_pass_in_silence() {
    let mut world = World::new(policy());
    assert_eq!(told(&world.ask(ServerRequestKind::Roots, "{}")), [""; 0]);
    assert_eq!(told(&world.ask(ServerRequestKind::Other, "{}")), [""; 0]);
}

#[test_case("EVIL-HIGH", Some("output_poisoning"); "poisoned")]
#[test_case("half done", None; "honest")]
fn notifications_are_inspected(text: &str, rule: Option<&str>) {
    let mut world = World::new(policy());
    let params = format!(r#"{{"level":"info","data":{{"message":"{text}"}}}}"#);
    let notice = FromServer::Notice {
        method: "notifications/message".into(),
        params: Some(RawJson::trusted(&params)),
    };
    assert_eq!(blocked_by(&world.say(Content::Server(notice))), rule);
}

#[test_case("sampling/createMessage", Some("sampling"); "sampling")]
#[test_case("roots/list", None; "roots")]
fn what_a_task_asks_for_by_a_notification_is_judged(method: &str, rule: Option<&str>) {
    let mut world = World::new(policy());
    let params = format!(r#"{{"taskId":"t","inputRequests":{{"q":{{"method":"{method}"}}}}}}"#);
    let notice = FromServer::Notice {
        method: "notifications/tasks".into(),
        params: Some(RawJson::trusted(&params)),
    };
    assert_eq!(blocked_by(&world.say(Content::Server(notice))), rule);
}

#[test]
fn observing_stops_no_question() {
    let mut world = World::new(observing(policy()));
    for ask in [ServerRequestKind::Sampling, ServerRequestKind::Elicitation] {
        let judgement = world.ask(
            ask,
            r#"{"message":"Your password?","requestedSchema":{"properties":{"password":{}}}}"#,
        );
        assert!(lets_everything_through(&judgement), "{:?}", told(&judgement));
    }
}
