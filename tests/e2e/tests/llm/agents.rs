//! Real agents, headless: their model is a script, their server a real one behind the wrapper, and mcpmon stands
//! between them and both.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    program,
    real::{Real, Scene},
};
use mcpmon_fake_llm::{FakeLlm, Script};
use serde_json::{Value, json};
use test_case::test_case;

const POLICY: &str = "mcp: {blocked_tools: [get-sum]}\n";

#[derive(Clone, Copy, Debug)]
enum Agent {
    ClaudeCode,
    Codex,
    /// Codex whose configuration names a provider of its own.
    CodexAtGateway,
    GeminiCli,
}

/// A real server, behind the wrapper.
struct Server {
    command: String,
    arguments: Vec<String>,
}

impl Agent {
    const fn provider(self) -> &'static str {
        match self {
            Self::ClaudeCode => "anthropic",
            Self::Codex | Self::CodexAtGateway => "openai",
            Self::GeminiCli => "gemini",
        }
    }

    /// Returns the first items of its model. Claude Code starts servers beside its first request, and offers
    /// to wait for them.
    fn opening(self) -> Vec<Value> {
        match self {
            Self::ClaudeCode => vec![json!([{"tool": "WaitForMcpServers", "id": "call_wait", "input": {}}])],
            Self::Codex | Self::CodexAtGateway | Self::GeminiCli => Vec::new(),
        }
    }

    /// A call as this agent's model has to ask for it.
    fn call(self, tool: &str, id: &str, input: Value) -> Value {
        match self {
            Self::ClaudeCode => json!({"tool": format!("mcp__everything__{tool}"), "id": id, "input": input}),
            Self::Codex | Self::CodexAtGateway => {
                let tool = tool.replace('-', "_");
                json!({"tool": tool, "namespace": "mcp__everything", "id": id, "input": input})
            }
            Self::GeminiCli => json!({"tool": format!("mcp_everything_{tool}"), "id": id, "input": input}),
        }
    }

    /// The command that does one task and ends.
    fn command(self, real: &Real, scene: &Scene, server: &Server) -> Result<Vec<String>> {
        let words = match self {
            Self::ClaudeCode => {
                let servers = json!({"mcpServers": {"everything": {"command": server.command, "args": server.arguments}}});
                let file = scene.file("mcp.json");
                fs::write(&file, servers.to_string())?;
                let launcher = real.npm("../@anthropic-ai/claude-code/cli-wrapper.cjs");
                let mut words = vec!["node".to_owned(), launcher.display().to_string()];
                words.extend(
                    ["-p", "use the tools", "--strict-mcp-config", "--mcp-config"].map(str::to_owned),
                );
                words.push(file.display().to_string());
                words.extend(["--allowedTools", "mcp__everything"].map(str::to_owned));
                words.extend(["--output-format", "stream-json", "--verbose"].map(str::to_owned));
                words
            }
            Self::Codex | Self::CodexAtGateway => {
                fs::create_dir_all(scene.file(".codex"))?;
                let (command, arguments) = (json!(server.command), json!(server.arguments));
                let mut words = vec![real.npm("codex").display().to_string()];
                words.extend(["exec", "--skip-git-repo-check", "--json"].map(str::to_owned));
                words.push("--dangerously-bypass-approvals-and-sandbox".to_owned());
                // Of a model that it does not know, it expects what most of them can do.
                words.extend(["-c", "model=\"gpt-5\""].map(str::to_owned));
                words.push("-c".to_owned());
                words.push(format!(
                    "mcp_servers.everything={{command={command},args={arguments},required=true}}"
                ));
                words.push("use the tools".to_owned());
                words
            }
            Self::GeminiCli => {
                let servers = json!({"everything": {"command": server.command, "args": server.arguments}});
                let settings =
                    json!({"mcpServers": servers, "security": {"auth": {"selectedType": "gemini-api-key"}}});
                fs::create_dir_all(scene.file(".gemini"))?;
                fs::write(scene.file(".gemini/settings.json"), settings.to_string())?;
                let mut words = vec![real.npm("gemini").display().to_string()];
                // Without a name it asks a model first which model is to answer.
                words.extend(["-m", "gemini-2.5-pro", "-p", "use the tools"].map(str::to_owned));
                words.extend(["--yolo", "--skip-trust", "--output-format", "stream-json"].map(str::to_owned));
                words
            }
        };
        Ok(words)
    }
}

/// An agent at work: what it said, and what mcpmon said beside it.
struct Run {
    scene: Scene,
    model: FakeLlm,
    said: String,
    told: String,
}

/// A URL at which no server listens.
const NOBODY: &str = "http://127.0.0.1:1";

fn run(agent: Agent, real: &Real, turns: Vec<Value>, policy: &str) -> Result<Run> {
    let turns = [agent.opening(), turns].concat();
    let script: Script = serde_json::from_value(json!({"only_with_tools": true, "turns": turns}))?;
    let model = FakeLlm::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), script)?;
    let scene = Scene::new()?;
    let at = format!("http://{}", model.address());
    let providers = match agent {
        Agent::CodexAtGateway => {
            fs::create_dir_all(scene.file(".codex"))?;
            let provider = format!(
                "model_provider = \"corp\"\n[model_providers.corp]\nname = \"Corp\"\nbase_url = \"{at}/v1\"\n\
                 wire_api = \"responses\"\nenv_key = \"OPENAI_API_KEY\"\n"
            );
            fs::write(scene.file(".codex/config.toml"), provider)?;
            json!({agent.provider(): NOBODY})
        }
        Agent::ClaudeCode | Agent::Codex | Agent::GeminiCli => json!({agent.provider(): at}),
    };
    let configuration =
        format!("version: 1\nproxy: {{listen: \"127.0.0.1:0\", providers: {providers}}}\n{policy}");
    let configuration = scene.configuration(&configuration)?;
    let behind = real.npm("mcp-server-everything").display().to_string();
    let mut wrapped = scene
        .wrapped("everything", &["--config", &configuration], &[behind])?
        .into_iter();
    let server = Server {
        command: wrapped.next().context("a command")?,
        arguments: wrapped.collect(),
    };
    let mut command = Command::new(program::path()?);
    command
        .args(["run", "--config", &configuration, "--db"])
        .arg(scene.store())
        .arg("--");
    command.args(agent.command(real, &scene, &server)?);
    let output = scene
        .prepare(&mut command)
        .env("ANTHROPIC_API_KEY", "no-key-at-all")
        .env("OPENAI_API_KEY", "no-key-at-all")
        .env("GEMINI_API_KEY", "no-key-at-all")
        .env("CODEX_HOME", scene.file(".codex"))
        .env("ENABLE_TOOL_SEARCH", "false")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .stdin(Stdio::null())
        .output()
        .context("cannot start mcpmon run")?;
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
    Ok(run)
}

/// One call goes through all of it; the next is stopped before the agent hears of it, and the agent goes on.
#[test_case(Agent::ClaudeCode; "claude code")]
#[test_case(Agent::Codex; "codex")]
#[test_case(Agent::CodexAtGateway; "codex at a gateway of its own")]
#[test_case(Agent::GeminiCli; "gemini cli")]
fn one_call_is_made_and_one_is_stopped(agent: Agent) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let turns = vec![
        json!([{"text": "I ask the server."}, agent.call("echo", "call_made", json!({"message": "hello there"}))]),
        json!([{"text": "Now the sum."}, agent.call("get-sum", "call_stopped", json!({"a": 2, "b": 3}))]),
    ];
    let run = run(agent, &real, turns, POLICY)?;
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

/// If nothing is stopped, the agent works as it does alone.
#[test_case(Agent::ClaudeCode; "claude code")]
#[test_case(Agent::Codex; "codex")]
#[test_case(Agent::CodexAtGateway; "codex at a gateway of its own")]
#[test_case(Agent::GeminiCli; "gemini cli")]
fn an_agent_works_as_it_does_alone(agent: Agent) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let calls = [
        agent.call("echo", "call_1", json!({"message": "first"})),
        agent.call("get-sum", "call_2", json!({"a": 2, "b": 3})),
    ];
    // As long as a piece of a stream, which some agents tell as it comes.
    let turns = vec![json!(calls), json!([{"text": "All done"}])];
    let run = run(agent, &real, turns, "")?;
    for expected in ["Echo: first", "The sum of 2 and 3 is 5", "All done"] {
        assert!(run.said.contains(expected), "{}\n{}", run.said, run.told);
    }
    assert_eq!(run.scene.events("mcp_tool_called")?.len(), 2);
    Ok(())
}

/// An agent whose requests would pass by does not start, and the first line says why.
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
