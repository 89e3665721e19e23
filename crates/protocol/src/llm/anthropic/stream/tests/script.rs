//! Streams to be filtered, and how an SDK reads them.

use serde_json::{Value, json};

use crate::decode::sse::{Events, SseFraming};

/// An event as the API writes it.
pub(super) fn event(data: &Value) -> String {
    let name = data["type"].as_str().unwrap();
    format!("event: {name}\ndata: {data}\n\n")
}

pub(super) fn start() -> String {
    event(&json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 25, "output_tokens": 1},
    }}))
}

pub(super) fn end(stop_reason: &str) -> String {
    let delta = event(&json!({"type": "message_delta",
        "delta": {"stop_reason": stop_reason, "stop_sequence": null}, "usage": {"output_tokens": 1.50e1}}));
    delta + &event(&json!({"type": "message_stop"}))
}

pub(super) fn ping() -> String {
    event(&json!({"type": "ping"}))
}

pub(super) fn begin(index: usize, block: &Value) -> String {
    event(&json!({"type": "content_block_start", "index": index, "content_block": block}))
}

pub(super) fn delta(index: usize, delta: &Value) -> String {
    event(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

pub(super) fn stop(index: usize) -> String {
    event(&json!({"type": "content_block_stop", "index": index}))
}

pub(super) fn input(index: usize, part: &str) -> String {
    delta(index, &json!({"type": "input_json_delta", "partial_json": part}))
}

pub(super) fn text(index: usize, parts: &[&str]) -> Vec<String> {
    let mut events = vec![begin(index, &json!({"type": "text", "text": ""}))];
    events.extend(
        parts
            .iter()
            .map(|part| delta(index, &json!({"type": "text_delta", "text": part}))),
    );
    events.push(stop(index));
    events
}

pub(super) fn thinking(index: usize) -> Vec<String> {
    vec![
        begin(
            index,
            &json!({"type": "thinking", "thinking": "", "signature": ""}),
        ),
        delta(index, &json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(
            index,
            &json!({"type": "signature_delta", "signature": "c2lnbmVk"}),
        ),
        stop(index),
    ]
}

/// A block of a type that has an input.
pub(super) fn uses(kind: &str, index: usize, name: &str, parts: &[&str]) -> Vec<String> {
    let id = format!("toolu_{index}");
    let mut events = vec![begin(
        index,
        &json!({"type": kind, "id": id, "name": name, "input": {}}),
    )];
    events.extend(parts.iter().map(|part| input(index, part)));
    events.push(stop(index));
    events
}

pub(super) fn call(index: usize, name: &str, parts: &[&str]) -> Vec<String> {
    uses("tool_use", index, name, parts)
}

/// The message that an SDK makes of a stream: blocks are appended as they start, and found by that position.
pub(super) fn accumulate(stream: &[u8]) -> Value {
    let mut events = Events::new(1 << 20);
    let mut rest = stream;
    let mut message = Value::Null;
    let mut inputs: Vec<String> = Vec::new();
    while let Some(SseFraming::Event(event)) = events.next(&mut rest) {
        let Some(data) = event.data.filter(|data| data.starts_with(b"{")) else {
            continue;
        };
        let data: Value = serde_json::from_slice(&data).unwrap();
        let at = || usize::try_from(data["index"].as_u64().unwrap()).unwrap();
        match data["type"].as_str().unwrap() {
            "message_start" => message = data["message"].clone(),
            "content_block_start" => {
                let content = message["content"].as_array_mut().unwrap();
                assert_eq!(content.len(), at(), "a gap");
                content.push(data["content_block"].clone());
                inputs.resize(content.len(), String::new());
            }
            "content_block_delta" => {
                let block = &mut message["content"].as_array_mut().unwrap()[at()];
                let delta = &data["delta"];
                let mut append = |to: &str| {
                    let whole = format!("{}{}", block[to].as_str().unwrap(), delta[to].as_str().unwrap());
                    block[to] = whole.into();
                };
                match delta["type"].as_str().unwrap() {
                    "text_delta" => append("text"),
                    "thinking_delta" => append("thinking"),
                    "signature_delta" => append("signature"),
                    "input_json_delta" => {
                        let input = &mut inputs[at()];
                        input.push_str(delta["partial_json"].as_str().unwrap());
                        if let Ok(input) = serde_json::from_str(input) {
                            block["input"] = input;
                        }
                    }
                    other => panic!("{other}"),
                }
            }
            "content_block_stop" => assert!(message["content"][at()].is_object()),
            "message_delta" => {
                message["stop_reason"] = data["delta"]["stop_reason"].clone();
                message["usage"]["output_tokens"] = data["usage"]["output_tokens"].clone();
            }
            "message_stop" | "ping" => {}
            other => panic!("{other}"),
        }
    }
    message
}
