//! Streams of events, cut anywhere.

use test_case::test_case;

use super::*;

/// The outcome of a stream that answers two calls of `good`, however it is cut.
fn stream(stream: &str) -> Came {
    let came = |chunks: Vec<&[u8]>| {
        let mut scene = guarded();
        let waiting = scene.asks(format!("[{},{}]", call("1", "good"), call("2", "good")));
        scene.comes(HttpResponse::to_post(LIMITS, 200, EVENTS, waiting), chunks)
    };
    let bytes = stream.as_bytes();
    let whole = came(vec![bytes]);
    assert_eq!(came(bytes.chunks(1).collect()), whole, "byte by byte");
    for at in 0..=bytes.len() {
        let (first, second) = bytes.split_at(at);
        assert_eq!(came(vec![first, second]), whole, "cut at {at}");
    }
    assert_eq!(whole.ended, Some((200, false)));
    whole
}

#[test_case(": keep-alive\n\n: another\r\n\r\n\n"; "comments and blank lines")]
#[test_case("retry: 3000\n\n"; "a time to wait")]
#[test_case("id: s1_0\ndata:\n\n"; "a priming event")]
#[test_case("id: s1_0\nretry: 500\ndata: \n\n"; "a priming event with a space")]
#[test_case(&format!("event: message\nid: 7\n{}", event(&result("1", r#"{"content":[]}"#))); "an answer with a name and an id")]
#[test_case(&format!("id: 7\r\ndata:{}\r\n: c\r\n\r\n", result("1", "{}")); "pairs")]
#[test_case("data: {\"jsonrpc\":\"2.0\",\ndata:  \"id\":1,\ndata: \"result\":{}}\n\n"; "data in lines")]
#[test_case(&format!("{}{}", event(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#), event(&result("2", "{}"))); "progress before an answer")]
#[test_case(&event(&request("1", "ping", "{}")); "what the server asks")]
#[test_case(&format!("data: {}", result("1", "{}")); "no blank line at the end")]
fn what_is_allowed_goes_on_byte_for_byte(text: &str) {
    let expected = Came {
        to_client: text.to_owned(),
        ended: Some((200, false)),
        ..Came::default()
    };
    assert_eq!(stream(text), expected);
}

const BLOCKED: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"[mcpmon] Result of tool 'good' blocked by policy: it is not allowed (rule no-evil)."}],"isError":true}}"#;

#[test_case(&format!("event: message\nid: 7\nretry: 5\n{}", event(&result("1", "{\"a\":\"evil\"}"))) => format!("event: message\nid: 7\nretry: 5\n{}", event(BLOCKED)); "a blocked answer keeps its id")]
#[test_case(&format!("id: 8\n{}", event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"evil"}}"#)) => ":\n\n".to_owned(); "a blocked notification")]
#[test_case(&event("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"x\u{2028}y\"}}") => event("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"x\\u2028y\"}}"); "what ends lines for some")]
#[test_case(&format!(": x\u{2028}data: evil\n{}", event(&result("1", "{}"))) => event(&result("1", "{}")); "a line hidden in a comment")]
#[test_case(": x\u{2028}data: evil\n\n" => ":\n\n".to_owned(); "a line hidden in a comment alone")]
#[test_case(&format!("id: 7\n{}", event(r#"{"jsonrpc":"2.0","id":1,"result":{"a":NaN}}"#)) => format!("id: 7\n{}", event(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"[mcpmon] the answer cannot be read: unexpected byte 0x4e at byte 38"}}"#)); "an answer that is no JSON")]
#[test_case(&event(r#"{"jsonrpc":"2.0","id":1,"result":{"a\u0000":1}}"#) => event(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"[mcpmon] the answer cannot be read: NUL in a member's name at byte 36"}}"#); "an answer with a NUL in a name")]
#[test_case("data: banner\n\n" => ":\n\n".to_owned(); "no JSON")]
#[test_case(&format!("\u{feff}data:{}\r\n\r\n", result("1", "{}")) => format!("data:{}\r\n\r\n", result("1", "{}")); "a byte order mark")]
#[test_case(&format!("id: 7\rdata: {}\r\r", result("1", "{}")) => format!("id: 7\n{}", event(&result("1", "{}"))); "carriage returns")]
#[test_case(&format!("\u{ef}\u{bb}\u{bf}{}", event(&result("1", "{\"a\":\"evil\"}"))) => ":\n\n".to_owned(); "a byte order mark that was read as Latin-1")]
#[test_case(&format!("\u{feff}\u{feff}{}", event(&result("1", "{\"a\":\"evil\"}"))) => ":\n\n".to_owned(); "two byte order marks")]
#[test_case(&format!("data:\r{}\n\n", result("1", "{\"a\":\"evil\"}")) => "data: \n\n".to_owned(); "a line hidden by a carriage return")]
#[test_case(&format!("id: 7\nretry: 5\ndatum: evil\n{}", event(&result("1", "{}"))) => format!("id: 7\nretry: 5\n{}", event(&result("1", "{}"))); "a field that nobody knows")]
#[test_case(&format!("data: {}\r{}\n\n", result("1", "{}"), result("2", "{\"a\":\"evil\"}")) => event(&result("1", "{}")); "a line hidden behind an answer")]
#[test_case("id: 7\ndatum: evil\n\n" => "id: 7\n\n".to_owned(); "an id beside a field that nobody knows")]
#[test_case("event: endpoint\ndata: /elsewhere\n\n" => ":\n\n".to_owned(); "another transport's endpoint")]
#[test_case(&event(&result("9", "{}")) => ":\n\n".to_owned(); "an answer that nobody waits for")]
#[test_case(&event(&result("1", "7")) => event(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"[mcpmon] the result is not an object"}}"#); "an answer that is none")]
#[test_case(&event(&format!("[{},{}]", result("1", "{}"), result("2", "{\"a\":\"evil\"}"))) => event(&format!("[{},{}]", result("1", "{}"), BLOCKED.replace("\"id\":1", "\"id\":2"))); "a batch")]
#[test_case(&format!("id: 4\n{}", event(&format!("[{},{}]", result("1", "7"), result("2", "{}")))) => format!("id: 4\n{}{}", event(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"[mcpmon] the result is not an object"}}"#), event(&format!("[{}]", result("2", "{}")))); "a batch with an answer that is none")]
fn what_goes_on_otherwise(text: &str) -> String {
    stream(text).to_client
}

#[test]
fn what_the_server_asks_is_turned_down_by_a_post_of_ours() {
    let ask = request("\"s\"", "elicitation/create", r#"{"message":"evil"}"#);
    let came = stream(&event(&ask));
    assert_eq!(came.to_client, ":\n\n");
    assert_eq!(came.to_server, [result("\"s\"", r#"{"action":"decline"}"#)]);
}

#[test]
fn what_is_no_message_is_told() {
    let came = stream("data: banner\n\n");
    assert_eq!(came.incidents, [Incident::Noise { bytes: 6 }]);
}

#[test]
fn an_event_that_is_too_long_is_skipped() {
    let long = |id: &str| {
        event(&result(
            id,
            &format!(r#"{{"a":"{}"}}"#, "x".repeat(LIMITS.max_line)),
        ))
    };
    let mut scene = guarded();
    let waiting = scene.asks(format!("[{},{}]", call("1", "good"), call("2", "good")));
    let text = format!("{}{}{}", long("1"), long("7"), event(&result("2", "{}")));
    let chunks: Vec<&[u8]> = text.as_bytes().chunks(1000).collect();
    let came = scene.comes(HttpResponse::to_post(LIMITS, 200, EVENTS, waiting), chunks);
    assert_eq!(
        came.to_client,
        format!(
            "{}:\n\n{}",
            event(
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"[mcpmon] the message is longer than 4096 bytes"}}"#
            ),
            event(&result("2", "{}"))
        )
    );
    let (side, limit) = (Side::Server, LIMITS.max_line);
    assert_eq!(came.incidents, vec![Incident::TooLong { side, limit }; 2]);
}

#[test]
fn a_long_question_of_the_server_is_turned_down() {
    let mut scene = guarded();
    let waiting = scene.asks(call("1", "good"));
    let ask = request(
        "1",
        "roots/list",
        &format!(r#"{{"a":"{}"}}"#, "x".repeat(LIMITS.max_line)),
    );
    let text = format!("{}{}", event(&ask), event(&result("1", "{}")));
    let came = scene.comes(HttpResponse::to_post(LIMITS, 200, EVENTS, waiting), [&text]);
    assert_eq!(came.to_client, format!(":\n\n{}", event(&result("1", "{}"))));
    assert_eq!(came.to_server.len(), 1);
}

#[test]
fn our_answers_come_first() {
    let mut scene = guarded();
    let waiting = scene.asks(format!("[{},{}]", call("1", "evil"), call("2", "good")));
    let ours = waiting.answers[0].clone();
    let theirs = event(&result("2", "{}"));
    let came = scene.comes(HttpResponse::to_post(LIMITS, 200, EVENTS, waiting), [&theirs]);
    assert_eq!(came.to_client, format!("{}{theirs}", event(&ours)));
    let waiting = scene.asks(format!("[{},{}]", call("1", "evil"), call("2", "good")));
    let came = scene.comes(HttpResponse::to_post(LIMITS, 200, EVENTS, waiting), [""; 0]);
    assert_eq!(came.to_client, event(&ours));
}

#[test]
fn a_broken_stream_is_told_of_where_nobody_can_ask_for_the_rest() {
    let cause = "the server closed the connection".to_owned();
    let fault = ResponseFault::Broken { cause };
    let broken = |begin: &str| {
        let mut scene = guarded();
        let waiting = scene.asks(call("1", "good"));
        let mut response = HttpResponse::to_post(LIMITS, 200, EVENTS, waiting);
        let mut out = HttpOutput::default();
        let (session, judge) = (&mut scene.session, &mut scene.judge);
        assert_eq!(
            response.push(NOW, session, begin.as_bytes(), judge, &mut out),
            ReadState::Continue
        );
        out.to_client.clear();
        let _ended = response.fail(session, &fault, &mut out);
        text(&out.to_client)
    };
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"[mcpmon] the server closed the connection"}}"#;
    assert_eq!(broken(": hi\n\ndata: {"), event(error));
    assert_eq!(broken("id: 1\ndata:\n\n"), "");
    assert_eq!(broken(&event(&result("1", "{}"))), "");
}

#[test]
fn nothing_of_a_stream_is_held_but_the_event_that_comes() {
    let mut scene = allowed();
    let waiting = scene.asks(call("1", "good"));
    let mut response = HttpResponse::to_post(LIMITS, 200, EVENTS, waiting);
    let mut out = HttpOutput::default();
    let (session, judge) = (&mut scene.session, &mut scene.judge);
    let mut push = |bytes: &str| {
        assert_eq!(
            response.push(NOW, session, bytes.as_bytes(), judge, &mut out),
            ReadState::Continue
        );
        (std::mem::take(&mut out.to_client).len(), response.held())
    };
    assert_eq!(push(": ping\n\n"), (8, 0));
    assert_eq!(push("id: 1\ndata: {"), (0, 13));
    assert_eq!(push("}\n\n"), (3, 0));
}
