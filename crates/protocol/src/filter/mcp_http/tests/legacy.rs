//! HTTP+SSE: everything is answered on the stream that gives the URL for posts.

use test_case::test_case;

use super::*;

const SERVER: &str = "https://a.example/sse";

fn response() -> HttpResponse {
    let told = AnnouncedEndpoint {
        server: SERVER.to_owned(),
        announced: "/mcp/a/post/1".to_owned(),
    };
    HttpResponse::legacy(LIMITS, 200, EVENTS, told)
}

fn scene() -> Scene<impl FnMut(&Message<'_>) -> Verdict> {
    Scene {
        session: HttpSession::legacy(LIMITS, ServerKnowledge::default()),
        judge: guard,
    }
}

#[test]
fn clients_post_to_us() {
    let mut scene = scene();
    let mut response = response();
    let mut out = HttpOutput::default();
    let (session, judge) = (&mut scene.session, &mut scene.judge);
    assert_eq!(response.endpoint(), None);
    let first = "event: endpoint\r\ndata: /messages/?session_id=x\r\n\r\n";
    for byte in first.as_bytes().chunks(1) {
        assert_eq!(
            response.push(NOW, session, byte, judge, &mut out),
            ReadState::Continue
        );
    }
    assert_eq!(text(&out.to_client), "event: endpoint\ndata: /mcp/a/post/1\n\n");
    assert_eq!(
        response.endpoint(),
        Some("https://a.example/messages/?session_id=x")
    );
}

#[test_case("event: endpoint\ndata: https://b.example/m\n\n"; "another host")]
#[test_case("event: endpoint\ndata: /m\n\nevent: endpoint\ndata: /n\n\n"; "two places")]
#[test_case("event: endpoint\ndata: /m\n: x\u{2028}data: //b.example\n\n"; "a hidden line")]
#[test_case("event: endpoint\ndata: /m\u{2028}x\n\n"; "a hidden line in the data")]
fn another_place_ends_the_stream(stream: &str) {
    let mut scene = scene();
    let waiting = scene.asks(call("1", "good"));
    assert!(waiting.elsewhere);
    let came = scene.comes(response(), [stream]);
    let error = came.to_client.rsplit_once("data: ").map(|(_, error)| error);
    assert!(
        error.is_some_and(|error| error.contains(r#""id":1,"error":{"code":-32603,"#)),
        "{came:?}"
    );
    assert!(
        !came.to_client.contains("b.example") && !came.to_client.contains("/n"),
        "{came:?}"
    );
}

#[test]
fn the_same_place_can_be_told_again() {
    let twice = "event: endpoint\ndata: /m\n\n".repeat(2);
    let came = scene().comes(response(), [&twice]);
    assert_eq!(
        came.to_client,
        "event: endpoint\ndata: /mcp/a/post/1\n\n".repeat(2)
    );
}

#[test_case(None, "Accepted"; "a word")]
#[test_case(JSON, r#"{"status":"ok"}"#; "an object")]
#[test_case(None, ""; "nothing")]
fn what_was_posted_is_answered_on_the_stream(content_type: Option<&str>, body: &str) {
    let mut scene = scene();
    let waiting = scene.asks(call("1", "good"));
    let came = scene.answered(waiting, 202, content_type, body);
    assert_eq!(came.ended.map(|(status, _)| status), Some(202), "{came:?}");
    let answer = event(&result("1", "{}"));
    assert_eq!(scene.comes(response(), [&answer]).to_client, answer);
}

#[test]
fn what_is_blocked_is_answered_on_the_stream() {
    let mut scene = scene();
    let mut out = HttpOutput::default();
    let mut post = |body: &str| {
        let posted = scene
            .session
            .post(NOW, &Head::default(), body.as_bytes(), &mut scene.judge, &mut out);
        (told(&posted), text(&std::mem::take(&mut out.to_client)))
    };
    let (answer, stream) = post(&call("1", "evil"));
    assert_eq!(answer, "202 ");
    assert!(
        stream.starts_with("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\"") && stream.ends_with("}\n\n")
    );
    let (answer, stream) = post(&format!("[{},{}]", call("1", "evil"), call("2", "good")));
    assert_eq!(answer, format!("on: [{}]", call("2", "good")));
    assert!(stream.starts_with("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\""));
    let (answer, stream) = post("{");
    assert!(answer.starts_with("400 ") && stream.is_empty());
}

#[test]
fn a_post_that_fails_says_so_by_its_status() {
    let mut scene = scene();
    let cause = "the server cannot be reached".to_owned();
    let waiting = scene.asks(call("1", "good"));
    let answer = HttpResponse::none(
        LIMITS,
        waiting,
        &mut scene.session,
        &ResponseFault::Broken { cause },
    );
    assert_eq!(answer.status, 502);
    assert!(text(&answer.body).contains("the server cannot be reached"));
}

#[test]
fn a_stream_that_breaks_answers_all_that_wait() {
    let mut scene = scene();
    let waiting = [scene.asks(call("1", "good")), scene.asks(call("2", "good"))];
    let mut out = HttpOutput::default();
    let cause = "gone".to_owned();
    let _ended = response().fail(&mut scene.session, &ResponseFault::Broken { cause }, &mut out);
    assert_eq!(text(&out.to_client).matches("data: ").count(), waiting.len());
}
