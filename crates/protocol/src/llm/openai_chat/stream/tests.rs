//! Chat Completions through the front door.

use mcpmon_model::Dialect;
use proptest::prelude::*;
use serde_json::{Value, json};
use test_case::test_case;

use crate::llm::{
    Framing, HoldLimits, LlmFault, LlmResponse,
    openai::fixture::{LIMITS, OpenaiOutcome, Words, cut_anywhere, cuts, streamed, told, whole},
};

const CHAT: Dialect = Dialect::OpenaiChat;

/// A chunk with one choice.
fn chunk(choice: u64, delta: &Value, finish: Option<&str>) -> String {
    let choice = json!({"index": choice, "delta": delta, "finish_reason": finish});
    event(&json!({"id": "c1", "choices": [choice]}))
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn delta(delta: &Value) -> String {
    chunk(0, delta, None)
}

fn text(text: &str) -> String {
    delta(&json!({"content": text}))
}

fn begin(index: u64, id: &str, name: &str) -> Value {
    json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]})
}

fn more(index: u64, arguments: &str) -> Value {
    json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
}

fn finish(reason: &str) -> String {
    chunk(0, &json!({}), Some(reason))
}

const END: &str = "data: [DONE]\n\n";

/// Text, two calls, usage.
fn golden() -> String {
    let usage = json!({"id": "c1", "choices": [],
        "usage": {"total_tokens": 7}});
    [
        ": ping\n\n".to_owned(),
        delta(&json!({"role": "assistant", "content": "", "refusal": null})),
        text("Let me "),
        text("look."),
        delta(&begin(0, "call_a", "read")),
        delta(&more(0, "{\"path\":")),
        delta(&more(0, "\"/a\"}")),
        delta(&begin(1, "call_b", "send")),
        delta(&more(1, "{\"to\":\"b\"}")),
        finish("tool_calls"),
        event(&usage),
        END.to_owned(),
    ]
    .concat()
}

/// The result of an SDK that puts calls together by their index.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    text: String,
    calls: Vec<String>,
    finish: String,
}

fn read(told: &OpenaiOutcome) -> Read {
    let mut read = Read::default();
    let mut calls: Vec<(String, String, String)> = Vec::new();
    for event in told.events() {
        let Some(choice) = event["choices"].get(0) else {
            continue;
        };
        read.text
            .push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        read.finish
            .push_str(choice["finish_reason"].as_str().unwrap_or_default());
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let index = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
            assert!(index <= calls.len(), "a gap before {index}");
            if index == calls.len() {
                calls.push(Default::default());
            }
            let part = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            calls[index].0.push_str(&part(&call["id"]));
            for kind in ["function", "custom"] {
                calls[index].1.push_str(&part(&call[kind]["name"]));
            }
            calls[index].2.push_str(&part(&call["function"]["arguments"]));
            calls[index].2.push_str(&part(&call["custom"]["input"]));
        }
    }
    let shown = |(id, name, input): (String, String, String)| format!("{id} {name} {input}");
    read.calls = calls.into_iter().map(shown).collect();
    read
}

fn blocked(name: &str) -> String {
    format!("[mcpmon] Tool '{name}' blocked by policy: no \"x\" (rule r).")
}

const A: &str = "call_a read {\"path\":\"/a\"}";
const B: &str = "call_b send {\"to\":\"b\"}";

#[test_case(&[], "Let me look.", &[A, B], "tool_calls"; "none")]
#[test_case(&["read"], "Let me look.\n\n{read}", &[B], "tool_calls"; "the first")]
#[test_case(&["send"], "Let me look.\n\n{send}", &[A], "tool_calls"; "the last")]
#[test_case(&["/a"], "Let me look.\n\n{read}", &[B], "tool_calls"; "by its arguments")]
#[test_case(&["call_"], "Let me look.\n\n{read}\n\n{send}", &[], "stop"; "all")]
fn calls_are_replaced(words: &[&'static str], text: &str, calls: &[&str], finish: &str) {
    let told = streamed(CHAT, words, &golden());
    let text = text
        .replace("{read}", &blocked("read"))
        .replace("{send}", &blocked("send"));
    let calls = calls.iter().map(|call| (*call).to_owned()).collect();
    let finish = finish.to_owned();
    assert_eq!(read(&told), Read { text, calls, finish });
    assert_eq!(told.judged, [A, B]);
    assert_eq!(told.events().last().unwrap()["usage"]["total_tokens"], 7);
    assert!(told.out.ends_with(END) && told.out.starts_with(": ping\n\n"));
    if words.is_empty() {
        assert_eq!(told.out, golden());
    }
}

/// Streams that are forwarded unchanged if nothing is blocked.
fn plain() -> Vec<(&'static str, String)> {
    let role = || {
        delta(
            &json!({"role": "assistant", "content": null, "tool_calls": [{"index": 0, "id": "a",
        "type": "function", "function": {"name": "f", "arguments": "{}"}}]}),
        )
    };
    let custom = json!({"tool_calls": [{"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}]});
    vec![
        ("golden", golden()),
        ("returns", golden().replace('\n', "\r\n")),
        ("no [DONE]", golden().replace(END, "")),
        ("role with the call", [role(), finish("tool_calls")].concat()),
        (
            "finish with the arguments",
            [
                delta(&begin(0, "a", "f")),
                chunk(0, &more(0, "{}"), Some("tool_calls")),
            ]
            .concat(),
        ),
        (
            "no end",
            [delta(&begin(0, "a", "f")), delta(&more(0, "{\"x\":"))].concat(),
        ),
        ("custom", [delta(&custom), finish("tool_calls")].concat()),
        (
            "legacy",
            [
                delta(&json!({"role": "assistant", "function_call": {"name": "f", "arguments": ""}})),
                delta(&json!({"function_call": {"arguments": "{}"}})),
                finish("function_call"),
            ]
            .concat(),
        ),
        (
            "interleaved",
            [
                delta(&begin(0, "a", "f")),
                delta(&more(0, "{")),
                delta(&begin(1, "b", "g")),
                delta(&more(0, "}")),
                delta(&more(1, "{}")),
                finish("tool_calls"),
            ]
            .concat(),
        ),
        (
            "starts at one",
            [
                delta(&begin(1, "a", "f")),
                delta(&more(1, "{}")),
                finish("tool_calls"),
            ]
            .concat(),
        ),
        ("an error", event(&json!({"error": {"message": "overloaded"}}))),
        ("the last event is not ended", golden().trim_end().to_owned()),
    ]
}

#[test]
fn a_stream_may_be_cut_anywhere() {
    assert_eq!(cut_anywhere(CHAT, &[], &golden()).out, golden());
    let told = cut_anywhere(CHAT, &["read"], &golden());
    assert!(told.out.contains("[mcpmon]") && told.out.contains("call_b"));
}

#[test]
fn what_is_allowed_goes_on_as_it_came() {
    for (name, stream) in plain() {
        let bytes = stream.as_bytes();
        for at in cuts(&stream) {
            let (head, tail) = bytes.split_at(at);
            let told = told(CHAT, Framing::Events, &[], [head, tail]);
            assert_eq!(
                (told.out, told.fault),
                (stream.clone(), None),
                "{name} cut at {at}"
            );
        }
        let told = told(CHAT, Framing::Events, &[], bytes.chunks(1));
        assert_eq!(told.out, stream, "{name} a byte at a time");
    }
}

#[test]
fn text_goes_on_at_once() {
    let mut judge = Words::default();
    let mut response = LlmResponse::new(CHAT, Framing::Events, LIMITS);
    let mut push = |bytes: &str| {
        let mut out = Vec::new();
        response.push(bytes.as_bytes(), &mut judge, &mut out).unwrap();
        (String::from_utf8(out).unwrap() == bytes, response.held())
    };
    assert_eq!(
        push(&delta(&json!({"role": "assistant", "content": ""}))),
        (true, 0)
    );
    assert_eq!(push(&text("a")), (true, 0));
    let begun = delta(&begin(0, "a", "f"));
    assert_eq!(push(&begun), (false, begun.len()));
    assert_eq!(push(&text("b")), (true, begun.len()));
    assert_eq!(
        push(&chunk(1, &json!({"role": "assistant", "content": "c"}), None)),
        (true, begun.len())
    );
    assert_eq!(push(": ping\n\n"), (true, begun.len()));
    assert!(!push(&finish("tool_calls")).0);
    assert_eq!(push(&text("d")), (true, 0));
}

#[test]
fn a_call_goes_on_when_the_next_one_begins() {
    let mut judge = Words::default();
    let mut response = LlmResponse::new(CHAT, Framing::Events, LIMITS);
    let mut out = Vec::new();
    let first = [delta(&begin(0, "a", "f")), delta(&more(0, "{}"))].concat();
    response.push(first.as_bytes(), &mut judge, &mut out).unwrap();
    assert!(out.is_empty());
    response
        .push(delta(&begin(1, "b", "g")).as_bytes(), &mut judge, &mut out)
        .unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), first);
}

#[test]
fn answers_are_independent() {
    let stream = [
        chunk(0, &json!({"role": "assistant", "content": "x"}), None),
        chunk(1, &json!({"role": "assistant", "content": "y"}), None),
        chunk(0, &begin(0, "a", "bad"), None),
        chunk(1, &begin(0, "b", "good"), None),
        chunk(0, &more(0, "{}"), None),
        chunk(1, &more(0, "{}"), None),
        chunk(0, &json!({}), Some("tool_calls")),
        chunk(1, &json!({}), Some("tool_calls")),
        END.to_owned(),
    ]
    .concat();
    let told = streamed(CHAT, &["bad"], &stream);
    assert_eq!(told.judged, ["a bad {}", "b good {}"]);
    let of = |answer: u64| {
        let events = told.events();
        let mut of = events
            .iter()
            .map(|event| event["choices"][0].clone())
            .collect::<Vec<_>>();
        of.retain(|choice| choice["index"] == answer);
        of
    };
    let first = of(0);
    assert!(
        first
            .iter()
            .all(|choice| choice["delta"].get("tool_calls").is_none())
    );
    assert_eq!(first.last().unwrap()["finish_reason"], "stop");
    let second = of(1);
    assert_eq!(second.last().unwrap()["finish_reason"], "tool_calls");
    assert_eq!(second[1]["delta"], begin(0, "b", "good"));
}

/// Fragments that readers understand differently: the forwarded one is understood alike by all.
#[test_case(&[begin(0, "a", "read_"), json!({"tool_calls": [{"index": 0, "function": {"name": "file", "arguments": "{}"}}]})] => ["a read_file {}"]; "a name in two parts")]
#[test_case(&[begin(0, "a", "f"), json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]})] => ["a f {}"]; "the name again")]
#[test_case(&[begin(0, "a", "f"), more(0, "{\"x\":1,\"x\":2}")] => ["a f {\"x\":2}"]; "a name twice in the arguments")]
#[test_case(&[begin(0, "a", "f"), more(0, "{}"), begin(0, "b", "g"), more(0, "{\"y\":1}")] => ["a f {}", "b g {\"y\":1}"]; "the same index for all")]
#[test_case(&[json!({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}, {"id": "b", "function": {"name": "g", "arguments": "{}"}}]})] => ["a f {}", "b g {}"]; "no index")]
fn readers_are_left_no_choice(deltas: &[Value]) -> Vec<String> {
    let chunks: String = deltas.iter().map(delta).collect();
    let told = streamed(CHAT, &[], &[chunks, finish("tool_calls")].concat());
    assert_eq!(told.fault, None);
    let calls = read(&told).calls;
    assert_eq!(calls, told.judged);
    calls
}

#[test_case("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\",\"content\":\"b\"}}]}\n\n" => "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"}}]}\n\n"; "a name twice")]
#[test_case("data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"a\"}}]}\n\n" => "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"; "two lines")]
#[test_case("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\u{2028}data: x\"}}]}\n\n" => "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\u2028data: x\"}}]}\n\n"; "the end of a line for some")]
fn chunks_are_rewritten_where_readers_differ(stream: &str) -> String {
    let told = streamed(CHAT, &[], stream);
    assert_eq!(told.fault, None);
    told.out
}

/// A writer that cuts a text may cut a character in two; a reader that joins the parts has it again.
#[test]
fn half_a_character_goes_on_as_it_came() {
    let halves = ["\\ud83d", "\\ude00"].map(|half| text("x").replace("\"x\"", &format!("\"{half}\"")));
    let stream =
        delta(&json!({"role": "assistant", "content": ""})) + &halves.concat() + &finish("stop") + END;
    let told = streamed(CHAT, &["write"], &stream);
    assert_eq!((told.fault, told.out), (None, stream));
    // In a call it is written as what most readers make of it.
    let calls = delta(&begin(0, "call_a", "read")) + &delta(&more(0, "x")).replace("\"x\"", "\"\\ud83d\"");
    let told = streamed(CHAT, &[], &(calls + &finish("tool_calls") + END));
    assert!(!told.out.contains("\\ud83d"), "{told:?}");
}

#[test_case("data: {\"id\"" => "data: {\"id\"\n\n"; "an event without an end")]
#[test_case("data: {}\n" => "data: {}\n\n\n"; "a line")]
#[test_case("data: {}\r\n\r\n" => "data: {}\r\n\r\n"; "an event")]
#[test_case("" => ""; "nothing")]
fn an_error_is_no_part_of_what_went_on_last(last: &str) -> String {
    let mut response = LlmResponse::new(CHAT, Framing::Events, LIMITS);
    let mut out = last.as_bytes().to_vec();
    let read = response.push(b"data: {]\n\n", &mut Words::default(), &mut out);
    assert!(matches!(read, Err(LlmFault::Malformed { .. })));
    let out = String::from_utf8(out).unwrap();
    let (before, _error) = out.split_at(out.find("data: {\"error\"").unwrap());
    before.to_owned()
}

#[test_case("data: {\"choices\"\n\n"; "no JSON")]
#[test_case("data: []\n\n"; "no object")]
#[test_case("data: {\"choices\":{}}\n\n"; "no array")]
#[test_case("data: {\"Choices\":[]}\n\n"; "another spelling")]
#[test_case("data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_callS\":[]}}]}\n\n"; "another spelling of calls")]
#[test_case("data: {\"choices\":[{\"index\":0,\"message\":{\"tool_calls\":[{\"id\":\"a\"}]}}]}\n\n"; "a message in a stream")]
#[test_case("data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{},\"custom\":{}}]}}]}\n\n"; "two kinds")]
#[test_case("data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"shell\":{}}]}}]}\n\n"; "no kind")]
#[test_case("data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":-1,\"function\":{}}]}}]}\n\n"; "no index")]
#[test_case("data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":{}}}]}}]}\n\n"; "arguments that are no text")]
fn what_is_unclear_ends_the_stream(stream: &str) {
    let told = streamed(CHAT, &[], stream);
    assert!(matches!(told.fault, Some(LlmFault::Malformed { .. })), "{told:?}");
    let events = told.events();
    assert_eq!(events.len(), 1);
    assert!(
        events[0]["error"]["message"]
            .as_str()
            .unwrap()
            .starts_with("[mcpmon] ")
    );
}

#[test]
fn a_call_that_goes_on_later_ends_the_stream() {
    let stream = [
        delta(&begin(0, "a", "f")),
        delta(&more(0, "{}")),
        delta(&begin(1, "b", "g")),
        delta(&more(0, "x")),
    ];
    let told = streamed(CHAT, &[], &stream.concat());
    assert!(matches!(told.fault, Some(LlmFault::Malformed { .. })));
    assert_eq!(told.judged, ["a f {}"]);
}

#[test]
fn no_call_is_held_beyond_its_limit() {
    let many: String = std::iter::repeat_n(delta(&more(0, "aaaa")), 100).collect();
    let told = told(
        CHAT,
        Framing::Events,
        &[],
        [[delta(&begin(0, "a", "f")), many].concat().as_bytes()],
    );
    assert_eq!(
        told.fault,
        Some(LlmFault::TooLong {
            limit: LIMITS.max_held
        })
    );
    assert!(!told.out.contains("tool_calls"));
    let wide = HoldLimits::default();
    let mut response = LlmResponse::new(CHAT, Framing::Events, wide);
    let calls: String = (0..2000).map(|index| delta(&begin(index, "a", "f"))).collect();
    let mut out = Vec::new();
    let read = response.push(calls.as_bytes(), &mut Words::default(), &mut out);
    assert!(matches!(read, Err(LlmFault::Malformed { .. })));
}

/// The golden answer in one body.
fn body(message: &Value, finish: &str) -> String {
    let choice = json!({"index": 0, "message": message, "finish_reason": finish});
    json!({"id": "c1", "object": "chat.completion", "choices": [choice], "usage": {"total_tokens": 7}})
        .to_string()
}

#[test_case(&[]; "none")]
#[test_case(&["read"]; "the first")]
#[test_case(&["send"]; "the last")]
#[test_case(&["call_"]; "all")]
fn streamed_equals_whole(words: &[&'static str]) {
    let call = |id: &str, name: &str, input: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": input}});
    let calls = [
        call("call_a", "read", "{\"path\":\"/a\"}"),
        call("call_b", "send", "{\"to\":\"b\"}"),
    ];
    let body = body(
        &json!({"role": "assistant", "content": "Let me look.", "tool_calls": calls}),
        "tool_calls",
    );
    let of_body = whole(CHAT, words, &body);
    let of_stream = streamed(CHAT, words, &golden());
    assert_eq!(of_body.judged, of_stream.judged);
    let answer: Value = serde_json::from_str(&of_body.out).unwrap();
    let message = &answer["choices"][0]["message"];
    let read = read(&of_stream);
    assert_eq!(message["content"], read.text);
    assert_eq!(answer["choices"][0]["finish_reason"], read.finish);
    let left = message["tool_calls"].as_array().map_or(0, Vec::len);
    assert_eq!(
        (left, message.get("tool_calls").is_some()),
        (read.calls.len(), left > 0)
    );
    assert_eq!(answer["usage"]["total_tokens"], 7);
    if words.is_empty() {
        assert_eq!(of_body.out, body);
    }
}

#[test_case(&json!({"role": "assistant", "content": null, "function_call": {"name": "bad", "arguments": "{}"}}), "function_call"; "legacy")]
#[test_case(&json!({"role": "assistant", "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "bad", "input": "{"}}]}), "tool_calls"; "custom")]
#[test_case(&json!({"role": "assistant", "content": [], "tool_calls": [{"id": "a", "function": {"name": "bad", "arguments": "{"}}]}), "stop"; "no JSON")]
fn bodies_lose_their_calls(message: &Value, finish: &str) {
    let body = body(message, finish);
    assert_eq!(whole(CHAT, &[], &body).out, body);
    let told = whole(CHAT, &["bad"], &body);
    let answer: Value = serde_json::from_str(&told.out).unwrap();
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "stop");
    let said = choice["message"]["content"].as_str();
    assert_eq!(
        said.or_else(|| choice["message"]["content"][0]["text"].as_str()),
        Some(&*blocked("bad"))
    );
    assert!(
        choice["message"].get("tool_calls").is_none() && choice["message"].get("function_call").is_none()
    );
}

#[test]
fn bodies_that_cannot_be_read_are_refused() {
    for body in [
        "<html>",
        "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{}]}}]}",
        "[]",
    ] {
        let told = whole(CHAT, &[], body);
        assert!(matches!(told.fault, Some(LlmFault::Malformed { .. })), "{body}");
        assert_eq!(told.out, "");
    }
}

proptest! {
    /// Only calls that were judged and allowed pass, whatever fragments come in whatever order.
    #[test]
    fn only_what_was_allowed_goes_on(parts in prop::collection::vec((0..3_u64, 0..5_usize), 0..12), cut in 0..2000_usize) {
        let stream: String = parts.iter().map(|(index, what)| match what {
            0 => delta(&begin(*index, &format!("i{index}"), "good")),
            1 => delta(&begin(*index, &format!("i{index}"), "bad")),
            2 => delta(&more(*index, "{}")),
            3 => text("t"),
            _ => finish("tool_calls"),
        }).collect();
        let stream = [delta(&json!({"role": "assistant"})), stream, END.to_owned()].concat();
        let at = cut.min(stream.len());
        let once = told(CHAT, Framing::Events, &["bad"], [stream.as_bytes()]);
        let cut = told(CHAT, Framing::Events, &["bad"], [&stream.as_bytes()[..at], &stream.as_bytes()[at..]]);
        prop_assert_eq!(&once, &cut);
        prop_assert!(!once.out.contains("\"name\":\"bad\""));
        let allowed = once.judged.iter().filter(|call| !call.contains("bad")).count();
        let sent = once.out.matches("\"name\":").count();
        prop_assert!(sent <= allowed, "{}", once.out);
    }
}
