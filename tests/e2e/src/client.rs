//! An MCP client that starts a server and talks to it over its pipes.

use std::{
    collections::VecDeque,
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::wait::{self, TIMEOUT};

/// A server that was started, and the pipes to it. The server is killed at the end.
#[derive(Debug)]
pub struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Number of the last request.
    asked: u32,
    /// Notifications that came while something else was expected.
    heard: VecDeque<Value>,
}

impl Client {
    /// Starts a server.
    ///
    /// # Errors
    /// Returns an error if the command cannot be started.
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("a pipe was asked for")?;
        let (sender, lines) = channel();
        // Ends with the server's output, or when the receiver is dropped.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            child,
            stdin,
            lines,
            asked: 0,
            heard: VecDeque::new(),
        })
    }

    /// Returns the process that was started, which need not be the one that serves.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Initializes the session, and returns the server's process and version.
    ///
    /// # Errors
    /// Returns an error if the server ends, or does not answer.
    pub fn initialize(&mut self) -> Result<Server> {
        let parameters = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "mcpmon-e2e", "version": "1"},
        });
        let result = self.ask("initialize", &parameters)?;
        let pid = result["_meta"]["pid"].as_u64();
        let version = result["serverInfo"]["version"].as_str();
        Ok(Server {
            pid: pid
                .and_then(|pid| pid.try_into().ok())
                .context("the server tells its process")?,
            version: version.context("the server tells its version")?.to_owned(),
        })
    }

    /// Lets the server connect to an address, and returns the outcome: `connected` or the name of an error.
    ///
    /// # Errors
    /// Returns an error if the server ends, or does not answer.
    pub fn connect(&mut self, target: SocketAddr) -> Result<String> {
        let arguments = json!({"host": target.ip().to_string(), "port": target.port()});
        self.have("connect", &arguments)
    }

    /// Lets the server connect to an address, send `hello`, and keep the connection.
    ///
    /// # Errors
    /// Returns the errors of [`Client::connect`].
    pub fn keep(&mut self, target: SocketAddr) -> Result<String> {
        let arguments = json!({"host": target.ip().to_string(), "port": target.port(), "keep": true});
        self.have("connect", &arguments)
    }

    /// Lets the server read from the connection that it kept last, or close it. Returns the bytes that it read, or the
    /// outcome.
    ///
    /// # Errors
    /// Returns the errors of [`Client::connect`].
    pub fn kept(&mut self, action: &str) -> Result<String> {
        self.have(action, &json!({}))
    }

    fn have(&mut self, tool: &str, arguments: &Value) -> Result<String> {
        let result = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        let text = result["content"][0]["text"].as_str();
        Ok(text.context("a text")?.to_owned())
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// Returns an error if the server has closed its end of the pipe.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the pipe is open")?;
        stdin.write_all(bytes).context("the server reads no more")
    }

    /// Sends a line.
    ///
    /// # Errors
    /// Returns an error if the server has closed its end of the pipe.
    pub fn send(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the pipe is open")?;
        writeln!(stdin, "{line}").context("the server reads no more")
    }

    /// Returns the names of the tools that the server offers, as they reach the client.
    ///
    /// # Errors
    /// Returns an error if the server ends, or does not answer.
    pub fn tools(&mut self) -> Result<Vec<String>> {
        let result = self.ask("tools/list", &json!({}))?;
        let tools = result["tools"].as_array().context("a list of tools")?;
        let name = |tool: &Value| tool["name"].as_str().map(str::to_owned).context("a name");
        tools.iter().map(name).collect()
    }

    /// Calls a tool. Returns the text of the result or, if the call was refused, the text of the tool error.
    ///
    /// # Errors
    /// Returns an error if the server ends, or does not answer.
    pub fn call(&mut self, tool: &str) -> Result<Called> {
        let result = self.ask("tools/call", &json!({"name": tool, "arguments": {}}))?;
        let text = result["content"][0]["text"]
            .as_str()
            .context("a text")?
            .to_owned();
        Ok(match result["isError"].as_bool() {
            Some(true) => Called::Failed(text),
            Some(false) | None => Called::Returned(text),
        })
    }

    /// Waits for a notification with this method.
    ///
    /// # Errors
    /// Returns an error if the server ends, or no such notification comes.
    pub fn hear(&mut self, method: &str) -> Result<Value> {
        loop {
            let message = match self.heard.pop_front() {
                Some(message) => message,
                None => self.next().with_context(|| format!("no {method}"))?,
            };
            if message["method"] == method {
                return Ok(message);
            }
        }
    }

    /// Sends a request and returns its result; null if the answer is an error.
    ///
    /// # Errors
    /// Returns an error if the server ends, or does not answer.
    pub fn ask(&mut self, method: &str, parameters: &Value) -> Result<Value> {
        self.asked += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": parameters});
        self.send(&request.to_string())?;
        loop {
            let mut message = self.next()?;
            if message["id"] == self.asked {
                return Ok(message["result"].take());
            }
            self.heard.push_back(message);
        }
    }

    fn next(&self) -> Result<Value> {
        match self.lines.recv_timeout(TIMEOUT) {
            Ok(line) => Ok(serde_json::from_str(&line)?),
            Err(RecvTimeoutError::Disconnected) => bail!("the server ended without an answer"),
            Err(RecvTimeoutError::Timeout) => bail!("the server does not answer"),
        }
    }

    /// Closes the pipe to the server and waits until the server ends.
    ///
    /// # Errors
    /// Returns an error if the server does not end.
    pub fn close(&mut self) -> Result<ExitStatus> {
        self.stdin = None;
        self.ended()
    }

    /// Waits until the process that was started ends.
    ///
    /// # Errors
    /// Returns an error if the process does not end.
    pub fn ended(&mut self) -> Result<ExitStatus> {
        wait::until("the server's end", || Ok(self.child.try_wait()?))
    }
}

impl Drop for Client {
    /// Kills the server; it is no failure if it has ended already.
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The server's identity as it reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The process that serves.
    pub pid: u32,
    /// The server's version.
    pub version: String,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Called {
    /// The tool's result.
    Returned(String),
    /// An error, in the words that the model reads.
    Failed(String),
}
