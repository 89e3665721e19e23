//! Agents whose servers `mcpmon setup` has wrapped: a call waits for a person, the agent continues with the result of
//! the call, and the user's file is restored. Only their models are scripts made for a test.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr},
    os::unix::process::CommandExt as _,
    process::{Child, Command},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    agents::Agent,
    json::text,
    program,
    real::{Real, Scene},
    tmux::Terminal,
    wait,
};
use mcpmon_fake_llm::{FakeLlm, Script};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde_json::json;
use test_case::test_case;

const RESULT: &str = "Echo: hello there";

/// An agent in a separate home, with a server that setup wraps and a rule that asks about one of its tools.
struct AgentUnderTest {
    agent: Agent,
    scene: Scene,
    model: FakeLlm,
    words: Vec<String>,
}

impl AgentUnderTest {
    /// Sets up the agent; returns `None` if no agents are installed.
    fn new(agent: Agent) -> Result<Option<Self>> {
        let Some(real) = Real::find()? else {
            return Ok(None);
        };
        let turns = vec![
            json!([{"text": "I ask the server."}, agent.call("echo", "call_1", &json!({"message": "hello there"}))]),
            json!([{"text": "All done"}]),
        ];
        let turns = [agent.opening(), turns].concat();
        let script: Script = serde_json::from_value(json!({"only_with_tools": true, "turns": turns}))?;
        let model = FakeLlm::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), script)?;
        let scene = Scene::new()?;
        let server = real.npm("mcp-server-everything").display().to_string();
        let url = format!("http://{}", model.address());
        agent.configure(scene.directory(), &[server, "stdio".to_owned()], Some(&url))?;
        let store = scene.store().display().to_string();
        let policy = format!(
            "version: 1\nrecord: {{path: \"{store}\"}}\nmcp:\n  rules:\n    - {{id: ask-echo, match: {{tool_name: echo}}, \
             decision: ASK, reason: It leaves the house.}}\n"
        );
        let file = scene.file(".config/mcpmon/mcpmon.yaml");
        fs::create_dir_all(file.parent().context("a directory")?)?;
        fs::write(file, policy)?;
        Ok(Some(Self {
            agent,
            words: agent.task(&real),
            scene,
            model,
        }))
    }

    fn file(&self) -> Result<String> {
        Ok(fs::read_to_string(self.scene.file(self.agent.file()))?)
    }

    /// Runs `mcpmon setup` for this agent.
    fn setup(&self, options: &[&str]) -> Result<()> {
        let mut command = Command::new(program::path()?);
        command
            .args(["setup", "--yes", "--client", self.agent.id()])
            .args(options);
        self.agent.prepare(&mut command, self.scene.directory());
        let output = command.output()?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// Starts the agent with its task.
    fn start(&self) -> Result<Running> {
        let (program, arguments) = self.words.split_first().context("a command")?;
        let mut command = Command::new(program);
        command.args(arguments);
        self.agent.prepare(&mut command, self.scene.directory());
        let at = format!("http://{}", self.model.address());
        command
            .env("ANTHROPIC_BASE_URL", &at)
            .env("GOOGLE_GEMINI_BASE_URL", &at)
            .stdout(File::create(self.scene.file("said"))?)
            .stderr(File::create(self.scene.file("told"))?)
            .process_group(0);
        Ok(Running(command.spawn()?))
    }

    /// Returns the agent's output on both streams.
    fn said(&self) -> Result<String> {
        let said = fs::read(self.scene.file("said"))?;
        let told = fs::read(self.scene.file("told"))?;
        Ok(String::from_utf8_lossy(&[said, told].concat()).into_owned())
    }

    /// Returns whether the model received the result of the call.
    fn model_heard(&self) -> bool {
        let mut requests = self.model.received().into_iter();
        requests.any(|request| String::from_utf8_lossy(&request.body).contains(RESULT))
    }

    /// Waits for the held call, which neither server nor model has received. Returns the id by which a person answers
    /// it.
    fn held(&self) -> Result<String> {
        let starts = wait::until("a wrapper's store", || {
            Ok(self.scene.store().exists().then_some(()))
        });
        starts.with_context(|| self.said().unwrap_or_default())?;
        let held = wait::until("a held call", || {
            // While the store is being created, it cannot be listed.
            let calls = self.scene.list(&["approvals", "list", "--pending"]);
            Ok(calls.unwrap_or_default().into_iter().next())
        });
        let held = held.with_context(|| self.said().unwrap_or_default())?;
        let waiting = &held["waiting"];
        assert_eq!(text(waiting, "tool_name"), "echo", "{held}");
        assert_eq!(text(waiting, "server_id"), "everything", "{held}");
        assert_eq!(text(waiting, "arguments"), r#"{"message":"hello there"}"#);
        assert!(self.scene.events("mcp_tool_called")?.is_empty());
        assert!(!self.model_heard());
        Ok(text(waiting, "id").to_owned())
    }

    /// Checks that the agent ends well, and that its model received the result of the call.
    fn goes_on(&self, mut agent: Running) -> Result<()> {
        let status = wait::until("the agent's end", || Ok(agent.0.try_wait()?));
        let said = self.said()?;
        let status = status.with_context(|| said.clone())?;
        assert!(status.success(), "{status}: {said}");
        assert!(said.contains(RESULT) && said.contains("All done"), "{said}");
        assert!(self.model_heard(), "{said}");
        let approvals = self.scene.events("mcp_approval")?;
        let states: Vec<_> = approvals.iter().map(|event| text(event, "state")).collect();
        assert_eq!(states, ["requested", "granted"]);
        assert_eq!(self.scene.events("mcp_tool_called")?.len(), 1);
        Ok(())
    }
}

/// A running agent. It is killed at the end, with every process of its launcher.
struct Running(Child);

impl Drop for Running {
    /// Kills the process group; it is no failure if it has ended already.
    fn drop(&mut self) {
        let group = Pid::from_raw(self.0.id().cast_signed());
        killpg(group, Signal::SIGKILL).ok();
        drop(self.0.wait());
    }
}

#[test_case(Agent::ClaudeCode; "claude code")]
#[test_case(Agent::Codex; "codex")]
#[test_case(Agent::GeminiCli; "gemini cli")]
#[test_case(Agent::Opencode; "opencode")]
fn a_call_waits_for_a_person_and_the_file_comes_back(agent: Agent) -> Result<()> {
    let Some(asked) = AgentUnderTest::new(agent)? else {
        return Ok(());
    };
    if agent == Agent::ClaudeCode {
        // The agent completes its file when it is first used.
        let [node, program] = &asked.words[..2] else {
            unreachable!("two words");
        };
        let mut list = Command::new(node);
        list.arg(program).args(["mcp", "list"]);
        agent.prepare(&mut list, asked.scene.directory());
        ensure!(list.output()?.status.success(), "{list:?}");
    }
    let before = asked.file()?;
    asked.setup(&[])?;
    let wrapped = asked.file()?;
    assert!(wrapped.contains("wrap"), "{wrapped}");
    let running = asked.start()?;
    let id = asked.held()?;
    let shown = asked.scene.list(&["approvals", "show", &id])?;
    assert_eq!(text(&shown[0], "rule"), "ask-echo", "{shown:?}");
    let store = asked.scene.store().display().to_string();
    let allowed = program::run(["approvals", "allow", &id, "--db", &store])?;
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    asked.goes_on(running)?;

    assert_eq!(asked.file()?, wrapped, "the agent leaves its file alone");
    asked.setup(&["--disable"])?;
    assert_eq!(asked.file()?, before);
    Ok(())
}

#[test]
fn a_call_of_claude_code_is_answered_in_top() -> Result<()> {
    let Some(asked) = AgentUnderTest::new(Agent::ClaudeCode)? else {
        return Ok(());
    };
    let mut top = Command::new(program::path()?);
    top.arg("top").arg("--db").arg(asked.scene.store());
    top.arg("--socket").arg(asked.scene.file("no-daemon"));
    top.env("XDG_CONFIG_HOME", asked.scene.file(".config"));
    asked.setup(&[])?;
    let running = asked.start()?;
    let id = asked.held()?;
    let Some(terminal) = Terminal::start(asked.scene.directory(), (100, 30), &top)? else {
        return Ok(());
    };
    terminal.press(&["6"])?;
    terminal.until(&["[6 Approvals (1)]", "requested", "echo"])?;
    terminal.press(&["Enter"])?;
    terminal.until(&["It leaves the house", "\"message\": \"hello there\""])?;
    terminal.press(&["q", "a"])?;
    terminal.until(&[&format!("allow {id}? y: yes")])?;
    terminal.press(&["y"])?;
    terminal.until(&["granted"])?;
    asked.goes_on(running)
}
