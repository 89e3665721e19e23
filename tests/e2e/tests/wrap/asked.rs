//! Calls that wait for a person, in the user's own store.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    json::text,
    program::{self, Run},
    servers::ToolServer,
    wait,
    wrapped::{Home, Wrapped},
};
use serde_json::{Value, json};

const POLICY: &str = "version: 1\nmcp:\n  approvals: {timeout: 25s}\n  rules:\n    - {id: ask-pay, match: {tool_name: pay}, decision: ASK, reason: it is dear}\n";

/// A wrapped server whose tool `pay` is asked about, and its store.
struct Asking {
    home: Home,
    wrapped: Wrapped,
    server: String,
}

impl Asking {
    fn start(policy: &str) -> Result<Self> {
        let home = Home::new()?;
        home.configure(policy)?;
        let server = ToolServer::write(&home.path(""))?;
        server.offer(&[("pay", "Pays a bill."), ("show", "Shows a bill.")])?;
        let words = server.words();
        let mut asking = Self {
            wrapped: home.start(&[&words[0], &words[1]])?,
            server: server.name,
            home,
        };
        asking.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))?;
        asking.heard()?;
        Ok(asking)
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        self.wrapped.send(&message.to_string())
    }

    fn call(&mut self, id: u32, tool: &str, arguments: &Value) -> Result<()> {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}))
    }

    fn heard(&mut self) -> Result<Value> {
        let line = self.wrapped.line()?;
        serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))
    }

    fn run(&self, arguments: &[&str]) -> Result<Run> {
        let store = self.home.path("store.db").display().to_string();
        program::run(arguments.iter().copied().chain(["--db", &store]))
    }

    /// The calls that wait, once there are this many.
    fn waiting(&self, count: usize) -> Result<Vec<Value>> {
        wait::until("held calls", || {
            let list = self
                .run(&["approvals", "list", "--pending", "--json"])?
                .objects()?;
            let calls: Vec<Value> = list
                .into_iter()
                .map(|mut event| event["waiting"].take())
                .collect();
            Ok((calls.len() == count && calls.iter().all(Value::is_object)).then_some(calls))
        })
    }

    /// The states of approvals that were recorded, once this is the last one.
    fn states(&self, last: &str) -> Result<Vec<String>> {
        wait::until(last, || {
            let events = self
                .run(&["events", "--type", "mcp_approval", "--json"])?
                .objects()?;
            let states: Vec<String> = events
                .iter()
                .map(|event| text(event, "state").to_owned())
                .collect();
            Ok((states.last().is_some_and(|state| state == last)).then_some(states))
        })
    }
}

fn refusal(answer: &Value) -> &str {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default()
}

#[test]
fn a_call_waits_for_a_person_and_goes_on() -> Result<()> {
    let mut asking = Asking::start(POLICY)?;
    asking.call(2, "pay", &json!({"to": "ann\n\u{202e}bob", "amount": 7}))?;
    let held = asking.waiting(1)?.remove(0);
    assert_eq!(
        text(&held, "arguments"),
        "{\"amount\":7,\"to\":\"ann\\n\u{202e}bob\"}"
    );
    assert_eq!(
        (text(&held, "tool_name"), text(&held, "rule")),
        ("pay", "ask-pay")
    );
    assert_eq!(text(&held, "server_id"), asking.server);
    let id = text(&held, "id");
    let shown = asking.run(&["approvals", "show", &id[..6]])?;
    assert!(
        shown.stdout.contains(r#""to": "ann\n\u202ebob""#) && shown.stdout.contains("it is dear"),
        "{shown:?}"
    );
    asking.call(3, "show", &json!({}))?;
    assert_eq!(asking.heard()?["id"], 3, "another call does not wait");
    let allowed = asking.run(&["approvals", "allow", id])?;
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    let answer = asking.heard()?;
    assert_eq!(answer["result"]["content"][0]["text"], "called pay", "{answer}");
    assert_eq!(asking.states("granted")?, ["requested", "granted"]);
    let again = asking.run(&["approvals", "deny", id])?;
    assert_eq!(again.code, Some(1), "it is over: {again:?}");
    let calls = wait::until("the call", || {
        let calls = asking
            .run(&["events", "--type", "mcp_tool_call_intercepted", "--json"])?
            .objects()?;
        Ok((!calls.is_empty()).then_some(calls))
    })?;
    assert_eq!(
        (text(&calls[0], "action"), text(&calls[0], "rule")),
        ("audit", "ask-pay")
    );
    assert!(text(&calls[0], "reason").contains("allowed by user"), "{calls:?}");
    Ok(())
}

#[test]
fn a_denied_call_says_who_and_why() -> Result<()> {
    let mut asking = Asking::start(POLICY)?;
    asking.call(2, "pay", &json!({}))?;
    let held = asking.waiting(1)?.remove(0);
    let denied = asking.run(&["approvals", "deny", text(&held, "id")])?;
    assert_eq!(denied.code, Some(0), "{denied:?}");
    let answer = asking.heard()?;
    let said = refusal(&answer);
    for part in ["it is dear", "denied by user", "rule ask-pay", "mcpmon explain"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert_eq!(asking.states("denied")?, ["requested", "denied"]);
    Ok(())
}

#[test]
fn silence_denies() -> Result<()> {
    let mut asking = Asking::start(&POLICY.replace("25s", "2s"))?;
    asking.call(2, "pay", &json!({}))?;
    let answer = asking.heard()?;
    assert!(
        refusal(&answer).contains("no person answered in time"),
        "{answer}"
    );
    assert_eq!(asking.states("timed_out")?, ["requested", "timed_out"]);
    Ok(())
}

#[test]
fn a_call_that_is_taken_back_is_answered_by_nobody() -> Result<()> {
    let mut asking = Asking::start(POLICY)?;
    asking.call(2, "pay", &json!({}))?;
    let held = asking.waiting(1)?.remove(0);
    asking
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}))?;
    assert_eq!(asking.states("withdrawn")?, ["requested", "withdrawn"]);
    assert_eq!(asking.waiting(0)?, [] as [Value; 0]);
    let late = asking.run(&["approvals", "allow", text(&held, "id")])?;
    assert_eq!(late.code, Some(1), "{late:?}");
    asking.call(3, "show", &json!({}))?;
    assert_eq!(asking.heard()?["id"], 3, "nothing else was said");
    Ok(())
}

#[test]
fn two_calls_are_answered_each_for_itself_and_a_session_for_all() -> Result<()> {
    let mut asking = Asking::start(POLICY)?;
    asking.call(2, "pay", &json!({"amount": 1}))?;
    asking.call(3, "pay", &json!({"amount": 2}))?;
    let held = asking.waiting(2)?;
    let of = |amount: &str| -> Result<String> {
        let call = held.iter().find(|call| text(call, "arguments").contains(amount));
        Ok(text(call.context("a call")?, "id").to_owned())
    };
    assert_eq!(asking.run(&["approvals", "deny", &of("2")?])?.code, Some(0));
    let answer = asking.heard()?;
    assert_eq!(answer["id"], 3, "{answer}");
    refusal(&answer);
    assert_eq!(
        asking.run(&["approvals", "allow", &of("1")?, "--session"])?.code,
        Some(0)
    );
    assert_eq!(asking.heard()?["id"], 2);
    asking.call(4, "pay", &json!({"amount": 9}))?;
    let answer = asking.heard()?;
    assert_eq!(answer["result"]["content"][0]["text"], "called pay", "{answer}");
    Ok(())
}

#[test]
fn a_rule_answers_from_then_on() -> Result<()> {
    let mut asking = Asking::start(POLICY)?;
    asking.call(2, "pay", &json!({}))?;
    let held = asking.waiting(1)?.remove(0);
    let path = asking
        .home
        .path("config/mcpmon/mcpmon.yaml")
        .display()
        .to_string();
    let allowed = asking.run(&[
        "approvals",
        "allow",
        text(&held, "id"),
        "--rule",
        "--config",
        &path,
    ])?;
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    assert_eq!(asking.heard()?["id"], 2);
    let written = fs::read_to_string(Path::new(&path))?;
    assert!(
        written.contains("decision: ALLOW") && written.contains("id: ask-pay"),
        "{written}"
    );
    wait::until("the rule", || {
        let policy = asking
            .run(&["events", "--type", "policy_loaded", "--json"])?
            .objects()?;
        Ok((!policy.is_empty()).then_some(()))
    })?;
    asking.call(3, "pay", &json!({}))?;
    let answer = asking.heard()?;
    assert_eq!(answer["result"]["content"][0]["text"], "called pay", "{answer}");
    Ok(())
}

#[test]
fn who_wants_to_hear_of_progress_does() -> Result<()> {
    let mut asking = Asking::start(POLICY)?;
    asking.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "pay", "arguments": {}, "_meta": {"progressToken": 17}}}))?;
    let progress = asking.heard()?;
    assert_eq!(progress["method"], "notifications/progress", "{progress}");
    assert_eq!(progress["params"]["progressToken"], 17);
    let held = asking.waiting(1)?.remove(0);
    assert!(
        progress["params"]["message"]
            .as_str()
            .is_some_and(|said| said.contains(text(&held, "id"))),
        "{progress}"
    );
    Ok(())
}

#[test]
fn answers_to_nothing_are_refused() -> Result<()> {
    let asking = Asking::start(POLICY)?;
    for (arguments, code, part) in [
        (
            &["approvals", "allow", "abcdef"][..],
            1,
            "no call waits with the id abcdef",
        ),
        (&["approvals", "show", "abcdef"], 1, "no call waits"),
        (
            &["approvals", "allow", "pay"],
            2,
            "neither the id of a held call nor SERVER:TOOL",
        ),
        (&["approvals", "deny", ""], 2, "neither the id"),
        (
            &["approvals", "allow", "x:pay", "--session"],
            2,
            "is a definition",
        ),
        (
            &["approvals", "allow", "abcdef", "--session", "--once"],
            2,
            "cannot be used with",
        ),
    ] {
        let run = asking.run(arguments)?;
        assert_eq!(run.code, Some(code), "{arguments:?}: {run:?}");
        assert!(run.stderr.contains(part), "{part} in {run:?}");
    }
    Ok(())
}
