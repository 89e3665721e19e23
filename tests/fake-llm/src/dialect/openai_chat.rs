//! `OpenAI` Chat Completions.

use serde_json::{Value, json};

use super::{Asked, Part, event, has_calls, text_of};
use crate::script::Item;

/// Returns the number of the assistant's turns that called tools. Ollama's requests have the same form.
pub(super) fn calls(body: &Value) -> usize {
    let called = |message: &&Value| {
        message["tool_calls"]
            .as_array()
            .is_some_and(|calls| !calls.is_empty())
    };
    body["messages"]
        .as_array()
        .map_or(0, |messages| messages.iter().filter(called).count())
}

fn finish(turn: &[Item]) -> &'static str {
    if has_calls(turn) { "tool_calls" } else { "stop" }
}

pub(super) fn whole(asked: &Asked<'_>, turn: &[Item]) -> Value {
    let calls = turn.iter().filter_map(|item| match item {
        Item::Tool { tool, id, input, .. } => Some(json!({
            "id": id, "type": "function", "function": {"name": tool, "arguments": input.to_string()},
        })),
        Item::Text { .. } | Item::Thinking { .. } | Item::Pause { .. } => None,
    });
    let calls: Vec<_> = calls.collect();
    let text = text_of(turn);
    let mut message =
        json!({"role": "assistant", "content": (!text.is_empty()).then_some(text), "refusal": null});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    json!({
        "id": format!("chatcmpl-{}", asked.number), "object": "chat.completion", "created": 1, "model": asked.body["model"],
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish(turn)}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30},
    })
}

pub(super) fn stream(asked: &Asked<'_>, turn: &[Item]) -> Vec<Part> {
    let chunk = |delta: Value, finish: Option<&str>| {
        event(&json!({
            "id": format!("chatcmpl-{}", asked.number), "object": "chat.completion.chunk", "created": 1,
            "model": asked.body["model"], "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }))
    };
    let mut parts = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    let mut index = 0;
    for item in turn {
        match item {
            Item::Pause { pause_ms } => parts.push(Part::Pause(*pause_ms)),
            Item::Thinking { .. } => {}
            Item::Text { text } => {
                let pieces = asked.script.pieces(text).into_iter();
                parts.extend(pieces.map(|piece| chunk(json!({"content": piece}), None)));
            }
            Item::Tool { tool, id, input, .. } => {
                let function = json!({"name": tool, "arguments": ""});
                let first = json!({"index": index, "id": id, "type": "function", "function": function});
                parts.push(chunk(json!({"tool_calls": [first]}), None));
                for piece in asked.script.pieces(&input.to_string()) {
                    let more = json!({"index": index, "function": {"arguments": piece}});
                    parts.push(chunk(json!({"tool_calls": [more]}), None));
                }
                index += 1;
            }
        }
    }
    parts.push(chunk(json!({}), Some(finish(turn))));
    if asked.body["stream_options"]["include_usage"] == true {
        parts.push(event(&json!({
            "id": format!("chatcmpl-{}", asked.number), "object": "chat.completion.chunk", "created": 1,
            "model": asked.body["model"], "choices": [],
            "usage": {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30},
        })));
    }
    parts.push(Part::Bytes("data: [DONE]\n\n".to_owned()));
    parts
}
