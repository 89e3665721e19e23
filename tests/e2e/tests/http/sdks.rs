//! The official SDKs and the Inspector get the same answers with mcpmon in front of a server as without.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_conformant_server::{Answers, ConformantServer};
use mcpmon_e2e::{
    mcp_proxy::{Everything, McpProxy, it, it_by_sse},
    real::{Real, Scene},
};
use serde_json::{Value, json};
use test_case::test_case;

pub(crate) const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// The longest time for a client that waits for the server's own pauses.
const TIMEOUT: Duration = Duration::from_secs(90);

/// An official SDK, in one of its major versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sdk {
    Python,
    TypeScript,
    /// The version of the Python SDK that works without a handshake.
    PythonStateless,
    /// The version of the TypeScript SDK that works without a handshake.
    TypeScriptStateless,
}

impl Sdk {
    /// Returns the SDK's view of a server.
    pub(crate) fn drive(self, real: &Real, kind: &str, url: &str, steps: &Value) -> Result<Value> {
        let script = match self {
            Self::Python => "drive_http.py",
            Self::TypeScript => "drive_http.mjs",
            Self::PythonStateless => "drive_stateless.py",
            Self::TypeScriptStateless => "drive_stateless.mjs",
        };
        let mut driver = match self {
            Self::Python => Command::new(real.python("python")),
            Self::PythonStateless => Command::new(real.python2("python")),
            Self::TypeScript | Self::TypeScriptStateless => Command::new("node"),
        };
        driver
            .arg(real.script(script))
            .args([kind, url, &steps.to_string()]);
        let scene = Scene::new()?;
        scene.prepare(&mut driver);
        let output = assert_cmd::Command::from_std(driver).timeout(TIMEOUT).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{self:?} failed at {url}: {errors}");
        serde_json::from_slice(&output.stdout).context("the SDK tells what it saw as JSON")
    }
}

/// Returns the steps that work with and without a handshake.
fn common_steps() -> Vec<Value> {
    vec![
        json!(["lists"]),
        json!(["call", "test_simple_text", {}]),
        json!(["call", "test_multiple_content_types", {}]),
        json!(["call", "test_error_handling", {}]),
        json!(["call", "no_such_tool", {}]),
        json!(["call", "text", {"letters": 300_000}]),
        json!(["progress", "test_tool_with_progress", {}]),
        json!(["call", "test_sampling", {"prompt": "What is the capital of France?"}]),
        json!(["call", "test_elicitation", {"message": "Who are you?"}]),
        json!(["cancel", "slow", {}, "cancelled"]),
        json!(["change", "test_trigger_tool_change"]),
        json!(["read", "test://static-text"]),
        json!(["read", "test://nowhere"]),
        json!(["prompt", "test_prompt_with_arguments", {"arg1": "a", "arg2": "b"}]),
    ]
}

/// Returns the steps that need a session.
fn session_steps() -> Value {
    let mut steps = common_steps();
    steps.push(json!(["call", "test_tool_with_logging", {}]));
    steps.push(json!(["call", "test_reconnection", {}]));
    json!(steps)
}

/// Returns the steps of the stateless protocol.
fn stateless_steps() -> Value {
    let mut steps = common_steps();
    steps.push(json!(["call", "test_header", {"region": "eu-1"}]));
    steps.push(json!(["call", "test_input_required_result_multi_round", {}]));
    steps.push(json!(["call", "test_input_required_result_multiple_inputs", {}]));
    steps.push(json!(["prompt", "test_input_required_result_prompt", {}]));
    json!(steps)
}

#[test_case(Sdk::Python; "python")]
#[test_case(Sdk::TypeScript; "typescript")]
fn a_session_is_the_same(sdk: Sdk) -> Result<()> {
    let Some(seen) = compare(sdk, Answers::Events, &session_steps())? else {
        return Ok(());
    };
    let told = seen.to_string();
    for expected in [
        "The client is back.",
        "Tool processing data",
        "Paris",
        "jo@example.com",
    ] {
        assert!(told.contains(expected), "{expected} is not in {told}");
    }
    Ok(())
}

#[test_case(Sdk::PythonStateless, Answers::Events; "python, events")]
#[test_case(Sdk::PythonStateless, Answers::Json; "python, json")]
#[test_case(Sdk::TypeScriptStateless, Answers::Events; "typescript, events")]
#[test_case(Sdk::TypeScriptStateless, Answers::Json; "typescript, json")]
fn the_stateless_era_is_the_same(sdk: Sdk, answers: Answers) -> Result<()> {
    let Some(seen) = compare(sdk, answers, &stateless_steps())? else {
        return Ok(());
    };
    let told = seen.to_string();
    for expected in ["state-ok", "in eu-1", "Paris", "jo@example.com"] {
        assert!(told.contains(expected), "{expected} is not in {told}");
    }
    Ok(())
}

/// A handshake with a server that keeps no sessions.
#[test_case(Sdk::Python; "python")]
#[test_case(Sdk::TypeScript; "typescript")]
fn a_handshake_without_a_session_is_the_same(sdk: Sdk) -> Result<()> {
    let steps = json!([
        ["lists"],
        ["call", "test_simple_text", {}],
        ["call", "text", {"letters": 300_000}],
        ["progress", "test_tool_with_progress", {}],
    ]);
    compare(sdk, Answers::Json, &steps)?;
    Ok(())
}

/// After a session has ended, the client gets the same error for a request in it as from the server.
#[test]
fn an_ended_session_is_the_same() -> Result<()> {
    compare(Sdk::TypeScript, Answers::Events, &json!([["lists"], ["end"]]))?;
    Ok(())
}

fn compare(sdk: Sdk, answers: Answers, steps: &Value) -> Result<Option<Value>> {
    let Some(real) = Real::find()? else {
        return Ok(None);
    };
    let [first, second] = [(); 2].map(|()| ConformantServer::start(ANY, answers));
    let (alone, behind) = (first?, second?);
    let proxy = McpProxy::observing(&it(&behind.url()))?;
    let expected = sdk.drive(&real, "http", &alone.url(), steps)?;
    let seen = sdk.drive(&real, "http", &proxy.url("it"), steps);
    let seen = seen.with_context(|| proxy.log())?;
    same(&expected, &seen, &proxy.log());
    Ok(Some(seen))
}

/// Compares two results step by step, so that a failure shows the step that differs.
pub(crate) fn same(expected: &Value, seen: &Value, log: &str) {
    let steps = |told: &Value| told["seen"].as_array().cloned().unwrap_or_default();
    for (number, (expected, seen)) in steps(expected).iter().zip(&steps(seen)).enumerate() {
        assert_eq!(expected, seen, "step {number}\n{log}");
    }
    assert_eq!(expected, seen, "{log}");
}

const EVERYTHING: &str = r#"[
    ["lists"],
    ["call", "echo", {"message": "hello \u00e9"}],
    ["call", "get-sum", {"a": 2, "b": 3}],
    ["call", "no-such-tool", {}],
    ["progress", "trigger-long-running-operation", {"duration": 1, "steps": 4}],
    ["call", "trigger-sampling-request", {"prompt": "What is the capital of France?", "maxTokens": 10}],
    ["call", "trigger-elicitation-request", {}]
]"#;

/// A real server of the official SDK, over both transports with a handshake.
#[test_case(Sdk::Python, "http"; "python")]
#[test_case(Sdk::TypeScript, "http"; "typescript")]
#[test_case(Sdk::Python, "sse"; "python, the older transport")]
#[test_case(Sdk::TypeScript, "sse"; "typescript, the older transport")]
fn a_real_server_is_the_same(sdk: Sdk, transport: &str) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let (server, declare): (_, fn(&str) -> Value) = match transport {
        "sse" => (Everything::sse(&real, &scene)?, it_by_sse),
        _ => (Everything::streamable(&real, &scene)?, it),
    };
    let proxy = McpProxy::observing(&declare(&server.url()))?;
    let steps: Value = serde_json::from_str(EVERYTHING)?;
    let mut expected = sdk.drive(&real, transport, &server.url(), &steps)?;
    let seen = sdk.drive(&real, transport, &proxy.url("it"), &steps);
    let mut seen = seen.with_context(|| proxy.log())?;
    // This server sends the last notification together with the result, so either may be first.
    for told in [&mut expected, &mut seen] {
        for told in told["seen"].as_array_mut().into_iter().flatten() {
            if let Some(told) = told.get_mut("told").and_then(Value::as_array_mut) {
                told.retain(|of| of[0] != of[1]);
            }
        }
    }
    same(&expected, &seen, &proxy.log());
    let told = seen.to_string();
    for expected in ["hello \u{e9}", "The sum of 2 and 3 is 5", "Paris"] {
        assert!(told.contains(expected), "{expected} is not in {told}");
    }
    Ok(())
}

#[test]
fn the_inspector_sees_the_same() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let server = ConformantServer::start(ANY, Answers::Events)?;
    let proxy = McpProxy::observing(&it(&server.url()))?;
    for options in [
        &["--method", "tools/list"][..],
        &["--method", "resources/list"],
        &["--method", "prompts/list"],
        &["--method", "tools/call", "--tool-name", "test_simple_text"],
    ] {
        let ask = |url: &str| {
            let mut inspector = Command::new(real.npm("mcp-inspector"));
            inspector
                .args(["--cli", url, "--transport", "http"])
                .args(options);
            let scene = Scene::new()?;
            scene.prepare(&mut inspector);
            let output = assert_cmd::Command::from_std(inspector)
                .timeout(TIMEOUT)
                .output()?;
            let errors = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "the inspector failed at {url}: {errors}");
            String::from_utf8(output.stdout).context("the inspector tells text")
        };
        let (expected, seen) = (ask(&server.url())?, ask(&proxy.url("it"))?);
        assert!(expected.contains("test"), "{expected}");
        assert_eq!(expected, seen, "{options:?}");
    }
    Ok(())
}
