//! Remote servers behind `mcpmon proxy`: judged, recorded, and recognised by their certificate.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the system"
)]
#![cfg(test)]

mod asked;
mod cards;

use anyhow::Result;
use mcpmon_e2e::{
    json::text,
    mcp_proxy::McpProxy,
    notes_server::{Remote, ask, call, list, tool},
    program, wait,
};
use serde_json::{Value, json};

const POLICY: &str = "version: 1\nmcp:\n  blocked_tools: [remove]\n";

fn tools() -> Value {
    json!([tool("read", "Reads a note"), tool("remove", "Removes a note")])
}

fn before(policy: &str, server: &Remote) -> Result<McpProxy> {
    McpProxy::start(
        policy,
        &[json!({"id": "notes", "url": format!("{}?key=abc", server.url())})],
    )
}

/// Waits for events of a type, and returns them.
fn events(proxy: &McpProxy, kind: &str) -> Result<Vec<Value>> {
    wait::until(kind, || {
        let events = proxy.scene.events(kind)?;
        Ok((!events.is_empty()).then_some(events))
    })
}

#[test]
fn a_remote_server_is_judged_and_recorded() -> Result<()> {
    let server = Remote::start(&tools())?;
    let proxy = before(POLICY, &server)?;
    let url = proxy.url("notes");
    let introduced = ask(
        &url,
        "initialize",
        &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}),
    )?;
    assert_eq!(introduced.body["result"]["serverInfo"]["name"], "remote");
    assert_eq!(list(&url)?.tools(), ["read"]);
    assert_eq!(call(&url, "read")?.text(), "done: read");
    let blocked = call(&url, "remove")?;
    assert_eq!(blocked.body["result"]["isError"], true);
    assert!(blocked.text().contains("blocked_tools"), "{blocked:?}");
    assert!(!server.heard()?.contains(&"tools/call remove".to_owned()));

    let called = events(&proxy, "mcp_tool_called")?.remove(0);
    assert_eq!(text(&called, "layer"), "mcp_http");
    assert_eq!(text(&called, "server_id"), "notes");
    assert!(!text(&called, "session_id").is_empty(), "{called}");
    let calls = proxy.scene.list(&["calls"])?;
    assert!(
        calls.iter().any(|call| text(call, "tool_name") == "remove"),
        "{calls:?}"
    );
    let servers = proxy.scene.list(&["servers"])?;
    assert_eq!(text(&servers[0], "server_id"), "notes");
    assert_eq!(text(&servers[0], "server_type"), "http");
    let known = proxy.scene.list(&["registry", "list"])?;
    assert!(
        known.iter().any(|tool| text(tool, "tool_name") == "read"),
        "{known:?}"
    );
    Ok(())
}

#[test]
fn a_rug_pull_is_refused_until_a_person_approves() -> Result<()> {
    let server = Remote::start(&tools())?;
    let proxy = before(POLICY, &server)?;
    let url = proxy.url("notes");
    assert_eq!(list(&url)?.tools(), ["read"]);
    server.offer(&json!([tool("read", "Reads a note, and everything beside it")]))?;
    assert_eq!(list(&url)?.tools(), Vec::<&str>::new());
    let refused = call(&url, "read")?;
    assert!(refused.text().contains("version_pin"), "{refused:?}");
    assert!(!server.heard()?.contains(&"tools/call read".to_owned()));
    let changed = events(&proxy, "mcp_tool_changed")?.remove(0);
    assert_eq!(
        (text(&changed, "action"), text(&changed, "layer")),
        ("block", "mcp_http")
    );

    let store = proxy.scene.store().display().to_string();
    let approved = program::run(["approve", "notes:read", "--db", &store])?;
    assert_eq!(approved.code, Some(0), "{approved:?}");
    wait::until("the word of a person", || {
        Ok((call(&url, "read")?.text() == "done: read").then_some(()))
    })
}

/// A client that kept an earlier list never asks for it again.
#[test]
fn a_client_that_lists_nothing_is_told_of_no_old_pin() -> Result<()> {
    let server = Remote::start(&tools())?;
    let proxy = before(POLICY, &server)?;
    let url = proxy.url("notes");
    assert_eq!(call(&url, "read")?.text(), "done: read");
    assert!(
        server.heard()?.contains(&"tools/list".to_owned()),
        "it was listed all the same"
    );
    Ok(())
}

#[test]
fn a_server_that_may_not_be_used_hears_nothing() -> Result<()> {
    let server = Remote::start(&tools())?;
    let policy = "version: 1\nmcp:\n  server_policy: denylist\n  denied_servers: [{id: notes}]\n";
    let proxy = before(policy, &server)?;
    let url = proxy.url("notes");
    for method in ["initialize", "tools/list"] {
        let refused = ask(&url, method, &json!({}))?;
        assert!(refused.text().contains("mcp.server_policy"), "{refused:?}");
    }
    let refused = call(&url, "read")?;
    assert!(refused.text().contains("server_policy"), "{refused:?}");
    assert_eq!(server.heard()?, Vec::<String>::new());
    assert_eq!(events(&proxy, "mcp_server_denied")?.len(), 1);
    Ok(())
}

fn pinned(server: &Remote, fingerprint: &str) -> Result<McpProxy> {
    let declared = json!({"id": "notes", "url": server.url(), "tls_fingerprint": fingerprint});
    McpProxy::start(POLICY, &[declared])
}

#[test]
fn a_server_of_ones_own_is_known_by_its_certificate() -> Result<()> {
    let server = Remote::start_tls(&tools())?;
    let proxy = pinned(&server, server.fingerprint().unwrap_or_default())?;
    assert_eq!(call(&proxy.url("notes"), "read")?.text(), "done: read");
    Ok(())
}

#[test]
fn another_certificate_is_refused_with_both_fingerprints() -> Result<()> {
    let server = Remote::start_tls(&tools())?;
    let shown = server.fingerprint().unwrap_or_default();
    let expected = format!("sha256:{}", "ab".repeat(32));
    let proxy = pinned(&server, &expected)?;
    let refused = call(&proxy.url("notes"), "read")?;
    assert_eq!(refused.status, 502);
    assert!(
        refused.text().contains(shown) && refused.text().contains(&expected),
        "{refused:?}"
    );
    assert_eq!(server.heard()?, Vec::<String>::new());
    let told = events(&proxy, "mcp_tls_mismatch")?.remove(0);
    assert_eq!(text(&told, "expected"), expected);
    assert_eq!(text(&told, "actual"), shown);
    assert_eq!(
        (text(&told, "action"), text(&told, "severity")),
        ("block", "critical")
    );
    Ok(())
}

#[test]
fn a_certificate_that_nobody_signed_needs_a_pin() -> Result<()> {
    let server = Remote::start_tls(&tools())?;
    let proxy = McpProxy::start(POLICY, &[json!({"id": "notes", "url": server.url()})])?;
    assert_eq!(call(&proxy.url("notes"), "read")?.status, 502);
    assert_eq!(server.heard()?, Vec::<String>::new());
    let told = events(&proxy, "mcp_discovery_failed")?.remove(0);
    assert!(text(&told, "cause").contains("certificate"), "{told}");
    Ok(())
}
