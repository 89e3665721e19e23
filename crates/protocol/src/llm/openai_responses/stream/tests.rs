//! Responses through the front door.

use mcpmon_model::Dialect;
use proptest::prelude::*;
use serde_json::{Value, json};
use test_case::test_case;

use crate::llm::{
    Framing, LlmFault, LlmResponse,
    openai::fixture::{LIMITS, OpenaiOutcome, Words, cut_anywhere, cuts, streamed, told, whole},
};

const RESPONSES: Dialect = Dialect::OpenaiResponses;

/// Events, numbered.
#[derive(Default)]
struct Script {
    out: String,
    sequence: u64,
}

impl Script {
    fn event(mut self, kind: &str, mut more: Value) -> Self {
        more["type"] = json!(format!("response.{kind}"));
        more["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        self.out
            .push_str(&format!("event: response.{kind}\ndata: {more}\n\n"));
        self
    }

    fn begun(self) -> Self {
        self.event("created", json!({"response": response("in_progress", &[])}))
    }

    fn added(self, place: u64, item: &Value) -> Self {
        self.event("output_item.added", json!({"output_index": place, "item": item}))
    }

    fn done(self, place: u64, item: &Value) -> Self {
        self.event("output_item.done", json!({"output_index": place, "item": item}))
    }

    fn part(self, place: u64, id: &str, part: &str) -> Self {
        let more = json!({"output_index": place, "item_id": id, "delta": part});
        self.event("function_call_arguments.delta", more)
    }

    fn all(self, place: u64, id: &str, all: &str) -> Self {
        let more = json!({"output_index": place, "item_id": id, "arguments": all});
        self.event("function_call_arguments.done", more)
    }

    fn text(self, place: u64, text: &str) -> Self {
        let more = json!({"output_index": place, "item_id": "msg_1", "content_index": 0, "delta": text});
        self.event("output_text.delta", more)
    }

    /// A message, whole.
    fn message(self, place: u64) -> Self {
        let item = message();
        let begun = json!({"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []});
        self.added(place, &begun)
            .text(place, "Let me ")
            .text(place, "look.")
            .done(place, &item)
    }

    /// A call, whole.
    fn call(self, place: u64, call: &Value) -> Self {
        let mut begun = call.clone();
        begun["arguments"] = json!("");
        let id = call["id"].as_str().unwrap();
        let arguments = call["arguments"].as_str().unwrap();
        let (head, tail) = arguments.split_at(arguments.len() / 2);
        self.added(place, &begun)
            .part(place, id, head)
            .part(place, id, tail)
            .all(place, id, arguments)
            .done(place, call)
    }

    fn end(self, output: &[Value]) -> String {
        self.event("completed", json!({"response": response("completed", output)}))
            .out
    }
}

fn response(status: &str, output: &[Value]) -> Value {
    json!({"id": "r1", "object": "response", "status": status, "output": output, "usage": {"total_tokens": 7}})
}

fn message() -> Value {
    let part = json!({"type": "output_text", "text": "Let me look.", "annotations": []});
    json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [part]})
}

fn reasoning() -> Value {
    json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA//+="})
}

fn call(number: u64, name: &str, arguments: &str) -> Value {
    json!({"id": format!("fc_{number}"), "type": "function_call", "status": "completed", "arguments": arguments,
        "call_id": format!("call_{number}"), "name": name})
}

fn read_call() -> Value {
    call(1, "read", "{\"path\":\"/a\"}")
}

fn send_call() -> Value {
    call(2, "send", "{\"to\":\"b\"}")
}

/// Reasoning, text, two calls.
fn golden() -> String {
    Script::default()
        .begun()
        .added(0, &reasoning())
        .done(0, &reasoning())
        .message(1)
        .call(2, &read_call())
        .call(3, &send_call())
        .end(&[reasoning(), message(), read_call(), send_call()])
}

fn blocked(name: &str) -> String {
    format!("[mcpmon] Tool '{name}' blocked by policy: no \"x\" (rule r).")
}

/// The items as an SDK that checks the life cycle of each item receives them.
fn items(told: &OpenaiOutcome) -> Vec<Value> {
    let mut begun: Vec<Value> = Vec::new();
    let mut done = Vec::new();
    let mut last = None;
    for event in told.events() {
        let number = event["sequence_number"].as_u64();
        assert!(number > last, "{number:?} after {last:?}");
        last = number;
        let place = || usize::try_from(event["output_index"].as_u64().unwrap()).unwrap();
        match event["type"].as_str().unwrap() {
            "response.output_item.added" => {
                assert_eq!(place(), begun.len());
                assert!(
                    begun.iter().all(|item| item["id"] != event["item"]["id"]),
                    "{event}"
                );
                begun.push(event["item"].clone());
            }
            "response.output_item.done" => {
                let item = &event["item"];
                for member in ["type", "id", "call_id"] {
                    assert_eq!(begun[place()].get(member), item.get(member));
                }
                assert_eq!(place(), done.len());
                done.push(item.clone());
            }
            "response.output_text.delta" | "response.content_part.added" | "response.output_text.done" => {
                assert_eq!(begun[place()]["type"], "message");
                assert_eq!(begun[place()]["id"], event["item_id"]);
            }
            "response.function_call_arguments.delta" | "response.function_call_arguments.done" => {
                assert_eq!(begun[place()]["type"], "function_call");
            }
            "response.completed" => assert_eq!(event["response"]["output"], json!(done)),
            _ => {}
        }
    }
    done.into_iter().map(without_own_id).collect()
}

/// Returns an item in which an id that mcpmon made is reduced to its beginning.
fn without_own_id(mut item: Value) -> Value {
    if item["id"].as_str().is_some_and(|id| id.starts_with(OWN_ID)) {
        item["id"] = json!(OWN_ID);
    }
    item
}

/// The prefix of ids of mcpmon's own messages.
const OWN_ID: &str = "msg_mcpmon_";

fn replaced(name: &str) -> Value {
    let part = json!({"type": "output_text", "text": blocked(name), "annotations": [], "logprobs": []});
    json!({"id": OWN_ID, "type": "message", "status": "completed", "role": "assistant", "content": [part]})
}

const JUDGED: [&str; 2] = ["call_1 read {\"path\":\"/a\"}", "call_2 send {\"to\":\"b\"}"];

#[test_case(&[], &[read_call(), send_call()]; "none")]
#[test_case(&["read"], &[replaced("read"), send_call()]; "the first")]
#[test_case(&["send"], &[read_call(), replaced("send")]; "the last")]
#[test_case(&["/a"], &[replaced("read"), send_call()]; "by its arguments")]
#[test_case(&["call_"], &[replaced("read"), replaced("send")]; "all")]
fn calls_are_replaced(words: &[&'static str], calls: &[Value]) {
    let told = streamed(RESPONSES, words, &golden());
    let expected = [&[reasoning(), message()], calls].concat();
    assert_eq!(items(&told), expected);
    assert_eq!(told.judged, JUDGED);
    let body = response("completed", &[reasoning(), message(), read_call(), send_call()]).to_string();
    let of_body = whole(RESPONSES, words, &body);
    assert_eq!(of_body.judged, JUDGED);
    let response: Value = serde_json::from_str(&of_body.out).unwrap();
    let output = response["output"].as_array().unwrap();
    let output: Vec<Value> = output.iter().cloned().map(without_own_id).collect();
    assert_eq!(output, expected);
    if words.is_empty() {
        assert_eq!((told.out, of_body.out), (golden(), body));
    }
}

/// Items that an agent executes, and what is judged of them.
fn executed() -> Vec<(Value, &'static str)> {
    let item = |kind: &str, more: Value| {
        let mut item = json!({"id": "x_1", "type": kind, "call_id": "c"});
        item.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        item
    };
    vec![
        (
            item("custom_tool_call", json!({"name": "f", "input": "{x"})),
            "c f text {x",
        ),
        (
            item(
                "function_call",
                json!({"name": "f", "namespace": "mcp__s", "arguments": "{}"}),
            ),
            "c mcp__s/f {}",
        ),
        (
            item("function_call", json!({"name": "f", "arguments": "{\"x\":"})),
            "c f malformed {\"x\":",
        ),
        (
            item("function_call", json!({"name": "f", "arguments": ""})),
            "c f {}",
        ),
        (
            item("shell_call", json!({"action": {"commands": ["ls"]}})),
            "c shell {\"commands\":[\"ls\"]}",
        ),
        (
            item("local_shell_call", json!({"action": {"command": ["ls"]}})),
            "c local_shell {\"command\":[\"ls\"]}",
        ),
        (
            item("apply_patch_call", json!({"operation": {"path": "a"}})),
            "c apply_patch {\"path\":\"a\"}",
        ),
        (
            item("computer_call", json!({"action": {"type": "click"}})),
            "c computer {\"type\":\"click\"}",
        ),
        (
            item(
                "tool_search_call",
                json!({"execution": "client", "arguments": {"q": 1}}),
            ),
            "c tool_search {\"q\":1}",
        ),
        (
            item(
                "mcp_approval_request",
                json!({"server_label": "s", "name": "f", "arguments": "{}"}),
            ),
            "c s/f {}",
        ),
        (item("teleport_call", json!({"to": "x"})), "c teleport {item}"),
        (
            item("teleport", json!({"action": {"to": "x"}})),
            "c teleport {\"to\":\"x\"}",
        ),
    ]
}

#[test]
fn whatever_an_agent_executes_is_judged() {
    for (item, judged) in executed() {
        let stream = Script::default()
            .begun()
            .added(0, &item)
            .done(0, &item)
            .end(std::slice::from_ref(&item));
        let allowed = streamed(RESPONSES, &[], &stream);
        assert_eq!(
            (allowed.judged, allowed.out),
            (vec![judged.replace("{item}", &item.to_string())], stream.clone())
        );
        let blocked = streamed(RESPONSES, &["c "], &stream);
        let items = items(&blocked);
        assert_eq!(
            (items.len(), &items[0]["type"], &items[0]["id"]),
            (1, &json!("message"), &json!(OWN_ID))
        );
        assert!(!blocked.out.contains("\"c\""));
    }
}

#[test]
fn what_the_provider_executes_is_told_and_goes_on() {
    let items = [
        json!({"id": "l", "type": "mcp_list_tools", "server_label": "s", "tools": [{"name": "f", "input_schema": {}}]}),
        json!({"id": "m", "type": "mcp_call", "server_label": "s", "name": "f", "arguments": "{\"x\":1}", "output": "o"}),
        json!({"id": "w", "type": "web_search_call", "status": "completed", "action": {"query": "q"}}),
        json!({"id": "t", "type": "tool_search_call", "execution": "server", "call_id": null, "arguments": {}}),
        json!({"id": "o", "type": "function_call_output", "call_id": "c", "output": "o"}),
    ];
    let mut script = Script::default().begun();
    for (place, item) in (0..).zip(&items) {
        script = script
            .added(place, item)
            .event("mcp_call.in_progress", json!({"output_index": place}))
            .done(place, item);
    }
    let stream = script.end(&items);
    let told = streamed(RESPONSES, &["f", "web", "s"], &stream);
    assert_eq!(told.out, stream);
    let expected = [
        "< s f",
        "> s f {\"x\":1}",
        "> - web_search {\"query\":\"q\"}",
        "> - tool_search {}",
    ];
    assert_eq!(told.judged, expected);
}

/// Streams that are forwarded unchanged if nothing is blocked.
fn plain() -> Vec<(&'static str, String)> {
    let read = read_call();
    vec![
        (
            "returns",
            Script::default()
                .begun()
                .call(0, &read)
                .end(std::slice::from_ref(&read))
                .replace('\n', "\r\n"),
        ),
        (
            "done only",
            Script::default()
                .begun()
                .done(0, &read)
                .end(std::slice::from_ref(&read)),
        ),
        (
            "completed only",
            Script::default().begun().end(std::slice::from_ref(&read)),
        ),
        (
            "not done",
            Script::default()
                .begun()
                .added(0, &read)
                .end(std::slice::from_ref(&read)),
        ),
        (
            "no items at the end",
            Script::default().begun().call(0, &read).end(&[]),
        ),
        ("interleaved", interleaved()),
        (
            "failed",
            Script::default()
                .begun()
                .event("failed", json!({"response": response("failed", &[])}))
                .out,
        ),
        (
            "an error",
            "event: error\ndata: {\"type\":\"error\",\"message\":\"m\"}\n\n".to_owned(),
        ),
        (
            "comments",
            format!(": ping\n\n{}data: [DONE]\n\n", Script::default().begun().out),
        ),
    ]
}

/// Two calls at a time, with text between.
fn interleaved() -> String {
    let mut begun = (read_call(), send_call());
    begun.0["arguments"] = json!("");
    begun.1["arguments"] = json!("");
    Script::default()
        .begun()
        .added(0, &begun.0)
        .added(1, &begun.1)
        .part(0, "fc_1", "{\"path\":\"/a\"}")
        .part(1, "fc_2", "{\"to\":\"b\"}")
        .message(2)
        .done(0, &read_call())
        .done(1, &send_call())
        .end(&[read_call(), send_call(), message()])
}

#[test]
fn a_stream_may_be_cut_anywhere() {
    let told = cut_anywhere(RESPONSES, &["read"], &golden());
    assert!(told.out.contains("[mcpmon]") && told.out.contains("call_2"));
}

#[test]
fn what_is_allowed_goes_on_as_it_came() {
    for (name, stream) in plain() {
        let bytes = stream.as_bytes();
        for at in cuts(&stream) {
            let (head, tail) = bytes.split_at(at);
            let told = told(RESPONSES, Framing::Events, &[], [head, tail]);
            assert_eq!(
                (told.out, told.fault),
                (stream.clone(), None),
                "{name} cut at {at}"
            );
        }
        let told = told(RESPONSES, Framing::Events, &[], bytes.chunks(1));
        assert_eq!(told.out, stream, "{name} a byte at a time");
    }
}

#[test]
fn interleaved_calls_are_replaced() {
    let told = streamed(RESPONSES, &["read"], &interleaved());
    assert_eq!(told.judged, JUDGED);
    assert!(!told.out.contains("\"read\"") && told.out.contains("\"send\""));
    let begun: Vec<Value> = told
        .events()
        .iter()
        .filter(|event| event["type"] == "response.output_item.added")
        .cloned()
        .collect();
    let begun: Vec<(&Value, &Value)> = begun
        .iter()
        .map(|event| (&event["output_index"], &event["item"]["type"]))
        .collect();
    assert_eq!(
        begun,
        [
            (&json!(0), &json!("message")),
            (&json!(1), &json!("function_call")),
            (&json!(2), &json!("message"))
        ]
    );
    let numbers: Vec<u64> = told
        .events()
        .iter()
        .map(|event| event["sequence_number"].as_u64().unwrap())
        .collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
}

#[test]
fn all_but_calls_goes_on_at_once() {
    let mut judge = Words::default();
    let mut response = LlmResponse::new(RESPONSES, Framing::Events, LIMITS);
    let golden = golden();
    let begun = golden.find("\"function_call\"").unwrap();
    let (before, rest) = golden.split_at(golden[..begun].rfind("event: ").unwrap());
    for event in before.split_inclusive("\n\n") {
        let mut out = Vec::new();
        response.push(event.as_bytes(), &mut judge, &mut out).unwrap();
        assert_eq!(
            (String::from_utf8(out).unwrap(), response.held()),
            (event.to_owned(), 0)
        );
    }
    let mut out = Vec::new();
    let done = rest.find("response.output_item.done").unwrap();
    response
        .push(&rest.as_bytes()[..done], &mut judge, &mut out)
        .unwrap();
    assert!(out.is_empty() && response.held() > 0);
    response
        .push(&rest.as_bytes()[done..], &mut judge, &mut out)
        .unwrap();
    assert_eq!(
        (String::from_utf8(out).unwrap(), response.held()),
        (rest.to_owned(), 0)
    );
}

/// Calls that events tell in different ways: each is judged, and one that is blocked stops the call.
#[test_case(call(1, "bad", ""), "good", "{}", "{}", "{}" => 2; "another name when it begins")]
#[test_case(call(1, "good", "{}"), "bad", "{}", "{}", "{}" => 1; "another name when it is done")]
#[test_case(call(1, "good", "{\"bad\":1}"), "good", "{}", "{}", "{}" => 2; "other arguments when it begins")]
#[test_case(call(1, "good", ""), "good", "{\"bad\":1}", "{}", "{}" => 2; "other arguments in parts")]
#[test_case(call(1, "good", ""), "good", "{}", "{\"bad\":1}", "{}" => 2; "other arguments when they are done")]
#[test_case(call(1, "good", ""), "good", "{}", "{}", "{\"bad\":1}" => 1; "other arguments when it is done")]
fn the_strictest_reading_decides(begun: Value, name: &str, parts: &str, all: &str, last: &str) -> usize {
    let done = call(1, name, last);
    let stream = Script::default()
        .begun()
        .added(0, &begun)
        .part(0, "fc_1", parts)
        .all(0, "fc_1", all)
        .done(0, &done);
    let told = streamed(RESPONSES, &["bad"], &stream.end(&[done]));
    assert_eq!(told.fault, None);
    assert_eq!(items(&told)[0]["type"], "message");
    assert!(!told.out.contains("call_1"));
    told.judged.len()
}

#[test_case(&call(1, "bad", "{}"), 2; "another name")]
#[test_case(&call(1, "good", "{\"bad\":1}"), 2; "other arguments")]
#[test_case(&call(9, "bad", "{}"), 2; "another call")]
#[test_case(&call(1, "good", "{}"), 1; "the same")]
fn the_end_cannot_tell_another_call(last: &Value, judged: usize) {
    let stream = Script::default()
        .begun()
        .call(0, &call(1, "good", "{}"))
        .end(std::slice::from_ref(last));
    let told = streamed(RESPONSES, &["bad"], &stream);
    assert_eq!(told.judged.len(), judged);
    let end = told.events().pop().unwrap();
    let kind = &end["response"]["output"][0]["type"];
    assert_eq!(kind == "function_call", judged == 1, "{end}");
    assert!(!told.out.contains("bad\""));
}

#[test]
fn what_was_blocked_stays_blocked_at_the_end() {
    for last in [
        call(1, "bad", "{}"),
        call(1, "good", "{}"),
        json!({"id": "fc_1", "type": "function_call", "name": "good", "arguments": "{}"}),
    ] {
        let stream = Script::default()
            .begun()
            .call(0, &call(1, "bad", "{}"))
            .end(std::slice::from_ref(&last));
        let told = streamed(RESPONSES, &["bad"], &stream);
        assert_eq!(told.judged, ["call_1 bad {}"]);
        assert_eq!(items(&told), [replaced("bad")]);
    }
}

#[test]
fn readers_are_left_no_choice_of_arguments() {
    let twice = call(1, "f", "{\"x\":1,\"x\":2}");
    let stream = Script::default()
        .begun()
        .call(0, &twice)
        .end(std::slice::from_ref(&twice));
    let told = streamed(RESPONSES, &[], &stream);
    assert_eq!(told.judged, ["call_1 f {\"x\":2}"]);
    assert_eq!(items(&told), [call(1, "f", "{\"x\":2}")]);
    let parts: Vec<Value> = told
        .events()
        .into_iter()
        .filter(|event| event.get("delta").is_some())
        .collect();
    assert_eq!((parts.len(), &parts[0]["delta"]), (1, &json!("{\"x\":2}")));
}

#[test]
fn late_events_of_a_blocked_call_are_dropped() {
    let bad = call(1, "bad", "{}");
    let late = Script::default()
        .begun()
        .call(0, &bad)
        .part(0, "fc_1", "x")
        .done(0, &bad)
        .event("output_item.extra", json!({"output_index": 0}))
        .event("shell_call_command.delta", json!({"item_id": "fc_1"}));
    let told = streamed(RESPONSES, &["bad"], &late.end(std::slice::from_ref(&bad)));
    assert!(!told.out.contains("fc_1") && !told.out.contains("extra"));
    assert_eq!((items(&told), told.fault), (vec![replaced("bad")], None));
}

fn unclear() -> Vec<(&'static str, String)> {
    let good = || call(1, "good", "{}");
    let begun = || Script::default().begun();
    vec![
        ("no JSON", "data: {\"type\"\n\n".to_owned()),
        ("no object", "data: []\n\n".to_owned()),
        (
            "a whole response",
            format!("data: {}\n\n", response("completed", &[good()])),
        ),
        (
            "another spelling",
            "data: {\"type\":\"x\",\"Item\":{}}\n\n".to_owned(),
        ),
        (
            "another event",
            begun()
                .event("output_item.moved", json!({"output_index": 0, "item": good()}))
                .out,
        ),
        (
            "no place",
            begun().event("output_item.done", json!({"item": good()})).out,
        ),
        ("a part of no call", begun().part(0, "fc_1", "x").out),
        (
            "a part of a call that is done",
            begun().call(0, &good()).part(0, "fc_1", "x").out,
        ),
        (
            "a message becomes a call",
            begun().message(0).done(0, &good()).out,
        ),
        (
            "a call becomes a message",
            begun().added(0, &good()).done(0, &message()).out,
        ),
        (
            "a call becomes another kind",
            begun()
                .added(0, &good())
                .done(0, &json!({"type": "shell_call"}))
                .out,
        ),
        (
            "a call becomes another one",
            begun().call(0, &good()).done(0, &call(1, "good", "[]")).out,
        ),
        (
            "a call begins twice",
            begun().added(0, &good()).added(0, &good()).out,
        ),
        (
            "an event of two calls",
            begun()
                .added(0, &good())
                .added(1, &call(2, "good", ""))
                .part(0, "fc_2", "x")
                .out,
        ),
        (
            "output that is no array",
            begun()
                .event("completed", json!({"response": {"output": {}}}))
                .out,
        ),
        (
            "arguments deeper than what is read",
            begun().done(0, &call(1, "good", &"[".repeat(200))).out,
        ),
    ]
}

#[test]
fn what_a_shell_printed_is_no_response() {
    let printed = json!({"stdout": "call_id", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}});
    let event = json!({"item_id": "sho_1", "output_index": 0, "command_index": 0, "output": [printed]});
    let stream = Script::default()
        .begun()
        .event("shell_call_output_content.done", event)
        .out;
    let told = streamed(RESPONSES, &[], &stream);
    assert_eq!((&told.fault, told.out.as_bytes()), (&None, stream.as_bytes()));
}

/// A writer that cuts a text may cut a character in two; a reader that joins the parts has it again.
#[test]
fn half_a_character_goes_on_as_it_came() {
    let script = Script::default().begun().text(0, "one half").text(0, "the other");
    let stream = script
        .out
        .replace("one half", "\\ud83d")
        .replace("the other", "\\ude00");
    let told = streamed(RESPONSES, &[], &stream);
    assert_eq!((told.fault, told.out), (None, stream));
    let whole = json!({"response": {"id": "r1", "status": "completed", "output": [], "note": "one half"}});
    let stream = Script::default()
        .begun()
        .event("completed", whole)
        .out
        .replace("one half", "\\ud83d");
    let told = streamed(RESPONSES, &[], &stream);
    assert!(
        !told.out.contains("\\ud83d"),
        "what can hold calls is written anew: {told:?}"
    );
}

#[test]
fn what_is_unclear_ends_the_stream() {
    for (name, stream) in unclear() {
        let told = streamed(RESPONSES, &[], &stream);
        assert!(
            matches!(told.fault, Some(LlmFault::Malformed { .. })),
            "{name}: {told:?}"
        );
        let events = told.events();
        let error = events.last().unwrap();
        assert_eq!(error["type"], "error", "{name}");
        assert!(
            error["error"]["message"]
                .as_str()
                .unwrap()
                .starts_with("[mcpmon] "),
            "{name}"
        );
    }
}

#[test]
fn a_call_that_is_cut_off_does_not_go_on() {
    let stream = Script::default()
        .begun()
        .added(0, &read_call())
        .part(0, "fc_1", "{")
        .out;
    let told = streamed(RESPONSES, &[], &stream);
    assert_eq!(
        (told.out, told.judged.len(), told.fault),
        (Script::default().begun().out, 0, None)
    );
}

#[test]
fn no_call_is_held_beyond_its_limit() {
    let mut script = Script::default().added(0, &call(1, "f", ""));
    for _ in 0..100 {
        script = script.part(0, "fc_1", "aaaa");
    }
    let told = told(RESPONSES, Framing::Events, &[], [script.out.as_bytes()]);
    assert_eq!(
        told.fault,
        Some(LlmFault::TooLong {
            limit: LIMITS.max_held
        })
    );
    assert!(!told.out.contains("fc_1"));
}

#[test]
fn events_are_rewritten_where_readers_differ() {
    let stream = "event: x\nid: 1\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"a\",\"delta\":\"b\"}\n\n";
    let told = streamed(RESPONSES, &[], stream);
    assert_eq!(
        told.out,
        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"b\"}\n\n"
    );
    let stream = "data: {\"type\":\"a\\ndata: x\",\"x\":1,\"x\":2}\n\n";
    let told = streamed(RESPONSES, &[], stream);
    assert_eq!(told.out, "data: {\"type\":\"a\\ndata: x\",\"x\":2}\n\n");
}

proptest! {
    /// Only calls that were judged and allowed pass, whatever comes in whatever order.
    #[test]
    fn only_what_was_allowed_goes_on(parts in prop::collection::vec((0..3_u64, 0..7_usize), 0..12), end in any::<bool>(), cut in 0..4000_usize) {
        let mut script = Script::default().begun();
        for (place, what) in parts {
            let id = format!("fc_{place}");
            script = match what {
                0 => script.added(place, &call(place, "good", "")),
                1 => script.added(place, &call(place, "bad", "")),
                2 => script.part(place, &id, "{}"),
                3 => script.done(place, &call(place, "good", "{}")),
                4 => script.done(place, &call(place, "bad", "{}")),
                5 => script.all(place, &id, "{}"),
                _ => script.text(place, "t"),
            };
        }
        let stream = if end { script.end(&[call(0, "bad", "{}"), call(1, "good", "{}")]) } else { script.out };
        let at = cut.min(stream.len());
        let once = told(RESPONSES, Framing::Events, &["bad"], [stream.as_bytes()]);
        let cut = told(RESPONSES, Framing::Events, &["bad"], [&stream.as_bytes()[..at], &stream.as_bytes()[at..]]);
        prop_assert_eq!(&once, &cut);
        prop_assert!(!once.out.contains("\"name\":\"bad\""), "{}", once.out);
    }
}
