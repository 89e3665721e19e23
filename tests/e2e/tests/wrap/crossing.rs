//! Data read from one server and sent to another: two wrappers of one session over one store.

use std::{process::Command, thread};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    json::text,
    program, wait,
    wrapped::{Home, Wrapped},
};
use serde_json::{Value, json};

/// A text that is found again in part. No part of it may be in a record of the rule.
const RECORD: &str = "Maria Lindqvist, born 4 May 1971, account DE09 1204 0000 0532 0130 17, owes 14,210.55 \
                      after the transfer that was booked on 2 March";

/// A server that answers every request with a text, which is its argument.
const SERVER: &str = r#"while read -r line; do echo "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"$0\"}]}}"; done"#;

fn wrap(home: &Home, server: &str, says: &str) -> Result<Wrapped> {
    let mut command: Command = home.wrap(&["--server", server], &["sh", "-c", SERVER, says])?;
    // A session name in the environment of one server does not take it out of the wrappers' session.
    Wrapped::start(command.env("MCPMON_SESSION", format!("of-{server}")))
}

/// Returns the client's answer to a call.
fn call(wrapped: &mut Wrapped, tool: &str, arguments: &Value) -> Result<Value> {
    let params = json!({"name": tool, "arguments": arguments});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    wrapped.send(&request.to_string())?;
    Ok(serde_json::from_str(&wrapped.line()?)?)
}

fn events(home: &Home, kind: &str) -> Result<Vec<Value>> {
    let store = home.path("store.db").display().to_string();
    program::run(["events", "--json", "--type", kind, "--db", &store])?.objects()
}

#[test]
fn what_one_server_read_another_does_not_send() -> Result<()> {
    let home = Home::new()?;
    let mut files = wrap(&home, "files", RECORD)?;
    let mut mail = wrap(&home, "mail", "sent")?;
    // A server that answers has joined the session.
    for wrapped in [&mut files, &mut mail] {
        wrapped.send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)?;
        wrapped.line()?;
    }

    let read = call(&mut files, "read_file", &json!({"path": "clients.txt"}))?;
    assert!(read.to_string().contains("Lindqvist"), "{read}");
    let harmless = call(&mut mail, "send_email", &json!({"body": "I have read the file."}))?;
    assert!(harmless["result"]["isError"].is_null(), "{harmless}");
    // The result is inspected while no client waits. Until that is done, which is sooner than a model could answer, its
    // content is not known.
    let body = json!({"body": format!("For you: {}", RECORD.to_uppercase())});
    let refused = wait::until("a refusal", || {
        let answer = call(&mut mail, "send_email", &body)?;
        Ok(answer.to_string().contains("read_then_send").then_some(answer))
    })?;
    assert!(!refused.to_string().contains("sent\""), "{refused}");

    assert_eq!(files.finish()?.0, 0);
    assert_eq!(mail.finish()?.0, 0);
    let told = events(&home, "mcp_cross_server_blocked")?;
    let session = text(told.first().context("it is told")?, "session_id").to_owned();
    assert!(session.starts_with("of-mail-"), "{session}");
    let blocked: Vec<&Value> = told.iter().filter(|event| event["action"] == "block").collect();
    let rules: Vec<&str> = blocked.iter().map(|event| text(event, "rule")).collect();
    assert!(rules.contains(&"read_then_send"), "{rules:?}");
    for event in &told {
        assert_eq!(text(event, "server_id"), "mail");
        assert_eq!(text(event, "session_id"), session);
        let all = event.to_string();
        assert!(
            !all.to_lowercase().contains("lindqvist") && !all.contains("0532"),
            "{all}"
        );
        let at = text(&event["related_calls"][0], "timestamp");
        assert!(at.ends_with('Z') && at.contains('T'), "{at}");
    }
    let evidence = &blocked.first().context("one was blocked")?["evidence"][0];
    assert_eq!(
        (text(evidence, "kind"), text(evidence, "server_id")),
        ("overlap", "files")
    );
    Ok(())
}

/// Six clients start the same server and call at once, also just after a second server joined.
#[test]
fn wrappers_of_one_server_hold_one_rate() -> Result<()> {
    const CALLS: usize = 3;
    for other_is_there in [false, true, true] {
        let home = Home::new()?;
        home.configure(
            "version: 1\nmcp: {rate_limits: {per_server: {one: {calls_per_minute: 1, burst: 5}}}}\n",
        )?;
        let mut wrapped = (0..6)
            .map(|_| wrap(&home, "one", "done"))
            .collect::<Result<Vec<_>>>()?;
        for each in &mut wrapped {
            each.send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)?;
            each.line()?;
        }
        let other = other_is_there.then(|| wrap(&home, "other", "done")).transpose()?;
        let passed: Result<Vec<usize>> = thread::scope(|scope| {
            let callers: Vec<_> = wrapped
                .iter_mut()
                .map(|each| {
                    scope.spawn(|| {
                        let answers = (0..CALLS).map(|_| call(each, "act", &json!({})));
                        let answers = answers.collect::<Result<Vec<_>>>()?;
                        Ok(answers
                            .iter()
                            .filter(|answer| answer["result"]["isError"].is_null())
                            .count())
                    })
                })
                .collect();
            callers
                .into_iter()
                .map(|caller| {
                    caller
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        });
        assert_eq!(
            passed?.iter().sum::<usize>(),
            5,
            "a second server: {other_is_there}"
        );
        drop(other);
    }
    Ok(())
}
