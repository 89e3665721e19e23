//! Lists that the proxy itself requests.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Instant,
};

use mcpmon_model::ServerType;

use super::{
    super::scene::{EVENTS, Heard, JSON, Wire, answer},
    scene::{Adjusted, DONE, INITIALIZE, INITIALIZED, Scene, TIMEOUT, call, event, post},
};

/// A page of tools as the answer to a request; `next` is the cursor of another page.
fn page(heard: &Heard, tools: &[&str], next: Option<&str>) -> String {
    let body: serde_json::Value = serde_json::from_slice(&heard.body).unwrap();
    let tools: Vec<_> = tools
        .iter()
        .map(|name| serde_json::json!({"name": name, "inputSchema": {"type": "object"}}))
        .collect();
    let mut result = serde_json::json!({ "tools": tools });
    if let Some(next) = next {
        result["nextCursor"] = next.into();
    }
    serde_json::json!({"jsonrpc": "2.0", "id": body["id"], "result": result}).to_string()
}

fn says(heard: &Heard, wire: &mut Wire) {
    let text = heard.text();
    if !text.contains("tools/list") {
        return wire.send(answer("200 OK", JSON, DONE));
    }
    if text.contains("\"cursor\":\"two\"") {
        let page = page(heard, &["cached"], None);
        return wire.send(answer("200 OK", JSON, page));
    }
    wire.send(EVENTS);
    wire.chunk(event(&page(heard, &["first"], Some("two"))));
    // The stream is still open: the answer does not wait for its end.
    wire.more();
}

#[test]
fn a_tool_that_was_on_no_list_is_looked_for_before_it_is_called() {
    let scene = Scene::new(says);
    let headers = "authorization: Bearer k\r\nmcp-protocol-version: 2025-11-25\r\n";
    let heard = scene.post(headers, call("cached"));
    assert_eq!((heard.status(), heard.text().as_str()), ("200", DONE));
    assert_eq!(
        scene.notes.take(),
        ["client", "list 1", "client", "list 1", "call cached", "answer"]
            .into_iter()
            .filter(|what| *what != "client")
            .collect::<Vec<_>>()
    );
    for cursor in [None, Some("two")] {
        let asked = scene.heard();
        assert_eq!(asked.header("authorization"), Some("Bearer k"));
        assert_eq!(asked.header("mcp-protocol-version"), Some("2025-11-25"));
        assert_eq!(
            asked.header("accept"),
            Some("application/json, text/event-stream")
        );
        assert!(asked.text().contains("tools/list"));
        assert_eq!(asked.text().contains("two"), cursor.is_some());
    }
    assert!(scene.heard().text().contains("cached"));
    scene.post(headers, call("first"));
    assert!(scene.heard().text().contains("tools/call"), "it is known by now");
}

#[test]
fn a_tool_that_is_on_no_list_is_not_looked_for_again_at_once() {
    let scene = Scene::new(says);
    for _ in 0..2 {
        assert_eq!(scene.post("", call("nowhere")).status(), "200");
    }
    let told = scene.notes.take();
    let lists = told.iter().filter(|what| what.starts_with("list")).count();
    assert_eq!(lists, 2, "{told:?}");
    let unknown = told.iter().filter(|what| *what == "unknown call nowhere").count();
    assert_eq!(unknown, 2, "{told:?}");
}

#[test]
fn a_list_that_does_not_come_is_not_waited_for_without_end() {
    let adjust = |caps: &mut Adjusted| {
        caps.0.own_time = std::time::Duration::from_millis(200);
    };
    let scene = Scene::with(ServerType::Http, adjust, |heard, wire| {
        match heard.text().contains("tools/list") {
            true => assert!(wire.is_closed()),
            false => wire.send(answer("200 OK", JSON, DONE)),
        }
    });
    assert_eq!(scene.post("", call("nowhere")).status(), "200");
    assert_eq!(scene.notes.take(), ["unknown call nowhere", "answer"]);
}

#[test]
fn sessions_do_not_wait_for_the_lists_of_each_other() {
    const SESSIONS: usize = 10;
    let opened = AtomicUsize::new(0);
    let adjust = |caps: &mut Adjusted| caps.0.own_time = TIMEOUT;
    let scene = Scene::with(ServerType::Http, adjust, move |heard, wire| {
        match heard.text().contains("initialize") {
            true => {
                let session = opened.fetch_add(1, Ordering::Relaxed);
                let headers = format!("{JSON}mcp-session-id: s{session}\r\n");
                wire.send(answer("200 OK", &headers, INITIALIZED));
            }
            false => assert!(wire.is_closed(), "it is silent until nobody waits"),
        }
    });
    for _ in 0..SESSIONS {
        assert_eq!(scene.post("", INITIALIZE).status(), "200");
        drop(scene.heard());
    }
    let began = Instant::now();
    let _waiting: Vec<Wire> = (0..SESSIONS)
        .map(|session| {
            let mut client = scene.connect();
            let headers = format!("mcp-session-id: s{session}\r\n");
            client.send(post(&headers, call("nowhere")));
            client
        })
        .collect();
    for _ in 0..SESSIONS {
        assert!(scene.heard().text().contains("tools/list"));
    }
    assert!(began.elapsed() < TIMEOUT, "not one after the other");
}

#[test]
fn one_list_of_a_session_is_asked_for_by_all_that_wait_for_it() {
    let (come, comes) = mpsc::channel();
    let comes = Mutex::new(comes);
    let scene = Scene::new(move |heard, wire| {
        let body = match heard.text().contains("tools/list") {
            true => {
                comes.lock().unwrap().recv_timeout(TIMEOUT).unwrap();
                page(heard, &["cached"], None)
            }
            false => DONE.to_owned(),
        };
        wire.send(answer("200 OK", JSON, body));
    });
    let mut first = scene.connect();
    first.send(post("", call("cached")));
    assert!(scene.heard().text().contains("tools/list"));
    let mut others = [scene.connect(), scene.connect()];
    for client in &mut others {
        client.send(post("", call("cached")));
    }
    scene.notes.until_missed_by(3, "cached");
    assert!(scene.heard_nothing(), "they wait with it");
    come.send(()).unwrap();
    for client in others.iter_mut().chain([&mut first]) {
        assert_eq!(client.message().expect("an answer").text(), DONE);
        assert!(scene.heard().text().contains("tools/call"));
    }
    let told = scene.notes.take();
    assert_eq!(
        told.iter().filter(|what| *what == "call cached").count(),
        3,
        "{told:?}"
    );
}

#[test]
fn whoever_waits_asks_where_the_one_that_asked_has_left() {
    let scene = Scene::new(move |heard, wire| {
        if heard.text().contains("tools/list") && heard.header("x-leaves").is_some() {
            assert!(wire.is_closed(), "nobody waits for it any more");
            return;
        }
        let body = match heard.text().contains("tools/list") {
            true => page(heard, &["cached"], None),
            false => DONE.to_owned(),
        };
        wire.send(answer("200 OK", JSON, body));
    });
    let mut leaves = scene.connect();
    leaves.send(post("x-leaves: soon\r\n", call("cached")));
    assert!(scene.heard().text().contains("tools/list"));
    let mut stays = scene.connect();
    stays.send(post("", call("cached")));
    scene.notes.until_missed_by(2, "cached");
    assert!(scene.heard_nothing(), "it waits");
    leaves.hang_up();
    assert_eq!(stays.message().expect("an answer").text(), DONE);
    assert!(scene.heard().text().contains("tools/list"));
}
