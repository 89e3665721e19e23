//! Rules over several servers and rate limits: what they compile to, and the mistakes they can have.

use std::{collections::BTreeSet, time::Duration};

use insta::assert_snapshot;
use mcpmon_model::{ServerId, ToolCategory};
use mcpmon_policy::{Burst, Classifier, CrossServer, CrossServerDecision, Flow, Policy, RateLimits};

use super::compile;

fn policy(text: &str) -> Policy {
    let loaded = compile(&[("mcpmon.yaml", text)]).expect("no mistake");
    assert_eq!(loaded.not_in_force, [], "every key is in force");
    Policy::clone(&loaded.policy)
}

fn mistakes(text: &str) -> String {
    compile(&[("mcpmon.yaml", text)])
        .expect_err("a mistake")
        .to_string()
}

#[test]
fn without_a_word_the_defaults_hold() {
    let policy = policy("version: 1\n");
    assert_eq!(policy.cross_server, CrossServer::default());
    assert_eq!(policy.rate_limits, RateLimits::default());
    assert_eq!(policy.categories, Default::default());
}

#[test]
fn everything_can_be_said() {
    let policy = policy(
        "
mcp:
  cross_server:
    decision: block
    classifier: names
    shadow_tool: {enabled: false}
    read_then_send: {window: 1m}
    burst: {max_calls: 3, window: 1s}
    cross_server_flow: {same_turn_only: false, window: 10s, categories: [write, send, compute, unknown]}
  categories: {send: ['mail:*', 'tweet_*'], read: ['mail:list_*'], unknown: ['x']}
  rate_limits: {default_rpm: 100, default_burst: 10, per_server: {'web-*': {calls_per_minute: 5}}}
",
    );
    let rules = &policy.cross_server;
    assert_eq!(
        (rules.decision, rules.shadow_tool),
        (CrossServerDecision::Block, false)
    );
    assert_eq!(rules.read_then_send, Some(Duration::from_mins(1)));
    let burst = Burst {
        max_calls: 3,
        window: Duration::from_secs(1),
    };
    assert_eq!(rules.burst, Some(burst));
    use ToolCategory::{Compute, Read, Send, Unknown, Write};
    let flow = Flow {
        same_turn_only: false,
        window: Duration::from_secs(10),
        categories: BTreeSet::from([Write, Send, Compute, Unknown]),
    };
    assert_eq!(rules.flow, Some(flow));
    assert_eq!(policy.categories.classifier, Classifier::Names);
    let said = |server: &str, tool| policy.categories.said(&ServerId::new(server).expect("id"), tool);
    assert_eq!(
        said("mail", "list_all"),
        Some(Send),
        "of two, the one that makes it more"
    );
    assert_eq!(said("chat", "tweet_it"), Some(Send));
    assert_eq!((said("chat", "x"), said("chat", "y")), (Some(Unknown), None));
    assert_ne!(said("chat", "list_all"), Some(Read));
    let limit = policy
        .rate_limits
        .of(&ServerId::new("web-search").expect("id"))
        .expect("a limit");
    assert_eq!((limit.per_minute, limit.burst), (5, 10));
}

#[test]
fn rules_that_are_off_are_not_there() {
    let policy = policy(
        "mcp: {cross_server: {read_then_send: {enabled: false}, burst: {enabled: false}, cross_server_flow: {enabled: false}}, rate_limits: {enabled: false}}",
    );
    let rules = &policy.cross_server;
    assert_eq!(
        (rules.read_then_send, rules.burst, &rules.flow),
        (None, None, &None)
    );
    assert_eq!(policy.rate_limits.of(&ServerId::new("a").expect("id")), None);
}

#[test]
fn what_could_never_or_always_match_is_a_mistake() {
    let text = "mcp:
  cross_server:
    read_then_send: {window: 0s}
    burst: {max_calls: 0, window: 1h}
    cross_server_flow: {categories: []}
  categories: {send: ['']}
  rate_limits: {default_rpm: 0, per_server: {weather: {calls_per_minute: 10, burst: 0}}}
";
    assert_snapshot!(mistakes(text), @r"
    mcpmon.yaml:3:30: mcp.cross_server.read_then_send.window: expected from `1ms` to `10m`; to switch the rule off, set its `enabled: false`
       |
     3 |     read_then_send: {window: 0s}
       |                              ^^

    mcpmon.yaml:4:24: mcp.cross_server.burst.max_calls: every call would be one too many: expected at least 1; to switch the rule off, set its `enabled: false`
       |
     4 |     burst: {max_calls: 0, window: 1h}
       |                        ^

    mcpmon.yaml:4:35: mcp.cross_server.burst.window: expected from `1ms` to `10m`; to switch the rule off, set its `enabled: false`
       |
     4 |     burst: {max_calls: 0, window: 1h}
       |                                   ^^

    mcpmon.yaml:5:37: mcp.cross_server.cross_server_flow.categories: no call would count: expected some of `write`, `send`, `compute`, `unknown`; to switch the rule off, set its `enabled: false`
       |
     5 |     cross_server_flow: {categories: []}
       |                                     ^

    mcpmon.yaml:6:23: mcp.categories.send[0]: matches no tool: expected a glob over `TOOL` or `SERVER:TOOL`
       |
     6 |   categories: {send: ['']}
       |                       ^^

    mcpmon.yaml:7:30: mcp.rate_limits.default_rpm: no call could pass: expected at least 1 (`mcp.server_policy` refuses a server)
       |
     7 |   rate_limits: {default_rpm: 0, per_server: {weather: {calls_per_minute: 10, burst: 0}}}
       |                              ^

    mcpmon.yaml:7:85: mcp.rate_limits.per_server.weather.burst: no call could pass: expected at least 1 (`mcp.server_policy` refuses a server)
       |
     7 |   rate_limits: {default_rpm: 0, per_server: {weather: {calls_per_minute: 10, burst: 0}}}
       |                                                                                     ^
    ");
}

#[test]
fn an_unknown_category_is_named() {
    let text = "mcp: {cross_server: {decision: deny, cross_server_flow: {categories: [wriet]}}, categories: {sned: []}}\n";
    assert_snapshot!(mistakes(text), @r"
    mcpmon.yaml:1:32: mcp.cross_server.decision: unknown value `deny`: expected `evidence`, `block` or `audit`
       |
     1 | mcp: {cross_server: {decision: deny, cross_server_flow: {categories: [wriet]}}, categories: {sne
       |                                ^^^^

    mcpmon.yaml:1:71: mcp.cross_server.cross_server_flow.categories[0]: unknown value `wriet`: expected `unknown`, `read`, `write`, `compute` or `send`; did you mean `write`?
       |
     1 | mcp: {cross_server: {decision: deny, cross_server_flow: {categories: [wriet]}}, categories: {sne
       |                                                                       ^^^^^

    mcpmon.yaml:1:94: mcp.categories.sned: unknown key: did you mean `send`?
       |
     1 | mcp: {cross_server: {decision: deny, cross_server_flow: {categories: [wriet]}}, categories: {sne
       |                                                                                              ^^^
    ");
}
