//! A minimal MCP client: one handshake over stdio, and one over HTTP.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::{Child, ChildStdin, ChildStdout},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

/// The longest wait for a server's answer.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Longest answer that is read, bytes.
const MAX_ANSWER: u64 = 4 << 20;
/// The time limit of one attempt to connect.
const ATTEMPT: Duration = Duration::from_secs(2);

/// An open conversation with a server, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Session {
    /// The names of its tools.
    pub(super) tools: Vec<String>,
    _input: ChildStdin,
    _output: ChildStdout,
}

/// Initialises a server on its pipes and lists its tools.
pub(super) fn over_stdio(server: &mut Child) -> Result<Session> {
    let mut input = server.stdin.take().context("the server's input is a pipe")?;
    let output = server.stdout.take().context("the server's output is a pipe")?;
    let mut answers = BufReader::new(output.take(MAX_ANSWER));
    let mut send = |message: Value| writeln!(input, "{message}").context("the server reads no more");
    send(initialize())?;
    answer(&mut answers, 1)?;
    send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
    send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}))?;
    let listed = answer(&mut answers, 2)?;
    let listed = listed
        .pointer("/result/tools")
        .and_then(Value::as_array)
        .context("no list of tools")?;
    let tools = listed
        .iter()
        .filter_map(|tool| Some(tool.get("name")?.as_str()?.to_owned()))
        .collect();
    Ok(Session {
        tools,
        _input: input,
        _output: answers.into_inner().into_inner(),
    })
}

/// Returns the answer with this id. Notifications and requests of the server are skipped.
fn answer(lines: &mut impl io::BufRead, id: u64) -> Result<Value> {
    for line in lines.lines() {
        let line = line.context("the server's output cannot be read")?;
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        if message.get("id").and_then(Value::as_u64) == Some(id) && message.get("method").is_none() {
            return Ok(message);
        }
    }
    anyhow::bail!("the server ended, or said too much, without an answer to request {id}")
}

/// Initialises a server, and returns the status line of its answer.
pub(super) fn over_http(address: SocketAddr) -> Result<String> {
    let mut stream = connect(address).with_context(|| format!("could not connect to {address}"))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let body = initialize().to_string();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut status = String::new();
    BufReader::new(stream.take(MAX_ANSWER))
        .read_line(&mut status)
        .context("no answer over HTTP")?;
    ensure!(
        status.starts_with("HTTP/1.1 200"),
        "the server answered {}",
        status.trim()
    );
    Ok(status.trim().to_owned())
}

/// Makes one attempt to connect.
pub(super) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&address, ATTEMPT)
}

fn initialize() -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "mcpmon-demo", "version": "1"},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_itself_is_taken() {
        let lines = [
            "Starting server...",
            r#"{"jsonrpc":"2.0","method":"notifications/message"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"roots/list"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}"#,
        ]
        .join("\n");
        let found = answer(&mut lines.as_bytes(), 2).unwrap();
        assert!(found.pointer("/result/tools").is_some(), "{found}");
        assert!(answer(&mut lines.as_bytes(), 3).is_err_and(|error| error.to_string().contains("request 3")));
    }
}
