//! Fairness: users that take much, or are slow, take nothing from others.

use std::time::{Duration, Instant};

use mcpmon_model::ServerType;

use super::{
    super::scene::{EVENTS, Heard, JSON, Wire, answer},
    scene::{Adjusted, DONE, PATH, READ, Scene, head, post, until},
};

/// A short time limit.
const SHORT: Duration = Duration::from_millis(300);

fn with(adjust: impl FnOnce(&mut Adjusted)) -> Scene {
    Scene::with(ServerType::Http, adjust, |_, wire| {
        wire.send(answer("200 OK", JSON, DONE))
    })
}

fn saying(
    adjust: impl FnOnce(&mut Adjusted),
    says: impl Fn(&Heard, &mut Wire) + Send + Sync + 'static,
) -> Scene {
    Scene::with(ServerType::Http, adjust, says)
}

/// Replaces numbers in a text: how much came until a time limit differs each time.
fn without_number(text: &str, before: &str, behind: &str) -> String {
    let (start, rest) = text.split_once(before).unwrap_or_else(|| panic!("{text}"));
    let (number, end) = rest.split_once(behind).unwrap_or_else(|| panic!("{text}"));
    assert!(number.parse::<u32>().is_ok(), "{text}");
    format!("{start}{before}N{behind}{end}")
}

#[test]
fn a_body_that_is_slow_takes_no_place_of_others() {
    let scene = with(|caps| caps.0.requests = 1);
    let mut slow = scene.connect();
    let request = post("", READ);
    let (begin, end) = request.split_at(request.len() - 10);
    slow.send(begin);
    until("it is taken in", || scene.notes.asked.lock().unwrap().len() == 1);
    for _ in 0..10 {
        assert_eq!(scene.post("", READ).status(), "200");
    }
    slow.send(end);
    assert_eq!(slow.message().expect("an answer").status(), "200");
}

#[test]
fn a_body_that_comes_byte_by_byte_is_not_waited_for() {
    let scene = with(|caps| caps.0.request_body = SHORT);
    let mut client = scene.connect();
    client.send(format!(
        "POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n"
    ));
    client.drip(b" ");
    let heard = client.message().expect("an answer");
    assert_eq!(heard.status(), "408");
    assert_eq!(
        without_number(&heard.text(), "only ", " bytes"),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"[mcpmon] the request's body cannot be read: only N bytes came in 0 s"}}"#
    );
    assert!(scene.heard_nothing());
}

#[test]
fn a_head_that_comes_byte_by_byte_is_not_waited_for() {
    let scene = with(|caps| caps.2.head = SHORT);
    let mut client = scene.connect();
    let began = Instant::now();
    client.send(format!("POST {PATH} HTTP/1.1\r\nhost: localhost\r\nx: "));
    client.drip(b"x");
    assert_eq!(client.message(), None, "there is nothing to be answered");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(scene.heard_nothing());
    assert_eq!(scene.post("", READ).status(), "200", "others are served");
}

#[test]
fn a_head_of_a_server_that_comes_byte_by_byte_is_not_waited_for() {
    let scene = saying(
        |caps| caps.0.head = Duration::from_secs(1),
        |_, wire| {
            wire.send("HTTP/1.1 200 OK\r\nx: ");
            wire.drip(b"x");
        },
    );
    let heard = scene.post("", READ);
    assert_eq!(heard.status(), "504");
    assert_eq!(
        heard.text(),
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"[mcpmon] `files` did not answer within 1 s"}}"#
    );
    let told = scene.notes.take();
    assert!(
        told.contains(&r#"Unreachable { cause: "no answer within 1 s" }"#.to_owned()),
        "{told:?}"
    );
}

#[test]
fn a_head_of_a_server_that_has_no_end_is_none() {
    let scene = saying(
        |_| {},
        |_, wire| {
            wire.send("HTTP/1.1 200 OK\r\nx: ");
            while wire.try_send(&[b'x'; 4096]) {}
        },
    );
    let heard = scene.post("", READ);
    assert_eq!(heard.status(), "502");
    let text = heard.text();
    assert!(
        text.starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"[mcpmon] got no answer of `files` at http://127.0.0.1:"#)
            && text.contains("message head is too large"),
        "{text}"
    );
}

#[test]
fn an_answer_that_comes_byte_by_byte_is_not_waited_for() {
    let scene = saying(
        |caps| caps.0.silence = SHORT,
        |_, wire| {
            wire.send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n");
            wire.drip(b" ");
        },
    );
    let heard = scene.post("", READ);
    assert_eq!(heard.status(), "200");
    assert_eq!(
        without_number(&heard.text(), "only ", " bytes"),
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"[mcpmon] the answer of `files` is not forwarded: only N bytes came in 0 s"}}"#
    );
}

#[test]
fn one_user_leaves_as_many_connections_to_others() {
    let scene = with(|caps| caps.2.connections = 4);
    let uid = nix::unistd::getuid();
    let mut held = [scene.connect(), scene.connect()];
    for client in &mut held {
        client.send(post("", READ));
        assert_eq!(client.message().expect("an answer").status(), "200");
    }
    let cause = format!("2 connections of user {uid} are open already, and mcpmon leaves as many to others");
    for _ in 0..10 {
        let mut refused = scene.connect();
        refused.send(post("", READ));
        let heard = refused.message().expect("an answer");
        assert_eq!((heard.status(), heard.header("retry-after")), ("503", Some("5")));
        assert_eq!(
            heard.text(),
            format!(
                r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32603,"message":"[mcpmon] {cause}"}}}}"#
            )
        );
    }
    let told = format!("10 times: {cause}");
    until("it is told", || scene.notes.told.lock().unwrap().contains(&told));
    let [mut first, second] = held;
    first.send(post("", READ));
    assert_eq!(
        first.message().expect("an answer").status(),
        "200",
        "what is there goes on"
    );
    second.hang_up();
    until("it is given back", || {
        let mut client = scene.connect();
        client.send(post("", READ));
        client.message().is_some_and(|heard| heard.status() == "200")
    });
}

#[test]
fn what_is_refused_again_and_again_is_recorded() {
    let scene = saying(
        |caps| caps.1.streams = 4,
        |_, wire| {
            wire.send(EVENTS);
            wire.is_closed();
        },
    );
    let listen = head("GET", PATH, "accept: text/event-stream\r\n");
    let mut held = [scene.connect(), scene.connect()];
    for client in &mut held {
        client.send(&listen);
        assert!(client.head().expect("a head").starts_with("HTTP/1.1 200"));
    }
    let uid = nix::unistd::getuid();
    let cause =
        format!("2 streams of user {uid} with `files` are open already, and mcpmon leaves as many to others");
    for _ in 0..12 {
        let refused = scene.ask(&listen);
        assert_eq!(
            (refused.status(), refused.header("retry-after")),
            ("429", Some("5"))
        );
        assert!(refused.text().contains(&cause), "{}", refused.text());
    }
    let told = format!("10 times: {cause}");
    until("it is told", || scene.notes.told.lock().unwrap().contains(&told));
    let times = scene
        .notes
        .take()
        .iter()
        .filter(|what| what.contains(" times: "))
        .count();
    assert_eq!(times, 1, "once");
}

#[test]
fn sessions_that_a_server_opens_unasked_are_counted_too() {
    let scene = saying(
        |caps| caps.0.new_sessions = 2,
        |heard, wire| {
            let headers = format!("{JSON}mcp-session-id: s{}\r\n", heard.body.len());
            wire.send(answer("200 OK", &headers, DONE));
        },
    );
    for padding in ["", " "] {
        assert_eq!(scene.post("", format!("{READ}{padding}")).status(), "200");
    }
    let refused = scene.post("", format!("{READ}  "));
    assert_eq!(refused.status(), "429");
    assert!(refused.text().contains("within a minute"), "{}", refused.text());
}
