//! Anthropic Messages.

use serde_json::{Value, json};

use super::{Asked, Part, has_calls, named};
use crate::script::Item;

/// Returns the number of the assistant's turns that called tools.
pub(super) fn calls(body: &Value) -> usize {
    let messages = body["messages"].as_array();
    let called = |message: &&Value| {
        let content = message["content"].as_array();
        message["role"] == "assistant"
            && content.is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_use"))
    };
    messages.map_or(0, |messages| messages.iter().filter(called).count())
}

fn message(asked: &Asked<'_>, content: &[Value], stop: &Value) -> Value {
    json!({
        "id": format!("msg_{}", asked.number), "type": "message", "role": "assistant",
        "model": asked.body["model"], "content": content, "stop_reason": stop, "stop_sequence": null,
        "usage": {"input_tokens": 10, "output_tokens": 20},
    })
}

fn stop(turn: &[Item]) -> Value {
    json!(if has_calls(turn) { "tool_use" } else { "end_turn" })
}

pub(super) fn whole(asked: &Asked<'_>, turn: &[Item]) -> Value {
    let blocks = turn.iter().filter_map(|item| match item {
        Item::Text { text } => Some(json!({"type": "text", "text": text})),
        Item::Thinking { thinking, signature } => {
            Some(json!({"type": "thinking", "thinking": thinking, "signature": signature}))
        }
        Item::Tool { tool, id, input, .. } => {
            Some(json!({"type": "tool_use", "id": id, "name": tool, "input": input}))
        }
        Item::Pause { .. } => None,
    });
    message(asked, &blocks.collect::<Vec<_>>(), &stop(turn))
}

pub(super) fn stream(asked: &Asked<'_>, turn: &[Item]) -> Vec<Part> {
    let mut parts = vec![named(
        &json!({"type": "message_start", "message": message(asked, &[], &Value::Null)}),
    )];
    let mut index = 0;
    for item in turn {
        let (start, deltas) = match item {
            Item::Pause { pause_ms } => {
                parts.push(Part::Pause(*pause_ms));
                continue;
            }
            Item::Text { text } => {
                let deltas = asked.script.pieces(text).into_iter();
                let deltas = deltas.map(|piece| json!({"type": "text_delta", "text": piece}));
                (json!({"type": "text", "text": ""}), deltas.collect::<Vec<_>>())
            }
            Item::Thinking { thinking, signature } => {
                let deltas = asked.script.pieces(thinking).into_iter();
                let deltas = deltas.map(|piece| json!({"type": "thinking_delta", "thinking": piece}));
                let signed = json!({"type": "signature_delta", "signature": signature});
                (
                    json!({"type": "thinking", "thinking": "", "signature": ""}),
                    deltas.chain([signed]).collect(),
                )
            }
            Item::Tool { tool, id, input, .. } => {
                let input = input.to_string();
                let deltas = asked.script.pieces(&input).into_iter();
                let deltas = deltas.map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
                (
                    json!({"type": "tool_use", "id": id, "name": tool, "input": {}}),
                    deltas.collect(),
                )
            }
        };
        parts.push(named(
            &json!({"type": "content_block_start", "index": index, "content_block": start}),
        ));
        for delta in deltas {
            parts.push(named(
                &json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ));
        }
        parts.push(named(&json!({"type": "content_block_stop", "index": index})));
        index += 1;
    }
    let delta = json!({"stop_reason": stop(turn), "stop_sequence": null});
    parts.push(named(
        &json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 20}}),
    ));
    parts.push(named(&json!({"type": "message_stop"})));
    parts
}
