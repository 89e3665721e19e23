//! Gemini `generateContent`.

use serde_json::{Value, json};

use super::{Asked, Part, event};
use crate::script::Item;

/// Returns the number of the model's turns that called tools.
pub(super) fn calls(body: &Value) -> usize {
    let called = |content: &&Value| {
        let parts = content["parts"].as_array();
        parts.is_some_and(|parts| parts.iter().any(|part| !part["functionCall"].is_null()))
    };
    body["contents"]
        .as_array()
        .map_or(0, |contents| contents.iter().filter(called).count())
}

fn response(asked: &Asked<'_>, parts: &[Value], finish: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    json!({
        "candidates": [candidate], "modelVersion": "fake", "responseId": format!("response_{}", asked.number),
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 20, "totalTokenCount": 30},
    })
}

fn part(item: &Item) -> Option<Value> {
    match item {
        Item::Pause { .. } => None,
        Item::Text { text } => Some(json!({"text": text})),
        Item::Thinking { thinking, signature } => {
            Some(json!({"text": thinking, "thought": true, "thoughtSignature": signature}))
        }
        Item::Tool { tool, id, input, .. } => {
            Some(json!({"functionCall": {"name": tool, "id": id, "args": input}}))
        }
    }
}

pub(super) fn whole(asked: &Asked<'_>, turn: &[Item]) -> Value {
    response(
        asked,
        &turn.iter().filter_map(part).collect::<Vec<_>>(),
        Some("STOP"),
    )
}

pub(super) fn stream(asked: &Asked<'_>, turn: &[Item]) -> Vec<Part> {
    let mut parts = Vec::new();
    for item in turn {
        match item {
            Item::Pause { pause_ms } => parts.push(Part::Pause(*pause_ms)),
            Item::Text { text } => {
                let pieces = asked.script.pieces(text).into_iter();
                parts.extend(pieces.map(|piece| event(&response(asked, &[json!({"text": piece})], None))));
            }
            Item::Thinking { .. } | Item::Tool { .. } => {
                parts.extend(part(item).map(|part| event(&response(asked, &[part], None))));
            }
        }
    }
    parts.push(event(&response(asked, &[json!({"text": ""})], Some("STOP"))));
    parts
}
