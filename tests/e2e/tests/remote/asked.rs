//! Calls of a remote server's tools that wait for a person: the client's stream stays open, and a client that
//! disconnects cancels its call.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    json::text,
    mcp_proxy::McpProxy,
    notes_server::{Remote, call, list},
    program,
    wait::{self, TIMEOUT},
};
use serde_json::{Value, json};

use super::{before, tools};

const POLICY: &str = "version: 1\nmcp:\n  approvals: {timeout: 25s}\n  rules: [{id: ask, match: {tool_name: remove}, decision: ASK}]\n";

/// A call whose response is read while it arrives.
struct Calling(BufReader<TcpStream>);

impl Calling {
    fn start(url: &str, accept: &str) -> Result<Self> {
        let (authority, path) = url
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once('/'))
            .context("a URL in clear")?;
        let params = json!({"name": "remove", "arguments": {"path": "a"}, "_meta": {"progressToken": "p"}});
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
        let mut stream = TcpStream::connect(authority)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        write!(
            stream,
            "POST /{path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             accept: {accept}\r\nmcp-protocol-version: 2025-06-18\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Reads up to a line that contains `part`.
    fn until(&mut self, part: &str) -> Result<String> {
        loop {
            let mut line = String::new();
            let read = self.0.read_line(&mut line)?;
            anyhow::ensure!(read > 0, "the response ended without {part}");
            if line.contains(part) {
                return Ok(line);
            }
        }
    }
}

fn waiting(proxy: &McpProxy, count: usize) -> Result<Vec<Value>> {
    wait::until("held calls", || {
        let calls = proxy.scene.list(&["approvals", "list", "--pending"])?;
        Ok((calls.len() == count).then_some(calls))
    })
}

fn answer(proxy: &McpProxy, word: &str, id: &str) -> Result<()> {
    let store = proxy.scene.store().display().to_string();
    let run = program::run(["approvals", word, id, "--db", &store])?;
    assert_eq!(run.code, Some(0), "{run:?}");
    Ok(())
}

fn called(server: &Remote) -> Result<bool> {
    Ok(server.heard()?.contains(&"tools/call remove".to_owned()))
}

#[test]
fn a_held_call_is_a_stream_with_progress_and_its_answer() -> Result<()> {
    let server = Remote::start(&tools())?;
    let proxy = before(POLICY, &server)?;
    let url = proxy.url("notes");
    list(&url)?;
    let mut calling = Calling::start(&url, "application/json, text/event-stream")?;
    calling.until("text/event-stream")?;
    let progress = calling.until("notifications/progress")?;
    assert!(progress.contains("\"progressToken\":\"p\""), "{progress}");
    let held = waiting(&proxy, 1)?.remove(0);
    assert!(!called(&server)?, "it waits");
    assert_eq!(call(&url, "read")?.text(), "done: read", "others do not");
    answer(&proxy, "allow", text(&held, "held_call"))?;
    let result = calling.until("\"id\"")?;
    assert!(
        result.starts_with("data: ") && result.contains("done: remove"),
        "{result}"
    );
    assert!(called(&server)?);
    Ok(())
}

#[test]
fn a_client_without_streams_waits_for_the_answer() -> Result<()> {
    let server = Remote::start(&tools())?;
    let proxy = before(POLICY, &server)?;
    let url = proxy.url("notes");
    list(&url)?;
    let mut calling = Calling::start(&url, "application/json")?;
    let held = waiting(&proxy, 1)?.remove(0);
    answer(&proxy, "deny", text(&held, "held_call"))?;
    let head = calling.until("HTTP/1.1")?;
    assert!(head.contains("200"), "{head}");
    let refusal = calling.until("isError")?;
    assert!(
        refusal.contains("denied by user") && refusal.contains("rule ask"),
        "{refusal}"
    );
    assert!(!called(&server)?);
    Ok(())
}

#[test]
fn a_client_that_leaves_takes_its_call_back() -> Result<()> {
    let server = Remote::start(&tools())?;
    let proxy = before(POLICY, &server)?;
    let url = proxy.url("notes");
    list(&url)?;
    let mut calling = Calling::start(&url, "application/json, text/event-stream")?;
    calling.until("notifications/progress")?;
    waiting(&proxy, 1)?;
    drop(calling);
    waiting(&proxy, 0)?;
    wait::until("the event", || {
        let events = proxy.scene.events("mcp_approval")?;
        Ok(events
            .iter()
            .any(|event| text(event, "state") == "withdrawn")
            .then_some(()))
    })?;
    assert!(!called(&server)?);
    Ok(())
}
