//! Lines that servers execute although a strict parser refuses them or reads them differently: none is forwarded
//! unchanged.

use test_case::test_case;

use super::*;

/// Asserts that not one byte reaches the server, the client is told, and nothing was judged.
fn assert_refused(line: &[u8], id: &str, code: i32, cause: &str) {
    let mut conversation = Conversation::new(|message| panic!("judged: {message:?}"));
    let written = conversation.writes(Side::Client, [line, b"\n"].concat());
    assert_eq!(written.to_server, "");
    assert_eq!(
        written.to_client,
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":\"[mcpmon] {cause}\"}}}}\n"
        )
    );
    let cause = cause.to_owned();
    assert_eq!(written.incidents, [Incident::Unparsable { cause }]);
}

#[test_case(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"x\",\"arguments\":{\"a\":\"\xff\"}}}", "1", "invalid UTF-8 at byte 85"; "a byte that is no UTF-8: all servers execute it")]
#[test_case(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":"\ud800"}}}"#, "1", "lone surrogate at byte 85"; "a lone surrogate: TypeScript executes it")]
#[test_case(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":NaN}}}"#, "1", "unexpected byte 0x4e at byte 84"; "NaN: Python executes it")]
#[test_case(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":Infinity}}}"#, "1", "unexpected byte 0x49 at byte 84"; "infinity: Python executes it")]
#[test_case(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":1e999}}}"#, "1", "number out of range at byte 84"; "what becomes infinity")]
#[test_case(b"{\"x\":1}\r{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"x\"}}", "null", "more than one value at byte 8"; "a bare carriage return as the end of a line: Python executes the second")]
#[test_case(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\r{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"x\"}}", "null", "more than one value at byte 45"; "the same after a good message")]
#[test_case(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a\rb\"}}", "1", "unescaped control character 0x0d in a string at byte 65"; "a carriage return in a string")]
#[test_case(b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"x\"}}", "null", "unexpected byte 0xef at byte 0"; "a byte order mark")]
#[test_case(b"// {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}", "null", "unexpected byte 0x2f at byte 0"; "a comment")]
#[test_case(br#"{"jsonrpc":"2.0","id":1,"method":"ping","method\u0000":"tools/call","params":{"name":"x"}}"#, "1", "NUL in a member's name at byte 47"; "a NUL behind a name: some Go servers read it without")]
#[test_case(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"y","name\u0000":"x"}}"#, "1", "NUL in a member's name at byte 72"; "the same in the parameters")]
#[test_case(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[{"path\u0000tail":1}]}}}"#, "1", "NUL in a member's name at byte 91"; "in a name, deep in the arguments: readers of C strings end there")]
#[test_case(br#"{"jsonrpc":"2.0","id":1,"id\u0000":2,"method":"tools/call","params":{"name":"x"}}"#, "null", "NUL in a member's name at byte 27"; "a second id by such a name: nobody can tell which one counts")]
fn what_only_some_servers_read_is_refused(line: &[u8], id: &str, cause: &str) {
    assert_refused(line, id, -32_700, cause);
}

#[test]
fn what_is_nested_deeper_than_allowed_is_refused() {
    let depth = LIMITS.max_depth;
    let nested = format!("{}{}", "[".repeat(depth - 2), "]".repeat(depth - 2));
    let line = |nested: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"x","arguments":{{"a":{nested}}}}}}}"#
        )
    };
    assert_refused(
        line(&nested).as_bytes(),
        "1",
        -32_700,
        "nested too deeply at byte 113",
    );
    let near = line(&nested[1..nested.len() - 1]);
    assert_eq!(allowed().client(&near), on_to_server(&near));
}

#[test_case("{\"jsonrpc\":\"2.0\",\r\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"x\"}}",
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#; "a carriage return as white space: TypeScript executes it, Python does not")]
#[test_case("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"x\"}}\r\r",
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#; "carriage returns at the end")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"y","name":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#; "names twice: the last counts for most")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"y","n\u0061me":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#; "a name twice, once with an escape")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"\u006dethod":"tools/call","params":{"name":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#; "a name with an escape")]
#[test_case("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"x\",\"arguments\":{\"a\":\"\u{2028}{}\u{2029}\u{85}\"}}}",
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":"\u2028{}\u2029\u0085"}}}"#; "line and paragraph separators: Node's and Python's readers of lines end lines there")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[{"k":1,"k":12345678901234567890.10}]}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[{"k":12345678901234567890.10}]}}}"#; "deep in the arguments; numbers stay as they are")]
fn what_servers_read_in_two_ways_is_written_in_one(line: &str, anew: &str) {
    let mut judged = Vec::new();
    let mut conversation = Conversation::new(|message| {
        judged.push(format!("{:?}", message.content));
        Verdict::Allow
    });
    assert_eq!(conversation.client(line), on_to_server(anew));
    let mut plain = Vec::new();
    let mut conversation = Conversation::new(|message| {
        plain.push(format!("{:?}", message.content));
        Verdict::Allow
    });
    conversation.client(anew);
    assert_eq!(judged, plain);
    let blocked = blocking(|_| true).client(line);
    assert_eq!(blocked.to_server, "");
    assert!(blocked.to_client.contains("Tool 'x' blocked"), "{blocked:?}");
}

#[test]
fn a_line_without_its_end_does_not_go_on() {
    let mut conversation = Conversation::new(|message| panic!("judged: {message:?}"));
    assert_eq!(
        conversation.writes(Side::Client, call("1", "x")),
        Written::default()
    );
    let written = conversation.closes(Side::Client);
    assert_eq!(written.to_server, "");
    assert!(written.to_client.contains("-32700"), "{written:?}");
    let cause = "the stream ended inside a line".to_owned();
    assert_eq!(written.incidents, [Incident::Unparsable { cause }]);
}

#[test]
fn a_line_that_ended_before_the_stream_did_goes_on() {
    let mut conversation = allowed();
    let line = call("1", "x");
    assert_eq!(conversation.client(&line), on_to_server(&line));
    assert_eq!(conversation.closes(Side::Client), Written::default());
}

#[test_case("1"; "small")]
#[test_case("-7"; "negative")]
#[test_case("9007199254740993"; "beyond the integers of a double")]
#[test_case("123456789012345678901234567890"; "beyond 64 bits")]
#[test_case("\"a\""; "a text")]
#[test_case(r#""\u0041\/""#; "a text with escapes it does not need")]
fn ids_are_as_they_were_written(id: &str) {
    let line = call(id, "x");
    let mut conversation = allowed();
    assert_eq!(conversation.client(&line), on_to_server(&line));
    let answer = result(id, "{}");
    assert_eq!(conversation.server(&answer), on_to_client(&answer));
    let blocked = blocking(|_| true).client(&line).to_client;
    assert!(
        blocked.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#)),
        "{blocked}"
    );
}

#[test]
fn lines_may_end_with_a_carriage_return_and_a_line_feed() {
    let line = format!("{}\r\n", call("1", "x"));
    assert_eq!(allowed().writes(Side::Client, &line).to_server, line);
}

#[test]
fn servers_may_cut_a_character_in_two() {
    let mut conversation = allowed();
    conversation.client(&call("1", "x"));
    let written = conversation.server(&result("1", r#"{"content":[{"type":"text","text":"a\ud83d"}]}"#));
    let replaced = result("1", "{\"content\":[{\"type\":\"text\",\"text\":\"a\u{fffd}\"}]}");
    assert_eq!(written, on_to_client(&replaced));
}

#[test_case("Starting server on stdio…"; "a banner")]
#[test_case(""; "an empty line")]
#[test_case("{\"level\":\"info\"}"; "a log line in JSON")]
#[test_case("[1,2"; "half an array")]
#[test_case("42"; "a number")]
#[test_case("[]"; "an empty batch")]
#[test_case("{\"jsonrpc\":\"2.0\",\"method\":\"sampling/createMessage\",\"params\":{}}"; "a request without an id")]
#[test_case("{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"parse error\"}}"; "an error that answers nothing")]
fn what_a_server_says_besides_messages_is_diverted(line: &str) {
    let mut conversation = Conversation::new(|message| panic!("judged: {message:?}"));
    let written = conversation.server(line);
    assert_eq!((written.to_client.as_str(), written.to_server.as_str()), ("", ""));
    assert_eq!(written.noise, format!("{line}\n"));
    let noise = |incident: &Incident| matches!(incident, Incident::Noise { .. });
    assert!(written.incidents.iter().all(noise), "{:?}", written.incidents);
    assert_eq!(written.incidents.len(), 1);
}

/// Server lines for which the client would otherwise wait for ever.
#[test_case(br#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"mean":NaN}}}"#, "unexpected byte 0x4e at byte 75"; "NaN: servers written in Python say it")]
#[test_case(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"caf\xe9\"}]}}", "invalid UTF-8 at byte 71"; "a byte that is no UTF-8")]
#[test_case(br#"{"result":{"content":[],"a\u0000":1},"jsonrpc":"2.0","id":1}"#, "NUL in a member's name at byte 26"; "a NUL in a name, the id behind it")]
#[test_case(br#"{"jsonrpc":"2.0","id":1,"error":{"code":-Infinity,"message":"x"}}"#, "invalid number at byte 41"; "an error")]
fn an_answer_that_cannot_be_read_becomes_an_error(line: &[u8], cause: &str) {
    let mut conversation = allowed();
    conversation.client(&call("1", "x"));
    let written = conversation.writes(Side::Server, [line, b"\n"].concat());
    assert_eq!(
        written.to_client,
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32603,"message":"[mcpmon] the answer cannot be read: {cause}"}}}}"#
        ) + "\n"
    );
    assert_eq!(written.to_server, "");
    assert_eq!(written.noise, String::from_utf8_lossy(line).into_owned() + "\n");
    assert!(
        matches!(written.incidents[..], [Incident::Noise { .. }]),
        "{written:?}"
    );
    // It waits no longer: what comes later with its id answers nothing.
    assert_eq!(conversation.server(&result("1", "{}")).to_client, "");
}

#[test]
fn an_answer_nested_too_deeply_becomes_an_error() {
    let mut conversation = allowed();
    conversation.client(&call("\"a\"", "x"));
    let deep = format!("{}{}", "[".repeat(LIMITS.max_depth), "]".repeat(LIMITS.max_depth));
    let written = conversation.server(&result("\"a\"", &format!(r#"{{"structuredContent":{deep}}}"#)));
    assert!(
        written
            .to_client
            .starts_with(r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32603,"#),
        "{written:?}"
    );
}

/// None of it says for certain which request it answers: an answer to the wrong one is worse than none.
#[test_case(r#"{"level":"info","id":1,"value":NaN}"#; "a log line")]
#[test_case(r#"debug {"jsonrpc":"2.0","id":1,"result":{"a":NaN}}"#; "a message in a log line")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{"a":NaN}} sent"#; "a message before a word")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"id":2,"result":{"a":NaN}}"#; "two ids")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"ID":2,"result":{"a":NaN}}"#; "two ids to a reader that ignores case")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"id\u0000":2,"result":{"a":NaN}}"#; "two ids to a reader that ends names at a NUL")]
#[test_case(r#"{"jsonrpc":"2.0","id":2,"result":{"a":NaN}}"#; "the id of no request")]
#[test_case(r#"{"jsonrpc":"2.0","id":NaN,"result":{}}"#; "no id")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{"a":NaN"#; "half a message")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"notifications/x","params":{"a":NaN}"#; "a request")]
fn what_may_be_no_answer_leaves_requests_waiting(line: &str) {
    let mut conversation = allowed();
    conversation.client(&call("1", "x"));
    let written = conversation.server(line);
    assert_eq!(written.to_client, "");
    assert_eq!(written.noise, format!("{line}\n"));
    let answer = result("1", "{}");
    assert_eq!(conversation.server(&answer), on_to_client(&answer));
}

#[test]
fn a_request_of_a_server_that_cannot_be_read_is_answered() {
    let line = r#"{"jsonrpc":"2.0","id":4,"method":"sampling/createMessage","params":{"temperature":NaN}}"#;
    let written = allowed().server(line);
    assert_eq!(
        written.to_server,
        r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32700,"message":"[mcpmon] unexpected byte 0x4e at byte 82"}}"#.to_owned() + "\n"
    );
    assert_eq!(
        (written.to_client.as_str(), written.noise),
        ("", format!("{line}\n"))
    );
}

#[test]
fn a_reply_of_a_client_that_cannot_be_read_is_told_to_the_server() {
    let mut conversation = allowed();
    conversation.server(&request("1", "roots/list", "{}"));
    let written = conversation.client(r#"{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}"#);
    assert_eq!(written.to_client, "");
    let cause = "[mcpmon] the answer cannot be read: unexpected byte 0x4e at byte 38";
    assert_eq!(
        written.to_server,
        format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32603,"message":"{cause}"}}}}"#) + "\n"
    );
    assert!(
        matches!(written.incidents[..], [Incident::Unparsable { .. }]),
        "{written:?}"
    );
}

#[test]
fn bytes_that_are_no_text_are_diverted_as_they_came() {
    let mut out = StdioOutput::default();
    let mut filter = StdioFilter::new(LIMITS);
    let mut judge = |message: &Message<'_>| panic!("judged: {message:?}");
    filter.push(
        Timestamp(0),
        Side::Server,
        b"{\"a\":\"\xff\"}\n",
        &mut judge,
        &mut out,
    );
    assert_eq!(out.noise, b"{\"a\":\"\xff\"}\n");
    assert_eq!(out.to_client, b"");
}

#[test]
fn a_server_that_ends_inside_a_line_has_it_diverted() {
    let mut conversation = allowed();
    conversation.writes(Side::Server, "Traceback");
    let written = conversation.closes(Side::Server);
    assert_eq!(written.noise, "Traceback\n");
    assert_eq!(written.to_client, "");
}
