//! An MCP client as a process of its own, so that the commands of the user do not run below a client.

use std::{
    env,
    io::{self, BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::wrapped::Wrapped;
use serde_json::{Value, json};

use crate::action::Outcome;

/// The tool that every server has.
const TOOL: &str = "forecast";
/// The subcommand that is the client.
pub(crate) const SUBCOMMAND: &str = "client";
/// Variables with the client's version and revision of the protocol.
pub(crate) const VERSION: &str = "CLIENT_VERSION";

/// A running client.
#[derive(Debug)]
pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// The process that the client started.
    pub(crate) wrapper: u64,
}

impl Client {
    /// Starts a client by a prepared command, which it gets a shell line for. Returns the result of its first use.
    pub(crate) fn start(command: &mut Command, line: &str) -> Result<(Self, Outcome)> {
        let mut child = command
            .args(["-c", &format!("exec {line}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut client = Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().context("a pipe")?),
            child,
            wrapper: 0,
        };
        let first = client.read()?;
        client.wrapper = first["wrapper"].as_u64().context("a process")?;
        Ok((client, outcome(&first)))
    }

    /// Returns the client's process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn read(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("the client reports nothing: {line:?}"))
    }

    /// Calls a tool.
    pub(crate) fn call(&mut self, tool: &str) -> Result<Outcome> {
        writeln!(self.stdin.as_mut().context("a pipe")?, "{tool}")?;
        Ok(outcome(&self.read()?))
    }

    /// Ends the client. Returns standard error of the server and the wrapper.
    pub(crate) fn close(mut self) -> Result<String> {
        self.stdin = None;
        let last = self.read();
        self.child.wait()?;
        Ok(last?["stderr"].as_str().unwrap_or_default().to_owned())
    }
}

impl Drop for Client {
    /// Kills the client; it is no failure if it has ended already.
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn outcome(report: &Value) -> Outcome {
    let text = report["text"].as_str().unwrap_or_default().to_owned();
    match report["outcome"].as_str() {
        Some("passes") => Outcome::Passes,
        Some("refused") => Outcome::Refused(text),
        Some(_) | None => Outcome::Broken(text),
    }
}

/// Is the client: starts a command, reports on standard output, and reads names of tools to call.
///
/// # Errors
/// Returns an error if the command cannot be started.
pub fn serve(command: &[String]) -> Result<()> {
    let (program, arguments) = command.split_first().context("a command")?;
    let mut session = Session {
        wrapped: Wrapped::start(Command::new(program).args(arguments))?,
        asked: 0,
    };
    let mut first = session.report(Session::open);
    first["wrapper"] = json!(session.wrapped.pid().as_raw());
    print(&first)?;
    for tool in io::stdin().lines() {
        print(&session.report(|session| session.call(&tool?)))?;
    }
    let (code, _, stderr) = session.wrapped.finish_bytes()?;
    print(&json!({"code": code, "stderr": String::from_utf8_lossy(&stderr)}))
}

fn print(report: &Value) -> Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{report}")?;
    Ok(stdout.flush()?)
}

/// A conversation with a server.
struct Session {
    wrapped: Wrapped,
    asked: u32,
}

impl Session {
    /// Does one thing. Returns its report: `passes`, `refused` with the text of the answer, or `broken`.
    fn report(&mut self, work: impl FnOnce(&mut Self) -> Result<Option<String>>) -> Value {
        match work(self) {
            Ok(None) => json!({"outcome": "passes"}),
            Ok(Some(text)) => json!({"outcome": "refused", "text": text}),
            Err(error) => json!({"outcome": "broken", "text": format!("{error:#}")}),
        }
    }

    /// Does the handshake, lists the tools and calls one. Returns the text of a refusal.
    fn open(&mut self) -> Result<Option<String>> {
        let version = env::var(VERSION).unwrap_or_else(|_| "2025-06-18".to_owned());
        let about = json!({"name": "day", "version": version});
        let parameters = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": about});
        let answer = self.ask("initialize", &parameters)?;
        if let Some(text) = refusal(&answer) {
            return Ok(Some(text));
        }
        self.wrapped
            .send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
        let answer = self.ask("tools/list", &json!({}))?;
        let tools = answer["result"]["tools"].as_array();
        if !tools.is_some_and(|tools| tools.iter().any(|tool| tool["name"] == TOOL)) {
            return Ok(Some(
                refusal(&answer).unwrap_or_else(|| format!("{TOOL} is not in {answer}")),
            ));
        }
        self.call(TOOL)
    }

    /// Calls a tool. Returns the text of a refusal.
    fn call(&mut self, tool: &str) -> Result<Option<String>> {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": {}}))?;
        Ok(refusal(&answer))
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Result<Value> {
        self.asked += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": parameters});
        self.wrapped
            .send(&request.to_string())
            .with_context(|| format!("{method}: connection closed"))?;
        loop {
            let line = self.wrapped.line()?;
            anyhow::ensure!(!line.is_empty(), "{method}: connection closed without an answer");
            let answer: Value = serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))?;
            if answer["id"] == self.asked && answer.get("method").is_none() {
                return Ok(answer);
            }
        }
    }
}

/// Returns the text of an answer that is an error or the error of a tool.
fn refusal(answer: &Value) -> Option<String> {
    let error = answer["error"]["message"].as_str();
    let is_error = answer["result"]["isError"] == true;
    let text = answer["result"]["content"][0]["text"]
        .as_str()
        .filter(|_| is_error);
    error.or(text).map(str::to_owned)
}
