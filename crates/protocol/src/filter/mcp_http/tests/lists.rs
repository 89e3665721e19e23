//! Lists: hidden items, changes, and lists that mcpmon requests itself.

use mcpmon_model::{ListKind, RequestId};
use test_case::test_case;

use super::*;

const TOOLS: &str =
    r#"{"resultType":"complete","tools":[{"name":"a"},{"name":"evil"}],"ttlMs":9000,"nextCursor":"n"}"#;

fn stateless() -> [(&'static str, &'static str); 2] {
    [("mcp-protocol-version", STATELESS), ("mcp-method", "tools/list")]
}

#[test]
fn a_list_with_something_hidden_is_not_kept() {
    let mut scene = guarded();
    let (posted, _) = scene.post(
        &stateless(),
        request("1", "tools/list", &format!("{{{}}}", meta(STATELESS))),
    );
    let PostDecision::Forward(forward) = posted else {
        panic!("it is answered");
    };
    let came = scene.answered(forward.waiting, 200, JSON, &result("1", TOOLS));
    let expected = r#"{"resultType":"complete","tools":[{"name":"a"}],"ttlMs":0,"nextCursor":"n","cacheScope":"private"}"#;
    assert_eq!(came.to_client, result("1", expected));
    let came = scene.exchange(
        &request("2", "tools/list", "{}"),
        EVENTS,
        &event(&result("2", TOOLS)),
    );
    let expected = r#"{"resultType":"complete","tools":[{"name":"a"}],"ttlMs":9000,"nextCursor":"n"}"#;
    assert_eq!(came.to_client, event(&result("2", expected)));
}

/// Returns the notifications that an open response carries about a changed list.
fn changed(
    scene: &Scene<impl FnMut(&Message<'_>) -> Verdict>,
    response: &HttpResponse,
    kind: ListKind,
) -> String {
    let mut out = HttpOutput::default();
    response.list_changed(&scene.session, kind, &mut out);
    text(&out.to_client)
}

#[test]
fn in_the_earlier_era_the_stream_of_the_session_is_told() {
    let mut scene = allowed();
    let stream = HttpResponse::to_get(LIMITS, 200, EVENTS);
    assert_eq!(changed(&scene, &stream, ListKind::Tools), "");
    let introduction = r#"{"capabilities":{"tools":{"listChanged":true}}}"#;
    scene.exchange(
        &request("1", "initialize", "{}"),
        JSON,
        &result("1", introduction),
    );
    let notice = event(&notification("notifications/tools/list_changed"));
    assert_eq!(changed(&scene, &stream, ListKind::Tools), notice);
    assert_eq!(changed(&scene, &stream, ListKind::Prompts), "");
    let waiting = scene.asks(call("1", "t"));
    let post = HttpResponse::to_post(LIMITS, 200, EVENTS, waiting);
    assert_eq!(changed(&scene, &post, ListKind::Tools), "");
    let none = HttpResponse::to_get(LIMITS, 405, None);
    assert_eq!(changed(&scene, &none, ListKind::Tools), "");
}

#[test]
fn in_the_stateless_era_whoever_listens_is_told() {
    let mut scene = allowed();
    let head = [
        ("mcp-protocol-version", STATELESS),
        ("mcp-method", "subscriptions/listen"),
    ];
    let body = request(
        "\"L\"",
        "subscriptions/listen",
        &format!("{{{}}}", meta(STATELESS)),
    );
    let (PostDecision::Forward(forward), _) = scene.post(&head, body) else {
        panic!("it is answered");
    };
    let mut response = HttpResponse::to_post(LIMITS, 200, EVENTS, forward.waiting);
    assert_eq!(changed(&scene, &response, ListKind::Tools), "");
    let acknowledged = event(
        r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"},"notifications":{"toolsListChanged":true}}}"#,
    );
    let mut out = HttpOutput::default();
    let (session, judge) = (&mut scene.session, &mut scene.judge);
    assert_eq!(
        response.push(NOW, session, acknowledged.as_bytes(), judge, &mut out),
        ReadState::Continue
    );
    assert_eq!(text(&out.to_client), acknowledged);
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}}"#;
    assert_eq!(changed(&scene, &response, ListKind::Tools), event(notice));
    assert_eq!(changed(&scene, &response, ListKind::Resources), "");
    let other = HttpResponse::to_get(LIMITS, 200, EVENTS);
    assert_eq!(changed(&scene, &other, ListKind::Tools), "");
}

/// Asks for the tools, under a revision.
fn ask(
    scene: &mut Scene<impl FnMut(&Message<'_>) -> Verdict>,
    version: Option<&str>,
    cursor: Option<&str>,
) -> Question {
    let fields = version.map(|version| ("mcp-protocol-version", version.as_bytes()));
    let question = scene.session.ask(NOW, ListKind::Tools, cursor, &Head::of(fields));
    question.expect("it can be asked")
}

#[test_case(None, None => r#" {"jsonrpc":"2.0","id":"mcpmon/list/1","method":"tools/list","params":{}}"#; "no revision")]
#[test_case(Some("2025-06-18"), Some("a\"b") => r#"mcp-protocol-version: 2025-06-18 {"jsonrpc":"2.0","id":"mcpmon/list/1","method":"tools/list","params":{"cursor":"a\"b"}}"#; "a later page")]
#[test_case(Some(STATELESS), Some("c") => r#"mcp-protocol-version: 2026-07-28, mcp-method: tools/list {"jsonrpc":"2.0","id":"mcpmon/list/1","method":"tools/list","params":{"cursor":"c","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#; "the stateless era")]
fn questions(version: Option<&str>, cursor: Option<&str>) -> String {
    let question = ask(&mut allowed(), version, cursor);
    let headers: Vec<String> = question
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    format!("{} {}", headers.join(", "), text(&question.body))
}

#[test_case(JSON, |body: &str| body.to_owned(); "json")]
#[test_case(EVENTS, |body: &str| event(body); "events")]
fn what_we_ask_is_judged_and_goes_to_no_client(content_type: Option<&str>, framed: fn(&str) -> String) {
    let mut judged = 0;
    let mut scene = Scene::new(|message: &Message<'_>| {
        judged += usize::from(matches!(
            &message.content,
            Content::Server(FromServer::Listing(_))
        ));
        guard(message)
    });
    let question = ask(&mut scene, None, None);
    assert_eq!(scene.session.listed(&question.id), ListOutcome::Waiting);
    let page = framed(&result("\"mcpmon/list/1\"", TOOLS));
    let came = scene.answered(question.waiting(), 200, content_type, &page);
    assert!(!came.to_client.contains("tools"), "{came:?}");
    assert_eq!(came.incidents, []);
    assert_eq!(
        scene.session.listed(&question.id),
        ListOutcome::Page(Some("n".to_owned()))
    );
    let next = ask(&mut scene, None, Some("n"));
    let page = framed(&result("\"mcpmon/list/2\"", r#"{"tools":[]}"#));
    scene.answered(next.waiting(), 200, content_type, &page);
    assert_eq!(scene.session.listed(&next.id), ListOutcome::Page(None));
    assert_eq!(judged, 2);
}

#[test_case(200, JSON, r#"{"jsonrpc":"2.0","id":"mcpmon/list/1","error":{"code":-32601,"message":"Method not found"}}"#; "an error")]
#[test_case(200, JSON, r#"{"jsonrpc":"2.0","id":"mcpmon/list/1","result":{}}"#; "no list")]
#[test_case(200, JSON, "{"; "no JSON")]
#[test_case(500, None, "no"; "a text")]
#[test_case(200, EVENTS, ""; "nothing")]
#[test_case(200, EVENTS, "data: {\"jsonrpc\":\"2.0\",\"id\":\"mcpmon/list/1\",\"result\":{\"Tools\":[]}}\n\n"; "a list in another case")]
fn what_comes_of_it_can_be_nothing(status: u16, content_type: Option<&str>, body: &str) {
    let mut scene = allowed();
    let question = ask(&mut scene, None, None);
    let came = scene.answered(question.waiting(), status, content_type, body);
    assert!(!came.to_client.contains("mcpmon/list"), "{came:?}");
    assert_eq!(scene.session.listed(&question.id), ListOutcome::Failed);
}

#[test]
fn no_client_can_use_our_ids() {
    let mut scene = allowed();
    let question = ask(&mut scene, None, None);
    let (posted, _) = scene.post(&[], request("\"mcpmon/list/1\"", "tools/list", "{}"));
    assert!(told(&posted).starts_with("400 "), "{posted:?}");
    assert_eq!(scene.session.listed(&question.id), ListOutcome::Waiting);
    // Nor do we use theirs.
    scene.asks(request("\"mcpmon/list/2\"", "ping", "{}"));
    assert_eq!(
        ask(&mut scene, None, None).id,
        RequestId::Text("mcpmon/list/3".into())
    );
}

#[test]
fn a_client_is_not_told_what_we_are_in_a_stream_of_all() {
    let mut scene = guarded();
    let question = ask(&mut scene, None, None);
    scene.asks(call("1", "good"));
    let stream = HttpResponse::to_get(LIMITS, 200, EVENTS);
    let text = format!(
        "{}{}",
        event(&result("\"mcpmon/list/1\"", r#"{"tools":[]}"#)),
        event(&result("1", "{}"))
    );
    let came = scene.comes(stream, [&text]);
    assert_eq!(came.to_client, format!(":\n\n{}", event(&result("1", "{}"))));
    assert_eq!(scene.session.listed(&question.id), ListOutcome::Page(None));
}
