//! Messages that are refused under every policy, and the reports about them.

use std::time::Duration;

use mcpmon_model::RequestId;
use test_case::test_case;

use super::*;

fn number(digits: &str) -> RequestId {
    RequestId::Number(digits.into())
}

fn error(id: &str, code: i32, cause: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"[mcpmon] {cause}"}}}}"#) + "\n"
}

#[test_case(r#"{"id":1,"method":"tools/call","params":{"name":"x"}}"#, "1", "jsonrpc is not \\\"2.0\\\""; "no version")]
#[test_case(r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"x"}}"#, "null", "the id is neither an integer nor a string"; "null as id")]
#[test_case(r#"{"jsonrpc":"2.0","id":1.0,"method":"tools/call","params":{"name":"x"}}"#, "1", "the id is neither an integer nor a string"; "a fraction as id")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["x"]}"#, "1", "params is not an object"; "an array of parameters")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","result":{}}"#, "1", "more than one of method, result and error"; "request and answer at once")]
#[test_case(r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}"#, "null", "a request without an id"; "a call without an id")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, "1", "what is asked for is not named by a string"; "a call without a name")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["x"]}}"#, "1", "what is asked for is not named by a string"; "an array as name")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":"{}"}}"#, "1", "the arguments are not an object"; "a text as arguments")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","Name":"sh"}}"#, "1", "a parameter's name is another spelling of a known one"; "a second name in capitals: Go takes it")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"},"PARAMS":{"name":"sh"}}"#, "1", "a member's name is another spelling of a known one"; "second parameters in capitals")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#, "1", "a parameter's name is another spelling of a known one"; "without the underscore: Python takes it")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","input_responses":{}}}"#, "1", "a parameter's name is another spelling of a known one"; "in snake case: Python takes it")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call\u0000","params":{"name":"x"}}"#, "1", "the method has a NUL in it"; "a NUL behind the method")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x\u0000"}}"#, "1", "what is asked for has a NUL in its name"; "a NUL behind a tool's name")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"u:\u0000"}}"#, "1", "what is asked for has a NUL in its name"; "a NUL behind a URI")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"URI":"u:"}}"#, "1", "a parameter's name is another spelling of a known one"; "a URI in capitals")]
#[test_case("[]", "null", "an empty batch"; "an empty batch")]
#[test_case("[1,2,3,4,5]", "null", "a batch of too many messages"; "a long batch")]
#[test_case("7", "null", "a message is an object"; "a number")]
fn no_message_of_a_client_goes_on(line: &str, id: &str, cause: &str) {
    let mut conversation = Conversation::new(|message| panic!("judged: {message:?}"));
    let written = conversation.client(line);
    assert_eq!(written.to_server, "");
    assert_eq!(written.to_client, error(id, -32_600, cause));
    let cause = cause.replace("\\\"", "\"");
    assert_eq!(written.incidents, [Incident::Unparsable { cause }]);
}

#[test]
fn an_empty_line_of_a_client_is_nothing() {
    let mut conversation = Conversation::new(|message| panic!("judged: {message:?}"));
    assert_eq!(conversation.writes(Side::Client, "\n \t\r\n"), Written::default());
}

#[test]
fn what_is_no_message_in_a_batch_is_refused_alone() {
    let good = call("1", "x");
    let written = allowed().client(&format!("[{good},7]"));
    assert_eq!(written.to_server, format!("[{good}]\n"));
    assert_eq!(
        written.to_client,
        error("null", -32_600, "a message is an object")
    );
}

#[test]
fn an_id_that_waits_is_refused_and_free_again_once_answered() {
    let mut conversation = allowed();
    conversation.client(&call("1", "a"));
    let cause = "another request with this id waits for its answer";
    let written = conversation.client(&call("1", "b"));
    assert_eq!(written.to_server, "");
    assert_eq!(written.to_client, error("1", -32_600, cause));
    let (side, id) = (Side::Client, number("1"));
    assert_eq!(written.incidents, [Incident::Refused { side, id, cause }]);
    let other = call("\"1\"", "c");
    assert_eq!(conversation.client(&other), on_to_server(&other));
    let answer = result("1", "{}");
    assert_eq!(conversation.server(&answer), on_to_client(&answer));
    let again = call("1", "d");
    assert_eq!(conversation.client(&again), on_to_server(&again));
}

#[test]
fn only_so_many_requests_wait() {
    let mut conversation = allowed();
    for id in ["1", "2", "3"] {
        conversation.client(&call(id, "a"));
    }
    let cause = "too many requests wait for an answer";
    let written = conversation.client(&call("4", "a"));
    assert_eq!(
        (written.to_server.as_str(), written.to_client),
        ("", error("4", -32_600, cause))
    );
    conversation.server(&result("2", "{}"));
    let line = call("4", "a");
    assert_eq!(conversation.client(&line), on_to_server(&line));
}

#[test]
fn a_server_cannot_ask_twice_with_one_id() {
    let mut conversation = allowed();
    let line = request("1", "roots/list", "{}");
    assert_eq!(conversation.server(&line), on_to_client(&line));
    let written = conversation.server(&line);
    let cause = "another request with this id waits for its answer";
    assert_eq!(
        (written.to_client.as_str(), written.to_server),
        ("", error("1", -32_600, cause))
    );
}

#[test_case(Side::Server; "of the server")]
#[test_case(Side::Client; "of the client")]
fn answers_to_nothing_are_dropped(side: Side) {
    let mut conversation = Conversation::new(|message| panic!("judged: {message:?}"));
    let id = number("1");
    for line in [result("1", "{}"), error("1", -1, "x").trim_end().to_owned()] {
        let written = conversation.writes(side, format!("{line}\n"));
        let id = id.clone();
        let expected = Written {
            incidents: vec![Incident::Unasked { side, id }],
            ..Written::default()
        };
        assert_eq!(written, expected);
    }
}

#[test]
fn a_second_answer_is_dropped() {
    let mut conversation = allowed();
    conversation.client(&call("1", "x"));
    conversation.server(&result("1", "{}"));
    assert_eq!(conversation.server(&result("1", "{}")).to_client, "");
}

#[test]
fn an_answer_that_was_cancelled_may_still_come() {
    let mut conversation = allowed();
    conversation.client(&call("1", "x"));
    conversation.client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    let again = call("1", "y");
    let answer = result("1", "{}");
    assert_eq!(conversation.server(&answer), on_to_client(&answer));
    assert_eq!(conversation.client(&again), on_to_server(&again));
}

#[test_case(r#"{"jsonrpc":"2.0","id":1,"result":[]}"#, "tools/list", "the result is not an object"; "no object")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#, "ping", "more than one of method, result and error"; "result and error")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "tools/list", "the list is missing"; "no list")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":{}}}"#, "tools/list", "the list is missing"; "an object as list")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"},{"description":"b"}]}}"#, "tools/list", "an item of the list has no name"; "an item without a name")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[7]}}"#, "tools/list", "an item of the list has no name"; "an item that is no object")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[],"Tools":[{"name":"evil"}]}}"#, "tools/list", "a member's name is another spelling of a known one"; "a second list in capitals")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[],"next_cursor":"x"}}"#, "tools/list", "a member's name is another spelling of a known one"; "a cursor in snake case")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[],"nextCursor":"x","next_cursor":null}}"#, "tools/list", "a member's name is another spelling of a known one"; "a cursor that another spelling takes back")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{"input_requests":{"a":{}}}}"#, "x/y", "a member's name is another spelling of a known one"; "questions in snake case")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","NAME":"evil"}]}}"#, "tools/list", "a member's name is another spelling of a known one"; "a second name in capitals")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{"instructions":["x"]}}"#, "initialize", "the instructions are not a string"; "an array of instructions")]
fn an_answer_that_is_none_becomes_an_error(line: &str, method: &str, cause: &str) {
    let mut conversation = allowed();
    conversation.client(&request("1", method, "{}"));
    let written = conversation.server(line);
    assert_eq!(written.to_client, error("1", -32_603, cause));
    assert_eq!(written.noise, format!("{line}\n"));
    assert_eq!(written.incidents, [Incident::Noise { bytes: line.len() }]);
    assert_eq!(conversation.server(line).to_client, "");
}

#[test]
fn a_reply_that_is_none_becomes_an_error() {
    let mut conversation = allowed();
    conversation.server(&request("1", "sampling/createMessage", "{}"));
    let written = conversation.client(r#"{"jsonrpc":"2.0","id":1,"result":7}"#);
    let cause = "the result is not an object";
    assert_eq!(
        (written.to_client.as_str(), written.to_server),
        ("", error("1", -32_603, cause))
    );
    let cause = cause.to_owned();
    assert_eq!(written.incidents, [Incident::Unparsable { cause }]);
}

/// Padding that makes a line one byte too long.
fn padded(line: &str) -> String {
    let room = LIMITS.max_line + 1 - (line.len() - 2);
    line.replace("..", &"x".repeat(room))
}

#[test_case(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":".."}}"#, "7"; "the id first")]
#[test_case(r#"{"method":"tools/call","params":{"name":"..","id":1},"jsonrpc":"2.0","id":"a"}"#, "\"a\""; "the id last")]
#[test_case(r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"name":".."}}"#, "null"; "no id")]
#[test_case(".. no JSON", "null"; "no JSON")]
fn a_long_line_of_a_client_is_answered(line: &str, id: &str) {
    let mut conversation = allowed();
    let written = conversation.client(&padded(line));
    let limit = LIMITS.max_line;
    assert_eq!(written.to_server, "");
    assert_eq!(
        written.to_client,
        error(id, -32_600, &format!("the message is longer than {limit} bytes"))
    );
    let side = Side::Client;
    assert_eq!(written.incidents, [Incident::TooLong { side, limit }]);
    let next = call("1", "x");
    assert_eq!(conversation.client(&next), on_to_server(&next));
}

#[test]
fn a_line_as_long_as_allowed_goes_on() {
    let line = padded(&call("1", "..")).replacen("xx", "x", 1);
    assert_eq!(line.len(), LIMITS.max_line);
    assert_eq!(allowed().client(&line), on_to_server(&line));
}

#[test]
fn a_long_answer_of_a_server_becomes_an_error() {
    let mut conversation = allowed();
    conversation.client(&call("1", "x"));
    let line = padded(r#"{"result":{"content":[".."]},"jsonrpc":"2.0","id":1}"#);
    let written = conversation.server(&line);
    let limit = LIMITS.max_line;
    let cause = format!("the message is longer than {limit} bytes");
    assert_eq!(written.to_client, error("1", -32_603, &cause));
    let side = Side::Server;
    assert_eq!(written.incidents, [Incident::TooLong { side, limit }]);
    let again = conversation.server(&line);
    assert_eq!((again.to_client.as_str(), again.to_server.as_str()), ("", ""));
}

#[test]
fn a_long_request_of_a_server_is_answered() {
    let line = padded(r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"x":".."}}"#);
    let written = allowed().server(&line);
    assert_eq!(written.to_client, "");
    let cause = format!("the message is longer than {} bytes", LIMITS.max_line);
    assert_eq!(written.to_server, error("1", -32_600, &cause));
}

#[test]
fn a_long_reply_of_a_client_is_told_to_the_server() {
    let mut conversation = allowed();
    conversation.server(&request("1", "roots/list", "{}"));
    let written = conversation.client(&padded(r#"{"jsonrpc":"2.0","id":1,"result":{"x":".."}}"#));
    assert_eq!(written.to_client, "");
    let cause = format!("the message is longer than {} bytes", LIMITS.max_line);
    assert_eq!(written.to_server, error("1", -32_603, &cause));
}

#[test]
fn a_batch_of_too_many_requests_leaves_nobody_waiting() {
    let mut conversation = Conversation::new(|message| panic!("judged: {message:?}"));
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
    let refused = |id| error(id, -32_600, "a batch of too many messages");
    let (one, two) = (call("1", "x"), call("\"two\"", "x"));
    let written = conversation.client(&format!("[{one},{notice},{two},{notice},{notice}]"));
    assert_eq!(written.to_server, "");
    assert_eq!(written.to_client, [refused("1"), refused("\"two\"")].concat());
    assert_eq!(written.incidents.len(), 1);

    // What cannot be read, and what is more than may wait, is answered once for all.
    let [one, two, three, four] = ["1", "2", "3", "4"].map(|id| call(id, "x"));
    let written = conversation.client(&format!("[{one},7,8,{two},{three},{four}]"));
    let expected = ["1", "2", "3", "null"].map(refused);
    assert_eq!(written.to_client, expected.concat());
}

#[test]
fn a_batch_of_too_many_replies_is_told_to_the_server() {
    let mut conversation = allowed();
    conversation.server(&request("1", "roots/list", "{}"));
    let written = conversation.client(&format!("[{},2,3,4,5]", result("1", "{}")));
    let cause = "a batch of too many messages";
    assert_eq!(written.to_server, error("1", -32_603, cause));
    assert_eq!(written.to_client, error("null", -32_600, cause));
    let asked = request("9", "roots/list", "{}");
    let written = allowed().server(&format!("[{asked},2,3,4,5]"));
    assert_eq!(written.to_server, error("9", -32_600, cause));
    assert_eq!(written.to_client, "");
}

#[test]
fn a_batch_of_too_many_answers_leaves_nobody_waiting() {
    let mut conversation = allowed();
    conversation.client(&call("1", "x"));
    let written = conversation.server(&format!("[{},2,3,4,5]", result("1", "{}")));
    assert_eq!(
        written.to_client,
        error("1", -32_603, "a batch of too many messages")
    );
}

#[test]
fn requests_wait_as_long_as_they_may() {
    let mut filter = StdioFilter::new(DecodeLimits {
        request_timeout: Duration::from_secs(1),
        ..LIMITS
    });
    let mut out = StdioOutput::default();
    let line = call("1", "x") + "\n";
    let at = |milliseconds: i64| Timestamp(milliseconds * 1_000_000);
    filter.push(
        at(0),
        Side::Client,
        line.as_bytes(),
        &mut |_: &Message<'_>| Verdict::Allow,
        &mut out,
    );
    filter.expire(at(999), &mut out);
    assert_eq!(out.to_client, b"");
    filter.expire(at(1000), &mut out);
    assert_eq!(
        written(out).to_client,
        error("1", -32_001, "no answer came in time")
    );
}

#[test]
fn what_has_a_long_name_or_id_does_not_wait() {
    let mut filter = StdioFilter::new(DecodeLimits::default());
    for line in [
        call(&format!("\"{}\"", "a".repeat(1025)), "x"),
        call("1", &"a".repeat(8193)),
    ] {
        let mut out = StdioOutput::default();
        let line = line + "\n";
        let mut judge = |message: &Message<'_>| panic!("judged: {message:?}");
        filter.push(Timestamp(0), Side::Client, line.as_bytes(), &mut judge, &mut out);
        assert_eq!(out.to_server, b"");
        assert!(
            matches!(out.incidents[..], [Incident::Refused { .. }]),
            "{:?}",
            out.incidents
        );
    }
}
