//! Lists are read before a client asks, and a server whose list never ends uses little memory.

use std::{fs, io, net::TcpStream};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    mcp_proxy::{McpProxy, it},
    raw::{Message, RawServer, say},
    wait,
};
use serde_json::{Value, json};
use test_case::test_case;

const POLICY: &str = "version: 1\nmcp:\n  server_policy: none\n";
const JSON: &str = "application/json";
/// The tool that is listed last.
const LAST: &str = "last";
/// The memory that these lists may take beyond that of other lists, in kibibytes.
const MAX_KIBIBYTES: u64 = 64 << 10;

/// Returns a page of tools, each padded to `bytes` bytes with as many small values as possible, because a hostile list
/// takes many times its size in memory once it is parsed.
fn page(tools: &[&str], bytes: usize, next: Option<usize>) -> String {
    let things = "{},".repeat(bytes / 3) + "{}";
    let tool =
        |name: &&str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object","enum":[{things}]}}}}"#);
    let tools: Vec<String> = tools.iter().map(tool).collect();
    let next = next.map_or(String::new(), |next| format!(r#","nextCursor":"{next}""#));
    format!(r#"{{"tools":[{}]{next}}}"#, tools.join(","))
}

fn usual(_: usize) -> String {
    page(&[LAST], 300, None)
}

/// Returns a page that is followed by another one, without an end.
fn pages(number: usize) -> String {
    page(&["a"], 1 << 20, Some(number + 1))
}

/// Returns a page that is the only one.
fn whole(_: usize) -> String {
    page(&["a"], 5 << 20, None)
}

/// Returns a page of almost the largest allowed size, nearly four mebibytes.
fn most(number: usize) -> String {
    let names: Vec<String> = (0..9).map(|tool| format!("t{number}-{tool}")).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    if number == 19 {
        names.push(LAST);
    }
    page(&names, 20_000, (number < 19).then_some(number + 1))
}

/// Starts a server with tools, which answers with `page` of the page number that is asked for.
fn lists(page: fn(usize) -> String) -> Result<RawServer> {
    RawServer::start(move |asked: &Message, stream: &mut TcpStream| -> io::Result<()> {
        let message = asked.json();
        let result = match message["method"].as_str().unwrap_or_default() {
            "server/discover" => json!({"capabilities": {"tools": {}}}).to_string(),
            _ => {
                let cursor = message["params"]["cursor"].as_str().unwrap_or_default();
                page(cursor.parse().unwrap_or_default())
            }
        };
        let id = &message["id"];
        say(
            stream,
            JSON,
            &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        )
    })
}

/// Returns the peak memory, in kibibytes, of a proxy for a server with such lists until an event of this kind was
/// recorded, and the events.
fn peak(page: fn(usize) -> String, kind: &str) -> Result<(u64, Vec<Value>)> {
    let server = lists(page)?;
    let proxy = McpProxy::start(POLICY, &[it(&server.url())])?;
    let told = wait::until("what the lists are taken for", || {
        let mut told = proxy.scene.events(kind)?;
        told.retain(|event| event["tool_name"].is_null() || event["tool_name"] == LAST);
        Ok((!told.is_empty()).then_some(told))
    });
    let told = told.with_context(|| proxy.log())?;
    let status = fs::read_to_string(format!("/proc/{}/status", proxy.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let digits = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok((digits.context("a peak")?.parse()?, told))
}

#[test_case(pages, "mcp_discovery_failed"; "pages without an end")]
#[test_case(whole, "mcp_discovery_failed"; "one page without an end")]
#[test_case(most, "mcp_tool_seen"; "as much as may be")]
fn a_long_list_takes_little_room(page: fn(usize) -> String, kind: &str) -> Result<()> {
    let (few, _) = peak(usual, "mcp_tool_seen")?;
    let (many, told) = peak(page, kind)?;
    for event in told.iter().filter(|event| event["cause"].is_string()) {
        let cause = "it does not come to an end: more than 4194304 bytes";
        assert_eq!(event["cause"], cause, "{event}");
    }
    let more = many.saturating_sub(few);
    assert!(more < MAX_KIBIBYTES, "{more} KiB more than {few} KiB");
    Ok(())
}
