//! The form of an answer in each API.

use mcpmon_model::Dialect;
use serde_json::{Value, json};

use super::Item;

/// Returns an answer as a whole.
pub(super) fn whole(dialect: Dialect, items: &[Item]) -> String {
    let blocks = |told: fn(&Item) -> Value| items.iter().map(told).collect::<Vec<_>>();
    let body = match dialect {
        Dialect::Anthropic => json!({"id": "m", "type": "message", "role": "assistant",
            "content": blocks(anthropic), "stop_reason": reason(items, "tool_use", "end_turn")}),
        Dialect::OpenaiChat => {
            let mut message = json!({"role": "assistant", "content": text(items)});
            if has_calls(items) {
                message["tool_calls"] = calls(items, chat_call);
            }
            let reason = reason(items, "tool_calls", "stop");
            json!({"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": reason}]})
        }
        Dialect::OpenaiResponses => {
            json!({"id": "resp_1", "object": "response", "status": "completed", "output": output(items)})
        }
        Dialect::Gemini => gemini(blocks(gemini_part), Some("STOP")),
        Dialect::Ollama => ollama(&text(items), &calls(items, ollama_call), true),
    };
    body.to_string()
}

/// Returns an answer as a stream, with texts and arguments in pieces of `piece` characters.
pub(super) fn stream(dialect: Dialect, items: &[Item], piece: usize) -> String {
    match dialect {
        Dialect::Anthropic => anthropic_stream(items, piece),
        Dialect::OpenaiChat => chat_stream(items, piece),
        Dialect::OpenaiResponses => responses_stream(items, piece),
        Dialect::Gemini => {
            let parts = items.iter().map(|item| gemini(vec![gemini_part(item)], None));
            let end = gemini(vec![json!({"text": ""})], Some("STOP"));
            parts
                .chain([end])
                .map(|event| format!("data: {event}\n\n"))
                .collect()
        }
        Dialect::Ollama => {
            let line = |item: &Item| match item {
                Item::Text(text) => ollama(text, &json!([]), false),
                Item::Call { .. } => ollama("", &json!([ollama_call(item)]), false),
            };
            let lines = items.iter().map(line).chain([ollama("", &json!([]), true)]);
            lines.map(|line| format!("{line}\n")).collect()
        }
    }
}

fn has_calls(items: &[Item]) -> bool {
    items.iter().any(|item| matches!(item, Item::Call { .. }))
}

fn reason(items: &[Item], wanted: &'static str, ended: &'static str) -> &'static str {
    match has_calls(items) {
        true => wanted,
        false => ended,
    }
}

fn calls(items: &[Item], told: fn(&Item) -> Value) -> Value {
    let calls = items.iter().filter(|item| matches!(item, Item::Call { .. }));
    calls.map(told).collect()
}

fn text(items: &[Item]) -> String {
    let text = |item: &Item| match item {
        Item::Text(text) => text.clone(),
        Item::Call { .. } => String::new(),
    };
    items.iter().map(text).collect()
}

fn pieces(text: &str, piece: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(piece).map(String::from_iter).collect()
}

fn anthropic(item: &Item) -> Value {
    match item {
        Item::Text(text) => json!({"type": "text", "text": text}),
        Item::Call { name, id, input } => json!({"type": "tool_use", "id": id, "name": name, "input": input}),
    }
}

fn anthropic_stream(items: &[Item], piece: usize) -> String {
    let mut out = String::new();
    let mut event = |event: Value| {
        let name = event["type"].as_str().unwrap_or_default();
        out.push_str(&format!("event: {name}\ndata: {event}\n\n"));
    };
    let message = json!({"id": "m", "type": "message", "role": "assistant", "content": []});
    event(json!({"type": "message_start", "message": message}));
    for (index, item) in items.iter().enumerate() {
        let (block, text, kind, field) = match item {
            Item::Text(text) => (
                json!({"type": "text", "text": ""}),
                text.clone(),
                "text_delta",
                "text",
            ),
            Item::Call { name, id, input } => (
                json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
                input.to_string(),
                "input_json_delta",
                "partial_json",
            ),
        };
        event(json!({"type": "content_block_start", "index": index, "content_block": block}));
        for piece in pieces(&text, piece) {
            let delta = json!({"type": kind, field: piece});
            event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        event(json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": reason(items, "tool_use", "end_turn")});
    event(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}}));
    event(json!({"type": "message_stop"}));
    out
}

fn chat_call(item: &Item) -> Value {
    match item {
        Item::Text(_) => Value::Null,
        Item::Call { name, id, input } => {
            let function = json!({"name": name, "arguments": input.to_string()});
            json!({"id": id, "type": "function", "function": function})
        }
    }
}

fn chat_stream(items: &[Item], piece: usize) -> String {
    let mut out = String::new();
    let mut chunk = |delta: Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        out.push_str(&format!("data: {}\n\n", json!({"id": "c", "choices": [choice]})));
    };
    chunk(json!({"role": "assistant", "content": ""}), None);
    let mut index = 0;
    for item in items {
        match item {
            Item::Text(text) => {
                for piece in pieces(text, piece) {
                    chunk(json!({"content": piece}), None);
                }
            }
            Item::Call { name, id, input } => {
                let function = json!({"name": name, "arguments": ""});
                let call = json!({"index": index, "id": id, "type": "function", "function": function});
                chunk(json!({"tool_calls": [call]}), None);
                for piece in pieces(&input.to_string(), piece) {
                    let call = json!({"index": index, "function": {"arguments": piece}});
                    chunk(json!({"tool_calls": [call]}), None);
                }
                index += 1;
            }
        }
    }
    chunk(json!({}), Some(reason(items, "tool_calls", "stop")));
    out.push_str("data: [DONE]\n\n");
    out
}

/// Returns the items of a response.
fn output(items: &[Item]) -> Vec<Value> {
    let item = |(at, item): (usize, &Item)| match item {
        Item::Text(text) => {
            let part = json!({"type": "output_text", "text": text, "annotations": []});
            json!({"type": "message", "id": format!("msg_{at}"), "role": "assistant", "status": "completed",
                "content": [part]})
        }
        Item::Call { name, id, input } => {
            json!({"type": "function_call", "id": format!("fc_{at}"), "call_id": id, "name": name,
                "status": "completed", "arguments": input.to_string()})
        }
    };
    items.iter().enumerate().map(item).collect()
}

fn responses_stream(items: &[Item], piece: usize) -> String {
    let mut out = String::new();
    let mut number = 0;
    let mut event = |kind: &str, mut event: Value| {
        event["type"] = json!(kind);
        event["sequence_number"] = json!(number);
        number += 1;
        out.push_str(&format!("event: {kind}\ndata: {event}\n\n"));
    };
    let response = |status: &str, output: &[Value]| json!({"response": {"id": "resp_1", "object": "response", "status": status, "output": output}});
    event("response.created", response("in_progress", &[]));
    let output = output(items);
    for (at, (item, whole)) in items.iter().zip(&output).enumerate() {
        let mut begun = whole.clone();
        let (empty, text, delta) = match item {
            Item::Text(text) => (("content", json!([])), text.clone(), "response.output_text.delta"),
            Item::Call { input, .. } => (
                ("arguments", json!("")),
                input.to_string(),
                "response.function_call_arguments.delta",
            ),
        };
        begun[empty.0] = empty.1;
        event(
            "response.output_item.added",
            json!({"output_index": at, "item": begun}),
        );
        let id = &whole["id"];
        for piece in pieces(&text, piece) {
            event(delta, json!({"output_index": at, "item_id": id, "delta": piece}));
        }
        if matches!(item, Item::Call { .. }) {
            let done = json!({"output_index": at, "item_id": id, "arguments": text});
            event("response.function_call_arguments.done", done);
        }
        event(
            "response.output_item.done",
            json!({"output_index": at, "item": whole}),
        );
    }
    event("response.completed", response("completed", &output));
    out
}

fn gemini_part(item: &Item) -> Value {
    match item {
        Item::Text(text) => json!({"text": text}),
        Item::Call { name, id, input } => json!({"functionCall": {"name": name, "id": id, "args": input}}),
    }
}

fn gemini(parts: Vec<Value>, reason: Option<&str>) -> Value {
    let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
    if let Some(reason) = reason {
        candidate["finishReason"] = json!(reason);
    }
    json!({"candidates": [candidate]})
}

fn ollama_call(item: &Item) -> Value {
    match item {
        Item::Text(_) => Value::Null,
        Item::Call { name, id, input } => json!({"id": id, "function": {"name": name, "arguments": input}}),
    }
}

fn ollama(text: &str, calls: &Value, is_done: bool) -> Value {
    let mut message = json!({"role": "assistant", "content": text});
    if calls.as_array().is_some_and(|calls| !calls.is_empty()) {
        message["tool_calls"] = calls.clone();
    }
    let mut line = json!({"model": "m", "message": message, "done": is_done});
    if is_done {
        line["done_reason"] = json!("stop");
    }
    line
}
