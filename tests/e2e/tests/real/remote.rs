//! A real server over HTTP for clients that start programs: `mcpmon wrap --url`, and listings of such servers.

use std::{
    collections::BTreeSet,
    fs::File,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    program,
    real::{Real, Scene, Sdk},
    remote::{Remote, Transport},
    wait,
    wrapped::Wrapped,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use test_case::test_case;

/// The calls of both kinds of clients.
const CALLS: &str =
    r#"[["echo", {"message": "hello é 😀"}], ["get-sum", {"a": 2, "b": 3}], ["no-such-tool", {}]]"#;

#[test_case(Sdk::Python, Transport::Http; "python, streamable http")]
#[test_case(Sdk::Python, Transport::Sse; "python, sse")]
#[test_case(Sdk::TypeScript, Transport::Http; "typescript, streamable http")]
#[test_case(Sdk::TypeScript, Transport::Sse; "typescript, sse")]
fn a_client_cannot_tell_that_the_server_is_remote(sdk: Sdk, transport: Transport) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let (bare, scene) = (Scene::new()?, Scene::new()?);
    let local = real.npm("mcp-server-everything").display().to_string();
    let alone = real.drive(sdk, &bare, CALLS, &["node".to_owned(), local])?;
    let server = Remote::start(&real, &scene, transport)?;
    let through = real.drive(sdk, &scene, CALLS, &server.wrapped(&scene, &[])?)?;
    for part in ["tools", "prompts", "calls"] {
        assert_eq!(alone[part], through[part], "{part}");
    }
    let told = |server: &Value| server["initialize"]["instructions"].clone();
    assert_eq!(told(&alone), told(&through));

    assert_eq!(scene.events("mcp_tool_called")?.len(), 3);
    let started = scene.events("mcp_server_started")?;
    assert_eq!(started[0]["command"], server.url.as_str(), "{started:?}");
    let seen = scene.events("mcp_tool_seen")?;
    assert!(seen.iter().all(|event| event["layer"] == "mcp_http"), "{seen:?}");
    let servers = scene.list(&["servers"])?;
    assert_eq!(
        (&servers[0]["server_id"], &servers[0]["command"]),
        (&json!("remote"), &json!(server.url))
    );
    Ok(())
}

/// A client that uses standard input and output.
struct Client(Wrapped);

impl Client {
    fn start(scene: &Scene, server: &Remote, options: &[&str]) -> Result<Self> {
        let wrapped = server.wrapped(scene, options)?;
        let mut command = Command::new(&wrapped[0]);
        Self::of(scene.prepare(command.args(&wrapped[1..])))
    }

    fn of(command: &mut Command) -> Result<Self> {
        let mut client = Self(Wrapped::start(command)?);
        let capabilities = json!({"sampling": {}, "elicitation": {}});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "e2e", "version": "1"}});
        let answer = client.ask(0, "initialize", &params)?;
        assert!(answer["result"]["serverInfo"]["name"].is_string(), "{answer}");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(client)
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        self.0.send(&message.to_string())
    }

    fn hear(&mut self) -> Result<Value> {
        let line = self.0.line()?;
        serde_json::from_str(&line).with_context(|| format!("no message: {line:?}"))
    }

    /// Reads messages until one fulfils the condition.
    fn hear_until(&mut self, holds: impl Fn(&Value) -> bool) -> Result<Value> {
        loop {
            let message = self.hear()?;
            if holds(&message) {
                return Ok(message);
            }
        }
    }

    fn ask(&mut self, id: u64, method: &str, params: &Value) -> Result<Value> {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        self.hear_until(|message| message["id"] == id && message["method"].is_null())
    }

    fn call(&mut self, id: u64, tool: &str, arguments: &Value) -> Result<Value> {
        self.ask(id, "tools/call", &json!({"name": tool, "arguments": arguments}))
    }
}

#[test_case(Transport::Http; "streamable http")]
#[test_case(Transport::Sse; "sse")]
fn what_the_policy_blocks_does_not_reach_the_server(transport: Transport) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let server = Remote::start(&real, &scene, transport)?;
    let policy = scene.configuration("version: 1\nmcp: {blocked_tools: [echo], sampling: block}\n")?;
    let mut client = Client::start(&scene, &server, &["--config", &policy])?;
    let blocked = client.call(1, "echo", &json!({"message": "hello"}))?;
    assert_eq!(blocked["result"]["isError"], true, "{blocked}");
    assert!(blocked.to_string().contains("mcp.blocked_tools"), "{blocked}");
    let sum = client.call(2, "get-sum", &json!({"a": 2, "b": 3}))?;
    assert_eq!(
        sum["result"]["content"][0]["text"], "The sum of 2 and 3 is 5.",
        "{sum}"
    );

    // A request of the server is refused by the wrapper in the client's place.
    let sampled = client.call(
        3,
        "trigger-sampling-request",
        &json!({"prompt": "hi", "maxTokens": 5}),
    )?;
    assert!(sampled.to_string().contains("[mcpmon]"), "{sampled}");
    let (status, rest, errors) = client.0.finish()?;
    assert_eq!((status, rest.as_str()), (0, ""), "{errors}");
    let called: Vec<_> = scene.events("mcp_tool_called")?;
    let tools: BTreeSet<_> = called
        .iter()
        .filter_map(|event| event["tool_name"].as_str())
        .collect();
    assert_eq!(tools, BTreeSet::from(["get-sum", "trigger-sampling-request"]));
    Ok(())
}

#[test_case(Transport::Http; "streamable http")]
#[test_case(Transport::Sse; "sse")]
fn what_a_server_asks_and_tells_comes_through(transport: Transport) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let server = Remote::start(&real, &scene, transport)?;
    let policy = scene.configuration("version: 1\nmcp: {sampling: allow}\n")?;
    let mut client = Client::start(&scene, &server, &["--config", &policy])?;
    // Sampling during a call.
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params":
        {"name": "trigger-sampling-request", "arguments": {"prompt": "hi", "maxTokens": 5}}});
    client.send(&call)?;
    let asked = client.hear_until(|message| message["method"] == "sampling/createMessage")?;
    let said = json!({"model": "m", "role": "assistant", "content": {"type": "text", "text": "SAID"}});
    client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": said}))?;
    let answer = client.hear_until(|message| message["id"] == 1)?;
    assert!(answer.to_string().contains("SAID"), "{answer}");
    // A question to the user.
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params":
        {"name": "trigger-elicitation-request", "arguments": {}}});
    client.send(&call)?;
    let asked = client.hear_until(|message| message["method"] == "elicitation/create")?;
    client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}}))?;
    let answer = client.hear_until(|message| message["id"] == 2)?;
    assert!(answer["result"]["content"].is_array(), "{answer}");
    // Progress notifications during a call.
    let call = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params":
        {"name": "trigger-long-running-operation", "arguments": {"duration": 1, "steps": 2}, "_meta": {"progressToken": "p"}}});
    client.send(&call)?;
    let progress = client.hear_until(|message| message["method"] == "notifications/progress")?;
    assert_eq!(progress["params"]["progressToken"], "p");
    client.hear_until(|message| message["id"] == 3)?;
    // Notifications without a request.
    client.call(4, "toggle-simulated-logging", &json!({}))?;
    client.hear_until(|message| message["method"] == "notifications/message")?;
    Ok(())
}

#[test]
fn a_client_that_leaves_ends_the_session() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let server = Remote::start(&real, &scene, Transport::Http)?;
    for leave in [None, Some(Signal::SIGTERM)] {
        let before = server.log().matches("session termination").count();
        let mut client = Client::start(&scene, &server, &[])?;
        match leave {
            None => assert_eq!(client.0.finish()?.0, 0),
            Some(signal) => {
                client.0.signal(signal)?;
                client.0.ended()?;
            }
        }
        wait::until("the end of the session", || {
            Ok((server.log().matches("session termination").count() > before).then_some(()))
        })?;
    }
    assert_eq!(scene.events("mcp_server_exited")?.len(), 2);
    Ok(())
}

#[test_case(Transport::Http; "streamable http")]
#[test_case(Transport::Sse; "sse")]
fn a_server_that_is_gone_is_told_by_its_cause(transport: Transport) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let mut server = Remote::start(&real, &scene, transport)?;
    let mut client = Client::start(&scene, &server, &[])?;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params":
        {"name": "trigger-long-running-operation", "arguments": {"duration": 60, "steps": 60}, "_meta": {"progressToken": "p"}}});
    client.send(&call)?;
    client.hear_until(|message| message["method"] == "notifications/progress")?;
    server.kill()?;
    let answer = client.hear_until(|message| message["id"] == 1)?;
    let cause = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(cause.starts_with(&format!("{}: ", server.url)), "{answer}");
    match transport {
        // The next call is tried as well, because the server may be running again.
        Transport::Http => {
            let answer = client.call(2, "echo", &json!({"message": "hello"}))?;
            let cause = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(cause.contains("cannot be reached"), "{answer}");
        }
        // The only stream has ended.
        Transport::Sse => assert_eq!(client.0.ended()?.code(), Some(3)),
    }
    Ok(())
}

#[test]
fn what_a_server_is_told_in_secret_is_nowhere_else() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let server = Remote::start(&real, &scene, Transport::Http)?;
    let secret = concat!("hush-", "9f8e7d6c5b4a");
    let wrapped = server.wrapped(&scene, &["--header-env", "Authorization=TOKEN"])?;
    let mut command = Command::new(&wrapped[0]);
    let mut client = Client::of(scene.prepare(command.args(&wrapped[1..]).env("TOKEN", secret)))?;
    client.call(1, "echo", &json!({"message": "hello"}))?;
    let listed = Command::new("ps").args(["-eo", "args"]).output()?;
    assert!(!String::from_utf8_lossy(&listed.stdout).contains(secret));
    let (_, _, errors) = client.0.finish()?;
    assert!(!errors.contains(secret), "{errors}");
    for event in scene.list(&["events", "--limit", "100000"])? {
        assert!(!event.to_string().contains(secret), "{event}");
    }

    let mut command = Command::new(&wrapped[0]);
    let unset = scene
        .prepare(command.args(&wrapped[1..]).env_remove("TOKEN"))
        .output()?;
    let told = String::from_utf8_lossy(&unset.stderr).into_owned();
    assert_eq!(unset.status.code(), Some(2), "{told}");
    assert!(told.contains("the variable TOKEN is not set"), "{told}");
    Ok(())
}

#[test_case(Transport::Http; "streamable http")]
#[test_case(Transport::Sse; "sse")]
fn a_remote_server_is_inspected(transport: Transport) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let server = Remote::start(&real, &scene, transport)?;
    let run = program::run(["inspect", "--server", &server.url, "--json"])?;
    assert_eq!(run.code, Some(0), "{run:?}");
    let found = run.objects()?;
    let kinds: BTreeSet<_> = found
        .iter()
        .filter_map(|object| object["definition"].as_str())
        .collect();
    assert_eq!(
        kinds,
        BTreeSet::from(["instructions", "prompt", "resource", "template", "tool"])
    );
    assert!(
        found.iter().any(|object| object["tool_name"] == "echo"),
        "{found:?}"
    );
    // No action is needed for this server, unless a pattern of the configuration finds it.
    let run = program::run(["inspect", "--server", &server.url, "--threshold", "medium"])?;
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains("mcp-servers/everything"), "{run:?}");
    let pattern = json!({"name": "echoes", "pattern": "Echoes back"});
    let policy = json!({"version": 1, "mcp": {"detection": {"custom_patterns": [pattern]}}});
    let policy = scene.configuration(&policy.to_string())?;
    let run = program::run(["inspect", "--server", &server.url, "--config", &policy])?;
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stdout.contains("echoes"), "{run:?}");
    Ok(())
}

/// A proxy that connects to the servers that its configuration declares.
struct Discovering(Child);

impl Discovering {
    fn start(scene: &Scene, servers: &Value) -> Result<Self> {
        let policy = json!({"version": 1, "mcp": {"servers": servers}, "proxy": {"listen": "127.0.0.1:0"}});
        let policy = scene.configuration(&policy.to_string())?;
        let mut proxy = Command::new(program::path()?);
        proxy
            .args([
                "proxy",
                "--socket",
                "/nonexistent/mcpmon.sock",
                "--config",
                &policy,
                "--db",
            ])
            .arg(scene.store());
        let log = File::create(scene.file("proxy.log"))?;
        let proxy = scene
            .prepare(&mut proxy)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        Ok(Self(proxy.spawn()?))
    }
}

impl Drop for Discovering {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn declared_servers_are_listed_before_a_client_asks() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let (scene, other) = (Scene::new()?, Scene::new()?);
    let now = Remote::start(&real, &scene, Transport::Http)?;
    let before = Remote::start(&real, &other, Transport::Sse)?;
    let servers = json!([
        {"id": "now", "url": now.url},
        {"id": "before", "type": "sse", "url": before.url},
        {"id": "gone", "url": "http://127.0.0.1:1/mcp?key=hush"},
    ]);
    let _proxy = Discovering::start(&scene, &servers)?;
    wait::until("the lists", || {
        let seen: BTreeSet<String> = scene
            .events("mcp_tool_seen")
            .unwrap_or_default()
            .iter()
            .filter(|event| event["tool_name"] == "get-sum")
            .filter_map(|event| event["server_id"].as_str().map(str::to_owned))
            .collect();
        Ok((seen == BTreeSet::from(["before".to_owned(), "now".to_owned()])).then_some(()))
    })?;
    let failed = wait::until("the one that is gone", || {
        Ok(scene.events("mcp_discovery_failed").unwrap_or_default().pop())
    })?;
    assert_eq!(failed["url"], "http://127.0.0.1:1/mcp", "{failed}");
    let pins = scene.list(&["pins", "list"])?;
    let of_both = |server: &str| {
        pins.iter().any(|pin| {
            pin["server_id"] == server && pin["tool_name"] == "get-sum" && pin["status"] == "pinned"
        })
    };
    assert!(of_both("now") && of_both("before"), "{pins:?}");
    Ok(())
}
