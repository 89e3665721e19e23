//! The far side: an MCP server with one tool, which answers with as much text as a call asks for, and can send a stream
//! of notifications.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Write},
    os::fd::AsFd as _,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// Ordinary text, which a scanner has to read and in which it finds nothing.
const TEXT: &str =
    "The quarterly report lists twelve offices, their opening hours and the number of visitors. ";

/// Answers until the end of standard input.
pub(crate) fn serve() -> Result<()> {
    let mut input = BufReader::with_capacity(1 << 16, io::stdin().lock());
    // `Stdout` would search everything for line ends.
    let mut output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let (mut line, mut text) = (String::new(), String::new());
    while input.read_line(&mut line)? > 0 {
        answer(&line, &mut text, &mut output)?;
        line.clear();
    }
    Ok(())
}

fn answer(line: &str, text: &mut String, output: &mut impl Write) -> Result<()> {
    // The form of calls is known, so that the far side costs as little as possible.
    if let Some((id, bytes)) = call(line) {
        fill(text, bytes);
        let mut message = String::with_capacity(bytes + 128);
        message.push_str(r#"{"jsonrpc":"2.0","id":"#);
        message.push_str(id);
        message.push_str(r#","result":{"content":[{"type":"text","text":""#);
        message.push_str(text);
        message.push_str("\"}]}}\n");
        return Ok(output.write_all(message.as_bytes())?);
    }
    let request: Value = serde_json::from_str(line)?;
    let Some(id) = request.get("id") else {
        return Ok(());
    };
    let result = match request["method"].as_str().context("a method")? {
        "initialize" => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "bench-echo", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{
            "name": "report",
            "description": "Returns the report, in the length that is asked for",
            "inputSchema": {"type": "object", "properties": {"bytes": {"type": "integer"}, "about": {"type": "string"}}},
        }]}),
        "bench/stream" => {
            stream(&request["params"], text, output)?;
            json!({})
        }
        _ => json!({}),
    };
    let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
    Ok(output.write_all(format!("{message}\n").as_bytes())?)
}

/// Returns id and length of a call as [`super::conversation`] writes it.
fn call(line: &str) -> Option<(&str, usize)> {
    let rest = line.strip_prefix(r#"{"jsonrpc":"2.0","id":"#)?;
    let (id, rest) = rest.split_once(',')?;
    let rest =
        rest.strip_prefix(r#""method":"tools/call","params":{"name":"report","arguments":{"bytes":"#)?;
    Some((id, rest.split_once(',')?.0.parse().ok()?))
}

/// Sends as many lines of 1 KB as the request asks for, several in each write.
fn stream(parameters: &Value, text: &mut String, output: &mut impl Write) -> Result<()> {
    let lines = parameters["lines"].as_u64().context("how many lines")?;
    fill(text, 900);
    let line = json!({
        "jsonrpc": "2.0",
        "method": "notifications/message",
        "params": {"level": "info", "logger": "bench", "data": text.as_str()},
    });
    let several = format!("{line}\n").repeat(32);
    for _ in 0..lines / 32 {
        output.write_all(several.as_bytes())?;
    }
    Ok(())
}

fn fill(text: &mut String, bytes: usize) {
    while text.len() < bytes {
        text.push_str(TEXT);
    }
    text.truncate(bytes);
}
