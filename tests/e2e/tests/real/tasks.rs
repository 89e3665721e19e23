//! Calls that a client requests as tasks (2025-11-25), made by the official SDK: they are held like any call, with
//! progress, and no task exists before a person has answered.

use std::{
    fs::{self, File},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    json::text,
    program,
    real::{Real, Scene},
    wait,
};
use serde_json::Value;

const TOOL: &str = "simulate-research-query";
const POLICY: &str = "version: 1\nmcp:\n  rules:\n    - {id: ask-research, match: {tool_name: simulate-research-query}, \
                      decision: ASK, reason: It is dear}\n";

/// A client whose call is held.
struct Calling {
    scene: Scene,
    client: Child,
    held: String,
}

impl Calling {
    fn start(real: &Real) -> Result<Self> {
        let scene = Scene::new()?;
        let policy = scene.configuration(POLICY)?;
        let server = [real.npm("mcp-server-everything").display().to_string()];
        let mut node = Command::new("node");
        node.arg(real.script("task.mjs"))
            .args([TOOL, r#"{"topic": "bread"}"#])
            .args(scene.wrapped("everything", &["--config", &policy], &server)?)
            .stdin(Stdio::null())
            .stdout(File::create(scene.file("heard"))?);
        let client = scene.prepare(&mut node).spawn()?;
        let mut calling = Self {
            scene,
            client,
            held: String::new(),
        };
        calling.held = wait::until("a held call", || {
            // The store does not exist before the wrapper has made it.
            let waiting = calling.scene.list(&["approvals", "list", "--pending"]);
            let waiting = waiting.unwrap_or_default().into_iter().next();
            Ok(waiting.map(|event| text(&event["waiting"], "id").to_owned()))
        })?;
        Ok(calling)
    }

    /// Returns the messages that the client has received so far.
    fn heard(&self) -> Result<Vec<Value>> {
        let lines = fs::read_to_string(self.scene.file("heard"))?;
        // The last line may be incomplete.
        let whole = lines.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(|line| Ok(serde_json::from_str(line)?))
            .collect()
    }

    fn answer(&self, word: &str) -> Result<()> {
        let store = self.scene.store().display().to_string();
        let run = program::run(["approvals", word, &self.held, "--db", &store])?;
        ensure!(run.code == Some(0), "{run:?}");
        Ok(())
    }

    /// Waits until the client is done, and returns all messages that it received.
    fn finish(&mut self) -> Result<Vec<Value>> {
        let status = wait::until("the client's end", || Ok(self.client.try_wait()?))?;
        ensure!(status.success(), "{status}");
        self.heard()
    }
}

impl Drop for Calling {
    /// Kills the client; it is no failure if it has ended already.
    fn drop(&mut self) {
        drop(self.client.kill());
        drop(self.client.wait());
    }
}

fn kinds(heard: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<_> = heard.iter().map(|message| text(message, "type")).collect();
    kinds.dedup();
    kinds
}

#[test]
fn a_call_that_is_to_become_a_task_becomes_one_once_a_person_allows_it() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let mut calling = Calling::start(&real)?;
    let progress = wait::until("progress", || Ok(calling.heard()?.into_iter().next()))?;
    let message = text(&progress, "message");
    assert!(
        message.contains(&format!("mcpmon approvals show {}", calling.held)),
        "{progress}"
    );
    calling.answer("allow")?;
    let heard = calling.finish()?;
    assert_eq!(
        kinds(&heard),
        ["progress", "taskCreated", "taskStatus", "result"],
        "{heard:?}"
    );
    let result = heard.last().context("a result")?;
    assert!(result.to_string().contains("Research Report: bread"), "{result}");
    assert_eq!(calling.scene.events("mcp_tool_called")?.len(), 1);
    Ok(())
}

#[test]
fn a_client_that_wanted_a_task_reads_why_there_is_none() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let mut calling = Calling::start(&real)?;
    calling.answer("deny")?;
    let heard = calling.finish()?;
    let refusal = heard.last().context("an error")?;
    assert_eq!(text(refusal, "type"), "error", "{heard:?}");
    for part in [
        TOOL,
        "blocked by policy",
        "It is dear",
        "denied by user",
        "rule ask-research",
    ] {
        assert!(text(refusal, "message").contains(part), "{part}: {refusal}");
    }
    assert!(calling.scene.events("mcp_tool_called")?.is_empty());
    Ok(())
}
