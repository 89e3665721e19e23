//! Protected files in messages, and the paths that are looked up for them.

use mcpmon_detect::protected_paths::{Places, RealPath};
use test_case::test_case;

use super::*;
use crate::file_lookups;

fn call<'a>(tool: &'a str, arguments: &'a str) -> Content<'a> {
    Content::Client(FromClient::Call(Call {
        tool: tool.into(),
        arguments: Some(RawJson::trusted(arguments)),
        resumes: None,
    }))
}

fn world(policy: Policy) -> World {
    let mut world = World::new(policy);
    drop(world.tools(&[("write_file", "a"), ("read_file", "b")]));
    world
}

const WRITE: &str = r#"{"path":"~/.bashrc","content":"x"}"#;
const NOTES: &str = r#"{"path":"notes.md","content":"x"}"#;

#[test]
fn a_protected_file_is_not_written() {
    let judgement = world(policy()).say(call("write_file", WRITE));
    assert_eq!(blocked_by(&judgement), Some("protected_file"));
    assert_eq!(
        told(&judgement),
        ["mcp_tool_call_intercepted block protected_file"]
    );
    let judgement = world(observing(policy())).say(call("write_file", WRITE));
    assert!(lets_everything_through(&judgement));
}

#[test]
fn secrets_that_are_read_are_told() {
    let judgement = world(policy()).say(call("read_file", r#"{"path":"~/.aws/credentials"}"#));
    assert_eq!(judgement.verdict, Verdict::Allow);
    let intercepted = "mcp_tool_call_intercepted audit credential_file";
    assert!(
        told(&judgement).iter().any(|told| told == intercepted),
        "{judgement:?}"
    );
}

#[test]
fn what_was_looked_up_counts_for_one_message() {
    let mut world = world(policy());
    let real = || {
        vec![RealPath {
            given: "notes.md".to_owned(),
            real: "/data/me/.bashrc".to_owned(),
        }]
    };
    let write = || call("write_file", NOTES);
    assert_eq!(blocked_by(&world.say_with_paths(write(), real())), None);
    world
        .monitor
        .know_places(Places::default().with_alias("/data/me", &[]));
    assert_eq!(
        blocked_by(&world.say_with_paths(write(), real())),
        Some("protected_file")
    );
    assert_eq!(blocked_by(&world.say(write())), None);
}

#[test_case(&call("write_file", NOTES) => 1; "what is written")]
#[test_case(&call("read_file", r#"{"path":"notes.md"}"#) => 0; "what is read")]
#[test_case(&Content::Client(FromClient::Read { uri: "file:///x".into() }) => 1; "a resource in a file")]
#[test_case(&Content::Client(FromClient::Read { uri: "https://x".into() }) => 0; "another resource")]
#[test_case(&Content::Client(FromClient::Notice { method: "x".into(), params: None }) => 0; "a notification")]
fn messages_with_paths(content: &Content<'_>) -> usize {
    let message = Message {
        era: Era::Handshake,
        id: None,
        trace: Trace::default(),
        size: 0,
        content: content.clone(),
    };
    file_lookups(&message).len()
}
