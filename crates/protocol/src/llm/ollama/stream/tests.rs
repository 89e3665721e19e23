//! Lines and bodies as Ollama sends them.

use proptest::{collection::vec, prelude::*, sample::select};
use test_case::test_case;

use super::*;
use crate::llm::{
    Framing, LlmResponse,
    harness::{FilterOutcome, all, evil, held, idle, none, run, run_anyhow},
};

fn streamed(lines: &str, is_blocked: fn(&str) -> bool) -> FilterOutcome {
    run_anyhow(Dialect::Ollama, Framing::Lines, lines.as_bytes(), is_blocked)
}

fn buffered(body: &str, is_blocked: fn(&str) -> bool) -> FilterOutcome {
    run_anyhow(Dialect::Ollama, Framing::Whole, body.as_bytes(), is_blocked)
}

const STREAM: &str = r#"{"model":"m","message":{"role":"assistant","content":"","thinking":"hm"},"done":false}
{"model":"m","message":{"role":"assistant","content":"Let me see."},"done":false}
{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"index":0,"name":"good","arguments":{"a":1.50}}},{"function":{"name":"evil","arguments":{"x":"\u00e9"}}}]},"done":false}
{"model":"m","message":{"role":"assistant","content":""},"done_reason":"stop","done":true,"eval_count":7}
"#;

#[test]
fn what_is_allowed_is_not_touched() {
    let told = streamed(STREAM, none);
    assert_eq!(told.text(), STREAM);
    assert_eq!(
        told.said,
        ["call good c1 {\"a\":1.5}", "call evil - {\"x\":\"\u{e9}\"}"]
    );
    let pretty = "{\r\n \"message\": {\"content\": \"\u{2028}\"},\n \"done\": true }\n";
    assert_eq!(buffered(pretty, all).text(), pretty);
    let generated = "{\"model\":\"m\",\"response\":\"a \",\"done\":false}\n{\"response\":\"\",\"done\":true,\"context\":[1,2]}";
    assert_eq!(streamed(generated, all).text(), generated);
}

#[test]
fn some_are_blocked() {
    insta::assert_snapshot!(streamed(STREAM, evil).text(), @r#"
    {"model":"m","message":{"role":"assistant","content":"","thinking":"hm"},"done":false}
    {"model":"m","message":{"role":"assistant","content":"Let me see."},"done":false}
    {"model":"m","message":{"role":"assistant","content":"\n\n[mcpmon] Tool 'evil' blocked by policy: not \"now\" (rule by_name).","tool_calls":[{"id":"c1","function":{"index":0,"name":"good","arguments":{"a":1.50}}}]},"done":false}
    {"model":"m","message":{"role":"assistant","content":""},"done_reason":"stop","done":true,"eval_count":7}
    "#);
}

#[test]
fn all_are_blocked() {
    insta::assert_snapshot!(streamed(STREAM, all).text(), @r#"
    {"model":"m","message":{"role":"assistant","content":"","thinking":"hm"},"done":false}
    {"model":"m","message":{"role":"assistant","content":"Let me see."},"done":false}
    {"model":"m","message":{"role":"assistant","content":"\n\n[mcpmon] Tool 'good' blocked by policy: not \"now\" (rule by_name).\n\n[mcpmon] Tool 'evil' blocked by policy: not \"now\" (rule by_name)."},"done":false}
    {"model":"m","message":{"role":"assistant","content":""},"done_reason":"stop","done":true,"eval_count":7}
    "#);
}

const DENIED: &str = r#""content":"[mcpmon] Tool 'evil' blocked by policy: not \"now\" (rule by_name).""#;

#[test_case(r#"{"role":"assistant","tool_calls":[{"function":{"name":"evil"}}],"x":1}"#, r#"{"role":"assistant",DENIED,"x":1}"#; "no content")]
#[test_case(r#"{"tool_calls":[{"function":{"name":"evil"}}]}"#, "{DENIED}"; "nothing else")]
#[test_case(r#"{"content":null,"tool_calls":[{"function":{"name":"evil"}}]}"#, "{DENIED}"; "no text")]
#[test_case(r#"{"tool_calls":[{"function":{"name":"evil"}}],"content":""}"#, "{DENIED}"; "content behind the calls")]
#[test_case(r#"{"tool_calls":[{"function":{"name":"evil"}},{"function":{"name":"good"}}]}"#, r#"{DENIED,"tool_calls":[{"function":{"name":"good"}}]}"#; "no content, and another call")]
#[test_case(r#"{"Tool_Calls":[{"Function":{"Name":"evil"}}],"Content":""}"#, "{DENIED}"; "names that Go takes for others")]
#[test_case(r#"{"tool_calls":[{"name":"evil"}]}"#, "{DENIED}"; "a name outside")]
fn messages(message: &str, goes_on: &str) {
    let body = |message: &str| format!("{{\"message\":{message},\"done\":true}}");
    let goes_on = body(&goes_on.replace("DENIED", DENIED));
    assert_eq!(buffered(&body(message), evil).text(), goes_on);
    assert_eq!(streamed(&body(message), evil).text(), goes_on);
}

#[test_case(r#"{"x":{"y":1}}"# => r#"call a - {"x":{"y":1}}"#; "an object")]
#[test_case(r#""{\"x\":1}""# => r#"call a - {"x":1}"#; "JSON in a string")]
#[test_case(r#""{x""# => "call a - malformed {x"; "no JSON in a string")]
#[test_case("null" => "call a - {}"; "none")]
fn arguments(arguments: &str) -> String {
    let body =
        format!(r#"{{"message":{{"tool_calls":[{{"function":{{"name":"a","arguments":{arguments}}}}}]}}}}"#);
    buffered(&body, none).said.concat()
}

#[test]
fn a_reason_that_tells_of_calls_is_corrected_where_none_are_left() {
    let stream = |name: &str| {
        format!(
            "{{\"message\":{{\"content\":\"\",\"tool_calls\":[{{\"function\":{{\"name\":\"{name}\"}}}}]}}}}\n{{\"message\":{{}},\"done_reason\":\"tool_calls\",\"done\":true}}\n"
        )
    };
    assert!(
        streamed(&stream("evil"), evil)
            .text()
            .contains(r#""done_reason":"stop""#)
    );
    assert_eq!(streamed(&stream("good"), evil).text(), stream("good"));
    let both = stream("evil").lines().next().unwrap().to_owned() + "\n" + &stream("good");
    assert!(
        streamed(&both, evil)
            .text()
            .contains(r#""done_reason":"tool_calls""#)
    );
}

#[test_case("{\"message\":{\"tool_calls\":[}}\n"; "no JSON")]
#[test_case("{} {\"message\":{}}\n"; "two texts in a line")]
#[test_case("{}\r{\"message\":{}}\n"; "two lines for some")]
#[test_case("{\"message\":{\"tool_calls\":[],\"Tool_calls\":[]}}\n"; "two spellings")]
fn what_some_could_read_otherwise_does_not_go_on(stream: &str) {
    let told = streamed(stream, none);
    assert!(matches!(told.fault, Some(LlmFault::Malformed { .. })));
    assert!(told.text().starts_with("{\"error\":\"[mcpmon] ") && told.text().ends_with("\"}\n"));
}

#[test]
fn lines_are_written_so_that_all_see_the_same() {
    let told = streamed("{\"message\":\r{\"content\":\"a\u{2028}\"}}\n", none);
    assert_eq!(told.text(), "{\"message\":{\"content\":\"a\\u2028\"}}\n");
    let told = streamed(
        "{\"message\":{\"tool_calls\":[{\"function\":{\"name\":\"good\",\"name\":\"evil\"}}]}}\n",
        evil,
    );
    assert_eq!(told.said, ["call evil - {}"]);
}

#[test]
fn nothing_is_held_but_the_line() {
    let half = &STREAM[..100];
    let line = half.rfind('\n').unwrap() + 1;
    assert_eq!(
        held(Dialect::Ollama, Framing::Lines, half.as_bytes()),
        half.len() - line
    );
}

#[test_case(b""; "nothing behind it")]
#[test_case(b"{"; "some of the next line behind it")]
fn a_long_line_leaves_no_memory_that_is_not_counted(behind: &[u8]) {
    let (dialect, limits) = (Dialect::Ollama, HoldLimits::default());
    let spoken = LlmResponse::new(dialect, Framing::Lines, limits);
    for response in [spoken, LlmResponse::of_batch(dialect, limits)] {
        let line = format!("{{\"x\":\"{}\"}}\n", "y".repeat(limits.max_event / 2));
        let kept = idle(response, &[line.as_bytes(), behind].concat());
        assert!(kept <= 1 << 16, "{kept}");
    }
}

/// A response that comes at once.
fn at_once(framing: Framing, response: &str) -> FilterOutcome {
    run(
        Dialect::Ollama,
        framing,
        HoldLimits::default(),
        [response.as_bytes()],
        evil,
    )
}

proptest! {
    #[test]
    fn streamed_is_buffered(names in vec(select(vec!["good", "evil", "evil2"]), 0..5), content in "[a-z\u{e9}\\\\\"]{0,4}") {
        let calls: Vec<String> = names.iter().map(|name| format!(r#"{{"function":{{"name":"{name}","arguments":{{}}}}}}"#)).collect();
        let content = serde_json::to_string(&content).unwrap();
        let body = format!(r#"{{"message":{{"content":{content},"tool_calls":[{}]}},"done_reason":"tool_calls"}}"#, calls.join(","));
        let told = at_once(Framing::Lines, &format!("{body}\n"));
        let whole = at_once(Framing::Whole, &body);
        prop_assert_eq!(&told.said, &whole.said);
        prop_assert_eq!(told.text(), whole.text() + "\n");
        let read: serde_json::Value = serde_json::from_slice(&whole.out).unwrap();
        let left = names.iter().filter(|name| !evil(name)).count();
        prop_assert_eq!(read["message"]["tool_calls"].as_array().map_or(0, Vec::len), left);
        let blocked = names.len() - left;
        prop_assert_eq!(read["done_reason"] == "stop", blocked > 0 && left == 0);
        prop_assert_eq!(read["message"]["content"].as_str().unwrap().matches("blocked by policy").count(), blocked);
    }
}

#[test]
fn calls_that_are_no_array_do_not_go_on() {
    let told = streamed(
        "{\"message\":{\"tool_calls\":{\"0\":{\"function\":{\"name\":\"evil\"}}}}}\n",
        none,
    );
    assert!(matches!(told.fault, Some(LlmFault::Malformed { .. })), "{told:?}");
    assert!(!told.text().contains("evil"), "{told:?}");
}
