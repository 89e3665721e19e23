//! Real agents, headless, with a script as their model and a real server behind the wrapper. mcpmon is between the
//! agent and both of them.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    agents::Agent,
    program,
    real::{Real, Scene},
};
use mcpmon_fake_llm::{FakeLlm, Script};
use serde_json::{Value, json};
use test_case::test_case;

const POLICY: &str = "mcp: {blocked_tools: [get-sum]}\n";

/// The way in which an agent finds its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gateway {
    /// By a variable that mcpmon sets.
    Usual,
    /// By a provider in the agent's own configuration.
    Own,
}

/// A run of an agent: its output, and mcpmon's.
struct Run {
    scene: Scene,
    model: FakeLlm,
    said: String,
    told: String,
}

/// A URL at which no server listens.
const NOBODY: &str = "http://127.0.0.1:1";

fn run(agent: Agent, gateway: Gateway, turns: Vec<Value>, policy: &str) -> Result<Option<Run>> {
    let Some(real) = Real::find()? else {
        return Ok(None);
    };
    let turns = [agent.opening(), turns].concat();
    let script: Script = serde_json::from_value(json!({"only_with_tools": true, "turns": turns}))?;
    let model = FakeLlm::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), script)?;
    let scene = Scene::new()?;
    let at = format!("http://{}", model.address());
    let (own, provider) = match gateway {
        Gateway::Own => (Some(&*at), NOBODY),
        Gateway::Usual => (None, &*at),
    };
    let configuration = format!(
        "version: 1\nproxy: {{listen: \"127.0.0.1:0\", providers: {}}}\n{policy}",
        json!({agent.provider(): provider})
    );
    let configuration = scene.configuration(&configuration)?;
    let behind = real.npm("mcp-server-everything").display().to_string();
    let server = scene.wrapped("everything", &["--config", &configuration], &[behind])?;
    agent.configure(scene.directory(), &server, own)?;
    let mut command = Command::new(program::path()?);
    command
        .args(["run", "--config", &configuration, "--db"])
        .arg(scene.store())
        .arg("--");
    command.args(agent.task(&real));
    agent.prepare(&mut command, scene.directory());
    let output = command.output().context("cannot start mcpmon run")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let run = Run {
        said: text(&output.stdout),
        told: text(&output.stderr),
        scene,
        model,
    };
    ensure!(
        output.status.success(),
        "{agent:?} failed:\n{}\n{}",
        run.said,
        run.told
    );
    Ok(Some(run))
}

/// One call passes on the whole way. The next is stopped before the agent sees it, and the agent continues.
#[test_case(Agent::ClaudeCode, Gateway::Usual; "claude code")]
#[test_case(Agent::Codex, Gateway::Usual; "codex")]
#[test_case(Agent::Codex, Gateway::Own; "codex at a gateway of its own")]
#[test_case(Agent::GeminiCli, Gateway::Usual; "gemini cli")]
#[test_case(Agent::Opencode, Gateway::Own; "opencode")]
fn one_call_is_made_and_one_is_stopped(agent: Agent, gateway: Gateway) -> Result<()> {
    let turns = vec![
        json!([{"text": "I ask the server."}, agent.call("echo", "call_made", &json!({"message": "hello there"}))]),
        json!([{"text": "Now the sum."}, agent.call("get-sum", "call_stopped", &json!({"a": 2, "b": 3}))]),
    ];
    let Some(run) = run(agent, gateway, turns, POLICY)? else {
        return Ok(());
    };
    let (said, told) = (&run.said, &run.told);
    assert!(said.contains("Echo: hello there"), "{said}\n{told}");
    assert!(said.contains("[mcpmon] Tool '"), "{said}\n{told}");
    assert!(said.contains("blocked by policy"), "{said}\n{told}");
    assert!(!said.contains("The sum of 2 and 3"), "{said}\n{told}");
    assert!(told.contains("mcpmon report "), "the report is named: {told}");

    let called = run.scene.events("mcp_tool_called")?;
    assert_eq!(called.len(), 1, "{called:?}");
    let judged = run.scene.events("mcp_tool_call_intercepted")?;
    let stopped: Vec<_> = judged.iter().filter(|event| event["action"] == "block").collect();
    assert_eq!(stopped.len(), 1, "{judged:?}");
    assert_eq!(stopped[0]["layer"], "llm", "{judged:?}");
    assert_eq!(stopped[0]["server_id"], "everything", "{judged:?}");
    let session = &called[0]["session_id"];
    assert!(session.is_string());
    assert_eq!(
        &stopped[0]["session_id"], session,
        "the layers agree on the session"
    );

    let trace = run.scene.list(&["calls", "--trace", "call_made"])?;
    let joined: Vec<_> = trace
        .iter()
        .map(|record| (&record["layer"], &record["intent"]["layer"]))
        .collect();
    assert_eq!(joined, [(&json!("stdio"), &json!("llm"))], "{trace:?}");
    assert!(run.model.received().len() >= 2);
    Ok(())
}

/// If nothing is stopped, the agent works as it does without mcpmon.
#[test_case(Agent::ClaudeCode, Gateway::Usual; "claude code")]
#[test_case(Agent::Codex, Gateway::Usual; "codex")]
#[test_case(Agent::Codex, Gateway::Own; "codex at a gateway of its own")]
#[test_case(Agent::GeminiCli, Gateway::Usual; "gemini cli")]
#[test_case(Agent::Opencode, Gateway::Own; "opencode")]
fn an_agent_works_as_it_does_alone(agent: Agent, gateway: Gateway) -> Result<()> {
    let calls = [
        agent.call("echo", "call_1", &json!({"message": "first"})),
        agent.call("get-sum", "call_2", &json!({"a": 2, "b": 3})),
    ];
    // As long as a piece of a stream, because some agents print each piece as it comes.
    let turns = vec![json!(calls), json!([{"text": "All done"}])];
    let Some(run) = run(agent, gateway, turns, "")? else {
        return Ok(());
    };
    for expected in ["Echo: first", "The sum of 2 and 3 is 5", "All done"] {
        assert!(run.said.contains(expected), "{}\n{}", run.said, run.told);
    }
    assert_eq!(run.scene.events("mcp_tool_called")?.len(), 2);
    Ok(())
}

/// An agent whose requests would bypass the proxy does not start, and the first line of the output gives the reason.
#[test]
fn an_agent_that_would_pass_by_does_not_start() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    fs::create_dir_all(scene.file(".codex"))?;
    fs::write(
        scene.file(".codex/config.toml"),
        "model_provider = \"amazon-bedrock\"\n",
    )?;
    let mut command = Command::new(program::path()?);
    command.args(["run", "--db"]).arg(scene.store()).arg("--");
    command.arg(real.npm("codex")).args(["exec", "hi"]);
    let output = scene
        .prepare(&mut command)
        .env("CODEX_HOME", scene.file(".codex"))
        .stdin(Stdio::null())
        .output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    let first = told.lines().next().unwrap_or_default();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        first.contains("amazon-bedrock") && first.contains("model_provider"),
        "{told}"
    );
    assert!(output.stdout.is_empty(), "{output:?}");
    Ok(())
}
