//! Streams: what is forwarded, when, and how streams end.

use std::{
    sync::{Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use test_case::test_case;

use super::scene::{CHAT, END, EVENTS, JSON, PLAIN, Rules, STREAMED, Scene, answer, event, post};

#[test]
fn no_byte_of_text_waits_for_what_comes_behind_it() {
    // The provider sends nothing more before the client has received the first event.
    let (tell, told) = mpsc::channel::<()>();
    let told = Mutex::new(told);
    let scene = Scene::new(move |_, wire| {
        let told = told.lock().unwrap();
        wire.send(EVENTS);
        for text in ["one", "two", "three"] {
            wire.chunk(event(text));
            told.recv().unwrap();
        }
        wire.chunk(END);
        wire.chunk("");
    });
    let mut client = scene.connect();
    client.send(post(CHAT, "", STREAMED));
    let head = client.head().expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    for text in ["one", "two", "three"] {
        let chunk = client.next_chunk().expect("it does not wait");
        assert_eq!(String::from_utf8(chunk).unwrap(), event(text), "byte for byte");
        tell.send(()).unwrap();
    }
    assert_eq!(client.next_chunk().unwrap(), END.as_bytes());
    assert_eq!(client.next_chunk().unwrap(), b"", "and the stream ends");
}

#[test]
fn a_blocked_call_in_a_stream_is_replaced_and_the_rest_flows() {
    let call = r#"{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"evil","arguments":{"a":1}}}]},"done":false}"#;
    let scene = Scene::new(move |_, wire| {
        wire.send(
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n",
        );
        wire.chunk(
            "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"well\"},\"done\":false}\n",
        );
        wire.chunk(format!("{call}\n"));
        wire.chunk("{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\"}\n");
        wire.chunk("");
    });
    let heard = scene.ask("/ollama/api/chat", "", STREAMED).text();
    assert!(heard.contains("\"well\""), "{heard}");
    assert!(
        heard.contains("[mcpmon] Tool 'evil' blocked by policy") && !heard.contains("tool_calls"),
        "{heard}"
    );
    assert!(heard.ends_with("\"done_reason\":\"stop\"}\n"), "{heard}");
}

#[test]
fn a_client_that_leaves_ends_the_providers_stream_at_once() {
    let (tell, told) = mpsc::channel();
    let scene = Scene::new(move |_, wire| {
        wire.send(EVENTS);
        wire.chunk(event("one"));
        tell.send(wire.is_closed()).unwrap();
    });
    let mut client = scene.connect();
    client.send(post(CHAT, "", STREAMED));
    client.head().expect("a head");
    client.next_chunk().expect("an event");
    drop(client);
    let before = Instant::now();
    assert!(told.recv_timeout(Duration::from_secs(5)).expect("it is told"));
    assert!(before.elapsed() < Duration::from_secs(2), "not by a time-out");
}

#[test]
fn a_client_that_leaves_before_an_answer_ends_the_request_at_once() {
    let (tell, told) = mpsc::channel();
    let scene = Scene::new(move |_, wire| tell.send(wire.is_closed()).unwrap());
    let mut client = scene.connect();
    client.send(post(CHAT, "", PLAIN));
    scene.provider_heard();
    drop(client);
    assert!(told.recv_timeout(Duration::from_secs(3)).expect("it is told"));
}

#[test]
fn a_stream_that_breaks_off_breaks_off_for_the_client_too() {
    let scene = Scene::new(|_, wire| {
        wire.send(EVENTS);
        wire.chunk(event("one"));
        wire.send("fff\r\ndata: {\"half");
        wire.hang_up();
    });
    let mut client = scene.connect();
    client.send(post(CHAT, "", STREAMED));
    client.head().expect("a head");
    assert_eq!(client.next_chunk().unwrap(), event("one").as_bytes());
    let mut rest = Vec::new();
    while let Some(chunk) = client.next_chunk() {
        assert!(!chunk.is_empty(), "no proper end");
        rest.extend(chunk);
    }
    let rest = String::from_utf8_lossy(&rest);
    assert!(!rest.contains("half"), "no half event goes on: {rest}");
}

#[test]
fn a_stream_that_falls_silent_ends() {
    let scene = Scene::with(
        Rules::default(),
        |settings| settings.patience = Duration::from_millis(300),
        |_, wire| {
            wire.send(EVENTS);
            wire.chunk(event("one"));
            wire.is_closed();
        },
    );
    let mut client = scene.connect();
    client.send(post(CHAT, "", STREAMED));
    client.head().expect("a head");
    let before = Instant::now();
    assert!(client.is_closed() && before.elapsed() < Duration::from_secs(4));
}

#[test]
fn a_client_that_does_not_read_stops_the_provider() {
    const MAX_HELD_BYTES: usize = 64 << 20;
    let (tell, told) = mpsc::channel();
    let scene = Scene::new(move |_, wire| {
        wire.send(EVENTS);
        wire.give_up_after(Duration::from_secs(1));
        let event = event(&"x".repeat(60_000));
        let chunk = format!("{:x}\r\n{event}\r\n", event.len());
        let mut sent = 0;
        while sent < MAX_HELD_BYTES && wire.try_send(chunk.as_bytes()) {
            sent += chunk.len();
        }
        tell.send(sent).unwrap();
    });
    let mut client = scene.connect();
    client.send(post(CHAT, "", STREAMED));
    let sent = told.recv_timeout(Duration::from_secs(20)).expect("it is told");
    assert!(
        sent < MAX_HELD_BYTES,
        "the proxy took in {sent} bytes that nobody reads"
    );
}

#[test]
fn streams_end_in_their_time_when_the_proxy_stops() {
    let (tell, told) = mpsc::channel::<()>();
    let told = Mutex::new(told);
    let mut scene = Scene::new(move |_, wire| {
        wire.send(EVENTS);
        wire.chunk(event("one"));
        told.lock().unwrap().recv().unwrap();
        wire.chunk(END);
        wire.chunk("");
    });
    let address = scene.address();
    let mut client = scene.connect();
    client.send(post(CHAT, "", STREAMED));
    client.head().expect("a head");
    client.next_chunk().expect("an event");
    let proxy = scene.proxy.take().expect("it runs");
    let stopping = thread::spawn(move || proxy.stop());
    let before = Instant::now();
    while std::net::TcpStream::connect(address).is_ok() {
        assert!(before.elapsed() < Duration::from_secs(5), "it listens still");
    }
    tell.send(()).unwrap();
    assert_eq!(client.next_chunk().unwrap(), END.as_bytes());
    assert_eq!(client.next_chunk().unwrap(), b"");
    stopping.join().unwrap();
}

/// A response in which two tools are called, one of them evil.
fn response() -> Value {
    let call = |name: &str, id: &str| json!({"type": "function_call", "id": format!("item_{id}"), "call_id": id, "name": name, "arguments": "{}"});
    json!({"id": "resp_1", "object": "response", "output": [call("good", "c1"), call("evil", "c2")]})
}

/// The same response as a stream.
fn response_events() -> String {
    let (whole, mut events) = (response(), String::new());
    let mut event = |event: Value| {
        let kind = event["type"].as_str().unwrap().to_owned();
        events.push_str(&format!("event: {kind}\ndata: {event}\n\n"));
    };
    event(json!({"type": "response.created", "response": {"id": "resp_1", "output": []}}));
    for (place, item) in whole["output"].as_array().unwrap().iter().enumerate() {
        event(json!({"type": "response.output_item.added", "output_index": place, "item": item}));
        event(json!({"type": "response.output_item.done", "output_index": place, "item": item}));
    }
    event(json!({"type": "response.completed", "response": whole}));
    events
}

#[test_case(false; "whole")]
#[test_case(true; "a stream")]
fn the_answer_to_a_call_that_was_left_out_goes_with_the_next_request(is_stream: bool) {
    let scene = Scene::new(move |_, wire| match is_stream {
        true => {
            wire.send(EVENTS);
            wire.chunk(response_events());
            wire.chunk("");
        }
        false => wire.send(answer("200 OK", JSON, response().to_string())),
    });
    let path = "/openai/v1/responses";
    let first = json!({"model": "m", "stream": is_stream, "input": "hi"});
    let heard = scene.ask(path, "", first.to_string()).text();
    assert!(heard.contains("\"c1\"") && !heard.contains("\"c2\""), "{heard}");
    drop(scene.provider_heard());
    let done = json!({"type": "function_call_output", "call_id": "c1", "output": "done"});
    let next = json!({"model": "m", "stream": is_stream, "previous_response_id": "resp_1", "input": [done],
        "tools": [{"type": "function", "name": "evil", "parameters": {}}]});
    scene.ask(path, "", next.to_string());
    // The last member is removed, and what is inserted before it must not be lost with it.
    let sent: Value = serde_json::from_slice(&scene.provider_heard().body).expect("JSON");
    assert!(sent.get("tools").is_none(), "{sent}");
    let items = sent["input"].as_array().expect("a list");
    assert!(items.contains(&done) && items.len() == 2, "{sent}");
    let refusal = items
        .iter()
        .find(|item| item["call_id"] == "c2")
        .expect("it is answered");
    let said = refusal["output"].as_str().expect("a text");
    assert_eq!(refusal["type"], "function_call_output");
    assert!(said.contains("it is evil"), "{said}");
}
