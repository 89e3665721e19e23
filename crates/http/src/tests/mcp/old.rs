//! The transport of 2024-11-05.

use std::sync::{Mutex, mpsc};

use mcpmon_model::ServerType;
use test_case::test_case;

use super::{
    super::scene::{EVENTS, answer},
    scene::{DONE, INITIALIZE, INITIALIZED, READ, Scene, TIMEOUT, call, event, head, until},
};
use crate::tests::scene::{Wire, post};

/// A server that names a URL for messages, and answers them on the stream.
fn server(place: &'static str) -> Scene {
    let (say, said) = mpsc::channel::<String>();
    let (say, said) = (Mutex::new(say), Mutex::new(said));
    Scene::with(
        ServerType::Sse,
        |_| {},
        move |heard, wire| {
            if heard.head.starts_with("POST /v1/messages/?session_id=s1 ") {
                let text = heard.text();
                let answered = match text.contains("initialize") {
                    true => INITIALIZED,
                    false => DONE,
                };
                say.lock().unwrap().send(event(answered)).unwrap();
                return wire.send(answer("202 Accepted", "content-type: text/plain\r\n", "Accepted"));
            }
            wire.send(EVENTS);
            wire.chunk(format!("event: endpoint\ndata: {place}\n\n"));
            while let Ok(event) = said.lock().unwrap().recv_timeout(TIMEOUT) {
                wire.chunk(event);
            }
        },
    )
}

/// Opens the stream, and reads the URL for messages.
fn open(scene: &Scene) -> (Wire, String) {
    let mut stream = scene.connect();
    stream.send(head("GET", "/mcp/files", "accept: text/event-stream\r\n"));
    let opened = stream.head().expect("a head");
    assert!(opened.starts_with("HTTP/1.1 200"), "{opened}");
    let first = stream.next_chunk().expect("an event");
    let first = String::from_utf8(first).unwrap();
    let place = first
        .strip_prefix("event: endpoint\ndata: ")
        .and_then(|rest| rest.strip_suffix("\n\n"))
        .unwrap_or_else(|| panic!("{first}"));
    (stream, place.to_owned())
}

#[test_case("/v1/messages/?session_id=s1"; "by path")]
#[test_case("messages/?session_id=s1"; "beside the stream")]
fn messages_go_where_the_server_says_and_answers_come_on_the_stream(place: &'static str) {
    let scene = server(place);
    let (mut stream, place) = open(&scene);
    assert!(place.starts_with("/mcp/files/messages/"), "{place}");
    let posted = scene.ask(post(&place, "", INITIALIZE));
    assert_eq!(posted.status(), "202");
    assert_eq!(
        stream.next_chunk().expect("an answer"),
        event(INITIALIZED).as_bytes()
    );
    assert_eq!(scene.ask(post(&place, "", READ)).status(), "202");
    assert_eq!(stream.next_chunk().expect("an answer"), event(DONE).as_bytes());
    let refused = scene.ask(post(&place, "", call("evil")));
    assert_eq!(refused.status(), "202");
    let refused = stream.next_chunk().expect("an answer of the proxy");
    let refused = String::from_utf8_lossy(&refused);
    assert!(
        refused.contains("it is evil") && refused.ends_with("\n\n"),
        "{refused}"
    );
}

#[test]
fn a_place_is_known_to_whoever_was_told_and_while_its_stream_is_open() {
    let scene = server("/v1/messages/?session_id=s1");
    let (stream, place) = open(&scene);
    let other = scene.ask(post(&place, "user-agent: two\r\n", READ));
    assert_eq!(other.status(), "404", "another client");
    let guessed = scene.ask(post("/mcp/files/messages/", "", READ));
    assert_eq!(guessed.status(), "404", "a place that nobody named");
    let session = scene.ask(post("/mcp/files", "mcp-session-id: s1\r\n", READ));
    assert_eq!(session.status(), "404", "a session that nobody opened");
    stream.hang_up();
    drop(stream);
    until("it is forgotten", || {
        scene.ask(post(&place, "", INITIALIZE)).status() == "404"
    });
}

#[test]
fn what_a_server_asks_and_may_not_is_answered_where_it_takes_messages() {
    let sampling = r#"{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}"#;
    let scene = Scene::with(
        ServerType::Sse,
        |_| {},
        move |heard, wire| {
            if heard.head.starts_with("POST") {
                return wire.send(answer("202 Accepted", "", ""));
            }
            wire.send(EVENTS);
            wire.chunk("event: endpoint\ndata: /v1/messages/?session_id=s1\n\n");
            wire.chunk(event(sampling));
            wire.is_closed();
        },
    );
    let (_stream, _place) = open(&scene);
    drop(scene.heard());
    let refusal = scene.heard();
    assert!(
        refusal.head.starts_with("POST /v1/messages/?session_id=s1 "),
        "{}",
        refusal.head
    );
    assert!(refusal.text().contains("it is evil"), "{}", refusal.text());
}

#[test]
fn a_place_elsewhere_is_not_gone_to() {
    let scene = server("http://127.0.0.1:9/messages");
    let mut stream = scene.connect();
    stream.send(head("GET", "/mcp/files", "accept: text/event-stream\r\n"));
    let heard = stream.message().expect("an answer");
    assert!(!heard.text().contains("endpoint"), "{}", heard.text());
}
