//! Responses that are no streams.

use mcpmon_model::{AnswerOutcome, RequestId};
use test_case::test_case;

use super::*;

/// A call of `good`, answered with a body.
fn answered(status: u16, content_type: Option<&str>, body: &str) -> Came {
    let mut scene = guarded();
    let waiting = scene.asks(call("1", "good"));
    scene.answered(waiting, status, content_type, body)
}

#[test_case(JSON, &result("1", r#"{"content":[]}"#); "a result")]
#[test_case(JSON, "\u{20}{\n\"jsonrpc\":\"2.0\",\"result\":{},\r\n \"id\":1}\n"; "white space")]
#[test_case(Some("Application/JSON; charset=utf-8"), r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#; "an error")]
#[test_case(JSON, &format!("[{}]", result("1", "{}")); "an array")]
fn json_goes_on_as_it_came(content_type: Option<&str>, body: &str) {
    let came = answered(200, content_type, body);
    let expected = Came {
        to_client: body.to_owned(),
        ended: Some((200, false)),
        ..Came::default()
    };
    assert_eq!(came, expected);
}

const BLOCKED: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"[mcpmon] Result of tool 'good' blocked by policy: it is not allowed (rule no-evil)."}],"isError":true}}"#;
const NO_MESSAGE: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"[mcpmon] the server's answer is no JSON-RPC message"}}"#;

#[test_case(&result("1", r#"{"content":["evil"]}"#) => BLOCKED.to_owned(); "a blocked result")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}"# => result("1", r#"{"a":2}"#); "a name twice")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{"a":"\ud800"}}"# => result("1", "{\"a\":\"\u{fffd}\"}"); "half a surrogate pair")]
#[test_case("evil" => NO_MESSAGE; "no JSON")]
#[test_case("{\"jsonrpc\":\"2.0\"" => NO_MESSAGE; "half a message")]
#[test_case("[]" => NO_MESSAGE; "an empty array")]
#[test_case(r#"{"tools":[]}"# => NO_MESSAGE; "JSON that is no message")]
#[test_case(&result("2", "{}") => NO_MESSAGE; "another one's answer")]
#[test_case(&result("\"1\"", "{}") => NO_MESSAGE; "a text for a number")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"result":7}"# => r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"[mcpmon] the result is not an object"}}"#; "no result")]
#[test_case(&format!("[{},{}]", result("7", "{}"), result("1", "{}")) => format!("[{}]", result("1", "{}")); "an answer that nobody waits for beside one")]
#[test_case(&format!("[{},{}]", notification("evil"), result("1", "{}")) => format!("[{}]", result("1", "{}")); "a blocked notification beside one")]
fn json_goes_on_otherwise(body: &str) -> String {
    let came = answered(200, JSON, body);
    assert_eq!(came.ended, Some((200, true)));
    came.to_client
}

#[test]
fn what_the_server_asks_in_json_is_turned_down_by_a_post_of_ours() {
    let ask = request("5", "sampling/createMessage", r#"{"messages":["evil"]}"#);
    let came = answered(200, JSON, &format!("[{ask},{}]", result("1", "{}")));
    assert_eq!(came.to_client, format!("[{}]", result("1", "{}")));
    assert_eq!(came.to_server.len(), 1);
    assert!(came.to_server[0].starts_with(r#"{"jsonrpc":"2.0","id":5,"error":{"code":-1,"#));
}

#[test_case(404, None, "Session not found"; "a text")]
#[test_case(404, Some("text/plain"), "Session not found"; "a text with a type")]
#[test_case(400, JSON, r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#; "nobody's error")]
#[test_case(400, JSON, r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request"}}"#; "an error with an id of the server's own")]
#[test_case(400, JSON, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"Unsupported protocol version"}}"#; "the request's own error")]
#[test_case(401, JSON, r#"{"error":"invalid_token","error_description":"expired"}"#; "an error of OAuth")]
#[test_case(500, Some("text/html"), "<html>no</html>"; "a page")]
#[test_case(503, EVENTS, "busy"; "a text that is called a stream")]
#[test_case(502, None, ""; "nothing")]
#[test_case(502, JSON, ""; "nothing that is called JSON")]
fn errors_go_on_as_they_came(status: u16, content_type: Option<&str>, body: &str) {
    let mut scene = guarded();
    let waiting = scene.asks(call("1", "good"));
    let came = scene.answered(waiting, status, content_type, body);
    let expected = Came {
        to_client: body.to_owned(),
        ended: Some((status, false)),
        ..Came::default()
    };
    assert_eq!(came, expected);
    // Its request waits no longer.
    let (posted, _) = scene.post(&[], call("1", "another"));
    assert_eq!(told(&posted), "on: as it came");
}

#[test_case(500, Some("text/plain"), "Read this: evil"; "a text")]
#[test_case(400, JSON, r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"evil"},"id":null}"#; "nobody's error")]
#[test_case(400, JSON, r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"evil"},"id":1}"#; "the request's own error")]
#[test_case(400, JSON, r#"[{"jsonrpc":"2.0","error":{"code":-32000,"message":"evil"},"id":1}]"#; "in an array")]
#[test_case(400, JSON, r#"{"evil":"#; "what is no JSON")]
fn errors_are_judged(status: u16, content_type: Option<&str>, body: &str) {
    let came = answered(status, content_type, body);
    assert_eq!(came.ended, Some((status, true)));
    assert!(
        came.to_client.starts_with(r#"{"jsonrpc":"2.0","#)
            && came.to_client.contains("[mcpmon] Result of tool 'good' blocked"),
        "{came:?}"
    );
    let answer: serde_json::Value = serde_json::from_str(&came.to_client).unwrap();
    assert_eq!(answer["id"], 1);
}

#[test_case(None; "no type")]
#[test_case(Some("text/json"); "another type")]
#[test_case(Some("application/octet-stream"); "bytes")]
fn json_is_json_whatever_it_is_called(content_type: Option<&str>) {
    let came = answered(200, content_type, &result("1", r#"{"content":["evil"]}"#));
    assert_eq!(
        (came.to_client.as_str(), came.ended),
        (BLOCKED, Some((200, true)))
    );
    let fine = result("1", "{}");
    let came = answered(200, content_type, &fine);
    assert_eq!((came.to_client, came.ended), (fine, Some((200, false))));
    let came = answered(200, content_type, "\u{feff}{\"jsonrpc\":NaN}");
    assert_eq!(came.to_client, NO_MESSAGE);
}

#[test]
fn events_are_no_text() {
    let came = answered(200, Some("text/plain"), &event(&result("1", "{}")));
    assert_eq!(
        (came.to_client.as_str(), came.ended),
        (NO_MESSAGE, Some((200, true)))
    );
    let came = answered(200, Some("text/plain"), "metadata: none");
    assert_eq!(
        (came.to_client.as_str(), came.ended),
        (NO_MESSAGE, Some((200, true)))
    );
    let came = answered(500, Some("text/plain"), "busy\u{2028}data: {}");
    assert_eq!(
        (came.to_client.as_str(), came.ended),
        (NO_MESSAGE, Some((500, true)))
    );
    let mut scene = guarded();
    let mut get = |status, body: &str| scene.comes(HttpResponse::to_get(LIMITS, status, None), [body]);
    let refused = [
        (200, "hello", 502),
        (200, "\u{ef}\u{bb}\u{bf}data: {}", 502),
        (405, "data: {}", 405),
    ];
    for (status, body, ended) in refused {
        let came = get(status, body);
        assert_eq!(
            (came.to_client.as_str(), came.ended),
            ("", Some((ended, true))),
            "{body}"
        );
    }
    assert_eq!(get(200, "\n").to_client, "\n");
}

#[test]
fn a_page_is_an_error_to_whoever_waits_under_the_status_of_the_server() {
    let page = "<!doctype html><html><body>Sign in</body></html>";
    let came = answered(200, Some("text/html; charset=utf-8"), page);
    assert_eq!(
        (came.to_client.as_str(), came.ended),
        (NO_MESSAGE, Some((200, true)))
    );
    let response = HttpResponse::to_get(LIMITS, 200, Some("text/html"));
    let came = guarded().comes(response, [page]);
    assert_eq!((came.to_client.as_str(), came.ended), ("", Some((502, true))));
}

#[test]
fn a_text_to_nobody_is_judged() {
    let mut scene = guarded();
    let mut get = |status, body: &str| scene.comes(HttpResponse::to_get(LIMITS, status, None), [body]);
    assert_eq!(get(405, "Method not allowed").to_client, "Method not allowed");
    let came = get(405, "evil");
    assert_eq!(came.ended, Some((405, true)));
    assert_eq!(
        came.to_client,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"[mcpmon] it is not allowed"}}"#
    );
}

#[test_case(JSON, &format!("[{}]", result("2", "{}")), 200; "an array")]
#[test_case(JSON, &result("2", "{}"), 200; "one message")]
fn our_answers_join_the_servers(content_type: Option<&str>, body: &str, status: u16) {
    let mut scene = guarded();
    let waiting = scene.asks(format!("[{},{}]", call("1", "evil"), call("2", "good")));
    let came = scene.answered(waiting, status, content_type, body);
    assert_eq!(came.ended, Some((200, true)));
    let answers: Vec<serde_json::Value> = serde_json::from_str(&came.to_client).unwrap();
    assert_eq!(answers.len(), 2);
    assert_eq!((&answers[0]["id"], &answers[1]["id"]), (&1.into(), &2.into()));
    assert_eq!(answers[0]["result"]["isError"], true);
}

#[test]
fn our_answers_stand_in_for_none() {
    let mut scene = guarded();
    let waiting = scene.asks(format!(
        "[{},{}]",
        call("1", "evil"),
        notification("notifications/initialized")
    ));
    let came = scene.answered(waiting, 202, None, "");
    assert_eq!(came.ended, Some((200, true)));
    assert!(came.to_client.starts_with(r#"[{"jsonrpc":"2.0","id":1,"#) && came.to_client.ends_with("}]"));
}

#[test]
fn what_is_accepted_goes_on() {
    let mut scene = guarded();
    for (content_type, body) in [(None, ""), (Some("text/plain"), "Accepted"), (JSON, "")] {
        let waiting = scene.asks(notification("notifications/initialized"));
        let came = scene.answered(waiting, 202, content_type, body);
        let is_ours = !body.is_empty();
        assert_eq!((came.to_client.as_str(), came.ended), ("", Some((202, is_ours))));
    }
}

#[test]
fn what_is_too_long_is_an_error() {
    let long = result("1", &format!(r#"{{"a":"{}"}}"#, "x".repeat(LIMITS.max_line)));
    let came = answered(200, JSON, &long);
    assert_eq!(came.ended, Some((200, true)));
    assert_eq!(
        came.to_client,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"[mcpmon] the server's answer is longer than 4096 bytes"}}"#
    );
    let (side, limit) = (Side::Server, LIMITS.max_line);
    assert_eq!(came.incidents, [Incident::TooLong { side, limit }]);
    let came = answered(404, None, &"x".repeat(LIMITS.max_line + 1));
    assert_eq!(came.ended, Some((404, true)));
}

#[test_case(JSON, 200; "json")]
#[test_case(EVENTS, 200; "a stream")]
fn another_charset_is_refused(content_type: Option<&str>, status: u16) {
    let mut scene = allowed();
    let waiting = scene.asks(call("1", "good"));
    let content_type = format!("{}; charset=utf-7", content_type.unwrap());
    let response = HttpResponse::to_post(LIMITS, status, Some(&content_type), waiting);
    assert!(!response.is_stream());
    let came = scene.comes(response, [&result("1", "{}")]);
    assert_eq!(came.ended, Some((200, true)));
    assert!(came.to_client.contains("another charset than UTF-8"), "{came:?}");
}

#[test]
fn where_no_response_comes_whoever_waits_is_told() {
    let mut scene = guarded();
    let cause = "the server cannot be reached".to_owned();
    let fault = ResponseFault::Broken { cause };
    let waiting = scene.asks(call("1", "good"));
    let answer = HttpResponse::none(LIMITS, waiting, &mut scene.session, &fault);
    assert_eq!(answer.status, 200);
    assert_eq!(
        text(&answer.body),
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"[mcpmon] the server cannot be reached"}}"#
    );
    let waiting = scene.asks(notification("notifications/initialized"));
    let answer = HttpResponse::none(LIMITS, waiting, &mut scene.session, &fault);
    assert_eq!((answer.status, text(&answer.body)), (502, String::new()));
    let (posted, _) = scene.post(&[], call("1", "another"));
    assert_eq!(told(&posted), "on: as it came");
}

#[test]
fn what_came_to_nothing_is_heard_as_answered_with_an_error() {
    let mut scene = guarded();
    let cause = "the server cannot be reached".to_owned();
    let fault = ResponseFault::Broken { cause };
    let waiting = scene.asks(call("1", "good"));
    let mut response = HttpResponse::to_post(LIMITS, 502, None, waiting);
    let mut heard = Vec::new();
    response.note_failure(NOW, &mut scene.session, &fault, &mut |message: &Message<'_>| {
        if let (Some(id), Content::Server(FromServer::Answer(answer))) = (message.id, &message.content) {
            let AnswerOutcome::Error { message, .. } = &answer.outcome else {
                panic!("an error: {answer:?}");
            };
            heard.push((id.to_string(), message.to_string()));
        }
        Verdict::Allow
    });
    assert_eq!(
        heard,
        [("1".to_owned(), String::new())],
        "the server said nothing"
    );
    let mut out = HttpOutput::default();
    let ended = response.fail(&mut scene.session, &fault, &mut out);
    assert_eq!(ended.status, 502);
    assert_eq!(
        text(&out.to_client),
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"[mcpmon] the server cannot be reached"}}"#
    );
}

#[test]
fn whoever_waits_is_turned_away() {
    let mut scene = guarded();
    let waiting = scene.asks(call("1", "good"));
    let mut response = HttpResponse::to_post(LIMITS, 200, JSON, waiting);
    let mut out = HttpOutput::default();
    let ended = response.turn_away(&mut scene.session, &denial(), &mut out);
    assert_eq!(
        ended,
        WholeResponseHead {
            status: 200,
            is_ours: true
        }
    );
    assert_eq!(
        text(&out.to_client),
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32003,"message":"[mcpmon] Request blocked by policy: it is not allowed (rule no-evil)."}}"#
    );
}

#[test]
fn whoever_waits_too_long_is_told() {
    let limits = DecodeLimits {
        request_timeout: std::time::Duration::from_nanos(5),
        ..LIMITS
    };
    let mut scene = allowed();
    scene.session = HttpSession::new(limits, ServerKnowledge::default());
    let (json, stream) = (scene.asks(call("1", "a")), scene.asks(call("2", "b")));
    let mut json = HttpResponse::to_post(limits, 200, JSON, json);
    let mut stream = HttpResponse::to_post(limits, 200, EVENTS, stream);
    let mut out = HttpOutput::default();
    for response in [&mut json, &mut stream] {
        assert_eq!(
            response.expire(Timestamp(11), &mut scene.session, &mut out),
            ReadState::Continue
        );
    }
    assert_eq!(text(&out.to_client), "");
    let timeout = "[mcpmon] no answer came in time";
    assert_eq!(
        stream.expire(Timestamp(12), &mut scene.session, &mut out),
        ReadState::Finished,
        "nobody waits for anything on it any more"
    );
    assert_eq!(
        text(&std::mem::take(&mut out.to_client)),
        event(&format!(
            r#"{{"jsonrpc":"2.0","id":2,"error":{{"code":-32001,"message":"{timeout}"}}}}"#
        ))
    );
    assert_eq!(
        json.expire(Timestamp(12), &mut scene.session, &mut out),
        ReadState::Finished
    );
    let ended = json.end(Timestamp(12), &mut scene.session, &mut scene.judge, &mut out);
    assert_eq!(
        ended,
        WholeResponseHead {
            status: 200,
            is_ours: true
        }
    );
    assert_eq!(
        text(&out.to_client),
        format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32001,"message":"{timeout}"}}}}"#)
    );
}

#[test]
fn who_waits_for_a_response_that_has_not_begun_may_be_late() {
    let limits = DecodeLimits {
        request_timeout: std::time::Duration::from_nanos(5),
        ..LIMITS
    };
    let mut scene = allowed();
    scene.session = HttpSession::new(limits, ServerKnowledge::default());
    let waiting = scene.asks(call("1", "a"));
    assert!(!waiting.is_late(Timestamp(11), &scene.session));
    assert!(waiting.is_late(Timestamp(12), &scene.session));
    let answer = HttpResponse::none(limits, waiting, &mut scene.session, &ResponseFault::Late);
    assert_eq!(
        (answer.status, text(&answer.body)),
        (
            200,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"[mcpmon] no answer came in time"}}"#
                .to_owned()
        )
    );
    let waiting = scene.asks(notification("notifications/initialized"));
    assert!(!waiting.is_late(Timestamp(99), &scene.session), "nobody waits");
}

#[test]
fn what_nobody_waits_for_is_told() {
    let came = answered(200, JSON, &result("2", "{}"));
    let id = RequestId::Number("2".into());
    assert_eq!(
        came.incidents,
        [Incident::Unasked {
            side: Side::Server,
            id
        }]
    );
    let came = answered(200, JSON, "banner");
    assert_eq!(came.incidents, [Incident::Noise { bytes: 6 }]);
}
