//! Conversations that continue from a response from which calls were left out.

use mcpmon_model::{Denial, OmittedCall, OmittedCalls};
use serde_json::{Value, json};
use test_case::test_case;

use super::*;
use crate::llm::{Framing, HoldLimits, LlmResponse};

/// Blocks calls of tools that are called `evil…`, and remembers them; hides offers of such alone.
#[derive(Default)]
struct Memory(OmittedCalls);

impl ContentJudge for Memory {
    fn judge(&mut self, said: &LlmMention<'_>) -> Verdict {
        if let LlmMention::Offered(tools) = said {
            assert!(tools.iter().all(|tool| tool.name.name == "evil"));
            return Verdict::Hide((0..tools.len()).collect());
        }
        let is_evil = matches!(said, LlmMention::Call(call) if call.name.name.starts_with("evil"));
        match is_evil {
            true => Verdict::Block(Denial {
                rule: "r".to_owned(),
                reason: "not \"now\"".to_owned(),
                remedy: None,
                event: None,
            }),
            false => Verdict::Allow,
        }
    }

    fn redact(&mut self, text: &str) -> Vec<Redaction> {
        let found = text.match_indices(SECRET);
        let placed = found.map(|(start, secret)| Redaction {
            place: start..start + secret.len(),
            text: PLACEHOLDER.to_owned(),
        });
        placed.collect()
    }

    fn left_out(&mut self, response: &str, calls: &[OmittedCall]) {
        self.0.note(response, calls);
    }

    fn unanswered(&mut self, response: &str) -> Vec<OmittedCall> {
        self.0.of(response).to_vec()
    }
}

fn call(kind: &str, name: &str, call_id: &str) -> Value {
    json!({"type": kind, "id": format!("item_{call_id}"), "call_id": call_id, "name": name,
        "arguments": "{}", "input": "x"})
}

/// A response with these items, as a body and as a stream.
fn responses(id: &str, output: &[Value]) -> [(Framing, String); 2] {
    let whole = json!({"id": id, "object": "response", "output": output});
    let mut stream = String::new();
    let mut event = |kind: &str, mut event: Value| {
        event["type"] = json!(kind);
        stream.push_str(&format!("event: {kind}\ndata: {event}\n\n"));
    };
    event("response.created", json!({"response": {"id": id, "output": []}}));
    for (place, item) in output.iter().enumerate() {
        event(
            "response.output_item.added",
            json!({"output_index": place, "item": item}),
        );
        event(
            "response.output_item.done",
            json!({"output_index": place, "item": item}),
        );
    }
    event("response.completed", json!({"response": whole}));
    [(Framing::Whole, whole.to_string()), (Framing::Events, stream)]
}

/// Reads a response from which something is left out.
fn remembered(framing: Framing, response: &str) -> Memory {
    let mut memory = Memory::default();
    let mut reading = LlmResponse::new(Dialect::OpenaiResponses, framing, HoldLimits::default());
    let mut out = Vec::new();
    reading.push(response.as_bytes(), &mut memory, &mut out).unwrap();
    reading.finish(&mut memory, &mut out).unwrap();
    memory
}

/// The input of a request behind a response with one call that went on and one that did not.
fn input(request: &str) -> Option<Value> {
    let output = [
        call("function_call", "good", "c1"),
        call("function_call", "evil", "c2"),
    ];
    let inputs = responses("resp_1", &output).map(|(framing, response)| {
        let mut memory = remembered(framing, &response);
        let asked = read_request(Dialect::OpenaiResponses, request.as_bytes(), &mut memory).unwrap();
        let body: Value = serde_json::from_slice(&asked.body?).unwrap();
        Some(body["input"].clone())
    });
    assert_eq!(inputs[0], inputs[1], "it does not matter how the response came");
    inputs.into_iter().next().flatten()
}

fn refusal() -> Value {
    let said = "[mcpmon] Tool 'evil' blocked by policy: not \"now\" (rule r).";
    json!({"type": "function_call_output", "call_id": "c2", "output": said})
}

fn offer() -> Value {
    json!({"type": "function", "name": "evil", "parameters": {}})
}

fn said(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": text})
}

fn answer(call_id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": call_id, "output": "done"})
}

#[test_case(&json!({"previous_response_id": "resp_1", "input": [answer("c1")]}) => Some(json!([refusal(), answer("c1")])); "the call that it saw is answered")]
#[test_case(&json!({"previous_response_id": "resp_1", "input": []}) => Some(json!([refusal()])); "nothing is answered")]
#[test_case(&json!({"previous_response_id": "resp_1", "input": "go on"}) => Some(json!([refusal(), {"type": "message", "role": "user", "content": "go on"}])); "a text")]
#[test_case(&json!({"previous_response_id": "resp_1", "input": "my hunter2"}) => Some(json!([refusal(), {"type": "message", "role": "user", "content": "my <PASSWORD>"}])); "a text with a secret")]
#[test_case(&json!({"previous_response_id": "resp_1", "input": null}) => Some(json!([refusal()])); "null")]
#[test_case(&json!({"previous_response_id": "resp_1"}) => Some(json!([refusal()])); "no input")]
#[test_case(&json!({"a_tools": 1, "previous_response_id": "resp_1", "tools": [offer()]}) => Some(json!([refusal()])); "no input, and the last member is left out")]
#[test_case(&json!({"previous_response_id": "resp_1", "tools": [offer()], "input": "go on"}) => Some(json!([refusal(), {"type": "message", "role": "user", "content": "go on"}])); "a text, and a member is left out")]
#[test_case(&json!({"previous_response_id": "resp_1", "input": [answer("c2")]}) => None; "an answer of the agent's own")]
#[test_case(&json!({"previous_response_id": "resp_1", "input": 1}) => None; "what is no input")]
#[test_case(&json!({"previous_response_id": "resp_2", "input": "go on"}) => None; "behind another response")]
#[test_case(&json!({"previous_response_id": null, "input": "go on"}) => None; "behind none")]
#[test_case(&json!({"input": [answer("c1")]}) => None; "the whole conversation")]
fn what_was_left_out_is_answered(request: &Value) -> Option<Value> {
    input(&request.to_string())
}

#[test_case("{'tools':[OFFER],'previous_response_id':'resp_1'}" => Some(json!([refusal()])); "no input, and the first member goes")]
#[test_case("{'previous_response_id':'resp_1','tools':[OFFER]}" => Some(json!([refusal()])); "no input, and the last member goes")]
#[test_case("{'previous_response_id':'resp_1','input':'a','tools':[OFFER]}" => Some(json!([refusal(), said("a")])); "what is behind the input goes")]
#[test_case("{'tools':[OFFER],'input':'a','previous_response_id':'resp_1'}" => Some(json!([refusal(), said("a")])); "what is before the input goes")]
#[test_case("{'previous_response_id':'resp_1','tools':[OFFER],'input':null}" => Some(json!([refusal()])); "null behind what goes")]
fn the_answer_stays_where_members_go(request: &str) -> Option<Value> {
    input(&request.replace("OFFER", &offer().to_string()).replace('\'', "\""))
}

#[test]
fn a_body_keeps_every_byte_but_the_answer() {
    let [(framing, response), _] = responses("resp_1", &[call("custom_tool_call", "evil", "c\"3")]);
    let mut memory = remembered(framing, &response);
    let request =
        "{ \"previous_response_id\" : \"resp_1\" ,\n \"input\" : [ {\"role\":\"user\",\"content\":\"a\"} ] }";
    let asked = read_request(Dialect::OpenaiResponses, request.as_bytes(), &mut memory).unwrap();
    let answer = r#"{"type":"custom_tool_call_output","call_id":"c\"3","output":"[mcpmon] Tool 'evil' blocked by policy: not \"now\" (rule r)."}"#;
    let expected = request.replace("[ {\"role\"", &format!("[{answer}, {{\"role\""));
    assert_eq!(String::from_utf8(asked.body.unwrap()).unwrap(), expected);
}

#[test_case("function_call", "good", "c1"; "a call that went on")]
#[test_case("computer_call", "evil", "c1"; "what no text answers")]
#[test_case("function_call", "evil", ""; "a call without an id")]
fn nothing_is_remembered_of(kind: &str, name: &str, call_id: &str) {
    for (framing, response) in responses("resp_1", &[call(kind, name, call_id)]) {
        assert_eq!(remembered(framing, &response).0.of("resp_1"), []);
    }
}
