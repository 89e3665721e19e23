//! Agents whose own files `mcpmon setup` has changed: their hooks stop a call of a built-in tool, their models are
//! reached through the proxy, and the users' files are restored.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    agents::Agent,
    background::{Background, free_address},
    program,
    real::{Real, Scene},
};
use mcpmon_fake_llm::{FakeLlm, Script};
use serde_json::{Value, json};
use test_case::test_case;

/// An agent in a separate home, with a script as its model.
struct Hooked {
    agent: Agent,
    scene: Scene,
    model: FakeLlm,
    words: Vec<String>,
}

impl Hooked {
    /// Sets up the agent; returns `None` if no agents are installed.
    fn new(agent: Agent, calls: impl FnOnce(&Scene) -> Vec<Value>, policy: &str) -> Result<Option<Self>> {
        let Some(real) = Real::find()? else {
            return Ok(None);
        };
        let scene = Scene::new()?;
        let turns = [calls(&scene), vec![json!([{"text": "All done"}])]].concat();
        let script: Script = serde_json::from_value(json!({"only_with_tools": true, "turns": turns}))?;
        let model = FakeLlm::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), script)?;
        let store = scene.store().display().to_string();
        let file = scene.file(".config/mcpmon/mcpmon.yaml");
        fs::create_dir_all(file.parent().context("a directory")?)?;
        fs::write(
            file,
            format!("version: 1\nrecord: {{path: \"{store}\"}}\n{policy}"),
        )?;
        let directory = match agent {
            Agent::ClaudeCode => ".claude",
            Agent::Codex => ".codex",
            Agent::GeminiCli => ".gemini",
            Agent::Opencode => ".config/opencode",
        };
        fs::create_dir_all(scene.file(directory))?;
        fs::create_dir_all(scene.file("project"))?;
        Ok(Some(Self {
            agent,
            words: agent.task(&real),
            scene,
            model,
        }))
    }

    /// Runs `mcpmon setup` for this agent.
    fn setup(&self, options: &[&str]) -> Result<String> {
        let mut command = Command::new(program::path()?);
        command
            .args(["setup", "--yes", "--client", self.agent.id()])
            .args(options);
        self.agent.prepare(&mut command, self.scene.directory());
        let output = command.output()?;
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{told}");
        Ok(told)
    }

    /// Runs the agent with its task, and returns its output on both streams.
    fn run(&self, variables: &[(&str, &str)]) -> Result<String> {
        let (program, arguments) = self.words.split_first().context("a command")?;
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "90", program]).args(arguments);
        self.agent.prepare(&mut command, self.scene.directory());
        for name in ["ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"] {
            command.env_remove(name);
        }
        let output = command
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .output()?;
        let said = [output.stdout, output.stderr].concat();
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

/// Returns a write to a protected file by a built-in tool of the agent.
fn write(agent: Agent, scene: &Scene) -> Vec<Value> {
    let file = scene.file(".bashrc").display().to_string();
    let call = |tool: &str, input: Value| vec![json!([{"tool": tool, "id": "call_1", "input": input}])];
    match agent {
        Agent::ClaudeCode => call("Write", json!({"file_path": file, "content": "x"})),
        Agent::Codex => call("exec_command", json!({"cmd": format!("echo x >> {file}")})),
        Agent::GeminiCli | Agent::Opencode => call(
            "run_shell_command",
            json!({"command": format!("echo x >> {file}")}),
        ),
    }
}

#[test_case(Agent::ClaudeCode, ".claude/settings.json"; "claude code")]
#[test_case(Agent::GeminiCli, ".gemini/settings.json"; "gemini cli")]
#[test_case(Agent::Codex, ".codex/hooks.json"; "codex")]
fn a_hook_stops_a_tool_of_the_agents_own(agent: Agent, file: &str) -> Result<()> {
    let Some(mut hooked) = Hooked::new(agent, |scene| write(agent, scene), "")? else {
        return Ok(());
    };
    let before = match agent {
        Agent::Codex => "{\n  \"hooks\": {}\n}\n",
        Agent::ClaudeCode | Agent::GeminiCli | Agent::Opencode => {
            "{\n  \"security\": {\"auth\": {\"selectedType\": \"gemini-api-key\"}}\n}\n"
        }
    };
    if agent == Agent::Codex {
        let url = format!("http://{}/v1", hooked.model.address());
        let text = format!(
            "model = \"gpt-5\"\nmodel_provider = \"corp\"\n[model_providers.corp]\nname = \"Corp\"\nbase_url = \"{url}\"\n\
             wire_api = \"responses\"\nenv_key = \"OPENAI_API_KEY\"\n"
        );
        fs::write(hooked.scene.file(".codex/config.toml"), text)?;
    }
    fs::write(hooked.scene.file(file), before)?;
    let notes = hooked.setup(&["--hooks"])?;
    if agent == Agent::Codex {
        assert!(notes.contains("trust it with /hooks"), "{notes}");
        // A person confirms the hooks in a dialog. This is the agent's option for automation.
        hooked
            .words
            .insert(2, "--dangerously-bypass-hook-trust".to_owned());
    }
    let at = format!("http://{}", hooked.model.address());
    let said = hooked.run(&[("ANTHROPIC_BASE_URL", &at), ("GOOGLE_GEMINI_BASE_URL", &at)])?;
    assert!(said.contains("All done"), "{said}");
    assert!(!hooked.scene.file(".bashrc").exists(), "{said}");
    let judged = hooked.scene.events("mcp_tool_call_intercepted")?;
    let stopped = judged.iter().find(|event| event["action"] == "block");
    let stopped = stopped.with_context(|| format!("{judged:?}\n{said}"))?;
    assert_eq!(
        (&stopped["layer"], &stopped["rule"]),
        (&json!("hook"), &json!("protected_file"))
    );
    let heard = hooked.model.received().into_iter();
    let told = heard.filter(|request| String::from_utf8_lossy(&request.body).contains("[mcpmon]"));
    assert!(told.count() > 0, "the model heard no reason: {said}");
    hooked.setup(&["--disable"])?;
    assert_eq!(fs::read_to_string(hooked.scene.file(file))?, before);
    Ok(())
}

#[test_case(Agent::ClaudeCode; "claude code")]
#[test_case(Agent::Codex; "codex")]
#[test_case(Agent::GeminiCli; "gemini cli")]
fn models_are_asked_through_the_proxy(agent: Agent) -> Result<()> {
    let listen = free_address()?;
    let policy = format!("proxy: {{listen: \"{listen}\"}}\n");
    let Some(hooked) = Hooked::new(agent, |_| Vec::new(), &policy)? else {
        return Ok(());
    };
    if agent == Agent::GeminiCli {
        fs::write(
            hooked.scene.file(".gemini/settings.json"),
            r#"{"security": {"auth": {"selectedType": "gemini-api-key"}}}"#,
        )?;
    }
    let at = format!("http://{}", hooked.model.address());
    let configuration = hooked.scene.file("proxy.yaml");
    let providers = json!({agent.provider(): at});
    let store = hooked.scene.store().display().to_string();
    fs::write(
        &configuration,
        format!(
            "version: 1\nrecord: {{path: \"{store}\"}}\nproxy: {{listen: \"{listen}\", providers: {providers}}}\n"
        ),
    )?;
    let mut proxy = Command::new(program::path()?);
    proxy.arg("proxy").arg("--config").arg(&configuration);
    proxy
        .arg("--socket")
        .arg(hooked.scene.file("no-daemon"))
        .arg("--db")
        .arg(hooked.scene.store());
    let _proxy = Background::start(&mut proxy, listen, hooked.scene.file("proxy.log"))?;
    let notes = hooked.setup(&["--llm"])?;
    assert!(!notes.contains("nothing listens"), "{notes}");
    let said = hooked.run(&[])?;
    assert!(said.contains("All done"), "{said}");
    assert!(!hooked.model.received().is_empty());
    hooked.setup(&["--disable"])?;
    Ok(())
}
