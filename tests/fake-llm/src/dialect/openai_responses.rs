//! `OpenAI` Responses.

use serde_json::{Value, json};

use super::{Asked, Part, named};
use crate::script::Item;

/// Returns the number of turns that called tools: adjacent calls are one turn.
pub(super) fn calls(body: &Value) -> usize {
    let Some(items) = body["input"].as_array() else {
        return 0;
    };
    let is_call = |item: &Value| item["type"] == "function_call";
    let starts =
        |at: usize| is_call(&items[at]) && !at.checked_sub(1).is_some_and(|before| is_call(&items[before]));
    (0..items.len()).filter(|at| starts(*at)).count()
}

/// Returns the id of an answer.
pub(crate) fn id(number: usize) -> String {
    format!("resp_{number}")
}

fn response(asked: &Asked<'_>, status: &str, output: &[Value]) -> Value {
    let usage = json!({
        "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 30,
    });
    json!({
        "id": id(asked.number), "object": "response", "created_at": 1, "status": status, "error": null,
        "incomplete_details": null, "instructions": null, "model": asked.body["model"], "output": output,
        "parallel_tool_calls": true, "tool_choice": "auto", "tools": [], "metadata": {},
        "usage": (status == "completed").then_some(usage),
    })
}

/// Returns the item at a position of a turn, once empty and once complete. Items of each kind are numbered separately.
fn item(asked: &Asked<'_>, turn: &[Item], at: usize) -> Option<(Value, Value)> {
    let item = &turn[at];
    let kind = |item: &Item| match item {
        Item::Pause { .. } => "",
        Item::Text { .. } => "msg",
        Item::Thinking { .. } => "rs",
        Item::Tool { .. } => "fc",
    };
    let own = kind(item);
    let number = turn[..=at].iter().filter(|other| kind(other) == own).count();
    let id = format!("{own}_{}_{number}", asked.number);
    match item {
        Item::Pause { .. } => None,
        Item::Text { text } => {
            let part = json!({"type": "output_text", "text": text, "annotations": []});
            let message = |status, content: Value| json!({"type": "message", "id": id, "status": status, "role": "assistant", "content": content});
            Some((
                message("in_progress", json!([])),
                message("completed", json!([part])),
            ))
        }
        Item::Thinking { thinking, signature } => {
            let summary = json!([{"type": "summary_text", "text": thinking}]);
            let whole =
                json!({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": signature});
            Some((json!({"type": "reasoning", "id": id, "summary": []}), whole))
        }
        Item::Tool {
            tool,
            namespace,
            id: call,
            input,
        } => {
            let of = |status, arguments: String| {
                let mut item = json!({
                    "type": "function_call", "id": id, "call_id": call, "name": tool, "arguments": arguments, "status": status,
                });
                if let Some(namespace) = namespace {
                    item["namespace"] = json!(namespace);
                }
                item
            };
            Some((
                of("in_progress", String::new()),
                of("completed", input.to_string()),
            ))
        }
    }
}

pub(super) fn whole(asked: &Asked<'_>, turn: &[Item]) -> Value {
    let items = (0..turn.len()).filter_map(|at| item(asked, turn, at));
    response(
        asked,
        "completed",
        &items.map(|(_, whole)| whole).collect::<Vec<_>>(),
    )
}

pub(super) fn stream(asked: &Asked<'_>, turn: &[Item]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut number = 0;
    let mut push = |parts: &mut Vec<Part>, mut data: Value| {
        data["sequence_number"] = json!(number);
        number += 1;
        parts.push(named(&data));
    };
    for kind in ["response.created", "response.in_progress"] {
        push(
            &mut parts,
            json!({"type": kind, "response": response(asked, "in_progress", &[])}),
        );
    }
    let mut done = Vec::new();
    for (at, said) in turn.iter().enumerate() {
        if let Item::Pause { pause_ms } = said {
            parts.push(Part::Pause(*pause_ms));
        }
        let Some((empty, whole)) = item(asked, turn, at) else {
            continue;
        };
        let place = done.len();
        let id = whole["id"].clone();
        push(
            &mut parts,
            json!({"type": "response.output_item.added", "output_index": place, "item": empty}),
        );
        for data in inside(asked, said) {
            let mut data = data;
            data["item_id"] = id.clone();
            data["output_index"] = json!(place);
            push(&mut parts, data);
        }
        push(
            &mut parts,
            json!({"type": "response.output_item.done", "output_index": place, "item": whole}),
        );
        done.push(whole);
    }
    push(
        &mut parts,
        json!({"type": "response.completed", "response": response(asked, "completed", &done)}),
    );
    parts
}

/// Returns the events between the start and the end of an item.
fn inside(asked: &Asked<'_>, said: &Item) -> Vec<Value> {
    match said {
        Item::Pause { .. } | Item::Thinking { .. } => Vec::new(),
        Item::Text { text } => {
            let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
            let mut events =
                vec![json!({"type": "response.content_part.added", "content_index": 0, "part": part("")})];
            events.extend(asked.script.pieces(text).into_iter().map(|piece| {
                json!({"type": "response.output_text.delta", "content_index": 0, "delta": piece, "logprobs": []})
            }));
            events.push(json!({"type": "response.output_text.done", "content_index": 0, "text": text, "logprobs": []}));
            events
                .push(json!({"type": "response.content_part.done", "content_index": 0, "part": part(text)}));
            events
        }
        Item::Tool { tool, input, .. } => {
            let input = input.to_string();
            let pieces = asked.script.pieces(&input).into_iter();
            let deltas =
                pieces.map(|piece| json!({"type": "response.function_call_arguments.delta", "delta": piece}));
            let end =
                json!({"type": "response.function_call_arguments.done", "name": tool, "arguments": input});
            deltas.chain([end]).collect()
        }
    }
}
