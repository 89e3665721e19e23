//! Limits, and providers that cannot be reached.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use super::scene::{CHAT, EVENTS, JSON, PLAIN, Rules, SAID, STREAMED, Scene, answer, event, post};
use crate::Provider;

#[test]
fn a_request_that_is_too_long_is_refused() {
    let scene = Scene::with(
        Rules::default(),
        |settings| settings.limits.max_body = 1000,
        |_, wire| wire.send(answer("200 OK", JSON, SAID)),
    );
    let long = PLAIN.replace("hi", &"x".repeat(1000));
    let heard = scene.ask(CHAT, "", long);
    assert_eq!(heard.status(), "413");
    assert!(
        heard
            .text()
            .contains("longer than the 1000 bytes that mcpmon holds"),
        "{}",
        heard.text()
    );
    assert!(scene.provider_heard_nothing());
    assert_eq!(scene.ask(CHAT, "", PLAIN).status(), "200", "others are served");
}

#[test]
fn an_answer_that_is_too_long_does_not_go_on() {
    let long = SAID.replace("hello", &"x".repeat(1000));
    let scene = Scene::with(
        Rules::default(),
        |settings| settings.limits.max_body = 1000,
        move |_, wire| wire.send(answer("200 OK", JSON, &long)),
    );
    let heard = scene.ask(CHAT, "", PLAIN);
    assert_eq!(heard.status(), "502");
    assert!(heard.text().contains("1000 bytes"), "{}", heard.text());
    assert_eq!(
        scene.faults.lock().unwrap().len(),
        1,
        "whoever judges hears of it"
    );
}

#[test]
fn an_event_that_is_too_long_ends_the_stream_in_its_own_way() {
    let scene = Scene::with(
        Rules::default(),
        |settings| settings.limits.max_event = 1000,
        |_, wire| {
            wire.send(EVENTS);
            wire.chunk(event("one"));
            wire.chunk(event(&"x".repeat(2000)));
            wire.chunk(event("three"));
            wire.is_closed();
        },
    );
    let heard = scene.ask(CHAT, "", STREAMED).text();
    assert!(heard.starts_with(&event("one")), "{heard}");
    assert!(!heard.contains("xxx") && !heard.contains("three"), "{heard}");
    assert_eq!(scene.faults.lock().unwrap().len(), 1);
}

#[test]
fn together_bodies_have_no_more_room_than_there_is() {
    let scene = Scene::with(
        Rules::default(),
        |settings| settings.room = 128 << 10,
        |_, wire| wire.send(answer("200 OK", JSON, SAID)),
    );
    let long = PLAIN.replace("hi", &"x".repeat(200 << 10));
    let heard = scene.ask(CHAT, "", long);
    assert_eq!(heard.status(), "503");
    assert_eq!(scene.ask(CHAT, "", PLAIN).status(), "200", "it is given back");
}

#[test]
fn memory_that_is_made_ready_takes_room_before_anything_is_in_it() {
    let scene = Scene::with(
        Rules::default(),
        |settings| settings.room = 128 << 10,
        |_, wire| wire.send(answer("200 OK", JSON, SAID)),
    );
    let long = post(CHAT, "", PLAIN.replace("hi", &"x".repeat(200 << 10)));
    let mut client = scene.connect();
    client.send(&long[..1000]);
    assert_eq!(client.message().expect("an answer").status(), "503");
    assert_eq!(scene.ask(CHAT, "", PLAIN).status(), "200", "it is given back");
}

#[test]
fn what_waits_of_streams_takes_room_too() {
    let scene = Scene::with(
        Rules::default(),
        |settings| settings.room = 128 << 10,
        |_, wire| {
            wire.send(EVENTS);
            wire.chunk(event("one"));
            // An event without an end.
            wire.chunk(format!("data: {}", "x".repeat(200 << 10)));
            wire.is_closed();
        },
    );
    let mut client = scene.connect();
    client.send(post(CHAT, "", STREAMED));
    drop(client.head().expect("a head"));
    assert_eq!(client.next_chunk().expect("text"), event("one").as_bytes());
    assert_eq!(client.next_chunk(), None, "the stream is cut off");
}

#[test]
fn a_provider_that_is_not_there_is_told_with_cause_and_remedy() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let scene = Scene::with(
        Rules::default(),
        |settings| settings.providers = vec![Provider::new("anthropic", &url).unwrap()],
        |_, _| {},
    );
    let heard = scene.ask("/v1/messages", "", PLAIN);
    assert_eq!(heard.status(), "502");
    let text = heard.text();
    assert!(text.starts_with(r#"{"type":"error""#), "{text}");
    for part in [
        "cannot connect to `anthropic`",
        &url,
        "refused",
        "`proxy.providers.anthropic`",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_provider_that_does_not_answer_is_not_waited_for_without_end() {
    let scene = Scene::with(
        Rules::default(),
        |settings| settings.patience = Duration::from_millis(300),
        |_, wire| {
            wire.is_closed();
        },
    );
    let heard = scene.ask(CHAT, "", PLAIN);
    assert_eq!(heard.status(), "504");
    assert!(heard.text().contains("did not answer within"), "{}", heard.text());
}

#[test]
fn a_redirection_is_no_way_past_the_proxy() {
    let scene = Scene::new(|_, wire| {
        wire.send(answer(
            "307 Temporary Redirect",
            "location: https://elsewhere.example/v1\r\n",
            "",
        ));
    });
    let heard = scene.ask(CHAT, "", PLAIN);
    assert_eq!((heard.status(), heard.header("location")), ("502", None));
    assert!(heard.text().contains("redirects elsewhere"), "{}", heard.text());
}

#[test]
fn who_sends_a_head_or_a_body_drop_by_drop_is_not_waited_for() {
    let scene = Scene::with(
        Rules::default(),
        |settings| {
            settings.head = Duration::from_millis(300);
            settings.patience = Duration::from_millis(300);
        },
        |_, wire| wire.send(answer("200 OK", JSON, SAID)),
    );
    let mut client = scene.connect();
    client.send("POST /v1/messages HTTP/1.1\r\nhost: local");
    let before = Instant::now();
    assert!(client.is_closed() && before.elapsed() < Duration::from_secs(5));

    let mut client = scene.connect();
    client.send("POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{");
    assert_eq!(client.message().expect("an answer").status(), "408");
    assert!(scene.provider_heard_nothing());
}
