//! Properties of every policy and every call.

use mcpmon_model::NameGlob;
use mcpmon_policy::{
    ServerPolicy,
    rules::{
        ArgumentPath, CallRule, PathGlob, Rules, SpellingGlob, ToolEntry, ToolMatch, ToolPolicy, ValueLimit,
    },
};
use proptest::prelude::*;

use super::*;

const GLOBS: [&str; 5] = ["*", "read*", "send", "wr?te", "mail"];
const TOOLS: [&str; 4] = ["read", "write", "read.all", "send"];
const PATHS: [&str; 5] = ["/srv/a", "/etc/shadow", "~/.bashrc", "/srv/../etc/x", "x"];

fn glob() -> impl Strategy<Value = SpellingGlob> {
    prop::sample::select(&GLOBS[..]).prop_map(SpellingGlob::new)
}

fn rules() -> impl Strategy<Value = Rules> {
    let decision = prop_oneof![
        Just(Decision::Allow),
        Just(Decision::Audit),
        Just(Decision::Block)
    ];
    let condition = prop::sample::select(&["/srv/**", "/etc/**"][..]).prop_map(|glob| {
        let path = ArgumentPath::new("path").expect("a way");
        (path, PathGlob::new(glob).expect("a glob"))
    });
    let call = (glob(), prop::collection::vec(condition, 0..2), decision.clone()).prop_map(
        |(name, arguments, decision)| CallRule {
            id: "rule".to_owned(),
            tool: ToolMatch {
                name: Some(name),
                ..ToolMatch::default()
            },
            server: None,
            arguments,
            decision,
            reason: String::new(),
        },
    );
    let limit = glob().prop_map(|name| ValueLimit {
        id: "limit".to_owned(),
        tool: ToolMatch {
            name: Some(name),
            ..ToolMatch::default()
        },
        argument: ArgumentPath::new("amount").expect("a way"),
        min: None,
        max: Some(10_i128.into()),
        decision: Decision::Block,
        reason: String::new(),
    });
    let entry = || {
        glob().prop_map(|tool| ToolEntry {
            server: SpellingGlob::new("*"),
            tool,
            content_hash: None,
        })
    };
    let tools = prop_oneof![
        Just(ToolPolicy::None),
        prop::collection::vec(entry(), 0..3).prop_map(ToolPolicy::Allowlist),
        prop::collection::vec(entry(), 0..3).prop_map(ToolPolicy::Denylist),
    ];
    let blocked = prop::collection::vec(
        prop::sample::select(&GLOBS[1..]).prop_map(SpellingGlob::new),
        0..2,
    );
    (
        tools,
        decision,
        blocked,
        prop::collection::vec(call, 0..3),
        prop::collection::vec(limit, 0..2),
    )
        .prop_map(|(tools, default, blocked_tools, calls, limits)| Rules {
            tools,
            default,
            blocked_tools,
            calls,
            limits,
            ..Rules::default()
        })
}

fn policies() -> impl Strategy<Value = Policy> {
    let servers = prop_oneof![
        Just(ServerPolicy::None),
        prop::sample::select(&["files", "fi*", "mail"][..])
            .prop_map(|glob| ServerPolicy::Denylist(vec![NameGlob::new(glob)])),
    ];
    (rules(), servers, any::<bool>()).prop_map(|(rules, server_policy, fail_closed)| Policy {
        rules,
        server_policy,
        fail_closed,
        ..policy()
    })
}

fn arguments() -> impl Strategy<Value = String> {
    (prop::sample::select(&PATHS[..]), 0..20_u8)
        .prop_map(|(path, amount)| format!(r#"{{"path":"{path}","content":"x","amount":{amount}}}"#))
}

/// The names that models can use for a tool of `files`.
fn visible() -> impl Strategy<Value = fn(&str) -> String> {
    prop::sample::select(
        &[
            (|tool| format!("mcp__files__{}", tool.replace('.', "_"))) as fn(&str) -> String,
            |tool| format!("mcp_files_{tool}"),
            |tool| format!("files__{tool}"),
            |tool| format!("files0mcp0{tool}"),
            |tool| tool.to_owned(),
        ][..],
    )
}

proptest! {
    #[test]
    fn what_a_pipe_refuses_no_model_may_want(
        policy in policies(),
        tool in prop::sample::select(&TOOLS[..]),
        visible in visible(),
        arguments in arguments(),
    ) {
        let mut world = World::new(policy);
        let listed = TOOLS.map(|tool| (tool, "Handles one file"));
        drop(world.tools(&listed));
        let call = Call {
            tool: tool.into(),
            arguments: Some(RawJson::trusted(&arguments)),
            resumes: None,
        };
        let wanted = world.wants(&visible(tool), &arguments);
        let called = world.say(Content::Client(FromClient::Call(call)));
        if let Some(rule) = blocked_by(&called) {
            prop_assert!(blocked_by(&wanted).is_some(), "the pipe refuses by {rule}, the model may want it");
        }
    }

    #[test]
    fn any_words_are_judged(name in "(mcp_{1,2})?[a-z_.:-]{0,20}|.{0,30}", text in ".{0,60}", fail_closed in any::<bool>()) {
        let mut world = World::new(Policy { fail_closed, ..policy() });
        drop(world.tools(&[("read", "Handles one file")]));
        for input in [Input::Text(text.as_str().into()), Input::Malformed(text.as_str().into())] {
            let judgement = world.spoken(None, &LlmMention::Call(intent(&name, input)));
            let is_told = judgement.events.iter().any(|event| event.action == Action::Block);
            prop_assert_eq!(blocked_by(&judgement).is_some(), is_told);
        }
    }
}
