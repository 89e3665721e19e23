//! Lists and rules of the configuration, through the front door.

use mcpmon_detect::protected_paths::RealPath;
use mcpmon_model::{EventKind, Kill, Kills};
use mcpmon_policy::{
    Handling,
    rules::{ArgumentPath, CallRule, PathGlob, ResourceRule, SpellingGlob, ToolMatch, UriGlob},
};
use test_case::test_case;

use super::*;
use crate::Opinion;

fn rule(id: &str, decision: Decision, tool: &str) -> CallRule {
    CallRule {
        id: id.to_owned(),
        tool: ToolMatch {
            name: Some(SpellingGlob::new(tool)),
            ..ToolMatch::default()
        },
        server: None,
        arguments: Vec::new(),
        decision,
        reason: "because".to_owned(),
    }
}

fn with_rules(rules: Vec<CallRule>) -> World {
    let mut policy = policy();
    policy.rules.calls = rules;
    World::new(policy)
}

#[test]
fn a_rule_that_blocks_is_told_by_its_id_and_hides_the_tool() {
    let mut world = with_rules(vec![rule("no-read", Decision::Block, "read")]);
    let listed = world.tools(&[("read", "a"), ("write", "a")]);
    assert_eq!(listed.verdict, Verdict::Hide(vec![0]));
    let call = world.call("read");
    assert_eq!(told(&call), ["mcp_tool_call_intercepted block no-read"]);
    let Verdict::Block(denial) = call.verdict else {
        panic!("it is blocked");
    };
    assert_eq!(
        denial.reason,
        "tool read of files matches the rule no-read: because"
    );
    assert_eq!(denial.remedy.as_deref(), Some("mcpmon policy explain no-read"));
    assert_eq!(told(&world.call("write")), ["mcp_tool_called allow"]);
}

#[test]
fn a_tool_that_can_be_called_with_other_arguments_is_listed() {
    let mut block = rule("no-tmp", Decision::Block, "read");
    let path = ArgumentPath::new("path").expect("a way");
    block.arguments = vec![(path, PathGlob::new("/tmp").expect("a glob"))];
    let mut world = with_rules(vec![block]);
    assert_eq!(world.tools(&[("read", "a")]).verdict, Verdict::Allow);
    assert_eq!(blocked_by(&world.call("read")), Some("no-tmp"));
}

#[test]
fn nothing_allows_what_is_blocked() {
    let mut policy = policy();
    policy.rules.blocked_tools = vec![SpellingGlob::new("read")];
    policy.rules.calls = vec![rule("let", Decision::Allow, "*")];
    let mut world = World::new(policy.clone());
    drop(world.tools(&[("read", "a")]));
    assert_eq!(blocked_by(&world.call("read")), Some("blocked_tools"));
    let mut world = World::new(observing(policy));
    assert_eq!(world.tools(&[("read", "a")]).verdict, Verdict::Allow);
    let call = world.call("read");
    assert!(lets_everything_through(&call));
    assert_eq!(
        told(&call),
        [
            "mcp_tool_call_intercepted would_block blocked_tools",
            "mcp_tool_called would_block blocked_tools"
        ]
    );
}

#[test]
fn the_most_restrictive_of_several_rules_wins() {
    let mut world = with_rules(vec![
        rule("let", Decision::Allow, "*"),
        rule("note", Decision::Audit, "r*"),
        rule("stop", Decision::Block, "rea*"),
    ]);
    drop(world.tools(&[("run", "a")]));
    assert_eq!(blocked_by(&world.call("read")), Some("stop"));
    assert_eq!(
        told(&world.call("run"))[0],
        "mcp_tool_call_intercepted audit note"
    );
}

#[test_case(Decision::Allow, &["mcp_tool_called allow"]; "allow")]
#[test_case(Decision::Audit, &["mcp_tool_called audit defaults"]; "audit")]
#[test_case(Decision::Block, &["mcp_tool_call_intercepted block defaults"]; "block")]
fn calls_that_no_rule_names(default: Decision, expected: &[&str]) {
    let mut policy = policy();
    policy.rules.default = default;
    let mut world = World::new(policy);
    let listed = world.tools(&[("read", "a")]);
    assert_eq!(listed.verdict != Verdict::Allow, default == Decision::Block);
    assert_eq!(told(&world.call("read")), expected);
    let read = FromClient::Read { uri: "u:a".into() };
    let read = world.say(Content::Client(read));
    assert_eq!(blocked_by(&read).is_some(), default == Decision::Block);
}

fn without_secrets() -> World {
    let mut policy = policy();
    policy.rules.blocked_resources = vec![UriGlob::new("secret://*")];
    policy.rules.resources = vec![ResourceRule {
        id: "no-database".to_owned(),
        uri: None,
        regex: None,
        scheme: Some("postgres".to_owned()),
        decision: Decision::Block,
        reason: String::new(),
    }];
    World::new(policy)
}

#[test_case("secret://a" => Some("blocked_resources".to_owned()); "blocked")]
#[test_case("POSTGRES://db" => Some("no-database".to_owned()); "by a rule")]
#[test_case("file:///a" => None; "another one")]
fn resources_are_judged(uri: &str) -> Option<String> {
    let mut world = without_secrets();
    let listed = world.page(ListKind::Resources, &[(uri, "a")], false, false);
    let read = world.say(Content::Client(FromClient::Read { uri: uri.into() }));
    assert_eq!(listed.verdict != Verdict::Allow, blocked_by(&read).is_some());
    blocked_by(&read).map(str::to_owned)
}

#[test_case(r#"{"notifications":{"resourceSubscriptions":["file:///a"]}}"# => None; "others")]
#[test_case(r#"{"notifications":{"resourceSubscriptions":["file:///a","secret://b"]}}"# => Some("blocked_resources".to_owned()); "one of several")]
#[test_case(r#"{"notifications":{"ResourceSubscriptions":["secret://b"]}}"# => Some("blocked_resources".to_owned()); "in another case")]
#[test_case(r#"{"notifications":{"toolsListChanged":true}}"# => None; "lists")]
#[test_case(r#"{"_meta":{"resourceSubscriptions":["secret://b"]}}"# => None; "elsewhere")]
fn subscriptions_are_judged(params: &str) -> Option<String> {
    let mut world = without_secrets();
    let listen = FromClient::Request {
        method: "subscriptions/listen".into(),
        params: Some(RawJson::trusted(params)),
    };
    let judgement = world.say(Content::Client(listen));
    if blocked_by(&judgement).is_some() {
        let EventKind::RequestJudged { method, .. } = &judgement.events[0].kind else {
            panic!("a request is told");
        };
        assert_eq!(method, "subscriptions/listen");
    }
    blocked_by(&judgement).map(str::to_owned)
}

#[test]
fn no_more_subscriptions_at_once_than_are_judged() {
    let mut policy = policy();
    policy.limits.max_tools = 2;
    let mut world = World::new(policy);
    let mut listen = |uris: &str| {
        let params = format!(r#"{{"notifications":{{"resourceSubscriptions":[{uris}]}}}}"#);
        let request = FromClient::Request {
            method: "subscriptions/listen".into(),
            params: Some(RawJson::trusted(&params)),
        };
        blocked_by(&world.say(Content::Client(request))).map(str::to_owned)
    };
    assert_eq!(listen(r#""u:a","u:b""#), None);
    assert_eq!(listen(r#""u:a","u:b","u:c""#).as_deref(), Some("max_tools"));
}

#[test_case(r#"{"ref":{"type":"ref/resource","uri":"secret://{id}"}}"# => Some("blocked_resources".to_owned()); "a template")]
#[test_case(r#"{"ref":{"type":"ref/resource","uri":"file:///{id}"}}"# => None; "another template")]
#[test_case(r#"{"ref":{"type":"ref/prompt","name":"hello"}}"# => Some("version_pin".to_owned()); "a prompt that changed")]
#[test_case(r#"{"ref":{"type":"ref/prompt","name":"other"}}"# => None; "another prompt")]
fn completions_are_judged_by_what_they_are_for(params: &str) -> Option<String> {
    let mut world = without_secrets();
    drop(world.page(ListKind::Prompts, &[("hello", "a")], false, false));
    drop(world.page(ListKind::Prompts, &[("hello", "b")], false, false));
    let completion = FromClient::Request {
        method: "completion/complete".into(),
        params: Some(RawJson::trusted(params)),
    };
    let judgement = world.say(Content::Client(completion));
    blocked_by(&judgement).map(str::to_owned)
}

#[test]
fn what_a_result_asks_for_is_judged_like_a_request() {
    let mut policy = policy();
    policy.requests.sampling = Handling::Block;
    let mut world = World::new(policy);
    let result = r#"{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":{}}}}"#;
    let question = ClientRequestKind::Call {
        tool: Some("read".into()),
    };
    let judgement = world.result(question, result, ResultKind::InputRequired);
    assert_eq!(blocked_by(&judgement), Some("sampling"));
}

fn opinions(opinions: &[Opinion]) -> Vec<String> {
    let shown = |opinion: &Opinion| {
        let mark = if opinion.decides { "*" } else { "" };
        format!("{mark}{} {:?}", opinion.rule, opinion.decision)
    };
    opinions.iter().map(shown).collect()
}

#[test]
fn every_rule_is_asked_why() {
    let mut policy = policy();
    policy.rules.default = Decision::Block;
    policy.rules.blocked_tools = vec![SpellingGlob::new("run*")];
    policy.rules.calls = vec![
        rule("let", Decision::Allow, "r*"),
        rule("note", Decision::Audit, "*"),
        rule("stop", Decision::Block, "run*"),
    ];
    let mut world = World::new(policy);
    drop(world.tools(&[("read", "a"), ("run", "a")]));
    let mut explain = |tool: &str| {
        let call = Call {
            tool: tool.to_owned().into(),
            arguments: None,
            resumes: None,
        };
        let said = world
            .monitor
            .explain(world.now, &world.conversation, &call, Vec::new());
        opinions(&said)
    };
    assert_eq!(
        explain("run"),
        ["*blocked_tools Block", "note Audit", "stop Block", "let Allow"]
    );
    assert_eq!(explain("read"), ["note Audit", "*let Allow"]);
    assert_eq!(explain("other"), ["*unknown_tool Audit", "note Audit"]);
}

#[test]
fn what_no_rule_names_is_explained_by_the_default() {
    let explain = |default| {
        let mut policy = policy();
        policy.rules.default = default;
        let mut world = World::new(policy);
        let said = world
            .monitor
            .explain_read(world.now, &world.conversation, "u:a", Vec::new());
        opinions(&said)
    };
    assert_eq!(explain(Decision::Allow), ["*defaults Allow"]);
    assert_eq!(explain(Decision::Audit), ["*defaults Audit"]);
    assert_eq!(explain(Decision::Block), ["*defaults Block"]);
}

#[test]
fn the_kill_switch_and_files_that_were_looked_up_are_part_of_why() {
    let mut world = World::new(policy());
    drop(world.tools(&[("write_file", "a")]));
    let call = Call {
        tool: "write_file".into(),
        arguments: Some(RawJson::trusted(r#"{"path":"notes.md","content":"x"}"#)),
        resumes: None,
    };
    let explain_with = |world: &mut World, real_paths| {
        let said = world
            .monitor
            .explain(world.now, &world.conversation, &call, real_paths);
        opinions(&said)
    };
    let explain = |world: &mut World| explain_with(world, Vec::new());
    assert_eq!(explain(&mut world), ["*defaults Allow"]);
    let link = RealPath {
        given: "notes.md".to_owned(),
        real: "/home/me/.bashrc".to_owned(),
    };
    assert_eq!(
        explain_with(&mut world, vec![link]),
        ["*protected_file Block", "defaults Allow"]
    );
    assert_eq!(
        explain(&mut world),
        ["*defaults Allow"],
        "it counted for one call"
    );
    drop(world.monitor.stop(Kills {
        host: Some(Kill {
            by: "ann".to_owned(),
            at: world.now,
        }),
        ..Kills::default()
    }));
    assert_eq!(explain(&mut world), ["*kill_switch Block", "defaults Allow"]);
}
