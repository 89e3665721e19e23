//! Admission of clients, destinations of messages, and the headers that pass.

use std::net::TcpListener;

use mcpmon_model::{ServerType, SessionId};
use test_case::test_case;

use super::{
    super::scene::{JSON, Upstream, answer},
    scene::{DONE, PATH, READ, Scene, call, head, post},
};

fn done() -> Scene {
    Scene::new(|_, wire| wire.send(answer("200 OK", JSON, DONE)))
}

#[test]
fn a_message_goes_on_as_it_came_but_for_what_concerns_the_connection() {
    let scene = done();
    let headers = "authorization: Bearer k\r\nmcp-protocol-version: 2025-11-25\r\nconnection: keep-alive, x-private\r\nx-private: 1\r\naccept-encoding: gzip, zz\r\nx-mcpmon-token: t\r\n";
    let heard = scene.post(headers, READ);
    assert_eq!((heard.status(), heard.text().as_str()), ("200", DONE));
    assert_eq!(scene.notes.take(), ["call read", "answer"]);
    let sent = scene.heard();
    assert!(
        sent.head.starts_with("POST /v1/mcp HTTP/1.1\r\n"),
        "{}",
        sent.head
    );
    assert_eq!(sent.text(), READ);
    assert_eq!(sent.header("authorization"), Some("Bearer k"));
    assert_eq!(sent.header("accept"), Some("application/json, text/event-stream"));
    assert_eq!(sent.header("mcp-protocol-version"), Some("2025-11-25"));
    assert_eq!(sent.header("accept-encoding"), Some("gzip"));
    assert_eq!(sent.header("host"), scene.upstream.url.strip_prefix("http://"));
    for name in ["x-private", "connection", "x-mcpmon-token"] {
        assert_eq!(sent.header(name), None, "{name}");
    }
}

#[test]
fn a_query_comes_behind_the_declared_one() {
    let upstream = Upstream::new(|_, wire| wire.send(answer("200 OK", JSON, DONE)));
    let url = format!("{}/v1/mcp?team=1", upstream.url);
    let scene = Scene::at(upstream, &url, ServerType::Http, None, |_| {});
    let request = String::from_utf8(post("", READ)).unwrap();
    let heard = scene.ask(request.replacen(PATH, "/mcp/files?x=2", 1));
    assert_eq!(heard.status(), "200");
    assert!(scene.heard().head.starts_with("POST /v1/mcp?team=1&x=2 "));
}

#[test]
fn a_call_that_may_not_be_is_answered_here() {
    let scene = done();
    let heard = scene.post("", call("evil"));
    assert_eq!(heard.status(), "200");
    assert_eq!(heard.header("content-type"), Some("application/json"));
    let text = heard.text();
    assert!(
        text.contains(r#""isError":true"#) && text.contains("it is evil"),
        "{text}"
    );
    assert!(scene.heard_nothing());
}

#[test_case("/mcp/other", "404", &["`other` is no server", "`/mcp/files`", "`mcp.servers`"]; "a server that is not declared")]
#[test_case("/mcp", "404", &["no server is meant", "`/mcp/files`"]; "no server")]
#[test_case("/mcp/files/%2e%2e/x", "404", &["written in a way"]; "a path that is written strangely")]
#[test_case("/mcp/files/messages", "404", &["no server is meant"]; "a place of a server that names none")]
#[test_case("/s/unknown/mcp/files", "403", &["`mcpmon run`"]; "a session that is over")]
fn paths_that_lead_nowhere(path: &str, status: &str, parts: &[&str]) {
    let scene = done();
    let request = String::from_utf8(post("", READ)).unwrap();
    let heard = scene.ask(request.replacen(PATH, path, 1));
    assert_eq!(heard.status(), status);
    let text = heard.text();
    assert!(
        text.starts_with(r#"{"jsonrpc":"2.0","id":null,"error":{"#),
        "{text}"
    );
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(scene.heard_nothing());
}

#[test]
fn whose_session_it_is_is_told_by_its_token() {
    let scene = done();
    let request = String::from_utf8(post("user-agent: agent/1\r\n", READ)).unwrap();
    let heard = scene.ask(request.replacen(PATH, "/s/known/mcp/files", 1));
    assert_eq!(heard.status(), "200");
    let asked = scene.notes.asked.lock().unwrap();
    let asked = asked.first().expect("a conversation");
    assert_eq!(asked.session, Some(SessionId::new("run-1")));
    assert_eq!(asked.agent.as_deref(), Some("agent/1"));
    let who = asked.peer.who();
    assert_eq!(who.uid, Some(nix::unistd::getuid().as_raw()));
    assert_eq!(who.process.map(|process| process.pid), Some(std::process::id()));
}

#[test_case("host: attacker.example\r\n", "403", "Host"; "a name that was let point here")]
#[test_case("host: localhost\r\norigin: https://attacker.example\r\n", "403", "Origin"; "a page")]
fn rebinding(headers: &str, status: &str, part: &str) {
    let scene = done();
    let length = READ.len();
    let request = format!(
        "POST {PATH} HTTP/1.1\r\n{headers}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{READ}"
    );
    let heard = scene.ask(request);
    assert_eq!(heard.status(), status);
    assert!(heard.text().contains(part), "{}", heard.text());
    assert!(scene.heard_nothing());
}

/// A page can have a browser ask for anything with GET; no origin is sent then.
#[test_case("/mcp/files"; "a server")]
#[test_case("/s/known/mcp/files"; "a server of a session")]
#[test_case("/.well-known/oauth-protected-resource/mcp/files"; "a document")]
fn a_picture_on_a_page_asks_nobody(path: &str) {
    let scene = done();
    let headers = "accept: text/event-stream\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\nsec-fetch-dest: image\r\n";
    let heard = scene.ask(head("GET", path, headers));
    assert_eq!(heard.status(), "403");
    assert_eq!(
        heard.text(),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"[mcpmon] requests of web pages are refused (`Sec-Fetch-Site`)"}}"#
    );
    assert!(scene.heard_nothing());
}

#[test_case("", "406"; "nothing")]
#[test_case("accept: */*\r\n", "406"; "anything")]
#[test_case("accept: image/avif,image/webp,image/*,*/*;q=0.8\r\n", "406"; "a picture")]
#[test_case("accept: application/json\r\n", "406"; "JSON")]
#[test_case("accept: application/json, Text/Event-Stream;q=0.9\r\n", "405"; "events too")]
#[test_case("accept: application/json\r\naccept: text/event-stream\r\n", "405"; "events too, in another line")]
fn a_stream_is_opened_by_who_asks_for_one(headers: &str, status: &str) {
    // An answer of the server shows that the request was forwarded.
    let scene = Scene::new(|_, wire| wire.send(answer("405 Method Not Allowed", "", "")));
    let heard = scene.ask(head("GET", PATH, headers));
    assert_eq!(heard.status(), status);
    if status == "406" {
        assert_eq!(
            heard.text(),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"[mcpmon] a stream is opened by who asks for one: send `Accept: text/event-stream`"}}"#
        );
        assert!(scene.heard_nothing());
    }
}

#[test_case("text/plain", "415"; "text")]
#[test_case("application/x-www-form-urlencoded", "415"; "a form")]
#[test_case("application/json; charset=utf-8", "200"; "JSON with parameters")]
#[test_case("application/json-patch+json", "415"; "another JSON")]
fn content_types(content_type: &str, status: &str) {
    let scene = done();
    let request = String::from_utf8(post("", READ)).unwrap();
    let request = request.replacen(
        "content-type: application/json\r\n",
        &format!("content-type: {content_type}\r\n"),
        1,
    );
    assert_eq!(scene.ask(request).status(), status);
    assert_eq!(scene.heard_nothing(), status == "415");
}

#[test]
fn other_methods_mean_nothing() {
    let scene = done();
    for method in ["PUT", "OPTIONS", "PATCH"] {
        let heard = scene.ask(head(method, PATH, ""));
        assert_eq!(heard.status(), "405", "{method}");
        assert_eq!(heard.header("allow"), Some("GET, POST, DELETE"));
    }
    assert!(scene.heard_nothing());
}

#[test]
fn what_the_header_says_is_what_the_body_does() {
    let scene = done();
    let headers = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: harmless\r\n";
    let body = READ.replace(
        r#""arguments":{}"#,
        r#""arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#,
    );
    let heard = scene.post(headers, &body);
    assert_eq!(heard.status(), "400");
    assert!(heard.text().contains("-32020"), "{}", heard.text());
    let right = headers.replace("harmless", "read");
    assert_eq!(scene.post(&right, &body).status(), "200");
    assert_eq!(scene.heard().text(), body, "nothing but the second");
}

#[test]
fn nobody_is_asked_where_nobody_can_judge() {
    let scene = done();
    let heard = scene.post("user-agent: unwelcome\r\n", READ);
    assert_eq!(heard.status(), "503");
    assert!(
        heard.text().contains("the daemon is not there"),
        "{}",
        heard.text()
    );
    assert!(scene.heard_nothing());
}

#[test]
fn a_server_that_is_not_there_is_told_with_cause_and_remedy() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", free.local_addr().unwrap());
    drop(free);
    let upstream = Upstream::new(|_, _| {});
    let scene = Scene::at(upstream, &url, ServerType::Http, None, |_| {});
    let heard = scene.post("", READ);
    assert_eq!(heard.status(), "502");
    let text = heard.text();
    assert!(
        text.starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603"#),
        "{text}"
    );
    for part in ["cannot connect to `files`", &url, "refused", "`mcp.servers`"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let told = scene.notes.take();
    assert!(
        told.last().is_some_and(|last| last.contains("Unreachable")),
        "{told:?}"
    );
}

#[test]
fn nobody_is_sent_elsewhere() {
    let scene = Scene::new(|_, wire| {
        wire.send(answer(
            "307 Temporary Redirect",
            "location: http://127.0.0.1:9/mcp\r\n",
            "",
        ));
    });
    let heard = scene.post("", READ);
    assert_eq!(heard.status(), "502");
    assert_eq!(heard.header("location"), None);
    assert!(heard.text().contains("redirects elsewhere"), "{}", heard.text());
    let told = scene.notes.take();
    assert!(told.last().is_some_and(|last| last.contains("Unfit")), "{told:?}");
}

#[test_case("500 Internal Server Error", "content-type: text/plain\r\n", "EVIL"; "text")]
#[test_case("400 Bad Request", "content-type: text/html\r\n", "<p>EVIL"; "a page")]
#[test_case("403 Forbidden", JSON, r#"{"detail":"EVIL"}"#; "JSON that is no message")]
fn text_of_errors_is_judged(status: &'static str, headers: &'static str, body: &'static str) {
    let scene = Scene::new(move |heard, wire| {
        let body = if heard.text().contains("evil") {
            body
        } else {
            "as usual"
        };
        wire.send(answer(status, headers, body));
    });
    let heard = scene.post("x-evil: 0\r\n", READ.replace("{}", r#"{"path":"evil"}"#));
    assert!(!heard.text().contains("EVIL"), "{}", heard.text());
    assert!(heard.text().contains("it is evil"), "{}", heard.text());
    let heard = scene.post("", READ);
    assert_eq!(heard.status(), &status[..3]);
    assert!(heard.text().contains("as usual"), "{}", heard.text());
}

#[test]
fn an_error_that_is_a_message_is_judged_and_goes_on() {
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such tool"}}"#;
    let scene = Scene::new(move |_, wire| wire.send(answer("400 Bad Request", JSON, error)));
    let heard = scene.post("", READ);
    assert_eq!((heard.status(), heard.text().as_str()), ("400", error));
    assert_eq!(scene.notes.take(), ["call read", "answer"]);
}

#[test_case("200 OK", "content-type: text/html\r\n", "<p>EVIL", "no JSON-RPC message"; "a page in place of an answer")]
#[test_case("200 OK", JSON, r#"{"jsonrpc":"2.0","id":9,"result":{}}"#, "no JSON-RPC message"; "the answer to something else")]
#[test_case("200 OK", JSON, "{", "no JSON-RPC message"; "half an answer")]
fn what_is_no_answer_is_told(status: &'static str, headers: &'static str, body: &'static str, part: &str) {
    let scene = Scene::new(move |_, wire| wire.send(answer(status, headers, body)));
    let text = scene.post("", READ).text();
    assert!(text.starts_with(r#"{"jsonrpc":"2.0","id":1,"error""#), "{text}");
    assert!(text.contains(part) && !text.contains("EVIL"), "{text}");
}

#[test]
fn a_notification_is_accepted_without_an_answer() {
    let scene =
        Scene::new(|_, wire| wire.send(answer("202 Accepted", "content-type: text/plain\r\n", "Accepted")));
    let heard = scene.post("", r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!((heard.status(), heard.text().as_str()), ("202", ""));
}
