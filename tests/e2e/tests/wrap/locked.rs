//! Profile, then lock: the tools and resources of a session keep working under the policy made of it, and no others do.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    program,
    wrapped::{Home, Wrapped},
};
use serde_json::{Value, json};

/// A server id with characters that have a meaning in YAML and in patterns.
const SERVER: &str = "it's:\"#1\"*名";
/// Tool names with characters that have a meaning in YAML or in patterns, or from another script.
const USED: [&str; 12] = [
    "read_note",
    "say \"hi\": now",
    "it's",
    "naïve–名前",
    "# no comment",
    "- item",
    "a*b?c",
    "true",
    "{x: [y]}",
    "back\\slash",
    "two\nlines\ttab",
    " ",
];
const UNUSED: &str = "delete_note";

/// A server with tools of these names, which answers `ok` to every call.
const PROGRAM: &str = r#"
import json, sys
names = json.loads(sys.argv[1])
tools = [{"name": name, "description": "Does " + str(number), "inputSchema": {"type": "object"}}
         for number, name in enumerate(names)]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "resources": {}},
                  "serverInfo": {"name": "odd", "version": "1"}}
    elif message["method"] == "tools/list":
        result = {"tools": tools}
    elif message["method"] == "resources/read":
        result = {"contents": [{"uri": message["params"]["uri"], "text": "ok"}]}
    else:
        result = {"content": [{"type": "text", "text": "ok"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

/// Makes a handshake, asks for the list, reads a resource, and returns the answers to calls of `tools`.
fn talk(home: &Home, options: &[&str], tools: &[&str]) -> Result<Vec<Value>> {
    talk_to(&home.path("server.py"), home, options, tools)
}

/// Does the same with a server at this path, which may be in another home.
fn talk_to(script: &Path, home: &Home, options: &[&str], tools: &[&str]) -> Result<Vec<Value>> {
    fs::write(script, PROGRAM)?;
    let names: Vec<&str> = USED.into_iter().chain([UNUSED]).collect();
    let names = serde_json::to_string(&names)?;
    let mut options = options.to_vec();
    options.extend(["--server", SERVER]);
    let command = [
        "python3",
        &script.display().to_string(),
        &names,
        "--token",
        "hunter2",
    ];
    let mut wrapped = Wrapped::start(&mut home.wrap(&options, &command)?)?;
    let mut asked = 0;
    let mut ask = |method: &str, params: Value| -> Result<Value> {
        asked += 1;
        let request = json!({"jsonrpc": "2.0", "id": asked, "method": method, "params": params});
        wrapped.send(&request.to_string())?;
        serde_json::from_str(&wrapped.line()?).with_context(|| method.to_owned())
    };
    let client = json!({"name": "e2e", "version": "1"});
    ask(
        "initialize",
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}),
    )?;
    ask("tools/list", json!({}))?;
    let mut answers = Vec::new();
    for tool in tools {
        for path in ["a", "b"] {
            answers.push(ask(
                "tools/call",
                json!({"name": tool, "arguments": {"path": path}}),
            )?);
        }
    }
    answers.push(ask("resources/read", json!({"uri": "memo://a"}))?);
    wrapped.finish()?;
    Ok(answers)
}

/// Runs `mcpmon WORDS` with the store of `home`.
fn mcpmon(home: &Home, words: &[&str]) -> Result<Output> {
    let mut command = Command::new(program::path()?);
    command.arg("--db").arg(home.path("store.db")).args(words);
    command
        .env("XDG_CONFIG_HOME", home.path("config"))
        .env("XDG_STATE_HOME", home.path("state"))
        .env_remove("MCPMON_CONFIG");
    Ok(command.output()?)
}

fn stdout(output: &Output) -> Result<&str> {
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{errors}");
    Ok(str::from_utf8(&output.stdout)?)
}

/// Returns all recorded events, oldest first.
fn events(home: &Home) -> Result<Vec<Value>> {
    let output = mcpmon(home, &["events", "--json", "--limit", "10000"])?;
    let lines = stdout(&output)?.lines();
    lines.map(|line| Ok(serde_json::from_str(line)?)).collect()
}

fn stopped(events: &[Value]) -> Vec<&Value> {
    let is_stopped = |event: &&Value| event["action"] == "block" || event["action"] == "would_block";
    events.iter().filter(is_stopped).collect()
}

fn is_ok(answer: &Value) -> bool {
    answer["result"]["content"][0]["text"] == "ok" || answer["result"]["contents"][0]["text"] == "ok"
}

/// Returns the policy made of a session in which every tool but one was used.
fn lock(home: &Home) -> Result<String> {
    let answers = talk(home, &[], &USED)?;
    ensure!(answers.iter().all(is_ok), "{answers:?}");
    let events = events(home)?;
    assert_eq!(stopped(&events), [] as [&Value; 0]);
    let session = events
        .iter()
        .find_map(|event| event["session_id"].as_str())
        .context("a session")?;
    let path = home.path("locked.yaml").display().to_string();
    stdout(&mcpmon(
        home,
        &["policy", "generate", session, "--output", &path],
    )?)?;
    let again = mcpmon(home, &["policy", "generate", session, "--output", &path])?;
    assert_eq!(again.status.code(), Some(3), "a file that is there is left");
    let printed = mcpmon(home, &["policy", "generate", session])?;
    assert_eq!(stdout(&printed)?, fs::read_to_string(&path)?);
    Ok(path)
}

#[test]
fn what_was_used_goes_on_and_nothing_else_does() -> Result<()> {
    let home = Home::new()?;
    let path = lock(&home)?;
    let text = fs::read_to_string(&path)?;
    assert!(!text.contains("hunter2") && text.contains("fill it in"), "{text}");
    assert!(text.contains("# Provenance: 2 calls ("), "{text}");
    stdout(&mcpmon(&home, &["policy", "check", &path])?).with_context(|| text.clone())?;
    let script = home.path("server.py");
    // Both in the store in which everything is pinned, and in a new one.
    for home in [&home, &Home::new()?] {
        let before = events(home).map_or(0, |events| events.len());
        let answers = talk_to(&script, home, &["--config", &path], &USED)?;
        assert!(answers.iter().all(is_ok), "{answers:?}\n{text}");
        let events = events(home)?;
        let stopped = stopped(&events[before..]);
        let hidden = |event: &&&Value| event["type"] == "mcp_tool_seen" && event["tool_name"] == UNUSED;
        assert!(stopped.iter().all(|event| hidden(&event)), "{stopped:?}\n{text}");
        let answers = talk_to(&script, home, &["--config", &path], &[UNUSED])?;
        let refused = answers[0].to_string();
        assert!(refused.contains("(rule tool_policy, event "), "{refused}");
        assert!(is_ok(&answers[2]), "{answers:?}");
    }
    Ok(())
}

#[test]
fn what_it_allows_is_what_check_says_of_it() -> Result<()> {
    let home = Home::new()?;
    let path = lock(&home)?;
    let check = |server: &str, tool: &str| -> Result<Option<i32>> {
        let tool = format!("--tool={tool}");
        let words = [
            "--config", &path, "check", "--server", server, &tool, "--args", "{}",
        ];
        Ok(mcpmon(&home, &words)?.status.code())
    };
    for tool in USED {
        assert_eq!(check(SERVER, tool)?, Some(0), "{tool}");
    }
    assert_eq!(check(SERVER, UNUSED)?, Some(1));
    assert_eq!(check("another", USED[0])?, Some(1));
    let other = home.wrap(&["--config", &path, "--server", "another"], &["true"]);
    let (code, _, errors) = Wrapped::start(&mut other?)?.finish()?;
    assert_eq!(code, 1, "{errors}");
    Ok(())
}

#[test]
fn a_session_that_is_not_there_is_told_with_those_that_are() -> Result<()> {
    let home = Home::new()?;
    talk(&home, &[], &[])?;
    let output = mcpmon(&home, &["policy", "generate", "nope"])?;
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr)?;
    assert!(
        errors.contains("there is no session `nope`") && errors.contains("hint: there is `"),
        "{errors}"
    );
    Ok(())
}
