//! Ollama chat.

use serde_json::{Value, json};

use super::{Asked, Part, text_of};
use crate::script::Item;

fn response(asked: &Asked<'_>, text: &str, calls: &[Value], is_done: bool) -> Value {
    let mut message = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    let mut response = json!({
        "model": asked.body["model"], "created_at": "2026-01-01T00:00:00Z", "message": message, "done": is_done,
    });
    if is_done {
        response["done_reason"] = json!("stop");
        response["eval_count"] = json!(20);
        response["prompt_eval_count"] = json!(10);
    }
    response
}

fn call(item: &Item) -> Option<Value> {
    match item {
        Item::Tool { tool, input, .. } => Some(json!({"function": {"name": tool, "arguments": input}})),
        Item::Text { .. } | Item::Thinking { .. } | Item::Pause { .. } => None,
    }
}

pub(super) fn whole(asked: &Asked<'_>, turn: &[Item]) -> Value {
    let calls: Vec<_> = turn.iter().filter_map(call).collect();
    response(asked, &text_of(turn), &calls, true)
}

pub(super) fn stream(asked: &Asked<'_>, turn: &[Item]) -> Vec<Part> {
    let mut parts = Vec::new();
    let line = |value: Value| Part::Bytes(format!("{value}\n"));
    for item in turn {
        match item {
            Item::Pause { pause_ms } => parts.push(Part::Pause(*pause_ms)),
            Item::Thinking { .. } => {}
            Item::Text { text } => {
                let pieces = asked.script.pieces(text).into_iter();
                parts.extend(pieces.map(|piece| line(response(asked, piece, &[], false))));
            }
            Item::Tool { .. } => {
                parts.extend(call(item).map(|call| line(response(asked, "", &[call], false))))
            }
        }
    }
    parts.push(line(response(asked, "", &[], true)));
    parts
}
