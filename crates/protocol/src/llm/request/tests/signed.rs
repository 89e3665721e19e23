//! Conversations over several turns: signed parts of a provider are sent back byte for byte.

use super::*;

/// Says a conversation with the secret in what users and tools say, and checks that nothing else changed.
fn only_texts_change(dialect: Dialect, body: &str, texts: usize, signed: &[&str]) {
    let mut rules = Rules::hiding(&["bad"]);
    let new = goes_on(dialect, body, &mut rules);
    assert_eq!(body.matches("hunter2!").count(), texts);
    assert_eq!(new.matches("<PASSWORD>!").count(), texts);
    assert!(!new.contains("hunter2!"));
    assert!(!new.contains("\"bad\""));
    for part in signed {
        assert!(body.contains(part) && new.contains(part), "{part}");
    }
    serde_json::from_str::<serde_json::Value>(&new).unwrap();
}

#[test]
fn anthropic() {
    let thinking = r#"{ "type":"thinking", "thinking":"He said hunter2.\u0020\/", "signature":"EqQBCgIYAh\/hunter2==" }"#;
    let redacted = r#"{"type":"redacted_thinking","data":"hunter2+/=="}"#;
    let call =
        r#"{"type":"tool_use","id":"toolu_hunter2","name":"login","input":{"password":"none", "n":1.0e2}}"#;
    let body = format!(
        r#"{{"model":"m","tools":[{{"name":"bad"}},{{"name":"login"}}],"thinking":{{"type":"enabled","budget_tokens":1024}},
 "messages":[{{"role":"user","content":"log in with hunter2!"}},
 {{"role":"assistant","content":[{thinking},{redacted},{{"type":"text","text":"I use hunter2! now"}},{call}]}},
 {{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_hunter2","content":"welcome, hunter2!"}}]}}]}}"#
    );
    only_texts_change(Dialect::Anthropic, &body, 3, &[thinking, redacted, call]);
}

#[test]
fn openai_responses() {
    let reasoning = r#"{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hunter2"}],"encrypted_content":"gAAAAAhunter2=="}"#;
    let call =
        r#"{"type":"function_call","call_id":"call_hunter2","name":"login","arguments":"{\"p\": \"none\"}"}"#;
    let body = format!(
        r#"{{"model":"m","store":false,"include":["reasoning.encrypted_content"],"tools":[{{"type":"function","name":"bad"}}],
 "input":[{{"role":"user","content":[{{"type":"input_text","text":"hunter2!"}}]}},{reasoning},{call},
 {{"type":"function_call_output","call_id":"call_hunter2","output":"hunter2!"}}]}}"#
    );
    only_texts_change(Dialect::OpenaiResponses, &body, 2, &[reasoning, call]);
}

#[test]
fn gemini() {
    let call = r#"{"functionCall":{"name":"login","args":{"p":"hunter2"}},"thoughtSignature":"hunter2=="}"#;
    let text = r#"{"text":"hunter2","thoughtSignature":"c2ln"}"#;
    let body = format!(
        r#"{{"tools":[{{"functionDeclarations":[{{"name":"bad"}},{{"name":"login"}}]}}],
 "contents":[{{"role":"user","parts":[{{"text":"hunter2!"}}]}},{{"role":"model","parts":[{text},{call}]}},
 {{"role":"user","parts":[{{"functionResponse":{{"name":"login","response":{{"output":"hunter2!","more":["hunter2!"]}}}}}}]}}]}}"#
    );
    only_texts_change(Dialect::Gemini, &body, 3, &[call, text]);
}
