//! Waits: their reasons, their limits, and the consequences of giving up.

use std::{
    sync::{Mutex, mpsc},
    time::{Duration, Instant},
};

use mcpmon_model::ServerType;
use test_case::test_case;

use super::{
    super::scene::{EVENTS, Heard, JSON, Wire, answer},
    scene::{
        Adjusted, DONE, INITIALIZE, INITIALIZED, PATH, READ, Scene, TIMEOUT, call, event, head, post, until,
    },
};

/// The headers of a request in the session that [`stateful`] opens.
const IN_SESSION: &str = "mcp-session-id: abc\r\n";
/// The head of an answer of which more is to come.
const BEGUN: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
/// The longest time until a stopped request ends: a second, and another one for a busy machine.
const PROMPT: Duration = Duration::from_secs(2);
/// The answer to a request that waited too long.
const LATE: &str =
    r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"[mcpmon] no answer came in time"}}"#;

/// The answer to a waiting request that a person stopped.
const STOPPED: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32003,"message":"[mcpmon] Request blocked by policy: a person stopped it (rule kill_switch)."}}"#;

/// A server that opens the session `abc`, and handles other messages with `says`.
fn stateful(says: impl Fn(&Heard, &mut Wire) + Send + Sync + 'static) -> Scene {
    Scene::new(move |heard, wire| {
        if heard.text().contains("initialize") {
            let headers = format!("{JSON}{IN_SESSION}");
            return wire.send(answer("200 OK", &headers, INITIALIZED));
        }
        says(heard, wire);
    })
}

/// An event that mcpmon wrote.
fn told(message: &str) -> String {
    format!("data: {message}\n\n")
}

/// Sends `said` until the reader has left.
fn drip(wire: &mut Wire, said: &str) {
    let framed = format!("{:x}\r\n{said}\r\n", said.len());
    let began = Instant::now();
    while began.elapsed() < TIMEOUT && wire.try_send(framed.as_bytes()) {
        std::thread::yield_now();
    }
}

#[test]
fn a_session_that_is_judged_for_long_keeps_nobody_else_waiting() {
    let scene = stateful(|_, wire| wire.send(answer("200 OK", JSON, DONE)));
    scene.post("", INITIALIZE);
    let mut waiting = Vec::new();
    {
        let _held = scene.notes.slow.lock().unwrap();
        let mut slow = scene.connect();
        slow.send(post(IN_SESSION, call("slow")));
        until("it is judged", || {
            scene.notes.told.lock().unwrap().contains(&"call slow".to_owned())
        });
        // More requests than there are threads to serve them.
        for _ in 0..12 {
            let mut client = scene.connect();
            client.send(post(IN_SESSION, READ));
            waiting.push(client);
        }
        waiting.push(slow);
        for _ in 0..24 {
            assert_eq!(scene.post("user-agent: another\r\n", READ).status(), "200");
        }
    }
    let answered = waiting
        .iter_mut()
        .map(|client| client.message().expect("an answer"));
    let statuses: Vec<String> = answered.map(|heard| heard.status().to_owned()).collect();
    // The requests have the same id, and one of them is served at a time.
    assert!(
        statuses
            .iter()
            .all(|status| ["200", "400"].contains(&status.as_str())),
        "{statuses:?}"
    );
}

#[test]
fn a_client_that_leaves_in_the_middle_of_an_answer_leaves_nothing_behind() {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let scene = stateful(move |heard, wire| {
        if heard.text().contains("half") {
            wire.send(BEGUN);
            // More bytes than connections buffer, so the proxy is reading the body by now.
            wire.chunk(" ".repeat(12 << 20));
            tell.lock().unwrap().send(false).unwrap();
            tell.lock().unwrap().send(wire.is_closed()).unwrap();
            return;
        }
        wire.send(answer("200 OK", JSON, DONE));
    });
    scene.post("", INITIALIZE);
    let mut client = scene.connect();
    client.send(post(IN_SESSION, READ.replace("{}", r#"{"half":1}"#)));
    assert!(!told.recv_timeout(TIMEOUT).expect("it is read"));
    client.hang_up();
    assert!(told.recv_timeout(TIMEOUT).expect("in time"), "the server is told");
    // The id can be used for another request.
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    until("it waits no longer", || {
        scene.post(IN_SESSION, ping).status() == "200"
    });
}

/// The server's behaviour in place of an answer.
type Stalls = fn(&mut Wire);

fn no_head(_: &mut Wire) {}

fn half_a_body(wire: &mut Wire) {
    wire.send(BEGUN);
    wire.chunk("{\"jsonrpc\":");
}

fn endless_body(wire: &mut Wire) {
    wire.send(BEGUN);
    drip(wire, " ");
}

fn endless_stream(wire: &mut Wire) {
    wire.send(EVENTS);
    drip(wire, ": here\n\n");
}

fn silent_stream(wire: &mut Wire) {
    wire.send(EVENTS);
}

#[test_case(no_head, LATE; "no head")]
#[test_case(half_a_body, LATE; "half a body")]
#[test_case(endless_body, LATE; "a body without end")]
#[test_case(silent_stream, &told(LATE); "a stream without an event")]
#[test_case(endless_stream, &told(LATE); "a stream without end")]
fn a_request_waits_no_longer_than_it_may(stalls: Stalls, expected: &str) {
    let (tell, heard_of) = mpsc::channel();
    let tell = Mutex::new(tell);
    let adjust = |caps: &mut Adjusted| caps.1.limits.request_timeout = Duration::from_millis(300);
    let scene = Scene::with(ServerType::Http, adjust, move |_, wire| {
        stalls(wire);
        tell.lock().unwrap().send(wire.is_closed()).unwrap();
    });
    let heard = scene.post("", READ);
    assert_eq!(heard.status(), "200");
    assert_eq!(heard.text().replace(": here\n\n", ""), expected);
    assert!(
        heard_of.recv_timeout(TIMEOUT).expect("in time"),
        "the server is told"
    );
}

#[test_case(no_head, true; "no head")]
#[test_case(half_a_body, true; "half a body")]
#[test_case(endless_body, true; "a body without end")]
#[test_case(silent_stream, false; "a stream without an event")]
#[test_case(endless_stream, false; "a stream without end")]
fn what_a_person_stops_is_answered_at_once(stalls: Stalls, is_whole: bool) {
    let (tell, heard_of) = mpsc::channel();
    let tell = Mutex::new(tell);
    let scene = Scene::new(move |_, wire| {
        stalls(wire);
        tell.lock().unwrap().send(wire.is_closed()).unwrap();
    });
    let mut client = scene.connect();
    client.send(post("", READ));
    drop(scene.heard());
    let began = Instant::now();
    scene.notes.stop();
    let heard = client.message().expect("an answer");
    assert!(began.elapsed() < PROMPT, "{:?}", began.elapsed());
    assert_eq!(heard.status(), "200");
    let text = heard.text().replace(": here\n\n", "");
    let expected = match is_whole {
        true => STOPPED.to_owned(),
        false => told(STOPPED),
    };
    assert_eq!(text, expected);
    assert!(
        heard_of.recv_timeout(TIMEOUT).expect("in time"),
        "the server is told"
    );
}

#[test_case(ServerType::Http; "of a session")]
#[test_case(ServerType::Sse; "of the older transport")]
fn a_stream_that_is_kept_open_ends_when_a_person_stops_it(server_type: ServerType) {
    let (tell, heard_of) = mpsc::channel();
    let tell = Mutex::new(tell);
    let scene = Scene::with(
        server_type,
        |_| {},
        move |heard, wire| {
            if heard.head.starts_with("POST") {
                return wire.send(answer("202 Accepted", "", ""));
            }
            wire.send(EVENTS);
            wire.chunk("event: endpoint\ndata: /v1/messages\n\n");
            tell.lock().unwrap().send(wire.is_closed()).unwrap();
        },
    );
    let mut stream = scene.connect();
    stream.send(head("GET", PATH, "accept: text/event-stream\r\n"));
    drop(stream.head().expect("a head"));
    let mut expected = String::new();
    if server_type == ServerType::Sse {
        let first = String::from_utf8(stream.next_chunk().expect("an event")).unwrap();
        let place = first.trim_start_matches("event: endpoint\ndata: ").trim_end();
        let posted = super::super::scene::post(place, "", READ);
        assert_eq!(scene.ask(posted).status(), "202");
        expected = told(STOPPED);
    }
    let began = Instant::now();
    scene.notes.stop();
    let mut heard = Vec::new();
    while let Some(chunk) = stream.next_chunk() {
        if chunk.is_empty() {
            break;
        }
        heard.extend(chunk);
    }
    assert!(began.elapsed() < PROMPT, "{:?}", began.elapsed());
    // Events that are not forwarded are replaced by comments.
    let heard = String::from_utf8_lossy(&heard).replace(":\n\n", "");
    assert_eq!(heard, expected);
    assert!(
        heard_of.recv_timeout(TIMEOUT).expect("in time"),
        "the server is told"
    );
    let again = scene.ask(head("GET", PATH, "accept: text/event-stream\r\n"));
    assert_eq!(again.status(), "403", "{}", again.text());
}

#[test]
fn a_call_that_waits_for_a_list_of_ours_is_stopped_too() {
    let scene = Scene::new(|_, wire| {
        wire.send(EVENTS);
        assert!(wire.is_closed(), "nobody waits for the list any more");
    });
    let mut client = scene.connect();
    client.send(post("", call("nowhere")));
    assert!(scene.heard().text().contains("tools/list"));
    let began = Instant::now();
    scene.notes.stop();
    let heard = client.message().expect("an answer");
    assert!(began.elapsed() < PROMPT, "{:?}", began.elapsed());
    assert!(heard.text().contains("a person stopped it"), "{}", heard.text());
}

#[test]
fn a_subscription_that_stands_is_never_late() {
    let acknowledged = event(
        r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"},"notifications":{"toolsListChanged":true}}}"#,
    );
    let changed = event(
        r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}}"#,
    );
    let (change, changes) = mpsc::channel::<()>();
    let changes = Mutex::new(changes);
    let said = (acknowledged.clone(), changed.clone());
    let adjust = |caps: &mut Adjusted| caps.1.limits.request_timeout = Duration::from_millis(300);
    let scene = Scene::with(ServerType::Http, adjust, move |heard, wire| {
        wire.send(EVENTS);
        if heard.text().contains("subscriptions/listen") {
            wire.chunk(&said.0);
            changes.lock().unwrap().recv_timeout(TIMEOUT).unwrap();
            wire.chunk(&said.1);
        }
        wire.is_closed();
    });
    let mut listening = scene.connect();
    listening.send(post(
        "mcp-protocol-version: 2026-07-28\r\nmcp-method: subscriptions/listen\r\n",
        r#"{"jsonrpc":"2.0","id":"L","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    ));
    let opened = listening.head().expect("a head");
    assert!(opened.starts_with("HTTP/1.1 200"), "{opened}");
    assert_eq!(listening.next_chunk().expect("an event"), acknowledged.as_bytes());
    // Later requests time out; the open subscription does not.
    for _ in 0..3 {
        assert_eq!(scene.post("", READ).text(), told(LATE));
    }
    change.send(()).unwrap();
    assert_eq!(listening.next_chunk().expect("an event"), changed.as_bytes());
}
