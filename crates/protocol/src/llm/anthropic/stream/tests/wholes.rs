//! Messages that come whole.

use test_case::test_case;

use super::whole;
use crate::llm::harness::{FilterOutcome, all, evil, none};

const MESSAGE: &str = r#" {"id": "msg_1", "type":"message", "stop_reason":"tool_use", "role":"assistant",
  "content": [ {"type":"thinking","thinking":"hm","signature":"c2ln"}, {"type":"text","text":"Let me\u2026"},
    {"type":"tool_use","id":"toolu_1","name":"good","input":{"n":1.0e2}},
    {"type":"tool_use","id":"toolu_2","name":"evil","input":{"path":"/x"},"caller":{"type":"direct"}} ],
  "usage":{"output_tokens":12, "big": 12345678901234567890.10}}
"#;

const TEXT: &str =
    r#"{"type":"text","text":"[mcpmon] Tool 'evil' blocked by policy: not \"now\" (rule by_name)."}"#;

#[test]
fn what_is_allowed_stays_as_it_came() {
    let told = whole(MESSAGE, none);
    assert_eq!(told.text(), MESSAGE);
    assert_eq!(
        told.said,
        [
            r#"call good toolu_1 {"n":100.0}"#,
            r#"call evil toolu_2 {"path":"/x"}"#
        ]
    );
}

#[test]
fn of_several_calls_one_is_replaced() {
    let told = whole(MESSAGE, evil);
    let (before, after) = MESSAGE
        .split_once(r#"{"type":"tool_use","id":"toolu_2""#)
        .unwrap();
    let (_, after) = after.split_once("\"direct\"}}").unwrap();
    assert_eq!(told.text(), format!("{before}{TEXT}{after}"));
}

#[test]
fn where_all_are_replaced_the_turn_is_over() {
    let told = whole(MESSAGE, all).text();
    assert!(!told.contains("tool_use"), "{told}");
    assert!(
        told.contains(r#""type":"message", "stop_reason":"end_turn", "role""#),
        "{told}"
    );
    assert!(
        told.contains(r#"{"type":"text","text":"Let me\u2026"}"#),
        "{told}"
    );
    assert!(
        told.ends_with("\"usage\":{\"output_tokens\":12, \"big\": 12345678901234567890.10}}\n"),
        "{told}"
    );
    assert_eq!(told.matches("[mcpmon]").count(), 2);
}

#[test_case("max_tokens"; "cut off")]
#[test_case("pause_turn"; "paused")]
fn another_reason_to_stop_stays(reason: &str) {
    let told = whole(
        &MESSAGE.replace("\"tool_use\", \"role\"", &format!("\"{reason}\", \"role\"")),
        all,
    );
    assert!(
        told.text().contains(&format!("\"stop_reason\":\"{reason}\"")),
        "{}",
        told.text()
    );
}

#[test_case(""; "nothing")]
#[test_case("\n"; "a blank line")]
#[test_case(r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#; "an error")]
#[test_case(r#"{"input_tokens":2095}"#; "a count")]
#[test_case(r#"{"data":[{"type":"model","id":"m","display_name":"M"}],"has_more":false}"#; "models")]
#[test_case(r#"{"id":"msgbatch_1","type":"message_batch","processing_status":"ended"}"#; "a batch")]
#[test_case(r#"{"type":"message","content":"text"}"#; "a text as content")]
#[test_case("[1, 2]"; "a list")]
fn what_has_no_call_passes(body: &str) {
    let expected = FilterOutcome {
        out: body.as_bytes().to_vec(),
        ..FilterOutcome::default()
    };
    assert_eq!(whole(body, all), expected);
}

#[test_case(r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"evil_search","input":{"query":"x"}}"# => vec![r#"called None evil_search srvtoolu_1 {"query":"x"}"#.to_owned()]; "the provider's own")]
#[test_case(r#"{"type":"mcp_tool_use","id":"mcptoolu_1","name":"evil","server_name":"files","input":{}}"# => vec![r#"called Some("files") evil mcptoolu_1 {}"#.to_owned()]; "of a server")]
#[test_case(r#"{"type":"mcp_tool_result","tool_use_id":"mcptoolu_1","is_error":false,"content":[{"type":"text","text":"a"}]}"# => Vec::<String>::new(); "a result")]
#[test_case(r#"{"type":"container_upload","file_id":"f"}"# => Vec::<String>::new(); "an upload")]
#[test_case(r#"{"type":"mcp_tool_listing","mcp_server_name":"files","tools":[{"name":"read","description":"d"}]}"# => vec![r#"Listed { server: "files", tools: [Offered { name: ToolName { namespace: None, name: "read" }, definition: RawJson("{\"name\":\"read\",\"description\":\"d\"}") }] }"#.to_owned()]; "a listing")]
fn what_the_provider_does_is_told_of(block: &str) -> Vec<String> {
    let body = format!(r#"{{"type":"message","content":[{block}],"stop_reason":"end_turn"}}"#);
    let told = whole(&body, all);
    assert_eq!(told.text(), body);
    told.said
}

#[test_case(r#"{"type":"tool_use","id":"a","name":"read","toolset_name":"files","input":null}"# => "call files/read a {}"; "in a toolset, without input")]
#[test_case(r#"{"type":"tool_use","id":7,"name":"read"}"# => "call read - {}"; "an id that is none")]
#[test_case(r#"{"type":"remote_tool_use","name":"read","input":[1]}"# => "call read - [1]"; "a type of tomorrow")]
#[test_case(r#"{"type":"action","name":"read","input":"x"}"# => "call read - \"x\""; "a type that has an input")]
#[test_case(r#"{"name":"read","input":{"a":1}}"# => "call read - {\"a\":1}"; "no type at all")]
fn what_could_be_executed_is_a_call(block: &str) -> String {
    let body = format!(r#"{{"content":[{block}]}}"#);
    assert_eq!(whole(&body, none).text(), body);
    let told = whole(&body, all);
    assert!(
        told.text()
            .starts_with(r#"{"content":[{"type":"text","text":"[mcpmon] Tool '"#),
        "{}",
        told.text()
    );
    told.said.concat()
}

#[test_case(r#"{"content":[{"type":"text","type":"tool_use","name":"evil","input":{}}]}"# => r#"{"content":[{"type":"tool_use","name":"evil","input":{}}]}"#; "a name twice")]
#[test_case(r#"{"content":[],"c\u006fntent":[{"type":"tool_use","name":"a","input":{"b":1, "b":2}}]}"# => r#"{"content":[{"type":"tool_use","name":"a","input":{"b":2}}]}"#; "a name with an escape")]
#[test_case(r#"{"content":[{"type":"tool_use","name":"a\ud800","input":{}}]}"# => "{\"content\":[{\"type\":\"tool_use\",\"name\":\"a\u{fffd}\",\"input\":{}}]}"; "half of a pair")]
fn what_is_read_in_several_ways_is_written_anew(body: &str) -> String {
    let told = whole(body, none);
    assert_eq!(told.said.len(), 1);
    assert_eq!(told.fault, None);
    told.text()
}

#[test_case("<html>"; "no json")]
#[test_case("{\"content\":[]} {}"; "two texts")]
#[test_case(r#"{"content":[{"type":"tool_use","Name":"evil","name":"good","input":{}}]}"#; "a capital")]
#[test_case(r#"{"content":[{"type":"tool_use","input":{}}]}"#; "no name")]
#[test_case("{\"content\":[{\"type\":\"text\",\"text\":\"\u{1}\"}]}"; "a control character")]
fn what_cannot_be_read_goes_nowhere(body: &str) {
    let told = whole(body, none);
    assert!(told.fault.is_some());
    assert_eq!(told.text(), "");
}

#[test]
fn content_that_is_no_array_does_not_go_on() {
    let told = whole(
        r#"{"content":{"0":{"type":"tool_use","id":"t","name":"evil","input":{}},"length":1}}"#,
        none,
    );
    assert!(told.fault.is_some() && told.out.is_empty(), "{told:?}");
}
