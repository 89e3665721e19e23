//! Streams: events as they come, in pieces, to their end, and from both sides.

use std::time::{Duration, Instant};

use mcpmon_model::{ListKind, ServerType};

use super::{
    super::scene::{EVENTS, JSON, answer},
    scene::{DONE, INITIALIZE, INITIALIZED, PATH, READ, Scene, call, event, head, post},
};

/// A message before the answer.
const PROGRESS: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#;

#[test]
fn events_go_on_with_the_read_that_brought_them() {
    // The server sends nothing more before the client has received the first message.
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let told = std::sync::Mutex::new(told);
    let scene = Scene::new(move |_, wire| {
        let told = told.lock().unwrap();
        wire.send(EVENTS);
        for said in [": keep-alive\n\n", &event(PROGRESS), &event(DONE)] {
            wire.chunk(said);
            told.recv().unwrap();
        }
        wire.chunk("");
    });
    let mut client = scene.connect();
    client.send(post("", READ));
    let head = client.head().expect("a head");
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    assert!(head.contains("x-accel-buffering: no"), "{head}");
    for said in [": keep-alive\n\n", &event(PROGRESS), &event(DONE)] {
        assert_eq!(client.next_chunk().expect("it does not wait"), said.as_bytes());
        tell.send(()).unwrap();
    }
    assert_eq!(client.next_chunk().expect("the end"), b"");
}

#[test]
fn a_stream_may_be_cut_anywhere() {
    let scene = Scene::new(|_, wire| {
        wire.send(EVENTS);
        for byte in format!("retry: 500\nid: 1\ndata:\n\n{}", event(DONE)).bytes() {
            wire.chunk([byte]);
        }
        wire.chunk("");
    });
    let heard = scene.post("", READ);
    assert_eq!(
        heard.text(),
        format!("retry: 500\nid: 1\ndata:\n\n{}", event(DONE))
    );
    assert_eq!(scene.notes.take(), ["call read", "answer"]);
}

#[test]
fn what_may_not_be_said_is_not_whatever_the_pieces() {
    let evil = DONE.replace("done", "EVIL");
    let scene = Scene::new(move |_, wire| {
        wire.send(EVENTS);
        for byte in event(&evil).bytes() {
            wire.chunk([byte]);
        }
        wire.chunk("");
    });
    let heard = scene.post("", READ).text();
    assert!(!heard.contains("EVIL"), "{heard}");
    assert!(heard.contains("it is evil"), "{heard}");
}

#[test]
fn a_client_that_leaves_takes_its_request_along() {
    let scene = Scene::new(|_, wire| {
        wire.send(EVENTS);
        wire.chunk(event(PROGRESS));
        assert!(wire.is_closed(), "the proxy hangs up");
        wire.hang_up();
    });
    let mut client = scene.connect();
    client.send(post("", READ));
    drop(client.head().expect("a head"));
    drop(client.next_chunk().expect("progress"));
    drop(scene.heard());
    client.hang_up();
    drop(client);
    let mut second = scene.connect();
    second.send(post("", READ));
    assert!(second.head().is_some(), "the proxy serves others");
}

#[test]
fn a_client_that_leaves_before_the_answer_takes_its_request_along() {
    let (tell, told) = std::sync::mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let scene = Scene::new(move |_, wire| {
        let closed = wire.is_closed();
        tell.lock().unwrap().send(closed).unwrap();
    });
    let mut client = scene.connect();
    client.send(post("", READ));
    drop(scene.heard());
    client.hang_up();
    drop(client);
    assert!(
        told.recv_timeout(super::scene::TIMEOUT).expect("in time"),
        "it is told"
    );
}

#[test]
fn a_server_that_breaks_off_ends_the_stream() {
    let scene = Scene::new(|_, wire| {
        wire.send(EVENTS);
        wire.chunk(event(PROGRESS));
        wire.hang_up();
    });
    let mut client = scene.connect();
    client.send(post("", READ));
    drop(client.head().expect("a head"));
    assert_eq!(client.next_chunk().expect("progress"), event(PROGRESS).as_bytes());
    let told = client.next_chunk().expect("word of it");
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("\"id\":1") && told.contains("broke off"), "{told}");
    assert_eq!(client.next_chunk().as_deref(), Some(&b""[..]), "that was all");
}

#[test]
fn what_a_server_asks_and_may_not_is_answered_by_the_proxy() {
    let sampling = r#"{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}"#;
    let scene = Scene::new(move |heard, wire| {
        if heard.text().contains("\"s1\"") {
            return wire.send(answer("202 Accepted", "", ""));
        }
        wire.send(EVENTS);
        wire.chunk(event(sampling));
        wire.chunk(event(DONE));
        wire.chunk("");
    });
    let heard = scene.post("authorization: Bearer k\r\n", READ);
    // The question was replaced by a comment, so that its event is still counted.
    assert_eq!(heard.text(), format!(":\n\n{}", event(DONE)));
    drop(scene.heard());
    let refusal = scene.heard();
    assert_eq!(refusal.header("authorization"), Some("Bearer k"));
    assert_eq!(refusal.header("content-type"), Some("application/json"));
    let text = refusal.text();
    assert!(
        text.contains(r#""id":"s1""#) && text.contains("it is evil"),
        "{text}"
    );
}

#[test]
fn a_stream_of_a_session_is_judged_and_tells_of_changes() {
    let scene = Scene::new(|heard, wire| {
        if heard.head.starts_with("POST") {
            let headers = format!("{JSON}mcp-session-id: abc\r\n");
            let answered = INITIALIZED.replace(r#""tools":{}"#, r#""tools":{"listChanged":true}"#);
            return wire.send(answer("200 OK", &headers, answered));
        }
        assert_eq!(heard.header("last-event-id"), Some("7"));
        wire.send(EVENTS);
        wire.chunk(format!("id: 8\n{}", event(PROGRESS)));
        assert!(wire.is_closed());
    });
    assert_eq!(scene.post("", INITIALIZE).header("mcp-session-id"), Some("abc"));
    let mut client = scene.connect();
    client.send(head(
        "GET",
        PATH,
        "mcp-session-id: abc\r\naccept: text/event-stream\r\nlast-event-id: 7\r\n",
    ));
    let opened = client.head().expect("a head");
    assert!(opened.starts_with("HTTP/1.1 200"), "{opened}");
    let first = client.next_chunk().expect("progress");
    assert_eq!(first, format!("id: 8\n{}", event(PROGRESS)).as_bytes());
    scene.notes.changed.lock().unwrap().insert(ListKind::Tools);
    let told = client.next_chunk().expect("news");
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("notifications/tools/list_changed"), "{told}");
}

#[test]
fn a_proxy_that_stops_waits_for_no_stream_that_is_kept_open() {
    let mut scene = Scene::new(|_, wire| {
        wire.send(EVENTS);
        wire.chunk(": here\n\n");
        wire.is_closed();
    });
    let mut client = scene.connect();
    client.send(head("GET", PATH, "accept: text/event-stream\r\n"));
    drop(client.head().expect("a head"));
    drop(client.next_chunk().expect("a comment"));
    let began = Instant::now();
    scene.proxy.take().expect("it runs").stop();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(
        client.next_chunk().as_deref(),
        Some(&b""[..]),
        "the stream ends as it should"
    );
}

#[test]
fn every_stream_of_a_conversation_tells_of_changes() {
    let scene = Scene::new(|heard, wire| {
        if heard.head.starts_with("POST") {
            let headers = format!("{JSON}mcp-session-id: abc\r\n");
            let answered = INITIALIZED.replace(r#""tools":{}"#, r#""tools":{"listChanged":true}"#);
            return wire.send(answer("200 OK", &headers, answered));
        }
        wire.send(EVENTS);
        wire.chunk(": here\n\n");
        wire.is_closed();
    });
    scene.post("", INITIALIZE);
    let mut streams = [scene.connect(), scene.connect()];
    for stream in &mut streams {
        stream.send(head(
            "GET",
            PATH,
            "mcp-session-id: abc\r\naccept: text/event-stream\r\n",
        ));
        drop(stream.head().expect("a head"));
        drop(stream.next_chunk().expect("a comment"));
    }
    scene.notes.changed.lock().unwrap().insert(ListKind::Tools);
    for stream in &mut streams {
        let told = stream.next_chunk().expect("news");
        assert!(
            String::from_utf8_lossy(&told).contains("list_changed"),
            "{told:?}"
        );
    }
}

#[test]
fn a_server_that_keeps_no_stream_says_so() {
    let scene = Scene::new(|_, wire| {
        wire.send(answer("405 Method Not Allowed", "allow: POST\r\n", ""));
    });
    let heard = scene.ask(head("GET", PATH, "accept: text/event-stream\r\n"));
    assert_eq!((heard.status(), heard.header("allow")), ("405", Some("POST")));
}

#[test]
fn a_client_that_does_not_read_stops_the_server() {
    let (tell, told) = std::sync::mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let long = PROGRESS.replace(
        "\"progress\":1",
        &format!("\"progress\":1,\"message\":\"{}\"", "x".repeat(60_000)),
    );
    let scene = Scene::with(
        ServerType::Http,
        |_| {},
        move |_, wire| {
            wire.send(EVENTS);
            wire.give_up_after(Duration::from_secs(1));
            let event = event(&long);
            let framed = format!("{:x}\r\n{event}\r\n", event.len());
            let sent = (0..2000).take_while(|_| wire.try_send(framed.as_bytes())).count();
            tell.lock().unwrap().send(sent).unwrap();
        },
    );
    let mut client = scene.connect();
    client.send(post("", call("read")));
    let sent = told.recv_timeout(Duration::from_secs(30)).expect("it gives up");
    assert!(sent < 2000, "{sent} events of 60 KB found room somewhere");
}
