//! The client against servers of every kind, in this process.

mod site;

use std::sync::Mutex;

use serde_json::{Value, json};
use test_case::test_case;

pub(crate) use self::site::{Asked, Site, Told, event};
use super::{AnswerFault, ClientError, ServerOffer, ServerTransport, list};
use mcpmon_model::ListKind;

fn capable() -> Value {
    json!({"tools": {}, "resources": {}})
}

/// Returns a server's answer to requests for lists.
fn lists(asked: &Asked) -> Told {
    match asked.what().as_str() {
        "tools/list" => match asked.message()["params"]["cursor"].as_str() {
            None => Told::result(asked, &json!({"tools": [{"name": "a"}], "nextCursor": "2"})),
            Some(_) => Told::result(asked, &json!({"tools": [{"name": "b"}]})),
        },
        "resources/list" => Told::result(asked, &json!({"resources": [{"uri": "x://1", "name": "one"}]})),
        "resources/templates/list" => {
            let error = json!({"jsonrpc": "2.0", "id": asked.message()["id"], "error": {"code": -32_601, "message": "no"}});
            Told::new(200, "application/json", error.to_string())
        }
        "DELETE" => Told::empty(200),
        _ => Told::new(400, "text/plain", "what?"),
    }
}

fn shaken(asked: &Asked) -> Told {
    match asked.what().as_str() {
        "initialize" => {
            let result = json!({"protocolVersion": "2025-06-18", "capabilities": capable(), "instructions": "Be kind.",
                "serverInfo": {"name": "site", "version": "1"}});
            Told::result(asked, &result).with("mcp-session-id", "s1")
        }
        "notifications/initialized" => Told::empty(202),
        _ => lists(asked),
    }
}

fn names(offer: &ServerOffer, kind: ListKind) -> Vec<String> {
    let mut names = Vec::new();
    offer.definitions(|list, definition| {
        if list == kind {
            names.extend(
                definition
                    .member("name")
                    .and_then(|name| Some(name.string()?.into_owned())),
            );
        }
    });
    names
}

async fn fault(answer: impl Fn(&Asked) -> Told + Send + Sync + 'static, way: ServerTransport) -> String {
    let site = Site::new(answer).await;
    match list(site.asking(), way).await {
        Ok(offer) => format!("{offer:?}"),
        Err(ClientError { url, fault }) => {
            assert_eq!(url, site.url);
            fault.to_string()
        }
    }
}

#[tokio::test]
async fn a_server_without_sessions_is_asked_by_requests_alone() {
    let site = Site::new(|asked| {
        assert_eq!(asked.header("mcp-method"), asked.what());
        assert_eq!(asked.header("mcp-protocol-version"), "2026-07-28");
        assert_eq!(asked.header("authorization"), "Bearer t");
        let meta = &asked.message()["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        match asked.what().as_str() {
            "server/discover" => Told::result(
                asked,
                &json!({"capabilities": capable(), "instructions": "Be kind.", "resultType": "complete",
                    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "site"}}}),
            ),
            _ => lists(asked),
        }
    })
    .await;
    let offer = list(site.asking(), ServerTransport::Http).await.unwrap();
    assert_eq!(offer.version, "2026-07-28");
    assert_eq!(
        (offer.name.as_deref(), offer.instructions.as_deref()),
        (Some("site"), Some("Be kind."))
    );
    assert_eq!(names(&offer, ListKind::Tools), ["a", "b"]);
    assert_eq!(names(&offer, ListKind::Resources), ["one"]);
    assert_eq!(offer.turns.len(), 4);
    assert_eq!(
        site.story(),
        [
            "server/discover",
            "tools/list",
            "tools/list",
            "resources/list",
            "resources/templates/list"
        ]
    );
}

#[tokio::test]
async fn a_server_with_sessions_is_asked_in_one_that_is_ended() {
    let site = Site::new(shaken).await;
    let offer = list(site.asking(), ServerTransport::Http).await.unwrap();
    assert_eq!(offer.version, "2025-06-18");
    assert_eq!(names(&offer, ListKind::Tools), ["a", "b"]);
    assert!(offer.turns[0].request.contains("\"initialize\""));
    let asked = site.asked();
    assert_eq!(
        site.story(),
        [
            "server/discover",
            "initialize",
            "notifications/initialized",
            "tools/list",
            "tools/list",
            "resources/list",
            "resources/templates/list",
            "DELETE"
        ]
    );
    assert_eq!(asked[1].header("mcp-session-id"), "-");
    for later in &asked[2..] {
        assert_eq!(later.header("mcp-session-id"), "s1");
        assert_eq!(later.header("mcp-protocol-version"), "2025-06-18");
        assert_eq!(later.header("mcp-method"), "-");
    }
}

#[tokio::test]
async fn what_a_server_asks_before_it_answers_is_answered() {
    let site = Site::new(|asked| match asked.what().as_str() {
        "tools/list" => Told::these(&[
            ": here\nid: 1\ndata:\n\n".to_owned(),
            event(&json!({"jsonrpc": "2.0", "id": 7, "method": "ping"})),
            event(&json!({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage"})),
            event(
                &json!({"jsonrpc": "2.0", "id": asked.message()["id"], "result": {"tools": [{"name": "a"}]}}),
            ),
        ]),
        // Answers to the requests of the server.
        "POST" => Told::empty(202),
        _ => shaken(asked),
    })
    .await;
    let offer = list(site.asking(), ServerTransport::Http).await.unwrap();
    assert_eq!(names(&offer, ListKind::Tools), ["a"]);
    let answers: Vec<Value> = site
        .asked()
        .iter()
        .filter(|asked| asked.what() == "POST")
        .map(Asked::message)
        .collect();
    assert_eq!(
        (&answers[0]["id"], &answers[0]["result"]),
        (&json!(7), &json!({}))
    );
    assert_eq!(
        (&answers[1]["id"], &answers[1]["error"]["code"]),
        (&json!("q"), &json!(-32_601))
    );
}

/// A server of 2024-11-05: one stream, and a place for messages.
fn mailbox(endpoint: &'static str) -> impl Fn(&Asked) -> Told + Send + Sync {
    let stream = Mutex::new(None::<tokio::sync::mpsc::Sender<bytes::Bytes>>);
    move |asked| {
        if asked.method == "GET" {
            let (told, sender) = Told::events();
            let welcome = format!("event: endpoint\ndata: {endpoint}\n\n");
            sender.try_send(welcome.into()).unwrap();
            *stream.lock().unwrap() = Some(sender);
            return told;
        }
        if asked.path != endpoint {
            return Told::new(404, "text/html", "Cannot POST");
        }
        let result = match asked.what().as_str() {
            "initialize" => {
                json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "old"}})
            }
            "tools/list" => json!({"tools": [{"name": "a"}]}),
            _ => return Told::new(202, "text/plain", "Accepted"),
        };
        let answer = json!({"jsonrpc": "2.0", "id": asked.message()["id"], "result": result});
        let sender = stream.lock().unwrap().clone().unwrap();
        sender.try_send(event(&answer).into()).unwrap();
        Told::new(200, "text/plain", "ok")
    }
}

#[test_case(ServerTransport::Http; "found out")]
#[test_case(ServerTransport::Sse; "known")]
#[tokio::test]
async fn a_server_of_the_transport_before_is_asked_by_two_ways(way: ServerTransport) {
    let site = Site::new(mailbox("/message?session=1")).await;
    let offer = list(site.asking(), way).await.unwrap();
    assert_eq!(
        (offer.version.as_str(), offer.name.as_deref()),
        ("2024-11-05", Some("old"))
    );
    assert_eq!(names(&offer, ListKind::Tools), ["a"]);
}

#[tokio::test]
async fn credentials_go_to_no_other_server() {
    let told = fault(mailbox("http://192.0.2.1/message"), ServerTransport::Sse).await;
    assert_eq!(
        told,
        "it names http://192.0.2.1/message as the place for messages, which is another server"
    );
}

#[test_case(|_| Told::empty(401) => "it needs a login (HTTP 401): give what it gave you with `--header-env Authorization=VARIABLE`, the variable holding for example `Bearer TOKEN`".to_owned(); "login")]
#[test_case(|_| Told::empty(307).with("location", "https://example.com/mcp?key=1") => "it redirects to https://example.com/mcp: give that URL if you trust it".to_owned(); "redirection")]
#[test_case(|_| Told::new(503, "text/plain", "later") => "it answered with HTTP status 503: later".to_owned(); "status")]
#[test_case(|_| Told::new(200, "text/html", "<html>") => "it answered with `text/html`, which is neither JSON nor a stream of events: is this the URL of an MCP server?".to_owned(); "another site")]
#[test_case(|_| Told::new(200, "application/json", "{}") => "what it answered is no message of MCP: it answers something else".to_owned(); "other json")]
#[test_case(|asked| Told::result(asked, &json!({"protocolVersion": "1999-01-01"})) => "what it answered is no message of MCP: it speaks revision `1999-01-01`, which mcpmon does not know".to_owned(); "revision")]
#[test_case(|asked| Told::new(200, "application/json", json!([{"jsonrpc": "2.0", "id": asked.message()["id"], "result": {}}]).to_string()) => "what it answered is no message of MCP: it speaks revision ``, which mcpmon does not know".to_owned(); "an array")]
#[test_case(|_| Told::new(200, "application/json", vec![b' '; 2 << 20]) => "it sent a message of more than 1048576 bytes (`mcp.limits.max_line`)".to_owned(); "too long")]
#[test_case(|_| Told::these(&["data: x\n\n".to_owned()]) => "its stream ended before the answer came".to_owned(); "no answer")]
#[test_case(|asked| match asked.what().as_str() {
    "tools/list" => {
        let next = asked.message()["params"]["cursor"].as_str().map_or(0, str::len);
        Told::result(asked, &json!({"tools": [], "nextCursor": "x".repeat(next + 1)}))
    }
    _ => shaken(asked),
} => "it does not come to an end: more than 200 pages".to_owned(); "pages without an end")]
#[test_case(|asked| match asked.what().as_str() {
    "tools/list" => Told::result(asked, &json!({"tools": vec![json!({}); 10_001]})),
    _ => shaken(asked),
} => "it does not come to an end: more than 10000 tools".to_owned(); "tools without an end")]
#[test_case(|asked| match asked.what().as_str() {
    "tools/list" => {
        let next = asked.message()["params"]["cursor"].as_str().map_or(0, str::len);
        let filler = "x".repeat(1 << 19);
        Told::result(asked, &json!({"tools": [{"name": filler}], "nextCursor": "x".repeat(next + 1)}))
    }
    _ => shaken(asked),
} => "it does not come to an end: more than 4194304 bytes".to_owned(); "bytes without an end")]
#[tokio::test]
async fn faults_are_told_by_their_cause(answer: fn(&Asked) -> Told) -> String {
    fault(answer, ServerTransport::Http).await
}

/// Cursors count against the limit, because they are sent back and kept too.
#[tokio::test]
async fn what_is_asked_counts_as_what_is_answered() {
    let cursors = fault(
        |asked| match asked.what().as_str() {
            "tools/list" => {
                let next = asked.message()["params"]["cursor"].as_str().map_or(0, str::len);
                Told::result(
                    asked,
                    &json!({"tools": [], "nextCursor": "x".repeat((1 << 19) + next % 64 + 1)}),
                )
            }
            _ => shaken(asked),
        },
        ServerTransport::Http,
    );
    assert_eq!(
        cursors.await,
        "it does not come to an end: more than 4194304 bytes"
    );
}

#[tokio::test]
async fn a_message_may_be_as_long_as_all_of_them() {
    let site = Site::new(|asked| match asked.what().as_str() {
        "tools/list" => Told::result(asked, &json!({"tools": [{"name": "x".repeat(4 << 20)}]})),
        _ => shaken(asked),
    })
    .await;
    let mut asking = site.asking();
    asking.max_message = 16 << 20;
    let error = list(asking, ServerTransport::Http).await.unwrap_err();
    assert_eq!(
        error.fault.to_string(),
        "it does not come to an end: more than 4194304 bytes"
    );
}

/// Of several members with one name, most readers use the last.
#[tokio::test]
async fn what_is_said_twice_is_read_as_most_do() {
    let site = Site::new(|asked| match asked.what().as_str() {
        "tools/list" => {
            let id = &asked.message()["id"];
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[]}},"result":{{"tools":[{{"name":"a","name":"b"}}],"t\u006fols":[{{"name":"c"}}]}}}}"#
            );
            Told::new(200, "application/json", body)
        }
        _ => shaken(asked),
    })
    .await;
    let offer = list(site.asking(), ServerTransport::Http).await.unwrap();
    assert_eq!(names(&offer, ListKind::Tools), ["c"]);
}

#[tokio::test]
async fn pages_in_a_circle_are_read_once() {
    let site = Site::new(|asked| match asked.what().as_str() {
        "tools/list" => Told::result(asked, &json!({"tools": [{"name": "a"}], "nextCursor": "same"})),
        _ => shaken(asked),
    })
    .await;
    let offer = list(site.asking(), ServerTransport::Http).await.unwrap();
    assert_eq!(names(&offer, ListKind::Tools).len(), 2);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told() {
    let mut asking = Site::new(|_| Told::empty(200)).await.asking();
    asking.address = super::Address::new("http://127.0.0.1:1/mcp").unwrap();
    let error = list(asking, ServerTransport::Http).await.unwrap_err();
    assert!(matches!(error.fault, AnswerFault::Unreachable(_)), "{error}");
    assert!(
        error
            .to_string()
            .starts_with("http://127.0.0.1:1/mcp: it cannot be reached: "),
        "{error}"
    );
}
