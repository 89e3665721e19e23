//! Streams and bodies as Google's two APIs send them.

use proptest::{collection::vec, prelude::*, sample::select};
use test_case::test_case;

use super::*;
use crate::llm::{
    Framing,
    harness::{FilterOutcome, all, evil, held, none, run, run_anyhow},
};

fn streamed(events: &str, is_blocked: fn(&str) -> bool) -> FilterOutcome {
    run_anyhow(Dialect::Gemini, Framing::Events, events.as_bytes(), is_blocked)
}

fn buffered(body: &str, is_blocked: fn(&str) -> bool) -> FilterOutcome {
    run_anyhow(Dialect::Gemini, Framing::Whole, body.as_bytes(), is_blocked)
}

/// Events of one candidate with these parts each.
fn events(parts: &[&str]) -> String {
    let mut stream = String::new();
    for (position, parts) in parts.iter().enumerate() {
        let end = if position + 1 < ALL {
            ""
        } else {
            r#","finishReason":"STOP""#
        };
        stream.push_str(&format!(
            "data: {{\"candidates\": [{{\"content\": {{\"parts\": [{parts}],\"role\": \"model\"}}{end},\"index\": 0}}],\"modelVersion\": \"m\"}}\r\n\r\n"
        ));
    }
    stream
}

/// More than any stream here has.
const ALL: usize = usize::MAX;

const TEXT: &str = r#"{"text": "Let me see. \u2026"}"#;
const THOUGHT: &str = r#"{"text": "hm","thought": true}"#;
const GOOD: &str =
    r#"{"functionCall": {"name": "good","args": {"a": 1.50,"b": [ ]}},"thoughtSignature": "c2ln"}"#;
const EVIL: &str =
    r#"{"functionCall": {"name": "evil","args": {"x": "\u00e9"},"id": "e1"},"thoughtSignature": "ZXZpbA=="}"#;
const SECOND: &str = r#"{"functionCall": {"name": "second","args": {}}}"#;
const DENIED: &str = r#"{"text":"[mcpmon] Tool 'evil' blocked by policy: not \"now\" (rule by_name)."}"#;

#[test_case(&[TEXT], &[TEXT], &[]; "text")]
#[test_case(&[THOUGHT, GOOD], &[THOUGHT, GOOD], &["call good - {\"a\":1.5,\"b\":[]}"]; "a call that is allowed")]
#[test_case(&[TEXT, EVIL], &[TEXT, DENIED], &["call evil e1 {\"x\":\"\u{e9}\"}"]; "a call that is blocked")]
#[test_case(&[&[GOOD, EVIL].join(", ")], &[&[GOOD, DENIED].join(", ")], &["call good - {\"a\":1.5,\"b\":[]}", "call evil e1 {\"x\":\"\u{e9}\"}"]; "one of two")]
fn calls(came: &[&str], goes_on: &[&str], said: &[&str]) {
    let told = streamed(&events(came), evil);
    assert_eq!(
        told.text()
            .replace("\n\n", "\r\n\r\n")
            .replace("}\n\r", "}\r\n\r"),
        events(goes_on)
    );
    assert_eq!(told.said, said);
    assert_eq!(told.fault, None);
}

#[test]
fn what_is_allowed_is_not_touched() {
    let pretty = "{\n  \"candidates\": [\n {\"content\": {\"parts\": [{\"functionCall\": {\"name\": \"evil\"}}]}}\n ]\n}\n";
    let array = format!("[{pretty},\r\n{pretty}]\n");
    for body in [pretty, &array] {
        let told = buffered(body, none);
        assert_eq!(told.text(), body);
        assert!(!told.said.is_empty() && told.fault.is_none());
    }
    let stream = format!(
        ": hello\n\nretry: 5\ndata: \n\n{}data: [DONE]\n\n",
        events(&[TEXT, GOOD, PARTIAL[0], PARTIAL[1], PARTIAL[2], EVIL])
    );
    let told = streamed(&stream, none);
    assert_eq!(told.text(), stream);
    assert_eq!(told.said.len(), 3);
}

#[test]
fn the_signature_of_calls_side_by_side_stays_with_the_first_that_goes_on() {
    let told = streamed(&events(&[&[EVIL, SECOND].join(",")]), evil);
    let moved = SECOND.replace("{}}}", "{}},\"thoughtSignature\":\"ZXZpbA==\"}");
    assert!(told.text().contains(&moved), "{}", told.text());
    // In another event too, but only once.
    let told = streamed(&events(&[EVIL, SECOND, SECOND]), evil);
    assert_eq!(told.text().matches("ZXZpbA==").count(), 1);
    assert!(told.text().contains(&moved));
    // And not where the next one is signed itself.
    let told = streamed(&events(&[EVIL, GOOD, SECOND]), evil);
    assert!(!told.text().contains("ZXZpbA=="));
    assert!(told.text().contains(GOOD) && told.text().contains(SECOND));
}

/// A call as Vertex sends it on request, in parts.
const PARTIAL: [&str; 3] = [
    r#"{"functionCall": {"name": "evil_lights","willContinue": true},"thoughtSignature": "cA=="}"#,
    r#"{"functionCall": {"partialArgs": [{"jsonPath": "$.colour","stringValue": "wa","willContinue": true}],"willContinue": true}}"#,
    r#"{"functionCall": {"partialArgs": [{"jsonPath": "$.colour","stringValue": "rm"},{"jsonPath": "$.level","numberValue": 50}]}}"#,
];

#[test]
fn a_call_in_parts_is_held_until_it_is_whole() {
    let stream = events(&[TEXT, PARTIAL[0], PARTIAL[1], PARTIAL[2], TEXT]);
    let told = streamed(&stream, none);
    assert_eq!(told.text(), stream);
    assert_eq!(told.said, [r#"call evil_lights - {"colour":"warm","level":50}"#]);

    let start = events(&[TEXT, PARTIAL[0], PARTIAL[1]]);
    assert!(held(Dialect::Gemini, Framing::Events, start.as_bytes()) > 0);
    let text = events(&[TEXT, THOUGHT]);
    assert_eq!(held(Dialect::Gemini, Framing::Events, text.as_bytes()), 0);
}

#[test]
fn a_call_in_parts_is_blocked_as_a_whole() {
    let told = streamed(&events(&[TEXT, PARTIAL[0], PARTIAL[1], PARTIAL[2], TEXT]), evil);
    insta::assert_snapshot!(told.text().replace('\r', ""), @r#"
    data: {"candidates": [{"content": {"parts": [{"text": "Let me see. \u2026"}],"role": "model"},"index": 0}],"modelVersion": "m"}

    data: {"candidates": [{"content": {"parts": [{"text":"[mcpmon] Tool 'evil_lights' blocked by policy: not \"now\" (rule by_name)."}],"role": "model"},"index": 0}],"modelVersion": "m"}

    data: {"candidates": [{"index": 0}],"modelVersion": "m"}

    data: {"candidates": [{"index": 0}],"modelVersion": "m"}

    data: {"candidates": [{"content": {"parts": [{"text": "Let me see. \u2026"}],"role": "model"},"index": 0}],"modelVersion": "m"}

    "#);
}

#[test]
fn parts_that_repeat_the_name_are_of_one_call() {
    let parts = [
        r#"{"functionCall":{"name":"a","id":"1","willContinue":true}}"#,
        r#"{"function_call":{"name":"a","id":"1","partial_args":[{"json_path":"$.x","null_value":"NULL_VALUE"}],"will_continue":true}}"#,
        r#"{"functionCall":{}}"#,
    ];
    assert_eq!(streamed(&events(&parts), none).said, [r#"call a 1 {"x":null}"#]);
    let side_by_side = [
        r#"{"functionCall":{"name":"a","id":"1","willContinue":true}}"#,
        r#"{"functionCall":{"name":"b","id":"2","willContinue":true}}"#,
        r#"{"functionCall":{"id":"1","partialArgs":[{"jsonPath":"$.x","numberValue":1}]}}"#,
        r#"{"functionCall":{"partialArgs":[{"jsonPath":"$.x","numberValue":2}]}}"#,
    ];
    let told = streamed(&events(&side_by_side), none);
    assert_eq!(told.said, [r#"call a 1 {"x":1}"#, r#"call b 2 {"x":2}"#]);
}

#[test_case(r#"{"name":"a","willContinue":true}"#, r#"{"name":"b","args":{}}"#; "another name")]
#[test_case(r#"{"name":"a","willContinue":true}"#, r#"{"name":"a","id":"2","args":{}}"#; "an id that it had not")]
#[test_case(r#"{"name":"a","id":"1","willContinue":true}"#, r#"{"name":"b","id":"1","args":{}}"#; "another name with its id")]
#[test_case(r#"{"name":"a","id":"1","willContinue":true}"#, r#"{"name":"b","args":{}}"#; "another name without an id")]
fn parts_that_could_be_of_several_calls_do_not_go_on(first: &str, second: &str) {
    let parts = [first, second].map(|call| format!("{{\"functionCall\":{call}}}"));
    let told = streamed(&events(&[TEXT, &parts[0], &parts[1]]), none);
    let cause = "a tool call begins in the middle of another".to_owned();
    assert_eq!(told.fault, Some(LlmFault::Malformed { cause }));
    assert!(told.said.is_empty() && !told.text().contains("functionCall"));
}

#[test]
fn what_cannot_be_put_together_is_judged_as_it_came() {
    let parts = [r#"{"functionCall":{"name":"a","partialArgs":[{"jsonPath":"$..x","stringValue":"y"}]}}"#];
    let told = streamed(&events(&parts), none);
    assert_eq!(
        told.said,
        [r#"call a - malformed {"jsonPath":"$..x","stringValue":"y"}"#]
    );
}

#[test]
fn the_end_of_an_answer_ends_its_call() {
    let parts = r#"{"functionCall":{"name":"a","partialArgs":[{"jsonPath":"$.x","numberValue":1}],"willContinue":true}}"#;
    let stream = format!(
        "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{parts}]}},\"finishReason\":\"MAX_TOKENS\"}}]}}\n\n"
    );
    let told = streamed(&stream, none);
    assert_eq!((told.text(), told.fault), (stream, None));
    assert_eq!(told.said, [r#"call a - {"x":1}"#]);
}

#[test]
fn a_stream_that_ends_in_a_call_tells_so() {
    let told = streamed(&events(&[TEXT, PARTIAL[0], PARTIAL[1]]), none);
    assert_eq!(told.fault, Some(unfinished()));
    assert_eq!(told.said, Vec::<String>::new());
    let error = "data: {\"error\":{\"code\":502,\"message\":\"[mcpmon] it cannot be read: the response ends inside a tool call\",\"status\":\"UNAVAILABLE\"}}\n\n";
    assert_eq!(told.text(), events(&[TEXT]) + error);
    assert_eq!(
        buffered(
            &format!(
                "[{{\"candidates\":[{{\"content\":{{\"parts\":[{}]}}}}]}}]",
                PARTIAL[0]
            ),
            none
        )
        .fault,
        Some(unfinished())
    );
}

#[test]
fn no_more_is_held_than_allowed() {
    let limits = HoldLimits {
        max_held: 2000,
        ..HoldLimits::default()
    };
    let stream = events(&[
        PARTIAL[0], PARTIAL[1], PARTIAL[1], PARTIAL[1], PARTIAL[1], PARTIAL[1], PARTIAL[2],
    ]);
    let told = run(
        Dialect::Gemini,
        Framing::Events,
        limits,
        [stream.as_bytes()],
        none,
    );
    assert_eq!(told.fault, Some(LlmFault::TooLong { limit: 2000 }));
    assert!(!told.text().contains("evil_lights"));
}

#[test]
fn what_the_provider_ran_is_told() {
    let parts = [
        r#"{"executableCode": {"language": "PYTHON","code": "print(1)"}}"#,
        r#"{"codeExecutionResult": {"outcome": "OUTCOME_OK","output": "1"}}"#,
        r#"{"toolCall": {"toolType": "GOOGLE_SEARCH_WEB","args": {"q": "x"},"id": "t"}}"#,
    ];
    let told = streamed(&events(&parts), all);
    assert_eq!(told.text(), events(&parts));
    assert_eq!(
        told.said,
        [
            "called None codeExecution - text print(1)",
            r#"called None GOOGLE_SEARCH_WEB - {"q":"x"}"#
        ]
    );
}

#[test_case(r#"{"candidates":[{"content":{"parts":[{"function_call":{"name":"evil"}}]}}]}"#; "snake case")]
#[test_case(r#"{"Candidates":[{"Content":{"Parts":[{"FunctionCall":{"Name":"evil"}}]}}]}"#; "Pascal case")]
#[test_case(r#"{"response":{"candidates":[{"content":{"parts":[{"functionCall":{"name":"evil"}}]}}]}}"#; "in a wrapping")]
#[test_case(r#"[{"candidates":[{"content":{"parts":[{"functionCall":{"name":"evil"}}]}}]}]"#; "in an array")]
#[test_case(r#"{"candidates":[{},{"content":{"parts":[{"functionCall":{"name":"evil"}}]}}]}"#; "of another candidate")]
#[test_case(r#"{"candidates":[{"content":{"parts":[{"text":"x","functionCall":{"name":"evil"}}]}}]}"#; "beside a text")]
#[test_case(r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"good","name":"evil"}}]}}]}"#; "a name twice")]
#[test_case(r#"{"candidates":[{"content":{"parts":[{"f\u0075nctionCall":{"name":"evil"}}]}}]}"#; "an escape")]
#[test_case(r#"{"candidates":[],"candidates":[{"content":{"parts":[{"functionCall":{"name":"evil"}}]}}]}"#; "candidates twice")]
fn any_spelling_is_found(json: &str) {
    for told in [
        buffered(json, evil),
        streamed(&format!("data: {json}\n\n"), evil),
        streamed(&format!("data:{json}"), evil),
    ] {
        assert_eq!(told.said, ["call evil - {}"]);
        assert!(told.text().contains("blocked by policy") && !told.text().contains("\"evil\""));
        assert_eq!(told.fault, None);
    }
}

#[test_case("data: {\"candidates\":[}\n\n"; "no JSON")]
#[test_case("data: {} {}\n\n"; "two texts")]
#[test_case("data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{},\"function_call\":{}}]}}]}\n\n"; "two spellings in one part")]
#[test_case("{\"candidates\":[]}\n\n"; "JSON that is no event")]
#[test_case("data: \n{\"candidates\":[]}\n\n"; "JSON behind an event's data")]
#[test_case("data: {\n\"candidates\":[]}\n\n"; "data that goes on without its name")]
fn what_some_could_read_otherwise_does_not_go_on(stream: &str) {
    let told = streamed(stream, none);
    assert!(matches!(told.fault, Some(LlmFault::Malformed { .. })));
    assert!(told.text().starts_with("data: {\"error\":") && !told.text().contains("candidates"));
}

#[test]
fn a_streamed_array_is_judged_as_a_stream() {
    let parts = [TEXT, PARTIAL[0], PARTIAL[1], PARTIAL[2], EVIL, SECOND];
    let stream = events(&parts);
    let items: Vec<&str> = stream
        .split("\r\n\r\n")
        .filter_map(|event| event.strip_prefix("data: "))
        .collect();
    let array = format!("[{}\n]", items.join("\n,\r\n"));
    let (streamed, buffered) = (streamed(&stream, evil), buffered(&array, evil));
    assert_eq!(streamed.said, buffered.said);
    let text = streamed.text();
    let events: Vec<&str> = text
        .split(['\r', '\n'])
        .filter_map(|line| line.strip_prefix("data: "))
        .collect();
    assert_eq!(format!("[{}\n]", events.join("\n,\r\n")), buffered.text());
}

fn parts() -> impl Strategy<Value = Vec<String>> {
    let name = select(vec!["good", "evil", "evil_two", "b"]);
    let part = prop_oneof![
        2 => Just(TEXT.to_owned()),
        1 => Just(THOUGHT.to_owned()),
        2 => name.clone().prop_map(|name| format!(r#"{{"functionCall":{{"name":"{name}","args":{{"a":1}}}}}}"#)),
        2 => name.clone().prop_map(|name| format!(r#"{{"functionCall":{{"name":"{name}","willContinue":true}},"thoughtSignature":"x"}}"#)),
        1 => name.prop_map(|name| format!(r#"{{"function_call":{{"name":"{name}","id":"1","partialArgs":[{{"jsonPath":"$.a","stringValue":"s","willContinue":true}}],"willContinue":true}}}}"#)),
        2 => Just(r#"{"functionCall":{"partialArgs":[{"jsonPath":"$.a","stringValue":"t"}],"willContinue":true}}"#.to_owned()),
        3 => Just(r#"{"functionCall":{}}"#.to_owned()),
    ];
    vec(vec(part, 1..3).prop_map(|parts| parts.join(",")), 0..8)
}

/// A stream that comes at once.
fn at_once(stream: &str, is_blocked: fn(&str) -> bool) -> FilterOutcome {
    run(
        Dialect::Gemini,
        Framing::Events,
        HoldLimits::default(),
        [stream.as_bytes()],
        is_blocked,
    )
}

proptest! {
    #[test]
    fn chunks_do_not_matter(parts in parts(), sizes in vec(1_usize..60, 1..4)) {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let stream = events(&parts);
        let whole = run(Dialect::Gemini, Framing::Events, HoldLimits::default(), [stream.as_bytes()], evil);
        let mut rest = stream.as_bytes();
        let mut chunks = Vec::new();
        let mut sizes = sizes.iter().cycle();
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        prop_assert_eq!(run(Dialect::Gemini, Framing::Events, HoldLimits::default(), chunks, evil), whole);
    }

    #[test]
    fn what_is_blocked_reaches_nobody(parts in parts()) {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let first = at_once(&events(&parts), evil);
        prop_assert!(!first.text().contains("\"evil"), "{}", first.text());
        let again = at_once(&first.text(), none);
        prop_assert!(!again.said.iter().any(|said| said.contains("evil")));
        // No part of a blocked call is left to be taken for part of another.
        let kept = first.said.iter().filter(|said| !said.starts_with("call evil")).cloned().collect::<Vec<_>>();
        prop_assert_eq!(again.said, kept);
        for event in first.text().split("data: ").skip(1) {
            serde_json::from_str::<serde_json::Value>(event).unwrap();
        }
    }

    #[test]
    fn what_is_allowed_goes_on_as_it_came(parts in parts()) {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let stream = events(&parts);
        let told = at_once(&stream, none);
        if told.fault.is_none() {
            prop_assert_eq!(told.text(), stream);
        } else {
            let (before, _) = told.text().split_once("data: {\"error\"").map(|(before, after)| (before.to_owned(), after.to_owned())).unwrap();
            prop_assert!(stream.starts_with(&before));
        }
    }
}

#[test_case(r#"{"candidates":{"0":{"content":{"parts":[CALL]}},"length":1}}"#; "candidates")]
#[test_case(r#"{"candidates":[{"content":{"parts":{"0":CALL,"length":1}}}]}"#; "parts")]
fn what_some_take_for_an_array_does_not_go_on(body: &str) {
    let body = body.replace("CALL", EVIL);
    let (stream, whole) = (
        streamed(&format!("data: {body}\n\n"), none),
        buffered(&body, none),
    );
    for told in [stream, whole] {
        assert!(matches!(told.fault, Some(LlmFault::Malformed { .. })), "{told:?}");
        assert!(!told.text().contains("evil"), "{told:?}");
    }
}

#[test_case("\u{2028}"; "a line separator")]
#[test_case("\u{b}"; "a vertical tab")]
fn data_that_only_some_readers_see_does_not_go_on(end: &str) {
    for field in ["", "event", "id", "retry"] {
        let hidden = events(&[EVIL]);
        let told = streamed(&format!("{}{field}: x{end}{hidden}", events(&[TEXT])), none);
        assert!(matches!(told.fault, Some(LlmFault::Malformed { .. })), "{told:?}");
        assert!(!told.text().contains("evil"), "{told:?}");
    }
}
