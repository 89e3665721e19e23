//! `mcpmon proxy` and a wrapper that export to a real collector, with ClickHouse's engine behind it.

use anyhow::Result;
use mcpmon_e2e::{
    collector::Collector,
    json::text,
    mcp_proxy::McpProxy,
    notes_server::{Remote, ask, call, list, tool},
    wait,
};
use serde_json::json;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn a_collector_gets_events_calls_and_metrics_and_one_query_finds_them() -> Result<()> {
    let Some(collector) = Collector::start()? else {
        return Ok(());
    };
    let server = Remote::start(&json!([
        tool("read", "Reads a note"),
        tool("remove", "Removes a note")
    ]))?;
    let policy = format!(
        "version: 1\nrecord: {{otlp_endpoint: \"{}\"}}\nmcp:\n  blocked_tools: [remove]\n",
        collector.endpoint()
    );
    let proxy = McpProxy::start(&policy, &[json!({"id": "notes", "url": server.url()})])?;
    let url = proxy.url("notes");
    list(&url)?;
    let traced =
        json!({"name": "read", "arguments": {"path": "very-private"}, "_meta": {"traceparent": PARENT}});
    ask(&url, "tools/call", &traced)?;
    call(&url, "remove")?;

    let blocked = wait::until("the blocked call in ClickHouse", || {
        let rows = collector.query("blocked-calls", &[])?;
        Ok(rows.into_iter().next())
    })?;
    assert_eq!(text(&blocked, "server"), "notes");
    assert_eq!(text(&blocked, "tool"), "remove");
    assert_eq!(text(&blocked, "rule"), "blocked_tools");
    for query in ["coverage", "denied-connections", "policy-drift"] {
        assert!(
            collector.query(query, &[])?.is_empty(),
            "no daemon watched: {query}"
        );
    }

    let received = wait::until("both spans", || {
        let received = collector.received();
        let is_there = ["tools/call read", "tools/call remove"]
            .iter()
            .all(|span| received.contains(span));
        Ok(is_there.then_some(received))
    })?;
    assert!(
        received.contains("4bf92f3577b34da6a3ce929d0e0e4736"),
        "{received}"
    );
    assert!(received.contains("00f067aa0ba902b7"), "{received}");
    assert!(received.contains("mcpmon.blocked"), "{received}");
    assert!(!received.contains("very-private"), "arguments stay here");
    wait::until("metrics", || {
        let received = collector.received();
        let names = ["mcpmon.calls", "mcp.server.operation.duration"];
        Ok(names.iter().all(|name| received.contains(name)).then_some(()))
    })?;
    Ok(())
}
