//! Admission of clients, destinations of requests, and the headers that pass.

use test_case::test_case;

use super::scene::{CHAT, JSON, PLAIN, Rules, SAID, Scene, answer, post};
use crate::Token;

fn said() -> Scene {
    Scene::new(|_, wire| wire.send(answer("200 OK", JSON, SAID)))
}

#[test]
fn a_request_goes_on_as_it_came_but_for_what_concerns_the_connection() {
    let scene = said();
    let headers = "authorization: Bearer k\r\nconnection: keep-alive, x-private\r\nx-private: 1\r\nte: trailers\r\naccept-encoding: gzip, zz\r\nx-mcpmon-token: t\r\n";
    let heard = scene.ask(&format!("{CHAT}?beta=true"), headers, PLAIN);
    assert_eq!((heard.status(), heard.text().as_str()), ("200", SAID));
    let sent = scene.provider_heard();
    assert!(
        sent.head
            .starts_with("POST /v1/chat/completions?beta=true HTTP/1.1\r\n"),
        "{}",
        sent.head
    );
    assert_eq!(sent.text(), PLAIN);
    assert_eq!(sent.header("authorization"), Some("Bearer k"));
    assert_eq!(sent.header("accept-encoding"), Some("gzip"));
    assert!(
        sent.header("host")
            .is_some_and(|host| host.starts_with("127.0.0.1:"))
    );
    for name in [
        "x-private",
        "te",
        "connection",
        "x-mcpmon-token",
        "transfer-encoding",
    ] {
        assert_eq!(sent.header(name), None, "{name}");
    }
}

#[test]
fn connections_are_kept_on_both_sides() {
    let scene = said();
    let mut client = scene.connect();
    for _ in 0..5 {
        client.send(post(CHAT, "", PLAIN));
        assert_eq!(client.message().expect("an answer").status(), "200");
    }
    assert_eq!(*scene.connections.lock().unwrap(), 1);
}

#[test]
fn a_session_is_told_by_its_token_and_no_other() {
    let scene = said();
    let path = |token: &str| format!("/s/{token}{CHAT}");
    assert_eq!(
        scene
            .ask(&path("known"), "user-agent: agent/1\r\n", PLAIN)
            .status(),
        "200"
    );
    assert!(
        scene
            .provider_heard()
            .head
            .starts_with("POST /v1/chat/completions ")
    );
    let heard = scene.ask(&path("unknown"), "", PLAIN);
    assert_eq!(heard.status(), "401");
    assert!(heard.text().contains("mcpmon run"), "{}", heard.text());
    let asked = scene.asked.lock().unwrap();
    let asked: Vec<_> = asked
        .iter()
        .map(|asked| {
            (
                asked.session.as_ref().map(|id| id.as_str().to_owned()),
                asked.agent.clone(),
            )
        })
        .collect();
    assert_eq!(asked, [(Some("run-1".to_owned()), Some("agent/1".into()))]);
}

#[test_case("", "" => "401"; "without")]
#[test_case("", "x-mcpmon-token: 0123456789abcdef\r\n" => "200"; "in a header")]
#[test_case("/s/0123456789abcdef", "" => "200"; "in the path")]
#[test_case("/s/known", "" => "200"; "a session, whose token is one")]
#[test_case("/s/unknown", "" => "401"; "no session")]
#[test_case("/s/known", "x-mcpmon-token: 0123456789abcdef\r\n" => "200"; "a session with it")]
#[test_case("", "x-mcpmon-token: 0123456789abcdeX\r\n" => "401"; "another")]
fn where_a_token_is_demanded(prefix: &str, headers: &str) -> String {
    let scene = Scene::with(
        Rules::default(),
        |settings| settings.token = Some(Token::new("0123456789abcdef").unwrap()),
        |_, wire| wire.send(answer("200 OK", JSON, SAID)),
    );
    scene
        .ask(&format!("{prefix}{CHAT}"), headers, PLAIN)
        .status()
        .to_owned()
}

#[test_case("origin: https://attacker.example\r\n" => "403"; "a page")]
#[test_case("origin: http://127.0.0.1:5173\r\n" => "200"; "a page of this host")]
fn pages(headers: &str) -> String {
    let scene = said();
    scene.ask(CHAT, headers, PLAIN).status().to_owned()
}

#[test]
fn a_picture_on_a_page_asks_nobody() {
    let scene = said();
    let mut client = scene.connect();
    client.send("GET /openai/v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\nsec-fetch-site: cross-site\r\nsec-fetch-dest: image\r\n\r\n");
    let heard = client.message().expect("an answer");
    assert_eq!(heard.status(), "403");
    assert!(
        heard
            .text()
            .contains("requests of web pages are refused (`Sec-Fetch-Site`)"),
        "{}",
        heard.text()
    );
    assert!(scene.provider_heard_nothing());
}

#[test]
fn a_name_that_was_let_point_here_is_refused() {
    let scene = said();
    let mut client = scene.connect();
    let request = String::from_utf8(post(CHAT, "", PLAIN)).unwrap();
    client.send(request.replace("host: localhost", "host: attacker.example"));
    assert_eq!(client.message().expect("an answer").status(), "403");
    assert!(scene.provider_heard_nothing());
}

#[test]
fn websockets_are_answered_so_that_agents_go_on_without() {
    let scene = said();
    let mut client = scene.connect();
    client.send("GET /openai/v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    assert_eq!(client.message().expect("an answer").status(), "426");
    assert!(scene.provider_heard_nothing());
    assert_eq!(
        scene.ask(CHAT, "", PLAIN).status(),
        "200",
        "and by HTTP it is served"
    );
}

#[test]
fn another_upgrade_is_not_taken_up() {
    let scene = said();
    let headers = "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n";
    assert_eq!(scene.ask(CHAT, headers, PLAIN).status(), "200");
    assert_eq!(scene.provider_heard().header("upgrade"), None);
}

#[test_case("POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello" => "400"; "two lengths")]
#[test_case("POST {} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n" => "400"; "an unknown framing")]
#[test_case("POST {} HTTP/1.0\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" => "400"; "chunks of another time")]
#[test_case("POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-length: +5\r\n\r\nhello" => "400"; "a length with a sign")]
#[test_case("POST {} HTTP/1.1\r\nhost: localhost\r\nx: 1\r\n y: 2\r\n\r\n" => "400"; "a folded header")]
#[test_case("POST {} HTTP/1.1\r\nhost : localhost\r\n\r\n" => "400"; "a space before the colon")]
#[test_case("POST http://localhost{} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n" => "400"; "a forward proxy's request")]
fn ambiguous_requests_are_refused(request: &str) -> String {
    let scene = said();
    let mut client = scene.connect();
    client.send(request.replace("{}", CHAT));
    let status = client.message().expect("an answer").status().to_owned();
    assert!(scene.provider_heard_nothing());
    status
}

#[test]
fn a_length_beside_chunks_smuggles_nothing() {
    let scene = said();
    let mut client = scene.connect();
    let length = PLAIN.len();
    // By its length, the body continues after the last chunk; by its chunks, another request begins there.
    let body = format!("{length:x}\r\n{PLAIN}\r\n0\r\n\r\n");
    let hidden = "GET /openai/v1/models HTTP/1.1\r\nhost: attacker.example\r\n\r\n";
    let total = body.len() + hidden.len();
    client.send(format!(
        "POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {total}\r\ntransfer-encoding: chunked\r\n\r\n{body}{hidden}"
    ));
    assert_eq!(client.message().expect("an answer").status(), "200");
    let sent = scene.provider_heard();
    assert_eq!(sent.text(), PLAIN, "framed anew");
    assert_eq!(sent.header("content-length"), Some(length.to_string().as_str()));
    assert_eq!(client.message(), None, "the connection ends here");
    assert!(scene.provider_heard_nothing());
}

#[test]
fn what_is_no_models_answer_passes_as_it_comes() {
    let scene = Scene::new(|heard, wire| {
        let body = match heard.head.starts_with("GET /v1/models ") {
            true => "{\"data\":[]}",
            false => "{}",
        };
        wire.send(answer(
            "200 OK",
            "content-type: application/json\r\netag: \"x\"\r\nalt-svc: h3=\":443\"\r\n",
            body,
        ));
    });
    let mut client = scene.connect();
    client.send("GET /openai/v1/models HTTP/1.1\r\nhost: localhost\r\naccept-encoding: br\r\n\r\n");
    let heard = client.message().expect("an answer");
    assert_eq!(heard.text(), "{\"data\":[]}");
    assert_eq!(
        (heard.header("etag"), heard.header("alt-svc")),
        (Some("\"x\""), None)
    );
    assert_eq!(scene.provider_heard().header("accept-encoding"), Some("br"));
    assert!(
        scene.asked.lock().unwrap().is_empty(),
        "there is nothing to be judged"
    );
}

#[test]
fn an_answer_with_nothing_in_it_passes() {
    let scene = Scene::new(|_, wire| wire.send("HTTP/1.1 204 No Content\r\nrequest-id: r1\r\n\r\n"));
    let heard = scene.ask(CHAT, "", PLAIN);
    assert_eq!((heard.status(), heard.header("request-id")), ("204", Some("r1")));
}

#[test_case(false => "200"; "by default it passes")]
#[test_case(true => "403"; "with fail_closed it does not")]
fn an_endpoint_that_nobody_knows(fail_closed: bool) -> String {
    let rules = Rules {
        fail_closed,
        ..Rules::default()
    };
    let scene = Scene::with(rules, |_| {}, |_, wire| wire.send(answer("200 OK", JSON, "{}")));
    scene
        .ask("/openai/v1/threads/t1/messages", "", "{\"x\":1}")
        .status()
        .to_owned()
}

#[test]
fn a_path_that_names_nobody_is_told_what_would() {
    let scene = said();
    let heard = scene.ask("/v2/chat", "", PLAIN);
    assert_eq!(heard.status(), "404");
    assert!(
        heard.text().contains("anthropic, gemini, ollama, openai"),
        "{}",
        heard.text()
    );
}
