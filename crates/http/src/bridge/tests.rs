//! The bridge against servers of every kind, in this process.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf},
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};

use super::{BridgeError, bridge};
use crate::client::{
    ServerEndpoint, ServerTransport,
    tests::{Asked, Site, Told, event},
};

/// Longest wait for anything that should come.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A client that speaks no HTTP, and the bridge at the other end of its pipes.
struct Client {
    to: Option<WriteHalf<DuplexStream>>,
    from: BufReader<ReadHalf<DuplexStream>>,
    end: Option<oneshot::Sender<()>>,
    ended: JoinHandle<Result<(), BridgeError>>,
}

impl Client {
    fn new(site: &Site, way: ServerTransport) -> Self {
        Self::with(site.asking(), way)
    }

    fn with(asking: ServerEndpoint, way: ServerTransport) -> Self {
        let (here, there) = tokio::io::duplex(1 << 20);
        let (from, to) = tokio::io::split(here);
        let (input, output) = tokio::io::split(there);
        let (end, told) = oneshot::channel();
        let ended = tokio::spawn(bridge(asking, way, input, output, Box::new(|_| {}), async move {
            if told.await.is_err() {
                std::future::pending::<()>().await;
            }
        }));
        Self {
            to: Some(to),
            from: BufReader::new(from),
            end: Some(end),
            ended,
        }
    }

    async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.to
            .as_mut()
            .unwrap()
            .write_all(line.as_bytes())
            .await
            .unwrap();
    }

    async fn hear(&mut self) -> Value {
        let mut line = String::new();
        let read = timeout(TIMEOUT, self.from.read_line(&mut line)).await;
        read.expect("something is said").expect("the pipe is whole");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    async fn ask(&mut self, message: Value) -> Value {
        self.send(message).await;
        self.hear().await
    }

    async fn shake_hands(&mut self) {
        let answer = self
            .ask(request(
                "h",
                "initialize",
                json!({"protocolVersion": "2025-11-25", "capabilities": {}}),
            ))
            .await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18", "{answer}");
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
    }

    /// Closes the client's side, and returns how the bridge ended.
    async fn leave(mut self) -> Result<(), String> {
        if let Some(mut to) = self.to.take() {
            to.shutdown().await.unwrap();
        }
        // The bridge may have ended already.
        let _gone = self.end.take().unwrap().send(());
        let ended = timeout(TIMEOUT, self.ended).await.expect("it ends").unwrap();
        ended.map_err(|error| error.to_string())
    }
}

fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

/// Waits until a test's condition holds.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(TIMEOUT, waiting).await.expect(what);
}

fn shaken(asked: &Asked, session: &str) -> Told {
    match asked.what().as_str() {
        "initialize" => {
            let capabilities = json!({"tools": {"listChanged": true}, "prompts": {}});
            let result = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities});
            Told::result(asked, &result).with("mcp-session-id", session)
        }
        "GET" => Told::empty(405),
        "DELETE" => Told::empty(200),
        "tools/call" => Told::result(asked, &json!({"content": []})),
        _ => Told::empty(202),
    }
}

#[tokio::test]
async fn a_session_is_kept_and_ended() {
    let site = Site::new(|asked| shaken(asked, "s1")).await;
    let mut client = Client::new(&site, ServerTransport::Http);
    client.shake_hands().await;
    let answer = client
        .ask(request(
            12_345_678_901_234_567_u64,
            "tools/call",
            json!({"name": "a"}),
        ))
        .await;
    assert_eq!(
        (&answer["id"], &answer["result"]["content"]),
        (&json!(12_345_678_901_234_567_u64), &json!([]))
    );
    until("the server is listened to", || {
        site.story().contains(&"GET".to_owned())
    })
    .await;
    client.leave().await.unwrap();
    let asked = site.asked();
    assert_eq!(asked[0].header("mcp-session-id"), "-");
    assert_eq!(asked[0].header("authorization"), "Bearer t");
    for later in &asked[1..] {
        assert_eq!(
            (
                later.header("mcp-session-id"),
                later.header("mcp-protocol-version")
            ),
            ("s1", "2025-06-18")
        );
    }
    assert_eq!(asked[1].what(), "notifications/initialized");
    assert_eq!(asked.last().unwrap().what(), "DELETE");
}

/// A site that answers this with a stream, and the streams that it opened.
async fn streaming(what: &'static str) -> (Site, Arc<Mutex<Vec<mpsc::Sender<Bytes>>>>) {
    let streams = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&streams);
    let site = Site::new(move |asked| {
        if asked.what() != what {
            return shaken(asked, "s1");
        }
        let (told, sender) = Told::events();
        kept.lock().unwrap().push(sender);
        told
    });
    (site.await, streams)
}

#[tokio::test]
async fn what_a_server_says_unasked_comes_through_and_is_taken_up_again() {
    let (site, streams) = streaming("GET").await;
    let mut client = Client::new(&site, ServerTransport::Http);
    client.shake_hands().await;
    until("a stream", || !streams.lock().unwrap().is_empty()).await;
    let first = streams.lock().unwrap().remove(0);
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let text = "retry: 10\nid: e1\ndata: {\"jsonrpc\":\ndata: \"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";
    first.send(text.into()).await.unwrap();
    assert_eq!(client.hear().await, changed);
    drop(first);
    until("a second stream", || !streams.lock().unwrap().is_empty()).await;
    let second = site
        .asked()
        .into_iter()
        .rfind(|asked| asked.method == "GET")
        .unwrap();
    assert_eq!(second.header("last-event-id"), "e1");
    // The answer to the server's request is posted on a connection of its own.
    let second = streams.lock().unwrap().remove(0);
    let asks = request("q", "elicitation/create", json!({"message": "?"}));
    second.send(event(&asks).into()).await.unwrap();
    assert_eq!(client.hear().await, asks);
    client
        .send(json!({"jsonrpc": "2.0", "id": "q", "result": {"action": "decline"}}))
        .await;
    until("the answer", || {
        site.asked()
            .iter()
            .any(|asked| asked.message()["result"]["action"] == "decline")
    })
    .await;
    client.leave().await.unwrap();
}

#[tokio::test]
async fn an_answer_whose_stream_breaks_off_is_fetched() {
    let site = Site::new(
        |asked| match (asked.what().as_str(), asked.header("last-event-id")) {
            ("tools/call", _) => Told::these(&["retry: 10\nid: p1\ndata:\n\n".to_owned()]),
            ("GET", "p1") => Told::these(&[event(
                &json!({"jsonrpc": "2.0", "id": 5, "result": {"content": [7]}}),
            )]),
            _ => shaken(asked, "s1"),
        },
    )
    .await;
    let mut client = Client::new(&site, ServerTransport::Http);
    client.shake_hands().await;
    let answer = client.ask(request(5, "tools/call", json!({"name": "a"}))).await;
    assert_eq!(answer["result"]["content"], json!([7]));
    client.leave().await.unwrap();
}

#[tokio::test]
async fn a_session_that_the_server_forgot_is_begun_anew() {
    let sessions = Arc::new(Mutex::new(0));
    let count = Arc::clone(&sessions);
    let site = Site::new(move |asked| {
        let mut sessions = count.lock().unwrap();
        if asked.what() == "initialize" {
            *sessions += 1;
            return shaken(asked, &format!("s{sessions}"));
        }
        // The server was restarted after the first handshake.
        match (asked.what().as_str(), asked.header("mcp-session-id")) {
            ("tools/call", "s1") => Told::new(404, "application/json", "{}"),
            _ => shaken(asked, "-"),
        }
    })
    .await;
    let mut client = Client::new(&site, ServerTransport::Http);
    client.shake_hands().await;
    let answer = client.ask(request(1, "tools/call", json!({"name": "a"}))).await;
    assert_eq!(
        answer["method"], "notifications/tools/list_changed",
        "lists may be others"
    );
    let answer = client.hear().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["content"]),
        (&json!(1), &json!([]))
    );
    assert_eq!(*sessions.lock().unwrap(), 2);
    let again: Vec<Asked> = site
        .asked()
        .into_iter()
        .filter(|asked| asked.what() == "initialize")
        .collect();
    assert_eq!(again[1].message()["params"], again[0].message()["params"]);
    client.leave().await.unwrap();
}

#[tokio::test]
async fn what_goes_wrong_is_an_answer_with_its_cause() {
    let site = Site::new(|asked| match asked.message()["params"]["name"].as_str() {
        Some("login") => Told::empty(401),
        Some("page") => Told::new(200, "text/html", "<html>"),
        Some("broken") => Told::these(&[]),
        Some("said") => Told::new(
            400,
            "application/json",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"no such revision"}}"#,
        ),
        Some("null") => Told::new(
            200,
            "application/json",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"not read"}}"#,
        ),
        _ => Told::empty(404),
    })
    .await;
    let mut client = Client::new(&site, ServerTransport::Http);
    let mut told = Vec::new();
    for (id, name) in ["login", "page", "broken", "said", "null"].iter().enumerate() {
        let answer = client.ask(request(id, "tools/call", json!({"name": name}))).await;
        assert_eq!(answer["id"], id);
        let error = &answer["error"];
        told.push((
            error["code"].as_i64().unwrap(),
            error["message"].as_str().unwrap().to_owned(),
        ));
    }
    let url = &site.url;
    assert!(
        told[0]
            .1
            .starts_with(&format!("{url}: it needs a login (HTTP 401)")),
        "{told:?}"
    );
    assert!(
        told[1].1.contains("neither JSON nor a stream of events"),
        "{told:?}"
    );
    assert!(
        told[2].1.contains("its stream ended before the answer came"),
        "{told:?}"
    );
    assert_eq!(told[3], (-32_022, "no such revision".to_owned()));
    assert_eq!(told[4], (-32_000, "not read".to_owned()));
    client.leave().await.unwrap();
}

#[tokio::test]
async fn a_request_without_a_session_is_cancelled_by_the_end_of_its_stream() {
    let streams = Arc::new(Mutex::new(Vec::<mpsc::Sender<Bytes>>::new()));
    let kept = Arc::clone(&streams);
    let site = Site::new(move |asked| match asked.what().as_str() {
        "tools/list" => {
            let tool = json!({"name": "q", "inputSchema": {"type": "object", "properties":
                {"region": {"type": "string", "x-mcp-header": "Region"}}}});
            Told::result(asked, &json!({"tools": [tool]}))
        }
        "tools/call" => {
            let (told, sender) = Told::events();
            kept.lock().unwrap().push(sender);
            told
        }
        _ => Told::empty(400),
    })
    .await;
    let mut client = Client::new(&site, ServerTransport::Http);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    client.ask(request(1, "tools/list", json!({"_meta": meta}))).await;
    let call = json!({"name": "q", "arguments": {"region": "eu"}, "_meta": meta});
    client.send(request(2, "tools/call", call)).await;
    until("the call", || !streams.lock().unwrap().is_empty()).await;
    let called = site.asked().pop().unwrap();
    let told = [
        "mcp-protocol-version",
        "mcp-method",
        "mcp-name",
        "mcp-param-region",
    ]
    .map(|name| called.header(name).to_owned());
    assert_eq!(told, ["2026-07-28", "tools/call", "q", "eu"]);
    assert_eq!(called.header("mcp-session-id"), "-");
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    client.send(cancelled).await;
    let stream = streams.lock().unwrap().remove(0);
    timeout(TIMEOUT, stream.closed())
        .await
        .expect("the stream is closed");
    client.leave().await.unwrap();
    assert_eq!(site.story(), ["tools/list", "tools/call"]);
}

/// A server whose list requires the region of a call in a header; the list contains a text of `bytes` bytes.
async fn regional(bytes: usize) -> Site {
    Site::new(move |asked| match (asked.what().as_str(), asked.header("mcp-param-region")) {
        ("tools/list", _) => {
            let tool = json!({"name": "q", "description": "x".repeat(bytes), "inputSchema": {"type": "object",
                "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}});
            Told::result(asked, &json!({"tools": [tool]}))
        }
        ("tools/call", "eu") => Told::result(asked, &json!({"content": []})),
        _ => {
            let error = json!({"jsonrpc": "2.0", "id": asked.message()["id"], "error": {"code": -32_020, "message": "a header is missing"}});
            Told::new(400, "application/json", error.to_string())
        }
    })
    .await
}

/// Returns the parameters of a call of that server's tool.
fn regional_call(region: &str) -> Value {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    json!({"name": "q", "arguments": {"region": region}, "_meta": meta})
}

#[tokio::test]
async fn a_call_of_a_tool_that_was_listed_before_this_process_is_sent_as_its_list_says() {
    let site = regional(0).await;
    let mut client = Client::new(&site, ServerTransport::Http);
    let answer = client.ask(request(1, "tools/call", regional_call("eu"))).await;
    assert_eq!(answer["result"]["content"], json!([]), "{answer}");
    let answer = client.ask(request(2, "tools/call", regional_call("us"))).await;
    assert_eq!(answer["error"]["message"], "a header is missing", "{answer}");
    client.leave().await.unwrap();
    let calls = [
        "tools/call",
        "tools/list",
        "tools/call",
        "tools/call",
        "tools/list",
    ];
    assert_eq!(site.story(), calls);
}

/// The limit for listing many servers does not apply when one server is used.
#[tokio::test]
async fn the_list_that_says_how_a_call_is_sent_may_be_as_long_as_a_message() {
    let site = regional(5 << 20).await;
    let mut asking = site.asking();
    asking.max_message = 8 << 20;
    let mut client = Client::with(asking, ServerTransport::Http);
    let answer = client.ask(request(1, "tools/call", regional_call("eu"))).await;
    assert_eq!(answer["result"]["content"], json!([]), "{answer}");
    client.leave().await.unwrap();
    assert_eq!(site.story(), ["tools/call", "tools/list", "tools/call"]);
}

/// A server of 2024-11-05, and its stream.
async fn mailbox() -> (Site, Arc<Mutex<Option<mpsc::Sender<Bytes>>>>) {
    let stream = Arc::new(Mutex::new(None::<mpsc::Sender<Bytes>>));
    let kept = Arc::clone(&stream);
    let site = Site::new(move |asked| {
        if asked.method == "GET" {
            let (told, sender) = Told::events();
            sender
                .try_send("event: endpoint\ndata: /message?s=1\n\n".into())
                .unwrap();
            *kept.lock().unwrap() = Some(sender);
            return told;
        }
        if asked.path != "/message?s=1" {
            return Told::new(404, "text/html", "Cannot POST");
        }
        let result = match asked.what().as_str() {
            "initialize" => json!({"protocolVersion": "2025-06-18"}),
            "ping" => json!({}),
            _ => return Told::empty(202),
        };
        let answer = json!({"jsonrpc": "2.0", "id": asked.message()["id"], "result": result});
        let sender = kept.lock().unwrap().clone().unwrap();
        sender.try_send(event(&answer).into()).unwrap();
        Told::new(202, "text/plain", "Accepted")
    })
    .await;
    (site, stream)
}

#[tokio::test]
async fn a_server_of_the_transport_before_is_found_out_and_its_end_is_the_end() {
    let (site, stream) = mailbox().await;
    let mut client = Client::new(&site, ServerTransport::Http);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    let refused = client
        .ask(request(0, "server/discover", json!({"_meta": meta})))
        .await;
    assert!(
        refused["error"]["message"].as_str().unwrap().contains("404"),
        "{refused}"
    );
    client.shake_hands().await;
    assert_eq!(
        client.ask(request(1, "ping", json!({}))).await["result"],
        json!({})
    );
    client
        .send(request(2, "tools/call", json!({"name": "slow"})))
        .await;
    until("the call", || site.story().contains(&"tools/call".to_owned())).await;
    *stream.lock().unwrap() = None;
    let answer = client.hear().await;
    assert_eq!(answer["id"], 2);
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("its stream ended"),
        "{answer}"
    );
    let ended = timeout(TIMEOUT, client.ended).await.expect("it ends").unwrap();
    assert!(matches!(ended, Err(BridgeError::Ended { .. })), "{ended:?}");
}

#[tokio::test]
async fn a_client_that_says_no_more_still_gets_its_answers() {
    let (site, streams) = streaming("tools/call").await;
    let mut client = Client::new(&site, ServerTransport::Http);
    client.shake_hands().await;
    client.send(request(3, "tools/call", json!({"name": "a"}))).await;
    until("the call", || !streams.lock().unwrap().is_empty()).await;
    client.to.take().unwrap().shutdown().await.unwrap();
    let stream = streams.lock().unwrap().remove(0);
    let answer = json!({"jsonrpc": "2.0", "id": 3, "result": {}});
    stream.send(event(&answer).into()).await.unwrap();
    drop(stream);
    assert_eq!(client.hear().await, answer);
    let ended = timeout(TIMEOUT, client.ended).await.expect("it ends").unwrap();
    ended.unwrap();
    assert_eq!(site.story().last().map(String::as_str), Some("DELETE"));
}
