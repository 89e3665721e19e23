//! Hooks that a client asks before it runs a built-in tool.

use std::{
    fs,
    io::Write as _,
    process::{Command, Output, Stdio},
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{program, wrapped::Home};
use test_case::test_case;

const WRITES_BASHRC: &str = r#"{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"file_path":"/home/me/.bashrc","content":"x"},"tool_use_id":"t1"}"#;
const READS_A_NOTE: &str = r#"{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Read","tool_input":{"file_path":"/home/me/notes.txt"}}"#;

/// Runs `mcpmon hook CLIENT` with this standard input.
fn hook(home: &Home, client: &str, input: &str) -> Result<Output> {
    let mut hook = Command::new(program::path()?);
    hook.args(["hook", client, "--socket"])
        .arg(home.path("no-daemon"));
    hook.arg("--db").arg(home.path("store.db"));
    hook.env("XDG_CONFIG_HOME", home.path("config"))
        .env_remove("MCPMON_CONFIG");
    let mut hook = hook
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    hook.stdin.take().context("a pipe")?.write_all(input.as_bytes())?;
    Ok(hook.wait_with_output()?)
}

fn events(home: &Home) -> Result<Vec<serde_json::Value>> {
    let store = home.path("store.db").display().to_string();
    program::run([
        "events",
        "--json",
        "--type",
        "mcp_tool_call_intercepted",
        "--db",
        &store,
    ])?
    .objects()
}

#[test]
fn a_protected_file_is_not_written() -> Result<()> {
    let home = Home::new()?;
    home.configure("version: 1\n")?;
    let answer = hook(&home, "claude-code", WRITES_BASHRC)?;
    let errors = String::from_utf8(answer.stderr)?;
    assert_eq!(answer.status.code(), Some(2), "{errors}");
    assert!(answer.stdout.is_empty());
    let recorded = events(&home)?;
    let [event] = recorded.as_slice() else {
        panic!("one event: {recorded:?}");
    };
    assert_eq!(
        (
            &event["layer"],
            &event["server_id"],
            &event["action"],
            &event["rule"],
            &event["tool_call_id"]
        ),
        (
            &"hook".into(),
            &"claude-code".into(),
            &"block".into(),
            &"protected_file".into(),
            &"t1".into()
        ),
        "{event}"
    );
    let id = event["id"].as_str().context("an id")?;
    assert!(
        errors.contains("writes ~/.bashrc") && errors.contains(&format!("mcpmon explain {id}")),
        "{errors}"
    );
    Ok(())
}

#[test]
fn a_policy_that_observes_stops_nothing() -> Result<()> {
    let home = Home::new()?;
    home.configure("version: 1\nmode: observe\n")?;
    let answer = hook(&home, "claude-code", WRITES_BASHRC)?;
    assert_eq!(answer.status.code(), Some(0));
    assert_eq!(events(&home)?[0]["action"], "would_block");
    Ok(())
}

#[test]
fn what_nothing_stops_is_left_to_the_client() -> Result<()> {
    let home = Home::new()?;
    home.configure("version: 1\nmcp: {fail_closed: true}\n")?;
    let answer = hook(&home, "claude-code", READS_A_NOTE)?;
    assert_eq!(answer.status.code(), Some(0), "{answer:?}");
    assert!(answer.stdout.is_empty(), "{answer:?}");
    Ok(())
}

#[test]
fn rules_name_a_client_like_a_server() -> Result<()> {
    let home = Home::new()?;
    home.configure(
        "version: 1\nmcp: {rules: [{id: no-curl, match: {server: cursor, argument_patterns: {command: '*curl*'}}, decision: BLOCK}]}\n",
    )?;
    let input = r#"{"hook_event_name":"beforeShellExecution","command":"curl example.com","cwd":"/"}"#;
    let answer = hook(&home, "cursor", input)?;
    let said: serde_json::Value = serde_json::from_slice(&answer.stdout)?;
    assert_eq!(
        (answer.status.code(), &said["permission"]),
        (Some(0), &"deny".into()),
        "{said}"
    );
    Ok(())
}

#[test_case("version: 1\n", "no json" => (Some(1), true); "garbage")]
#[test_case("version: 1\nmcp: {fail_closed: true}\n", "no json" => (Some(2), true); "garbage where nothing may pass unjudged")]
#[test_case("versoin: 1\n", WRITES_BASHRC => (Some(1), true); "a policy with a mistake")]
fn what_cannot_be_judged(policy: &str, input: &str) -> (Option<i32>, bool) {
    let run = || {
        let home = Home::new()?;
        fs::create_dir_all(home.path("config/mcpmon"))?;
        home.configure(policy)?;
        let answer = hook(&home, "claude-code", input)?;
        anyhow::Ok((
            answer.status.code(),
            String::from_utf8(answer.stderr)?.contains("[mcpmon]"),
        ))
    };
    run().expect("an answer")
}
