//! Messages that come as streams.

use mcpmon_model::Dialect;
use serde_json::{Value, json};
use test_case::test_case;

use super::{script::*, stream};
use crate::llm::{
    Framing, HoldLimits, LlmFault,
    harness::{FilterOutcome, all, evil, held, none, run},
};

fn message(blocks: Vec<Vec<String>>, stop_reason: &str) -> String {
    start() + &ping() + &blocks.concat().concat() + &end(stop_reason)
}

/// Builds the text in place of a call.
fn blocked(name: &str) -> Value {
    let text = format!("[mcpmon] Tool '{name}' blocked by policy: not \"now\" (rule by_name).");
    json!({"type": "text", "text": text})
}

fn kinds(message: &Value) -> Vec<&str> {
    let content = message["content"].as_array().unwrap();
    content
        .iter()
        .map(|block| block["type"].as_str().unwrap())
        .collect()
}

fn several() -> String {
    let blocks = vec![
        thinking(0),
        text(1, &["Let ", "me."]),
        call(2, "good", &["", "{\"n\":", " [1.0", "]}"]),
        call(3, "evil", &["{\"path\": \"/etc/shadow\"}"]),
        call(4, "good", &[]),
    ];
    message(blocks, "tool_use")
}

fn few() -> String {
    message(
        vec![text(0, &["a"]), call(1, "evil", &["{\"a\":", "1}"])],
        "tool_use",
    )
}

#[test]
fn what_is_allowed_stays_as_it_came() {
    let told = stream(&several(), none);
    assert_eq!(told.text(), several());
    assert_eq!(told.fault, None);
    let said = [
        r#"call good toolu_2 {"n":[1.0]}"#,
        r#"call evil toolu_3 {"path":"/etc/shadow"}"#,
        "call good toolu_4 {}",
    ];
    assert_eq!(told.said, said);
}

#[test]
fn of_several_calls_one_is_replaced() {
    let told = stream(&several(), evil);
    let message = accumulate(&told.out);
    assert_eq!(
        kinds(&message),
        ["thinking", "text", "tool_use", "text", "tool_use"]
    );
    assert_eq!(message["content"][3], blocked("evil"));
    assert_eq!(message["stop_reason"], "tool_use");
    assert!(!told.text().contains("shadow"));
    // Everything else is as it came.
    let (before, after) = (several(), several());
    let before = before.split_once(&call(3, "evil", &[])[0]).unwrap().0;
    let after = after.split_once(&stop(3)).unwrap().1;
    assert!(
        told.text().starts_with(before) && told.text().ends_with(after),
        "{}",
        told.text()
    );
}

#[test]
fn where_all_are_replaced_the_turn_is_over() {
    let told = stream(&several(), all);
    let message = accumulate(&told.out);
    assert_eq!(kinds(&message), ["thinking", "text", "text", "text", "text"]);
    assert_eq!(message["stop_reason"], "end_turn");
    let delta = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15.0}}"#;
    assert!(told.text().contains(delta), "{}", told.text());
}

#[test]
fn the_end_of_a_message_keeps_every_other_byte() {
    let odd = "event: message_delta\ndata: {\"type\":\"message_delta\", \"usage\": {\"a\":1.50e1,\ndata: \"b\":[ ]}, \"delta\":{\"stop_reason\" :\"tool_use\"}}\n\n";
    let told = stream(&(start() + &call(0, "evil", &[]).concat() + odd), evil);
    assert!(
        told.text().ends_with(&odd.replace("tool_use", "end_turn")),
        "{}",
        told.text()
    );
}

#[test_case("max_tokens"; "cut off")]
#[test_case("refusal"; "refused")]
fn another_reason_to_stop_stays(reason: &str) {
    let told = stream(&message(vec![call(0, "evil", &["{\"a\":"])], reason), all);
    assert_eq!(accumulate(&told.out)["stop_reason"], reason);
    assert_eq!(told.said, ["call evil toolu_0 malformed {\"a\":"]);
}

#[test]
fn a_turn_without_calls_is_not_touched() {
    let odd = message(vec![text(0, &["a"])], "tool_use");
    assert_eq!(stream(&odd, all).text(), odd);
}

#[test]
fn what_is_no_call_waits_for_nothing() {
    let parts = [
        vec![start()],
        thinking(0),
        text(1, &["a", "b", "\u{1f600}"]),
        uses("server_tool_use", 2, "search", &["{\"q\":", "1}"]),
        vec![ping(), ": keep-alive\n\n".to_owned()],
    ];
    let mut so_far = String::new();
    for event in parts.concat() {
        so_far.push_str(&event);
        assert_eq!(
            held(Dialect::Anthropic, Framing::Events, so_far.as_bytes()),
            0,
            "{event}"
        );
    }
    for event in &call(3, "good", &["{}"])[..2] {
        so_far.push_str(event);
        assert!(held(Dialect::Anthropic, Framing::Events, so_far.as_bytes()) >= event.len());
    }
    so_far.push_str(&stop(3));
    assert_eq!(held(Dialect::Anthropic, Framing::Events, so_far.as_bytes()), 0);
}

#[test]
fn signs_of_life_overtake_a_call() {
    let [begin, input, stop] = <[String; 3]>::try_from(call(0, "good", &["{}"])).unwrap();
    let told = stream(
        &[
            begin.clone(),
            ping(),
            input.clone(),
            ": a\n\n".to_owned(),
            stop.clone(),
        ]
        .concat(),
        none,
    );
    assert_eq!(
        told.text(),
        [ping(), ": a\n\n".to_owned(), begin, input, stop].concat()
    );
}

#[test]
fn blocks_wait_behind_a_call_that_is_not_decided() {
    let (text, call) = (text(0, &["a", "b"]), call(1, "good", &["{\"n\":", "1}"]));
    let (evil_call, last) = (
        super::script::call(2, "evil", &["{}"]),
        super::script::text(3, &["c"]),
    );
    let pick =
        |events: &[String], places: &[usize]| places.iter().map(|at| events[*at].clone()).collect::<String>();
    // All four start, then end in another order.
    let stream_of = start()
        + &pick(&text, &[0, 1])
        + &pick(&call, &[0, 1])
        + &pick(&evil_call, &[0])
        + &pick(&last, &[0, 1])
        + &pick(&text, &[2])
        + &pick(&evil_call, &[1, 2])
        + &pick(&text, &[3])
        + &pick(&call, &[2, 3])
        + &pick(&last, &[2])
        + &end("tool_use");
    let told = stream(&stream_of, evil);
    assert_eq!(
        told.said,
        [r#"call good toolu_1 {"n":1}"#, "call evil toolu_2 {}"]
    );
    let message = accumulate(&told.out);
    assert_eq!(
        message["content"],
        json!([
            {"type": "text", "text": "ab"},
            {"type": "tool_use", "id": "toolu_1", "name": "good", "input": {"n": 1}},
            blocked("evil"),
            {"type": "text", "text": "c"},
        ])
    );
    // Text that started before is forwarded at once.
    assert!(
        told.text().starts_with(&(start() + &text.concat())),
        "{}",
        told.text()
    );
}

#[test_case("{\"n\":1}", &[] => r#"call good - {"n":1}"#; "with the start")]
#[test_case("{\"n\":1}", &["", ""] => r#"call good - {"n":1}"#; "with the start, and nothing after it")]
#[test_case("{\"n\":1}", &["{ \"n\":", "1}"] => r#"call good - {"n":1}"#; "with the start and after it")]
#[test_case("\"\"", &["[1]"] => "call good - [1]"; "an empty text first")]
#[test_case("null", &[] => "call good - {}"; "none")]
fn inputs(with_start: &str, parts: &[&str]) -> String {
    let block = format!(r#"{{"type":"tool_use","name":"good","input":{with_start}}}"#);
    let block = serde_json::from_str(&block).unwrap();
    let parts: String = parts.iter().map(|part| input(0, part)).collect();
    let whole = start() + &begin(0, &block) + &parts + &stop(0) + &end("tool_use");
    let told = stream(&whole, none);
    assert_eq!(told.text(), whole);
    told.said.concat()
}

/// A writer that cuts a text may cut a character in two; a reader that joins the parts has it again.
#[test]
fn half_a_character_goes_on_as_it_came() {
    let whole = message(vec![text(0, &["one half", "the other"])], "end_turn");
    let whole = whole
        .replace("one half", "\\ud83d")
        .replace("the other", "\\ude00");
    let told = stream(&whole, |_| true);
    assert_eq!((told.fault.clone(), told.text()), (None, whole));
}

#[test]
fn an_input_that_is_read_in_several_ways_is_written_anew() {
    let told = stream(
        &message(vec![call(0, "good", &["{\"a\":1, ", "\"a\":2}"])], "tool_use"),
        none,
    );
    assert_eq!(told.said, [r#"call good toolu_0 {"a":2}"#]);
    let expected = message(vec![call(0, "good", &["{\"a\":2}"])], "tool_use");
    assert_eq!(accumulate(&told.out), accumulate(expected.as_bytes()));
    assert!(
        told.text().contains(r#""partial_json":"{\"a\":2}""#),
        "{}",
        told.text()
    );
}

#[test]
fn an_event_that_is_read_in_several_ways_is_written_anew() {
    let told = stream(
        "event: content_block_start\ndata: {\"type\":\"x\",\"typ\\u0065\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\u{2028}\"}}\n\n",
        none,
    );
    assert_eq!(
        told.text(),
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\\u2028\"}}\n\n"
    );
}

#[test]
fn a_call_that_never_ends_ends_with_its_message() {
    let mut events = call(0, "evil", &["{\"a\":1}"]);
    events.pop();
    let whole = message(vec![events, text(1, &["b"])], "tool_use");
    let told = stream(&whole, evil);
    assert_eq!(told.said, [r#"call evil toolu_0 {"a":1}"#]);
    let message = accumulate(&told.out);
    assert_eq!(message["content"][0], blocked("evil"));
    assert_eq!(message["stop_reason"], "end_turn");
    let allowed = stream(&whole, none);
    assert_eq!(allowed.text(), whole);
}

#[test]
fn a_call_that_the_stream_ends_in_goes_nowhere() {
    let told = stream(&(start() + &call(0, "good", &["{\"a\":1}"])[..2].concat()), none);
    assert!(told.said.is_empty());
    assert_eq!(
        told.text().strip_prefix(&start()).unwrap(),
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"[mcpmon] it cannot be read: the stream ended in a tool call\"}}\n\n"
    );
}

#[test]
fn an_error_of_the_provider_passes_and_the_call_before_it_does_not() {
    let error =
        event(&json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}));
    let told = stream(&(start() + &call(0, "good", &["{"])[..2].concat() + &error), none);
    assert_eq!(told.text(), start() + &error);
    assert_eq!(told.fault, None);
}

#[test]
fn a_message_may_start_with_content() {
    let first = start().replace("\"content\":[]", r#""content":[{"type":"text","text":"a"},{"type":"tool_use","id":"t","name":"evil","input":{"a":1}}]"#);
    let whole = first + &text(2, &["b"]).concat() + &end("tool_use");
    assert_eq!(stream(&whole, none).text(), whole);
    let told = stream(&whole, evil);
    assert_eq!(told.said, [r#"call evil t {"a":1}"#]);
    let message = accumulate(&told.out);
    assert_eq!(kinds(&message), ["text", "text", "text"]);
    assert_eq!(message["stop_reason"], "end_turn");
}

#[test]
fn what_the_provider_does_is_told_of_and_passes() {
    let listing = begin(
        2,
        &json!({"type": "mcp_tool_listing", "mcp_server_name": "files", "tools": [{"name": "evil"}]}),
    );
    let mcp =
        json!({"type": "mcp_tool_use", "id": "m", "name": "evil", "server_name": "files", "input": {"a": 1}});
    let whole = message(
        vec![
            uses("server_tool_use", 0, "evil_search", &["{\"q\":", "1}"]),
            vec![begin(1, &mcp), stop(1), listing, stop(2)],
        ],
        "end_turn",
    );
    let told = stream(&whole, all);
    assert_eq!(told.text(), whole);
    let said = [
        r#"called None evil_search toolu_0 {"q":1}"#,
        r#"called Some("files") evil m {"a":1}"#,
        r#"Listed { server: "files", tools: [Offered { name: ToolName { namespace: None, name: "evil" }, definition: RawJson("{\"name\":\"evil\"}") }] }"#,
    ];
    assert_eq!(told.said, said);
}

#[test_case("\r\n"; "both")]
#[test_case("\r"; "carriage returns")]
fn lines_may_end_otherwise(end: &str) {
    let whole = few().replace('\n', end);
    let goes_on = if end == "\r" { few() } else { whole.clone() };
    assert_eq!(stream(&whole, none).text(), goes_on);
    let message = accumulate(&stream(&whole, evil).out);
    assert_eq!(message["content"][1], blocked("evil"));
}

#[test]
fn events_without_names_stay_without() {
    let nameless = |stream: String| {
        stream
            .lines()
            .filter(|line| !line.starts_with("event:"))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    let whole = nameless(few());
    assert_eq!(stream(&whole, none).text(), whole);
    let told = stream(&whole, all);
    assert!(!told.text().contains("event:"), "{}", told.text());
    assert_eq!(accumulate(&told.out), accumulate(&stream(&few(), all).out));
}

#[test_case("data: [DONE]\n\n"; "a word")]
#[test_case("data:\n\n"; "no data")]
#[test_case("event: ping\n\n"; "a name alone")]
#[test_case("event: vertex_event\ndata: {\"type\":\"vertex_event\",\"x\":1}\n\n"; "a type of tomorrow")]
#[test_case("event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"fallback\",\"from\":{},\"to\":{}}}\n\n"; "a block of tomorrow")]
#[test_case("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":3,\"delta\":{\"type\":\"mood_delta\",\"mood\":null}}\n\n"; "a delta of tomorrow")]
#[test_case("data: {\"completion\":\"a\",\"delta\":null}\n\n"; "a completion")]
fn what_can_be_no_call_passes(event: &str) {
    let expected = FilterOutcome {
        out: event.as_bytes().to_vec(),
        ..FilterOutcome::default()
    };
    assert_eq!(stream(event, all), expected);
}

/// A block in the middle of a message, and why it cannot be read.
#[test_case("event: content_block_start\ndata: {\"type\":\"content_block_st\n\n" => "unexpected end at byte 25"; "cut json")]
#[test_case("event: ping\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" => "an event's name is not its type"; "another name")]
#[test_case("data: {\"type\":\"content_block_stop\",\"index\":0}\n\n" => "an event's name is not its type"; "no name among names")]
#[test_case("data: {\"type\":\"tool\",\"content_block\":{}}\n\n" => "an event of an unknown type has a part of a message"; "an unknown type")]
#[test_case("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n" => "a message starts within a message"; "a second message")]
#[test_case("event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0.0}\n\n" => "an index is no position"; "a fraction")]
#[test_case("event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":\"0\"}\n\n" => "an index is no position"; "a text")]
#[test_case("event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"Index\":0}\n\n" => "a member's name is another spelling of a known one"; "a capital")]
#[test_case("event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0}\n\n" => "an event lacks what it is about"; "no block")]
fn what_cannot_be_read_ends_the_stream(event: &str) -> String {
    cause(&(start() + event + &call(0, "good", &[]).concat()))
}

#[test_case(&[call(1, "good", &[])] => "the index of a call is not its position"; "a gap")]
#[test_case(&[text(0, &[]), call(0, "good", &[])] => "the index of a call is not its position"; "an index twice")]
#[test_case(&[call(0, "good", &["{}"]), vec![input(0, "{\"a\":1}")]] => "an input for what is no call"; "an input behind the end")]
#[test_case(&[call(0, "evil", &["{}"]), vec![input(0, "{\"a\":1}")]] => "an input for what is no call"; "an input behind the end of what is blocked")]
#[test_case(&[text(0, &[])[..1].to_vec(), vec![input(0, "{\"a\":1}")]] => "an input for what is no call"; "an input for a text")]
#[test_case(&[vec![input(0, "{\"a\":1}")]] => "an input for what is no call"; "an input for nothing")]
#[test_case(&[vec![begin(0, &json!({"type": "tool_use", "name": "a", "input": {"a": 1}})), input(0, "{\"a\":2}"), stop(0)]] => "a call is told two different inputs"; "two inputs")]
#[test_case(&[call(0, "good", &[])[..1].to_vec(), vec![delta(0, &json!({"type": "name_delta", "name": "evil"}))]] => "something unknown is added to a call"; "an unknown delta")]
#[test_case(&[vec![delta(0, &json!({"type": "text_delta", "partial_json": "{}"}))]] => "a delta of another type has a part of an input"; "an input as a text")]
fn what_readers_differ_about_ends_the_stream(blocks: &[Vec<String>]) -> String {
    cause(&(start() + &blocks.concat().concat()))
}

fn cause(whole: &str) -> String {
    let told = stream(whole, evil);
    assert!(
        told.text().ends_with("}}\n\n") && told.text().contains("event: error\n"),
        "{}",
        told.text()
    );
    match told.fault {
        Some(LlmFault::Malformed { cause }) => cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_deep_input_goes_nowhere() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    assert!(cause(&(start() + &call(0, "good", &[&deep]).concat())).contains("nested too deeply"));
}

#[test]
fn a_text_of_the_same_index_twice_passes() {
    let whole = start() + &text(0, &["a"]).concat() + &text(0, &["b"]).concat() + &text(7, &[]).concat();
    assert_eq!(stream(&whole, all).text(), whole);
}

#[test_case(call(0, "good", &["{\"a\":\"", &"x".repeat(600), "\"}"]).concat(); "a call")]
#[test_case(uses("server_tool_use", 0, "good", &["{\"a\":\"", &"x".repeat(600), "\"}"]).concat(); "a call that happened")]
#[test_case(call(0, "good", &[])[0].clone() + &text(1, &["x"; 8]).concat(); "what waits for a call")]
fn what_is_held_has_an_end(blocks: String) {
    let limits = HoldLimits {
        max_held: 500,
        ..HoldLimits::default()
    };
    let whole = start() + &blocks;
    let told = run(
        Dialect::Anthropic,
        Framing::Events,
        limits,
        [whole.as_bytes()],
        none,
    );
    assert_eq!(told.fault, Some(LlmFault::TooLong { limit: 500 }));
    assert!(told.text().contains("event: error\n"), "{}", told.text());
}

#[test]
fn blocks_have_an_end() {
    let start = |index| {
        format!(
            "data: {{\"type\":\"content_block_start\",\"index\":{index},\"content_block\":{{\"type\":\"text\"}}}}\n\n"
        )
    };
    let blocks: String = (0..=super::super::MAX_BLOCKS).map(start).collect();
    let told = run(
        Dialect::Anthropic,
        Framing::Events,
        HoldLimits::default(),
        [blocks.as_bytes()],
        none,
    );
    assert!(told.fault.is_some());
}
