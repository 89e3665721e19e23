//! `mcpmon run` beside a daemon: its models are behind the daemon's proxy, and the kernel sees connections that bypass
//! it.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    daemon::Daemon,
    host::Host,
    json::{number, text},
    network::{Attempt, connect},
    program,
    site::Site,
    wait,
};
use mcpmon_fake_llm::{FakeLlm, Script};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use test_case::test_case;

/// An agent that executes commands line by line, and reports their outcome.
const AGENT: &str = r#"
import json, os, socket, subprocess, sys, urllib.error, urllib.request

def ask():
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}],
            "tools": [{"name": "Bash", "description": "runs", "input_schema": {"type": "object"}}]}
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        answer = json.load(urllib.request.urlopen(request, timeout=10))
        return " ".join(block.get("text", block["type"]) for block in answer["content"])
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"
    except OSError as error:
        return f"failed: {error}"

def dial(port):
    try:
        socket.create_connection(("127.0.0.1", int(port)), timeout=10)
        return "connected"
    except OSError as error:
        return type(error).__name__

def child(port):
    code = f"import socket; socket.create_connection(('127.0.0.1', {port}))"
    return "refused" if subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL).returncode else "connected"

def orphan(port, said):
    # Whoever starts it ends at once: nothing but its control group says where it comes from.
    code = f"""
import os, socket, time
while not os.path.exists({said!r} + ".go"):
    time.sleep(0.05)
try:
    socket.create_connection(("127.0.0.1", {port}))
    result = "connected"
except OSError as error:
    result = type(error).__name__
open({said!r} + ".new", "w").write(result)
os.rename({said!r} + ".new", {said!r})
"""
    subprocess.run(["sh", "-c", 'setsid "$0" -c "$1" >/dev/null 2>&1 </dev/null &', sys.executable, code])
    return "left behind"

for line in sys.stdin:
    word, *rest = line.split()
    print(json.dumps({"ask": ask, "dial": dial, "child": child, "orphan": orphan}[word](*rest)), flush=True)
"#;

/// A daemon whose models are a script, and the settings for running agents beside it.
struct Scene {
    model: FakeLlm,
    listen: SocketAddr,
}

impl Scene {
    fn new() -> Result<Self> {
        let turn =
            json!([{"text": "hello there"}, {"tool": "Bash", "id": "call_1", "input": {"command": "id"}}]);
        let script: Script = serde_json::from_value(json!({"turns": [turn]}))?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        Ok(Self {
            model: FakeLlm::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), script)?,
            listen: free,
        })
    }

    fn port(&self) -> u16 {
        self.model.address().port()
    }

    fn policy(&self, bypass: &str) -> String {
        let (listen, model) = (self.listen, self.model.address());
        format!(
            r#"
version: 1
mcp: {{native_tools: block}}
network: {{proxy_bypass: {bypass}}}
proxy:
  listen: "{listen}"
  providers: {{anthropic: "http://{model}", openai: "", gemini: "", ollama: ""}}
"#
        )
    }
}

/// A run of the agent by `mcpmon run`.
struct Run {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Run {
    fn start(site: &Site) -> Result<Self> {
        let script = site.path("agent.py");
        fs::write(&script, AGENT)?;
        let mut child = Command::new(program::path()?)
            .args(["run", "--session", "review", "--socket"])
            .arg(site.socket())
            .arg("--db")
            .arg(site.own_store())
            .args(["--", "python3"])
            .arg(script)
            .env("XDG_CONFIG_HOME", site.path("own"))
            .env_remove("MCPMON_CONFIG")
            .env_remove("RUST_LOG")
            .env_remove("ANTHROPIC_BASE_URL")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start mcpmon run")?;
        let input = child.stdin.take().context("a pipe")?;
        let output = BufReader::new(child.stdout.take().context("a pipe")?);
        Ok(Self { child, input, output })
    }

    fn say(&mut self, word: &str) -> Result<String> {
        writeln!(self.input, "{word}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("`{word}`: {line:?}"))
    }

    /// Ends the run, and returns its standard error.
    fn end(self) -> Result<String> {
        drop(self.input);
        let output = self.child.wait_with_output()?;
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{told}");
        Ok(told)
    }
}

fn bypasses(site: &Site) -> Result<Vec<Value>> {
    let mut events = site.events()?;
    events.retain(|event| event["type"] == "mcp_proxy_bypass");
    Ok(events)
}

fn is_blocked(said: &str) -> bool {
    said.contains("hello there") && said.contains("[mcpmon] Tool 'Bash' blocked by policy")
}

#[test_case("alert", "connected", "connected", "audit"; "reported")]
#[test_case("deny", "PermissionError", "refused", "block"; "refused")]
fn who_goes_round_the_proxy(bypass: &str, dialled: &str, by_child: &str, action: &str) -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let daemon = Daemon::start(&host, &scene.policy(bypass))?;
    let mut run = Run::start(&daemon.site)?;
    let said = run.say("ask")?;
    assert!(is_blocked(&said), "{said}");
    assert_eq!(
        bypasses(&daemon.site)?,
        Vec::<Value>::new(),
        "the proxy itself goes round nothing"
    );

    assert_eq!(run.say(&format!("dial {}", scene.port()))?, dialled);
    assert_eq!(run.say(&format!("child {}", scene.port()))?, by_child);
    assert_eq!(connect(scene.model.address())?, Attempt::Connected, "others may");
    let seen = wait::until("both bypasses", || {
        let seen = bypasses(&daemon.site)?;
        Ok((seen.len() == 2).then_some(seen))
    })?;
    let status = daemon.status()?;
    let session = text(&status["runs"][0], "session").to_owned();
    assert!(session.starts_with("review-"), "{status}");
    assert_eq!(status["runs"][0]["behind_daemon"], true, "{status}");
    for event in &seen {
        assert_eq!(text(event, "action"), action, "{event}");
        assert_eq!(text(event, "session_id"), session, "{event}");
        assert_eq!(text(event, "remote_addr"), scene.model.address().to_string());
        assert_eq!(text(event, "rule"), "network.proxy_bypass", "{event}");
        assert_ne!(number(event, "pid"), u64::from(run.child.id()));
    }
    let told = run.end()?;
    assert!(told.contains(&format!("mcpmon: session {session}: ")), "{told}");
    assert!(
        told.contains(": 0 servers, 1 call, "),
        "the daemon's store is looked at: {told}"
    );
    wait::until("the session's end", || {
        Ok((daemon.status()?["runs"] == json!([])).then_some(()))
    })
}

/// A changed policy applies to running sessions.
#[test]
fn a_session_that_runs_is_held_to_a_new_policy() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let daemon = Daemon::start(&host, &scene.policy("alert"))?;
    let mut run = Run::start(&daemon.site)?;
    let dial = format!("dial {}", scene.port());
    assert_eq!(run.say(&dial)?, "connected");
    daemon.adopt(&scene.policy("deny"))?;
    assert_eq!(run.say(&dial)?, "PermissionError");
    run.end().map(drop)
}

/// Blocks are remembered, the agent's models are reached at the same address, and the session is restricted
/// as before.
#[test]
fn a_restart_loses_no_block_and_no_session() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let mut daemon = Daemon::start(&host, &scene.policy("deny"))?;
    let mut run = Run::start(&daemon.site)?;
    let said = run.say("ask")?;
    daemon.signal(Signal::SIGKILL)?;
    assert!(is_blocked(&said), "{said}");
    daemon.ended()?;
    let said = run.say("ask")?;
    assert!(said.contains("failed"), "nobody answers: {said}");

    let daemon = Daemon::start_at(&host, daemon.into_site())?;
    let blocked = daemon.event("the call that was stopped", |event| {
        event["type"] == "mcp_tool_call_intercepted" && event["action"] == "block"
    })?;
    assert!(text(&blocked, "session_id").starts_with("review-"), "{blocked}");
    wait::until("the session with the daemon that is new", || {
        Ok((daemon.status()?["runs"] != json!([])).then_some(()))
    })?;
    let said = run.say("ask")?;
    assert!(is_blocked(&said), "by the same address and token: {said}");
    assert_eq!(run.say(&format!("dial {}", scene.port()))?, "PermissionError");
    let told = run.end()?;
    assert!(told.contains("the daemon is back"), "{told}");
    Ok(())
}

/// After a restart the daemon finds processes that lost their parents by their control group.
#[test]
fn who_lost_its_parents_is_found_by_its_control_group() -> Result<()> {
    let Some(host) = Host::take(&["python3", "setsid"])? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let daemon = Daemon::start(&host, &scene.policy("deny"))?;
    let mut run = Run::start(&daemon.site)?;
    let said = daemon.site.path("orphan");
    run.say(&format!("orphan {} {}", scene.port(), said.display()))?;
    let daemon = daemon.restart(&host)?;
    let status = wait::until("the session with the daemon that is new", || {
        let status = daemon.status()?;
        Ok((status["runs"] != json!([])).then_some(status))
    })?;
    fs::write(said.with_extension("go"), "")?;
    let result = wait::until("what the orphan says", || Ok(fs::read_to_string(&said).ok()))?;
    let told = run.end()?;
    // Not every host lets `mcpmon run` make a control group.
    let own_group = status["runs"][0]["own_group"] == true;
    assert_eq!(own_group, !told.contains("no control group"), "{status}\n{told}");
    assert_eq!(result, if own_group { "PermissionError" } else { "connected" });
    Ok(())
}

/// An agent's gateway that the user configured is reached through a separate proxy, which the daemon knows of as well.
#[test]
fn a_proxy_of_its_own_is_known_to_the_daemon() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let policy = scene.policy("deny");
    let policy = policy.replace("proxy:\n", "proxy:\n  mode: disabled\n");
    let policy = policy.replace(
        "network: {",
        &format!(
            "network: {{watch: [{{name: model, cidrs: [127.0.0.1], ports: [{}]}}], ",
            scene.port()
        ),
    );
    let daemon = Daemon::start(&host, &policy)?;
    let own = daemon.site.path("own/mcpmon");
    fs::create_dir_all(&own)?;
    fs::write(own.join("mcpmon.yaml"), scene.policy("alert"))?;
    let mut run = Run::start(&daemon.site)?;
    let said = run.say("ask")?;
    assert!(is_blocked(&said), "its own proxy is not refused: {said}");
    let status = wait::until("the session", || {
        let status = daemon.status()?;
        Ok((status["runs"] != json!([])).then_some(status))
    })?;
    assert_eq!(status["runs"][0]["behind_daemon"], false, "{status}");
    assert_eq!(run.say(&format!("dial {}", scene.port()))?, "PermissionError");
    let event = daemon.event("the bypass", |event| event["type"] == "mcp_proxy_bypass")?;
    assert!(text(&event, "session_id").starts_with("review-"), "{event}");
    run.end().map(drop)
}
