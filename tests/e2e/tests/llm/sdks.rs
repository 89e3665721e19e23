//! The official SDKs accept filtered answers of a model, streamed and whole, with none, some and all of their tool
//! calls blocked.

use anyhow::Result;
use mcpmon_e2e::{
    proxy::{ModelSdk, Proxy},
    real::Real,
};
use serde_json::{Value, json};
use test_case::test_case;

const SIGNED: &str = "c2lnbmF0dXJl";

fn script() -> Value {
    json!({"turns": [[
        {"text": "Reading \u{e9}, then sending."},
        {"tool": "read_file", "id": "call_1", "input": {"path": "/a", "lines": [1, 2.5]}},
        {"text": "And now the mail."},
        {"tool": "send_mail", "id": "call_2", "input": {}},
    ]]})
}

/// Returns the text that replaces a call.
fn blocked(tool: &str) -> String {
    format!("[mcpmon] Tool '{tool}' blocked by policy: ")
}

struct Case {
    policy: &'static str,
    /// The tools whose calls are left.
    left: &'static [&'static str],
    /// The tools whose calls are removed.
    gone: &'static [&'static str],
}

const NONE: Case = Case {
    policy: "",
    left: &["read_file", "send_mail"],
    gone: &[],
};
const FIRST: Case = Case {
    policy: "mcp: {blocked_tools: [read_file]}\n",
    left: &["send_mail"],
    gone: &["read_file"],
};
const LAST: Case = Case {
    policy: "mcp: {blocked_tools: [send_mail]}\n",
    left: &["read_file"],
    gone: &["send_mail"],
};
const ALL: Case = Case {
    policy: "mcp: {native_tools: block}\n",
    left: &[],
    gone: &["read_file", "send_mail"],
};

/// Returns the dialect's stop reasons with and without tool calls.
fn stops(dialect: &str) -> (&'static str, &'static str) {
    match dialect {
        "anthropic" => ("tool_use", "end_turn"),
        "openai_chat" => ("tool_calls", "stop"),
        "openai_responses" => ("completed", "completed"),
        "gemini" => ("STOP", "STOP"),
        _ => ("stop", "stop"),
    }
}

#[test_case(ModelSdk::Python, "anthropic"; "anthropic for python")]
#[test_case(ModelSdk::TypeScript, "anthropic"; "anthropic for typescript")]
#[test_case(ModelSdk::Python, "openai_chat"; "openai chat for python")]
#[test_case(ModelSdk::TypeScript, "openai_chat"; "openai chat for typescript")]
#[test_case(ModelSdk::Python, "openai_responses"; "openai responses for python")]
#[test_case(ModelSdk::TypeScript, "openai_responses"; "openai responses for typescript")]
#[test_case(ModelSdk::Python, "gemini"; "google genai")]
#[test_case(ModelSdk::Python, "ollama"; "ollama")]
fn answers_are_accepted(sdk: ModelSdk, dialect: &str) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    for case in [NONE, FIRST, LAST, ALL] {
        let proxy = Proxy::start(&script(), case.policy)?;
        let mut answers = Vec::new();
        for how in ["whole", "stream"] {
            let answer = proxy.ask(&real, sdk, dialect, how, &json!({}))?;
            check(&case, dialect, &answer);
            answers.push(answer);
        }
        // Ollama's whole answers do not have the position of a call in the text.
        if dialect != "ollama" {
            let [whole, streamed] = [&answers[0], &answers[1]].map(without_events);
            assert_eq!(whole, streamed, "{dialect}, {:?} blocked", case.gone);
        }
        let blocks = proxy.scene.events("mcp_tool_call_intercepted")?;
        let blocks = blocks.iter().filter(|event| event["action"] == "block");
        assert_eq!(blocks.count(), 2 * case.gone.len(), "{dialect}");
    }
    Ok(())
}

/// Removes from an answer the event ids that refusals name, because each request has different ones.
fn without_events(answer: &Value) -> Value {
    let mut answer = answer.clone();
    for part in answer["parts"].as_array_mut().into_iter().flatten() {
        let refused = part["text"].as_str().and_then(|text| text.split_once(", event "));
        if let Some((refused, _)) = refused {
            part["text"] = json!(refused);
        }
    }
    answer
}

fn check(case: &Case, dialect: &str, answer: &Value) {
    let parts = answer["parts"].as_array().expect("parts");
    let calls = parts.iter().filter(|part| !part["tool"].is_null());
    let names: Vec<_> = calls.clone().filter_map(|call| call["tool"].as_str()).collect();
    assert_eq!(names, case.left, "{dialect}: {answer}");
    for call in calls {
        let expected = match call["tool"].as_str() {
            Some("read_file") => json!({"path": "/a", "lines": [1, 2.5]}),
            _ => json!({}),
        };
        assert_eq!(call["input"], expected, "{dialect}");
    }
    let texts = parts.iter().filter_map(|part| part["text"].as_str());
    let text = texts.collect::<Vec<_>>().join("\n");
    for said in ["Reading \u{e9}, then sending.", "And now the mail."] {
        assert!(text.contains(said), "{dialect}: {answer}");
    }
    for tool in ["read_file", "send_mail"] {
        assert_eq!(
            text.contains(&blocked(tool)),
            case.gone.contains(&tool),
            "{dialect}: {answer}"
        );
    }
    let (wanted, ended) = stops(dialect);
    let stop = if case.left.is_empty() { ended } else { wanted };
    assert_eq!(answer["stop"], stop, "{dialect}: {answer}");
    assert_eq!(answer["output_tokens"], 20, "{dialect}: {answer}");
}

/// The provider keeps calls that the agent never saw, and continues only if each of them is answered.
#[test_case(ModelSdk::Python; "python")]
#[test_case(ModelSdk::TypeScript; "typescript")]
fn a_kept_conversation_goes_on_behind_a_blocked_call(sdk: ModelSdk) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let mut turns = script();
    let turns = turns["turns"].as_array_mut().expect("turns");
    turns.push(json!([{"text": "Both are done with."}]));
    for case in [NONE, FIRST, LAST, ALL] {
        let proxy = Proxy::start(&json!({"turns": turns}), case.policy)?;
        for how in ["whole", "stream"] {
            let request = json!({"goes_on": "go on"});
            let answer = proxy.ask(&real, sdk, "openai_responses", how, &request)?;
            assert_eq!(
                answer["parts"],
                json!([{"text": "Both are done with."}]),
                "{answer}, {:?} blocked",
                case.gone
            );
        }
    }
    Ok(())
}

/// A signature covers the reasoning, so the proxy changes neither of them.
#[test_case(ModelSdk::Python; "python")]
#[test_case(ModelSdk::TypeScript; "typescript")]
fn signed_thinking_comes_through(sdk: ModelSdk) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let script = json!({"turns": [[
        {"thinking": "It wants a file.", "signature": SIGNED},
        {"tool": "read_file", "id": "call_1", "input": {}},
    ]]});
    let proxy = Proxy::start(&script, "mcp: {native_tools: block}\n")?;
    let thought = json!({"thinking": "It wants a file.", "signature": SIGNED});
    let key = format!("ghp_{}", "Ab1".repeat(12));
    let history = json!({"messages": [
        {"role": "user", "content": format!("my token is {key}")},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": format!("the token is {key}"), "signature": SIGNED},
            {"type": "tool_use", "id": "call_0", "name": "read_file", "input": {}},
        ]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_0", "content": "a"}]},
    ]});
    for how in ["whole", "stream"] {
        let answer = proxy.ask(&real, sdk, "anthropic", how, &history)?;
        assert_eq!(answer["parts"][0], thought, "{answer}");
    }
    for received in proxy.model.received() {
        let body: Value = serde_json::from_slice(&received.body)?;
        assert_eq!(
            body["messages"][1], history["messages"][1],
            "what is signed was changed"
        );
    }
    Ok(())
}

/// A provider's error reaches the agent unchanged.
#[test_case(ModelSdk::Python, "anthropic")]
#[test_case(ModelSdk::TypeScript, "openai_chat")]
fn errors_of_the_provider_pass(sdk: ModelSdk, dialect: &str) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let proxy = Proxy::start(&script(), "")?;
    proxy.model.fail(Some((
        429,
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#,
    )));
    for how in ["whole", "stream"] {
        let answer = proxy.ask(&real, sdk, dialect, how, &json!({}))?;
        assert_eq!(answer["status"], 429, "{answer}");
        assert!(
            answer["error"]
                .as_str()
                .is_some_and(|error| error.contains("slow down")),
            "{answer}"
        );
    }
    Ok(())
}

/// A request that the policy refuses is answered in the dialect of the agent.
#[test_case(ModelSdk::Python, "anthropic", json!({"extra_body": {"mcp_servers": [{"type": "url", "name": "far", "url": "https://mcp.example.com/sse"}]}}))]
#[test_case(ModelSdk::Python, "openai_responses", json!({"tools": [{"type": "mcp", "server_label": "far", "server_url": "https://mcp.example.com/sse", "require_approval": "never"}]}))]
#[test_case(ModelSdk::TypeScript, "openai_responses", json!({"tools": [{"type": "mcp", "server_label": "far", "server_url": "https://mcp.example.com/sse", "require_approval": "never"}]}))]
fn a_refused_request_never_leaves(sdk: ModelSdk, dialect: &str, request: Value) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let proxy = Proxy::start(
        &script(),
        "mcp: {server_policy: denylist, denied_servers: [{id: far}]}\n",
    )?;
    for how in ["whole", "stream"] {
        let answer = proxy.ask(&real, sdk, dialect, how, &request)?;
        assert_eq!(answer["status"], 403, "{answer}");
        assert!(
            answer["error"]
                .as_str()
                .is_some_and(|error| error.contains("far")),
            "{answer}"
        );
    }
    assert!(proxy.model.received().is_empty(), "it reached the model");
    Ok(())
}
