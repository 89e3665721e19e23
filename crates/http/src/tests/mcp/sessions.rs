//! Sessions: they are opened, used and ended, and belong to one client.

use mcpmon_model::ServerType;

use super::{
    super::scene::{JSON, answer},
    scene::{Adjusted, DONE, INITIALIZE, INITIALIZED, PATH, READ, Scene, head},
};

/// The headers of a request in the session that [`stateful`] opens.
const IN_SESSION: &str = "mcp-session-id: abc\r\n";

/// A server that opens the session `abc`.
fn stateful(adjust: impl FnOnce(&mut Adjusted)) -> Scene {
    Scene::with(ServerType::Http, adjust, |heard, wire| {
        if heard.text().contains("initialize") {
            let headers = format!("{JSON}{IN_SESSION}");
            return wire.send(answer("200 OK", &headers, INITIALIZED));
        }
        match heard.head.split(' ').next() {
            Some("DELETE") => wire.send(answer("200 OK", "", "")),
            _ if heard.text().contains("gone") => wire.send(answer("404 Not Found", "", "")),
            _ => wire.send(answer("200 OK", JSON, DONE)),
        }
    })
}

#[test]
fn a_session_is_used_by_who_opened_it() {
    let scene = stateful(|_| {});
    assert_eq!(scene.post(IN_SESSION, READ).status(), "404", "nobody opened it");
    assert!(scene.heard_nothing());
    let opened = scene.post("user-agent: one\r\n", INITIALIZE);
    assert_eq!(opened.header("mcp-session-id"), Some("abc"));
    let own = format!("{IN_SESSION}user-agent: one\r\n");
    let others = format!("{IN_SESSION}user-agent: two\r\n");
    assert_eq!(scene.post(&own, READ).status(), "200");
    let refused = scene.post(&others, READ);
    assert_eq!(refused.status(), "404");
    assert!(
        refused.text().contains("initialize a new one"),
        "{}",
        refused.text()
    );
    let twice = scene.post(&format!("{own}{IN_SESSION}"), READ);
    assert_eq!(twice.status(), "400");
}

#[test]
fn a_session_that_ends_is_forgotten() {
    let scene = stateful(|_| {});
    scene.post("", INITIALIZE);
    assert_eq!(scene.ask(head("DELETE", PATH, IN_SESSION)).status(), "200");
    assert_eq!(scene.post(IN_SESSION, READ).status(), "404");
    scene.post("", INITIALIZE);
    let gone = READ.replace("{}", r#"{"path":"gone"}"#);
    assert_eq!(
        scene.post(IN_SESSION, gone).status(),
        "404",
        "the server forgot it"
    );
    while !scene.heard_nothing() {}
    assert_eq!(scene.post(IN_SESSION, READ).status(), "404");
    assert!(scene.heard_nothing(), "so did the proxy");
}

#[test]
fn the_oldest_makes_room() {
    let scene = stateful(|caps| caps.0.sessions = 1);
    scene.post("user-agent: one\r\n", INITIALIZE);
    let one = format!("{IN_SESSION}user-agent: one\r\n");
    assert_eq!(scene.post(&one, READ).status(), "200");
    scene.post("user-agent: two\r\n", INITIALIZE);
    assert_eq!(scene.post(&one, READ).status(), "404");
}

#[test]
fn new_sessions_are_counted() {
    let scene = stateful(|caps| caps.0.new_sessions = 2);
    for _ in 0..2 {
        assert_eq!(scene.post("", INITIALIZE).status(), "200");
    }
    let refused = scene.post("", INITIALIZE);
    assert_eq!(refused.status(), "429");
    assert!(refused.header("retry-after").is_some());
    assert!(refused.text().contains("within a minute"), "{}", refused.text());
    assert_eq!(
        scene.post(IN_SESSION, READ).status(),
        "200",
        "those that are open go on"
    );
}
