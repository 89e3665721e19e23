//! A server that may not run is not started, and its client gets answers that say so instead of a broken pipe.

use std::{
    fs,
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    program, wait,
    wrapped::{Home, Wrapped, children, is_gone, peak_memory},
};
use nix::sys::signal::Signal;
use serde_json::Value;
use test_case::test_case;

const DENIED: &str = "version: 1\nmcp:\n  server_policy: denylist\n  denied_servers: [{id: notes}]\n";
const UNDECLARED: &str = "version: 1\nmcp: {fail_closed: true}\n";
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}"#;
const DISCOVER: &str = r#"{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
const BATCH: &str = r#"[{"jsonrpc":"2.0","id":2,"method":"tools/list"},{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":3,"method":"ping"}]"#;

/// The time without another byte after which a writer is taken to be waiting.
const STALLED: Duration = Duration::from_millis(500);

/// Starts a client in front of a server that the policy refuses; the server would make a file if it ran.
fn refused(home: &Home, policy: &str) -> Result<Wrapped> {
    home.configure(policy)?;
    let ran = home.path("ran").display().to_string();
    Wrapped::start(&mut home.wrap(&["--server", "notes"], &["touch", &ran])?)
}

/// Reads the next line, which is an error answer to the request `id`, and returns its code and text.
fn error(wrapped: &mut Wrapped, id: impl Into<Value>) -> Result<(i64, String)> {
    let line = wrapped.line()?;
    let answer: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
    assert_eq!(
        (&answer["jsonrpc"], &answer["id"]),
        (&"2.0".into(), &id.into()),
        "{line}"
    );
    let code = answer["error"]["code"].as_i64().with_context(|| line.clone())?;
    let message = answer["error"]["message"]
        .as_str()
        .with_context(|| line.clone())?;
    Ok((code, message.to_owned()))
}

#[test]
fn a_server_that_is_denied() -> Result<()> {
    every_request_is_answered(DENIED, "mcp.server_policy", "mcp.denied_servers")
}

#[test]
fn a_server_that_is_not_declared() -> Result<()> {
    every_request_is_answered(UNDECLARED, "mcp.fail_closed", "mcp.servers")
}

fn every_request_is_answered(policy: &str, rule: &str, remedy: &str) -> Result<()> {
    let home = Home::new()?;
    let mut wrapped = refused(&home, policy)?;
    wrapped.send(INITIALIZE)?;
    let (code, told) = error(&mut wrapped, 1)?;
    assert_eq!(code, -32_003);
    for part in ["the MCP server notes may not run", rule, "mcpmon explain "] {
        assert!(told.contains(part), "{part} in {told}");
    }
    wrapped.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
    wrapped.send(DISCOVER)?;
    assert!(error(&mut wrapped, "d")?.1.contains(rule));
    wrapped.send(BATCH)?;
    assert!(error(&mut wrapped, 2)?.1.contains(rule));
    assert!(error(&mut wrapped, 3)?.1.contains(rule));
    wrapped.send("{no json")?;
    assert_eq!(error(&mut wrapped, Value::Null)?.0, -32_700);
    wrapped
        .send(r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"sh","arguments":{}}}"#)?;
    let failed: Value = serde_json::from_str(&wrapped.line()?)?;
    assert_eq!(failed["result"]["isError"], true, "{failed}");
    let (code, output, errors) = wrapped.finish()?;
    assert_eq!((code, output.as_str()), (1, ""));
    for part in ["the MCP server notes was refused", rule, remedy] {
        assert!(errors.contains(part), "{part} in {errors}");
    }
    assert!(!home.path("ran").exists());
    Ok(())
}

#[test]
fn a_client_that_is_gone_leaves_nothing_running() -> Result<()> {
    let home = Home::new()?;
    let mut wrapped = refused(&home, DENIED)?;
    wrapped.send(INITIALIZE)?;
    error(&mut wrapped, 1)?;
    let below = children(wrapped.pid().as_raw().cast_unsigned())?;
    assert_eq!(below.len(), 1, "one process answers, and no other runs");
    wrapped.signal(Signal::SIGKILL)?;
    wait::until("nothing to be left", || Ok(is_gone(below[0]).then_some(())))
}

#[test]
fn a_client_that_hears_nothing_any_more_ends_it() -> Result<()> {
    let home = Home::new()?;
    let mut wrapped = refused(&home, DENIED)?;
    wrapped.send(INITIALIZE)?;
    error(&mut wrapped, 1)?;
    wrapped.stdout = None;
    assert_eq!(wrapped.ended()?.code(), Some(1));
    Ok(())
}

#[test]
fn a_signal_ends_it() -> Result<()> {
    let home = Home::new()?;
    for (signal, send) in [
        (
            Signal::SIGTERM,
            Wrapped::signal as fn(&Wrapped, Signal) -> Result<()>,
        ),
        (Signal::SIGINT, Wrapped::signal_group),
    ] {
        let mut wrapped = refused(&home, DENIED)?;
        wrapped.send(INITIALIZE)?;
        error(&mut wrapped, 1)?;
        send(&wrapped, signal)?;
        assert_eq!(wrapped.ended()?.code(), Some(1), "its input is open still");
    }
    Ok(())
}

#[test]
fn a_client_that_asks_and_never_listens_costs_little() -> Result<()> {
    let home = Home::new()?;
    let mut wrapped = refused(&home, DENIED)?;
    wrapped.send(INITIALIZE)?;
    error(&mut wrapped, 1)?;
    let answers = children(wrapped.pid().as_raw().cast_unsigned())?;
    let mut stdin = wrapped.stdin.take().context("the pipe is open")?;
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let writer = std::thread::spawn(move || {
        let lines = "x\n".repeat(32 * 1024);
        // Writes until the pipe is closed, and more than could ever be kept.
        for _ in 0..1024 {
            if stdin.write_all(lines.as_bytes()).is_err() {
                return;
            }
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut seen = (0, Instant::now());
    wait::until("nobody to read any more", || {
        let now = written.load(Ordering::Relaxed);
        if now != seen.0 {
            seen = (now, Instant::now());
        }
        Ok((now > 0 && seen.1.elapsed() > STALLED).then_some(()))
    })?;
    let peak = peak_memory(answers[0])?;
    assert!(peak < 96 * 1024, "{peak} KiB");
    wrapped.signal(Signal::SIGTERM)?;
    assert_eq!(wrapped.ended()?.code(), Some(1));
    let wrote = writer.join();
    wrote.map_err(|panic| anyhow::anyhow!("the writer panicked: {panic:?}"))?;
    Ok(())
}

/// The file that the shell names is compared before it runs. A file that the shell finds itself is compared when it
/// runs, and the process is killed.
#[test_case("\"$0\"; :", "its launcher"; "before it runs")]
#[test_case("eval '\"$0\"'; :", "its executable"; "when it runs")]
fn a_request_that_waits_is_answered_when_its_server_is_killed_for_its_files(
    line: &str,
    changed: &str,
) -> Result<()> {
    let home = Home::new()?;
    let tool = home.path("echoes");
    program::copy("/bin/cat", &tool)?;
    let path = tool.display().to_string();
    let command = ["sh", "-c", line, &path];
    let start = || Wrapped::start(&mut home.wrap(&["--server", "echoes"], &command)?);
    let mut wrapped = start()?;
    let line = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    wrapped.send(line)?;
    assert_eq!(wrapped.line()?, line);
    let store = home.path("store.db").display().to_string();
    wait::until("a pin", || {
        let pins = program::run(["pins", "list", "--db", &store])?.stdout;
        Ok(pins.contains("first_use").then_some(()))
    })?;
    assert_eq!(wrapped.finish()?.0, 0);

    fs::OpenOptions::new()
        .append(true)
        .open(&tool)?
        .write_all(b"changed")?;
    let mut wrapped = start()?;
    wrapped.send(INITIALIZE)?;
    let (_, told) = error(&mut wrapped, 1)?;
    let reason = format!("the MCP server echoes may not run: {changed} changed since it was pinned");
    for part in [reason.as_str(), "mcp.version_pinning", "mcpmon explain "] {
        assert!(told.contains(part), "{part} in {told}");
    }
    assert!(!told.contains("mcpmon pins trust"), "{told}");
    wrapped.send(DISCOVER)?;
    error(&mut wrapped, "d")?;
    let (code, output, errors) = wrapped.finish()?;
    assert_eq!((code, output.as_str()), (1, ""));
    assert!(errors.contains("changed since it was pinned"), "{errors}");
    assert!(errors.contains("mcpmon pins trust --server echoes"), "{errors}");
    Ok(())
}
