//! A client that starts a contender, and talks through it to the far side.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};

/// The length of a request, without its numbers.
const REQUEST: usize = 300;
/// The length up to which an unexpected answer is shown.
const SHOWN: usize = 500;

/// A conversation through one contender.
pub(crate) struct Conversation {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    line: Vec<u8>,
    id: u32,
    about: String,
}

impl Conversation {
    /// Starts a contender and makes the handshake. Returns the time of both, in nanoseconds.
    pub(crate) fn start(command: &mut Command) -> Result<(Self, f64)> {
        let started = Instant::now();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let stdin = child.stdin.take();
        let stdout = BufReader::with_capacity(1 << 16, child.stdout.take().context("a pipe")?);
        let mut conversation = Self {
            child,
            stdin,
            stdout,
            line: Vec::new(),
            id: 0,
            about: "w".repeat(REQUEST - 120),
        };
        conversation.ask(
            "initialize",
            r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}"#,
        )?;
        let took = nanoseconds(started);
        conversation.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
        conversation.ask("tools/list", "{}")?;
        Ok((conversation, took))
    }

    /// Returns the process that was started.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Makes one call that is answered with this many bytes of text, and returns its time in nanoseconds.
    pub(crate) fn call(&mut self, bytes: usize) -> Result<f64> {
        self.id += 1;
        let request = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/call\",\"params\":{{\"name\":\"report\",\"arguments\":{{\"bytes\":{bytes},\"about\":\"{}\"}}}}}}\n",
            self.id, self.about
        );
        let started = Instant::now();
        self.stdin()?.write_all(request.as_bytes())?;
        self.read_line()?;
        let took = nanoseconds(started);
        ensure!(
            self.line.len() > bytes,
            "no answer of {bytes} bytes but: {}",
            String::from_utf8_lossy(&self.line[..self.line.len().min(SHOWN)])
        );
        Ok(took)
    }

    /// Receives a stream of this many lines of 1 KB, and returns the time of each in nanoseconds.
    pub(crate) fn stream(&mut self, lines: u32) -> Result<f64> {
        let started = Instant::now();
        self.id += 1;
        let request = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"bench/stream\",\"params\":{{\"lines\":{lines}}}}}\n",
            self.id
        );
        self.stdin()?.write_all(request.as_bytes())?;
        for _ in 0..=lines {
            self.read_line()?;
        }
        Ok(nanoseconds(started) / f64::from(lines))
    }

    /// Closes the pipe and waits for the end of the process.
    pub(crate) fn end(mut self) -> Result<()> {
        self.stdin = None;
        self.child.wait()?;
        Ok(())
    }

    fn ask(&mut self, method: &str, parameters: &str) -> Result<()> {
        self.id += 1;
        let id = self.id;
        self.say(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{parameters}}}"#
        ))?;
        self.read_line()
    }

    fn say(&mut self, message: &str) -> Result<()> {
        Ok(self.stdin()?.write_all(format!("{message}\n").as_bytes())?)
    }

    fn stdin(&mut self) -> Result<&mut ChildStdin> {
        self.stdin.as_mut().context("the pipe is open")
    }

    fn read_line(&mut self) -> Result<()> {
        self.line.clear();
        let count = self.stdout.read_until(b'\n', &mut self.line)?;
        ensure!(count > 0, "the conversation ended early");
        Ok(())
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "durations of a run are far below 2^52 ns"
)]
fn nanoseconds(since: Instant) -> f64 {
    since.elapsed().as_nanos() as f64
}
