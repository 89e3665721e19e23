//! Limits: bodies that are too long or too slow, and too many requests at a time.

use std::time::Duration;

use mcpmon_model::ServerType;

use super::{
    super::scene::{EVENTS, JSON, answer},
    scene::{Adjusted, DONE, PATH, READ, Scene, head, post, until},
};

fn with(adjust: impl FnOnce(&mut Adjusted)) -> Scene {
    Scene::with(ServerType::Http, adjust, |_, wire| {
        wire.send(answer("200 OK", JSON, DONE))
    })
}

#[test]
fn a_message_that_is_too_long_is_refused() {
    let scene = with(|caps| caps.1.limits.max_line = 1000);
    let heard = scene.post(
        "",
        READ.replace("{}", &format!("{{\"x\":\"{}\"}}", "x".repeat(1000))),
    );
    assert_eq!(heard.status(), "413");
    assert!(heard.text().contains("1000 bytes"), "{}", heard.text());
    assert!(scene.heard_nothing());
    assert_eq!(scene.post("", READ).status(), "200", "others are served");
}

#[test]
fn an_answer_that_is_too_long_does_not_go_on() {
    let long = DONE.replace("done", &"x".repeat(1000));
    let scene = Scene::with(
        ServerType::Http,
        |caps| caps.1.limits.max_line = 1000,
        move |_, wire| wire.send(answer("200 OK", JSON, &long)),
    );
    let heard = scene.post("", READ).text();
    assert!(
        heard.contains("\"id\":1") && heard.contains("1000 bytes") && !heard.contains("xxx"),
        "{heard}"
    );
    let told = scene.notes.take();
    assert!(told.iter().any(|what| what.contains("TooLong")), "{told:?}");
}

#[test]
fn an_event_without_end_does_not_fill_memory() {
    let scene = Scene::with(
        ServerType::Http,
        |caps| caps.1.limits.max_line = 1000,
        |_, wire| {
            wire.send(EVENTS);
            wire.chunk("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":\"");
            for _ in 0..100 {
                wire.chunk("x".repeat(1000));
            }
            wire.chunk("\"}}\n\n");
            wire.chunk("");
        },
    );
    let heard = scene.post("", READ).text();
    assert!(
        heard.contains("\"id\":1") && heard.contains("1000 bytes") && !heard.contains("xxx"),
        "{heard}"
    );
}

#[test]
fn a_client_that_is_slow_with_its_message_is_not_waited_for() {
    let scene = with(|caps| caps.0.request_silence = Duration::from_millis(200));
    let mut client = scene.connect();
    let request = post("", READ);
    client.send(&request[..request.len() - 10]);
    let heard = client.message().expect("an answer");
    assert_eq!(heard.status(), "408");
    assert!(scene.heard_nothing());
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for() {
    let scene = Scene::with(
        ServerType::Http,
        |caps| caps.0.head = Duration::from_millis(200),
        |_, wire| assert!(wire.is_closed()),
    );
    let heard = scene.post("", READ);
    assert_eq!(heard.status(), "504");
    let text = heard.text();
    assert!(
        text.contains("\"id\":1") && text.contains("`files` did not answer"),
        "{text}"
    );
}

#[test]
fn a_stream_that_falls_silent_ends_for_its_client() {
    let scene = Scene::with(
        ServerType::Http,
        |caps| caps.0.silence = Duration::from_millis(200),
        |_, wire| {
            wire.send(EVENTS);
            wire.chunk(": here\n\n");
            wire.is_closed();
        },
    );
    let mut client = scene.connect();
    client.send(post("", READ));
    drop(client.head().expect("a head"));
    assert_eq!(client.next_chunk().expect("a comment"), b": here\n\n");
    let told = client.next_chunk().expect("word of it");
    let told = String::from_utf8_lossy(&told);
    assert!(
        told.contains("\"id\":1") && told.contains("nothing came"),
        "{told}"
    );
    assert_eq!(client.next_chunk().as_deref(), Some(&b""[..]), "that was all");
}

#[test]
fn requests_and_streams_are_counted_apart_and_given_back() {
    let adjust = |caps: &mut Adjusted| {
        caps.0.requests = 1;
        caps.1.streams = 1;
    };
    let scene = Scene::with(ServerType::Http, adjust, |heard, wire| {
        if heard.head.starts_with("GET") || heard.text().contains("wait") {
            wire.send(EVENTS);
            wire.chunk(": here\n\n");
            wire.is_closed();
            return;
        }
        wire.send(answer("200 OK", JSON, DONE));
    });
    let mut stream = scene.connect();
    stream.send(head("GET", PATH, "accept: text/event-stream\r\n"));
    drop(stream.head().expect("a head"));
    let second = scene.ask(head("GET", PATH, "accept: text/event-stream\r\n"));
    assert_eq!(second.status(), "429");
    assert!(
        second.text().contains("1 streams of `files`"),
        "{}",
        second.text()
    );
    let mut waiting = scene.connect();
    waiting.send(post("", READ.replace("{}", r#"{"wait":1}"#)));
    drop(waiting.head().expect("a head"));
    let refused = scene.post("", READ);
    assert_eq!(refused.status(), "429");
    assert!(
        refused.text().contains("1 requests to `files`"),
        "{}",
        refused.text()
    );
    waiting.hang_up();
    until("it is given back", || scene.post("", READ).status() == "200");
}
