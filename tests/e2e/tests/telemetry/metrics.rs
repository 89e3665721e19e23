//! `mcpmon proxy`, scraped by a real Prometheus.

use anyhow::Result;
use mcpmon_e2e::{
    background::free_address,
    mcp_proxy::McpProxy,
    notes_server::{Remote, call, list, tool},
    program,
    prometheus::{Prometheus, get},
    real::Scene,
    wait,
};
use serde_json::json;

#[test]
fn prometheus_reads_calls_by_verdict_and_their_durations() -> Result<()> {
    let server = Remote::start(&json!([
        tool("read", "Reads a note"),
        tool("remove", "Removes a note")
    ]))?;
    let metrics = free_address()?;
    let policy = format!("version: 1\nmetrics: {{listen: \"{metrics}\"}}\nmcp:\n  blocked_tools: [remove]\n");
    let proxy = McpProxy::start(&policy, &[json!({"id": "notes", "url": server.url()})])?;
    let Some(prometheus) = Prometheus::start(metrics)? else {
        return Ok(());
    };
    prometheus.wait_for("up", 1.0)?;
    let url = proxy.url("notes");
    list(&url)?;
    for _ in 0..3 {
        call(&url, "read")?;
    }
    call(&url, "remove")?;
    let passed = r#"sum(mcpmon_calls_total{server="notes", verdict!="block"})"#;
    prometheus.wait_for(passed, 3.0)?;
    prometheus.wait_for(
        r#"mcpmon_calls_total{server="notes", verdict="block", rule="blocked_tools"}"#,
        1.0,
    )?;
    let returned = r#"mcpmon_call_duration_seconds_count{server="notes", outcome="ok"}"#;
    prometheus.wait_for(returned, 3.0)?;
    let within = r#"mcpmon_call_duration_seconds_bucket{server="notes", le="300.0"}"#;
    prometheus.wait_for(within, 3.0)?;
    prometheus.wait_for(r#"mcpmon_servers{layer="mcp_http"}"#, 1.0)?;
    prometheus.wait_for(
        r#"count(mcpmon_policy_info{digest=~"sha256:.*", state="proxy"})"#,
        1.0,
    )?;
    prometheus.wait_for("count(mcpmon_build_info{version!=\"\"})", 1.0)?;
    Ok(())
}

#[test]
fn nothing_but_metrics_is_served_and_only_where_it_is_asked_for() -> Result<()> {
    let metrics = free_address()?;
    let policy = format!("version: 1\nmetrics: {{listen: \"{metrics}\"}}\nmcp:\n  rules: []\n");
    let proxy = McpProxy::start(&policy, &[])?;
    let (status, text) = wait::until("metrics", || Ok(get(metrics, "/metrics").ok()))?;
    assert_eq!(status, 200, "{}", proxy.log());
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert_eq!(get(metrics, "/")?.0, 404);
    drop(proxy);

    let scene = Scene::new()?;
    let open = scene.configuration("version: 1\nmetrics: {listen: \"0.0.0.0:9484\"}\n")?;
    let refused = program::run(["policy", "check", &open])?;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("allow_remote: true"), "{refused:?}");
    let allowed = "version: 1\nmetrics: {listen: \"0.0.0.0:9484\", allow_remote: true}\n";
    let allowed = program::run(["policy", "check", &scene.configuration(allowed)?])?;
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    Ok(())
}
