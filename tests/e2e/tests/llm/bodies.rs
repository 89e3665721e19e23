//! The proxy forwards text as soon as it is read, whether or not more follows.

use std::{
    io::{BufReader, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{proxy::Proxy, wait};
use serde_json::json;
use test_case::test_case;

/// A pause longer than any test may take, so that the text after it never comes.
const NEVER: u64 = 3_600_000;

/// Path and request of each dialect.
pub(super) const ANTHROPIC: (&str, &str) = (
    "/v1/messages",
    r#"{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"go"}]}"#,
);
const CHAT: (&str, &str) = (
    "/v1/chat/completions",
    r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"go"}]}"#,
);
const RESPONSES: (&str, &str) = ("/v1/responses", r#"{"model":"m","stream":true,"input":"go"}"#);
const GEMINI: (&str, &str) = (
    "/v1beta/models/m:streamGenerateContent?alt=sse",
    r#"{"contents":[{"role":"user","parts":[{"text":"go"}]}]}"#,
);
const OLLAMA: (&str, &str) = (
    "/api/chat",
    r#"{"model":"m","messages":[{"role":"user","content":"go"}]}"#,
);

/// Sends a request, and returns the reader of the answer.
pub(super) fn ask(proxy: &Proxy, (path, body): (&str, &str)) -> Result<BufReader<TcpStream>> {
    let host = proxy.url();
    let host = host.strip_prefix("http://").context("a URL")?;
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    Ok(BufReader::new(stream))
}

/// Reads until all of `expected` was seen, in pieces of any framing.
pub(super) fn wait_for(reader: &mut impl std::io::BufRead, expected: &[&str]) -> Result<String> {
    let mut seen = String::new();
    while !expected.iter().all(|part| seen.contains(part)) {
        let mut line = Vec::new();
        let length = reader
            .read_until(b'\n', &mut line)
            .with_context(|| format!("it did not come; before it: {seen}"))?;
        anyhow::ensure!(length > 0, "the answer ended: {seen}");
        seen.push_str(&String::from_utf8_lossy(&line));
    }
    Ok(seen)
}

/// The model sends some text and nothing more: all of that text arrives, although the rest never comes.
#[test_case(ANTHROPIC; "anthropic")]
#[test_case(CHAT; "openai chat")]
#[test_case(RESPONSES; "openai responses")]
#[test_case(GEMINI; "gemini")]
#[test_case(OLLAMA; "ollama")]
fn no_text_is_held(request: (&str, &str)) -> Result<()> {
    let script =
        json!({"piece": 4, "turns": [[{"text": "abcdwxyz"}, {"pause_ms": NEVER}, {"text": "never"}]]});
    let proxy = Proxy::start(&script, "")?;
    let mut answer = ask(&proxy, request)?;
    wait_for(&mut answer, &["abcd", "wxyz"])?;
    Ok(())
}

/// A call that is not complete does not arrive, but the text before it does.
#[test_case(ANTHROPIC; "anthropic")]
#[test_case(CHAT; "openai chat")]
#[test_case(RESPONSES; "openai responses")]
fn a_call_that_is_not_decided_is_held(request: (&str, &str)) -> Result<()> {
    let script = json!({"piece": 4, "turns": [[
        {"text": "abcdwxyz"},
        {"tool": "send_mail", "id": "call_1", "input": {"to": "x"}},
        {"text": "behind"},
    ]]});
    let proxy = Proxy::start(&script, "mcp: {native_tools: block}\n")?;
    let mut answer = ask(&proxy, request)?;
    let seen = wait_for(&mut answer, &["abcd", "wxyz", "[mcpmon] Tool '", "behi"])?;
    assert!(
        !seen.contains("input_json_delta") && !seen.contains("tool_calls\":[{"),
        "{seen}"
    );
    assert!(!seen.contains("function_call_arguments"), "{seen}");
    Ok(())
}

/// The model disconnects in the middle of a call: the call does not arrive, and the agent's connection ends.
#[test]
fn an_agent_that_goes_away_is_noticed() -> Result<()> {
    let script = json!({"turns": [[{"text": "abcd"}, {"pause_ms": 500}, {"text": "efgh"}]]});
    let proxy = Proxy::start(&script, "")?;
    for _ in 0..50 {
        let mut answer = ask(&proxy, ANTHROPIC)?;
        wait_for(&mut answer, &["abcd"])?;
    }
    let mut answer = ask(&proxy, ANTHROPIC)?;
    wait_for(&mut answer, &["efgh", "message_stop"])?;
    Ok(())
}

/// A request that no strict parser accepts never reaches the model.
#[test_case(br#"{"model":"m","messages":[],}"#; "a comma too many")]
#[test_case(b"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}"; "no utf-8")]
fn what_cannot_be_read_does_not_leave(body: &[u8]) -> Result<()> {
    let proxy = Proxy::start(&json!({"turns": [[{"text": "abcd"}]]}), "")?;
    let host = proxy.url();
    let host = host.strip_prefix("http://").context("a URL")?;
    let mut stream = TcpStream::connect(host)?;
    write!(
        stream,
        "POST /v1/messages HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )?;
    stream.write_all(body)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("\"type\":\"error\""), "{answer}");
    assert!(proxy.model.received().is_empty(), "it reached the model");
    let told = wait::until("the event of the request", || {
        let told = proxy.scene.events("mcp_request_judged")?;
        Ok((!told.is_empty()).then_some(told))
    })?;
    let [event] = &told[..] else {
        anyhow::bail!("one event, not {told:?}");
    };
    assert_eq!(event["rule"], "strict_json", "{event}");
    assert_eq!(event["method"], "anthropic/request", "{event}");
    assert_eq!(event["action"], "block", "{event}");
    Ok(())
}

/// Half a surrogate pair is read in several ways: only the reading of most parsers is forwarded.
#[test]
fn half_a_character_leaves_as_what_most_readers_make_of_it() -> Result<()> {
    let proxy = Proxy::start(&json!({"turns": [[{"text": "abcd"}]]}), "")?;
    let body = ANTHROPIC.1.replace("\"go\"", r#""go \ud83d on""#);
    let mut answer = ask(&proxy, (ANTHROPIC.0, &body))?;
    wait_for(&mut answer, &["abcd", "message_stop"])?;
    let received = proxy.model.received();
    let [request] = &received[..] else {
        anyhow::bail!("one request, not {received:?}");
    };
    let expected = ANTHROPIC.1.replace("\"go\"", "\"go \u{fffd} on\"");
    assert_eq!(std::str::from_utf8(&request.body)?, expected);
    Ok(())
}
