//! Requests of clients.

use mcpmon_model::{EventKind, NO_USER, NameGlob};
use mcpmon_policy::{Handling, ServerPolicy};
use test_case::test_case;

use super::*;

#[test]
fn a_call_of_a_known_tool_goes_on_and_is_told_once() {
    let mut world = World::new(policy());
    drop(world.tools(&[("read", "a")]));
    let call = world.call("read");
    assert_eq!(call.verdict, Verdict::Allow);
    assert_eq!(told(&call), ["mcp_tool_called allow"]);
    let EventKind::ToolCalled {
        tool_name,
        tool_call_id,
        trace_parent,
        input,
        ..
    } = &call.events[0].kind
    else {
        panic!("a call is told");
    };
    assert_eq!(
        (tool_name.as_str(), input.as_deref()),
        ("read", Some(r#"{"path":"/tmp"}"#))
    );
    assert_eq!(
        (tool_call_id.as_deref(), trace_parent.as_deref()),
        (Some("toolu_1"), Some("00-1-2-01"))
    );
    assert_eq!(call.events[0].session_id, world.conversation.session);
}

#[test_case(Layer::McpHttp, 1000 => Some(1000); "over http")]
#[test_case(Layer::McpHttp, NO_USER => None; "over http from elsewhere")]
#[test_case(Layer::Stdio, 1000 => None; "of a process, which tells itself")]
fn a_call_tells_whose_client_asks(layer: Layer, uid: u32) -> Option<u32> {
    let mut world = World::new(policy());
    world.conversation.layer = layer;
    world.conversation.identity.uid = uid;
    drop(world.tools(&[("read", "a")]));
    let call = world.call("read");
    let EventKind::ToolCalled { client_uid, .. } = &call.events[0].kind else {
        panic!("a call, not {call:?}");
    };
    *client_uid
}

#[test]
fn a_denial_names_rule_reason_and_remedy() {
    let mut world = World::new(policy());
    drop(world.tools(&[("read", "a")]));
    drop(world.tools(&[("read", "b")]));
    let call = world.call("read");
    assert_eq!(told(&call), ["mcp_tool_call_intercepted block version_pin"]);
    let Verdict::Block(denial) = call.verdict else {
        panic!("it is blocked");
    };
    assert!(
        denial
            .reason
            .starts_with("the definition of tool read of files changed: pinned "),
        "{}",
        denial.reason
    );
    assert_eq!(denial.remedy.as_deref(), Some("mcpmon approve files:read"));
}

#[test]
fn what_would_be_blocked_is_told_as_such_and_called() {
    let mut world = World::new(observing(policy()));
    drop(world.tools(&[("read", "a")]));
    drop(world.tools(&[("read", "b")]));
    let call = world.call("read");
    assert_eq!(call.verdict, Verdict::Allow);
    assert_eq!(
        told(&call),
        [
            "mcp_tool_call_intercepted would_block version_pin",
            "mcp_tool_called would_block version_pin"
        ]
    );
}

#[test_case(false, None; "audited")]
#[test_case(true, Some("unknown_tool"); "blocked where unknown is refused")]
fn a_tool_that_was_never_listed(fail_closed: bool, rule: Option<&str>) {
    let mut policy = policy();
    policy.fail_closed = fail_closed;
    policy.servers.push(declared("files"));
    let mut world = World::new(policy);
    let call = world.call("read");
    assert_eq!(blocked_by(&call), rule);
    assert!(told(&call)[0].ends_with("unknown_tool"));
}

#[test]
fn a_call_between_a_change_and_the_next_list_is_stale() {
    let mut world = World::new(policy());
    drop(world.tools(&[("read", "a")]));
    drop(world.changed(ListKind::Prompts));
    assert_eq!(told(&world.call("read")), ["mcp_tool_called allow"]);
    drop(world.changed(ListKind::Tools));
    let call = world.call("read");
    assert_eq!(call.verdict, Verdict::Allow);
    assert_eq!(told(&call)[0], "mcp_tool_call_intercepted audit stale_definition");
    drop(world.tools(&[("read", "a")]));
    assert_eq!(told(&world.call("read")), ["mcp_tool_called allow"]);
}

#[test]
fn long_arguments_are_told_in_part() {
    let mut world = World::new(policy());
    drop(world.tools(&[("read", "a")]));
    let arguments = format!("\"{}\"", "é".repeat(1 << 14));
    let call = Call {
        tool: "read".into(),
        arguments: Some(RawJson::trusted(&arguments)),
        resumes: None,
    };
    let judgement = world.say(Content::Client(FromClient::Call(call)));
    let EventKind::ToolCalled {
        input: Some(input), ..
    } = &judgement.events[0].kind
    else {
        panic!("arguments are told");
    };
    assert_eq!(input.len(), (16 << 10) - 1);
}

#[test_case(ServerPolicy::Denylist(vec![NameGlob::new("fil*")]), Some("server_policy"); "denied")]
#[test_case(ServerPolicy::Denylist(vec![NameGlob::new("other")]), None; "another one denied")]
#[test_case(ServerPolicy::Allowlist(vec![NameGlob::new("other")]), Some("server_policy"); "not allowed")]
#[test_case(ServerPolicy::Allowlist(vec![NameGlob::new("files")]), None; "allowed")]
fn servers_by_policy(servers: ServerPolicy, rule: Option<&str>) {
    let mut policy = policy();
    policy.server_policy = servers;
    let mut world = World::new(policy);
    let listed = world.tools(&[("read", "a")]);
    assert_eq!(listed.verdict == Verdict::Hide(vec![0]), rule.is_some());
    assert_eq!(blocked_by(&world.call("read")), rule);
    let read = FromClient::Read {
        uri: "file:///x".into(),
    };
    assert_eq!(blocked_by(&world.say(Content::Client(read))), rule);
    assert_eq!(
        world.introduce(Some("hello")).verdict == Verdict::StripInstructions,
        rule.is_some()
    );
}

fn declared(name: &str) -> mcpmon_policy::Server {
    mcpmon_policy::Server {
        id: id(name),
        transport: mcpmon_policy::Transport::Stdio {
            command: name.to_owned(),
            args: Vec::new(),
        },
        env_allow: Vec::new(),
        env_deny: Vec::new(),
        processes: None,
        sandbox: Default::default(),
        egress: None,
        on_change: None,
    }
}

#[test_case("files", None; "declared")]
#[test_case("others", Some("undeclared_server"); "not declared")]
fn a_server_that_nobody_declared(name: &str, rule: Option<&str>) {
    let mut policy = policy();
    policy.fail_closed = true;
    policy.servers.push(declared(name));
    let mut world = World::new(policy);
    drop(world.tools(&[("read", "a")]));
    assert_eq!(blocked_by(&world.call("read")), rule);
}

#[test_case(Handling::Allow, None, "mcp_request_judged allow"; "allow")]
#[test_case(Handling::Audit, None, "mcp_request_judged audit prompts"; "audit")]
#[test_case(Handling::Block, Some("prompts"), "mcp_request_judged block prompts"; "block")]
fn prompts_are_handled(handling: Handling, rule: Option<&str>, event: &str) {
    let mut policy = policy();
    policy.requests.prompts = handling;
    let mut world = World::new(policy);
    drop(world.page(ListKind::Prompts, &[("hello", "a")], false, false));
    let prompt = FromClient::Prompt {
        name: "hello".into(),
        arguments: None,
    };
    let judgement = world.say(Content::Client(prompt));
    assert_eq!(blocked_by(&judgement), rule);
    assert_eq!(told(&judgement), [event]);
}

#[test_case("completion/complete", Some("completion"); "completion")]
#[test_case("tools/list", None; "another request")]
fn completions_are_handled(method: &str, rule: Option<&str>) {
    let mut policy = policy();
    policy.requests.completion = Handling::Block;
    let mut world = World::new(policy);
    let request = FromClient::Request {
        method: method.into(),
        params: None,
    };
    assert_eq!(blocked_by(&world.say(Content::Client(request))), rule);
}

#[test]
fn a_resource_that_changed_cannot_be_read() {
    let mut world = World::new(policy());
    let read = || {
        Content::Client(FromClient::Read {
            uri: "file:///a".into(),
        })
    };
    drop(world.page(ListKind::Resources, &[("file:///a", "a")], false, false));
    assert_eq!(told(&world.say(read())), ["mcp_resource_read allow"]);
    drop(world.page(ListKind::Resources, &[("file:///a", "b")], false, false));
    assert_eq!(blocked_by(&world.say(read())), Some("version_pin"));
    let other = FromClient::Read {
        uri: "file:///other".into(),
    };
    assert_eq!(blocked_by(&world.say(Content::Client(other))), None);
}
