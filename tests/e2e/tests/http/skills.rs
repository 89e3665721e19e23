//! Skills of a real server behind the proxy give the same results as behind the wrapper.

use anyhow::{Context as _, Result};
use mcpmon_conformant_server::{Answers, ConformantServer};
use mcpmon_e2e::{
    mcp_proxy::{McpProxy, it},
    raw::{exchange, post},
};
use serde_json::{Value, json};
use test_case::test_case;

use crate::sdks::ANY;

const NOTES: &str = "skill://notes/SKILL.md";
const GUIDE: &str = "skill://notes/guide.md";
const POLICY: &str = "version: 1\nmode: enforce\nmcp:\n  fail_closed: false\n";

/// Sends a request in the stateless protocol, and returns the answer, which can be an event.
fn ask(proxy: &McpProxy, method: &str, params: &Value) -> Result<Value> {
    let mut params = params.clone();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let name = params["uri"].as_str().or_else(|| params["name"].as_str());
    let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    headers.extend(name.map(|name| ("mcp-name", name)));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let answer = exchange(
        proxy.address(),
        &post(proxy.address(), "/mcp/it", &headers, &body),
    )?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let data = text.lines().rfind(|line| line.starts_with("data: {"));
    let data = data.map_or(text.as_str(), |data| data.trim_start_matches("data: "));
    serde_json::from_str(data).with_context(|| format!("{method}: {text}"))
}

fn skills(proxy: &McpProxy) -> Result<Vec<String>> {
    let listed = ask(proxy, "skills/list", &json!({}))?;
    let skills = listed["result"]["skills"]
        .as_array()
        .with_context(|| listed.to_string())?;
    Ok(skills
        .iter()
        .map(|skill| skill["uri"].as_str().unwrap_or_default().to_owned())
        .collect())
}

fn serve(proxy: &McpProxy, edition: &str) -> Result<()> {
    let call = json!({"name": "test_change_edition", "arguments": {"edition": edition}});
    let answer = ask(proxy, "tools/call", &call)?;
    assert_eq!(
        answer["result"]["content"][0]["text"], "It is served.",
        "{answer}"
    );
    Ok(())
}

#[test_case(Answers::Events; "as events")]
#[test_case(Answers::Json; "as json")]
fn skills_are_definitions(answers: Answers) -> Result<()> {
    let server = ConformantServer::start(ANY, answers)?;
    let proxy = McpProxy::start(POLICY, &[it(&server.url())])?;
    assert_eq!(skills(&proxy)?, [NOTES], "a dynamic one is hidden");
    let read = |uri: &str| ask(&proxy, "resources/read", &json!({"uri": uri}));
    let text = read(GUIDE)?["result"]["contents"][0]["text"].clone();
    assert!(
        text.as_str().is_some_and(|text| text.starts_with("Name")),
        "{text}"
    );
    let files = ask(
        &proxy,
        "resources/directory/read",
        &json!({"uri": "skill://notes"}),
    )?;
    assert_eq!(
        files["result"]["resources"].as_array().map(Vec::len),
        Some(2),
        "{files}"
    );
    serve(&proxy, "behind")?;
    let withheld = read(GUIDE)?;
    let message = withheld["error"]["message"]
        .as_str()
        .with_context(|| withheld.to_string())?;
    assert!(message.contains("skill_manifest"), "{message}");
    serve(&proxy, "second")?;
    assert!(skills(&proxy)?.is_empty(), "what changed is hidden");
    for answer in [ask(&proxy, "skills/get", &json!({"uri": NOTES}))?, read(NOTES)?] {
        let message = answer["error"]["message"]
            .as_str()
            .with_context(|| answer.to_string())?;
        assert!(message.contains("version_pin"), "{message}");
    }
    serve(&proxy, "first")?;
    assert_eq!(skills(&proxy)?, [NOTES], "it is what was pinned again");
    assert!(read(GUIDE)?["result"].is_object());
    Ok(())
}
