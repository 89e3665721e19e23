//! Lists that the filter asks for itself.

use std::{collections::BTreeSet, time::Duration};

use mcpmon_model::{Content, FromServer, Verdict};
use serde_json::{Value, json};

use super::*;

const BOUNDS: OwnLists = OwnLists {
    pages: 2,
    time: Duration::from_secs(20),
    pause: Duration::from_secs(30),
};
const SECOND: i64 = 1_000_000_000;

/// A client and a server with a filter between them that asks for lists.
struct Scene {
    filter: StdioFilter,
    lists: ListedNames,
    seconds: i64,
}

/// The names on a list.
#[derive(Default)]
struct ListedNames(BTreeSet<String>);

impl Arbiter for ListedNames {
    fn decide(&mut self, message: &Message<'_>) -> Verdict {
        if let Content::Server(FromServer::Listing(listing)) = &message.content {
            let names = listing.items.iter().map(|item| item.name.clone().into_owned());
            self.0.extend(names);
        }
        Verdict::Allow
    }

    fn is_listed(&mut self, tool: &str) -> bool {
        self.0.contains(tool)
    }
}

impl Scene {
    fn new() -> Self {
        Self {
            filter: StdioFilter::new(LIMITS).asking_itself(BOUNDS),
            lists: ListedNames::default(),
            seconds: 1000,
        }
    }

    fn does(
        &mut self,
        act: impl FnOnce(&mut StdioFilter, Timestamp, &mut dyn Arbiter, &mut StdioOutput),
    ) -> Written {
        let mut out = StdioOutput::default();
        let now = Timestamp(self.seconds * SECOND);
        act(&mut self.filter, now, &mut self.lists, &mut out);
        written(out)
    }

    fn says(&mut self, side: Side, lines: &[&str]) -> Written {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        self.does(|filter, now, arbiter, out| filter.push(now, side, text.as_bytes(), arbiter, out))
    }

    fn client(&mut self, line: &str) -> Written {
        self.says(Side::Client, &[line])
    }

    fn server(&mut self, line: &str) -> Written {
        self.says(Side::Server, &[line])
    }

    fn later(&mut self, seconds: i64) -> Written {
        self.seconds += seconds;
        self.does(StdioFilter::go_on)
    }
}

fn call(tool: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}}).to_string()
}

/// The answer to a question of the filter's own.
fn page(question: &Written, tool: &str, next: Option<&str>) -> String {
    let question: Value = serde_json::from_str(&question.to_server).unwrap();
    assert_eq!(question["method"], "tools/list");
    let tools = json!([{"name": tool, "inputSchema": {"type": "object"}}]);
    let mut result = json!({ "tools": tools });
    if let Some(next) = next {
        result["nextCursor"] = next.into();
    }
    json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string()
}

fn lines(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_call_of_a_tool_that_was_on_no_list_waits_for_the_list() {
    let mut scene = Scene::new();
    let (call, ping) = (call("forecast"), r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    let asked = scene.says(Side::Client, &[&call, ping]);
    assert!(scene.filter.is_asking());
    assert_eq!(asked.to_client, "");
    let answer = page(&asked, "forecast", None);
    let went_on = scene.server(&answer);
    assert!(!scene.filter.is_asking());
    assert_eq!(went_on.to_server, lines(&[&call, ping]), "in their order");
    assert_eq!(went_on.to_client, "", "the client sees nothing of it");
    assert_eq!(went_on.incidents, []);
    assert_eq!(scene.client(&call).to_server, "", "its id waits");
    let done = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
    assert_eq!(scene.server(done).to_client, lines(&[done]));
    assert_eq!(scene.client(&call).to_server, lines(&[&call]), "it is known now");
}

#[test]
fn all_pages_are_asked_for_but_no_more_than_may_be() {
    let mut scene = Scene::new();
    let call = call("third");
    let first = scene.client(&call);
    let answer = page(&first, "first", Some("p2"));
    let second = scene.server(&answer);
    assert!(second.to_server.contains(r#""cursor":"p2""#), "{second:?}");
    assert!(scene.filter.is_asking());
    let answer = page(&second, "second", Some("p3"));
    assert_eq!(scene.server(&answer).to_server, lines(&[&call]));
    assert!(!scene.filter.is_asking());
}

#[test]
fn what_does_not_come_is_waited_for_no_longer_than_may_be() {
    let mut scene = Scene::new();
    let call = call("forecast");
    let asked = scene.client(&call);
    assert_eq!(scene.later(19), Written::default());
    assert_eq!(scene.later(1).to_server, lines(&[&call]));
    let late = page(&asked, "forecast", None);
    let late = scene.server(&late);
    assert_eq!(late.to_client, "", "it goes to no client: {late:?}");
    let done = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
    scene.server(done);
    assert_eq!(
        scene.client(&call).to_server,
        lines(&[&call]),
        "it was asked a moment ago"
    );
    scene.server(done);
    scene.seconds += 30;
    assert!(scene.client(&call).to_server.contains("tools/list"));
}

#[test]
fn a_clock_that_goes_back_holds_up_nobody() {
    let mut scene = Scene::new();
    let call = call("forecast");
    scene.client(&call);
    assert_eq!(scene.later(-5).to_server, lines(&[&call]));
}

#[test]
fn an_error_and_what_is_no_list_go_to_no_client() {
    for wrong in [
        json!({"error": {"code": -32601, "message": "no"}}),
        json!({"result": 7}),
        json!({"result": {"tools": 7}}),
        json!({"error": 7}),
    ] {
        let mut scene = Scene::new();
        let call = call("forecast");
        let asked = scene.client(&call);
        let question: Value = serde_json::from_str(&asked.to_server).unwrap();
        let mut answer = wrong.clone();
        answer["jsonrpc"] = "2.0".into();
        answer["id"] = question["id"].clone();
        let went_on = scene.server(&answer.to_string());
        assert_eq!(went_on.to_server, lines(&[&call]), "{wrong}");
        assert_eq!(went_on.to_client, "", "{wrong}");
    }
}

#[test]
fn a_question_is_of_the_revision_of_the_call() {
    let mut scene = Scene::new();
    let version = "io.modelcontextprotocol/protocolVersion";
    let meta = json!({version: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": "forecast", "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let asked = scene.client(&call);
    let question: Value = serde_json::from_str(&asked.to_server).unwrap();
    assert_eq!(question["params"]["_meta"][version], "2026-07-28");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [{"name": "forecast", "inputSchema": {}}]}});
    assert_eq!(scene.server(&answer.to_string()).to_server, lines(&[&call]));
}

#[test]
fn a_server_that_ends_and_one_that_is_refused_leave_nobody_waiting() {
    let mut scene = Scene::new();
    let call = call("forecast");
    scene.client(&call);
    scene.does(|filter, _, _, out| filter.close(Side::Server, out));
    assert_eq!(scene.later(0).to_server, lines(&[&call]));

    let mut scene = Scene::new();
    scene.client(&call);
    let denial = denial();
    let told = scene.does(|filter, now, _, out| filter.turn_away(now, &denial, out));
    assert!(
        told.to_client.contains(&denial.reason) && !told.to_client.contains("mcpmon/list"),
        "{told:?}"
    );
    assert_eq!(told.to_client.lines().count(), 1);
    assert_eq!(told.to_server, "");
}

#[test]
fn whoever_asks_for_no_list_holds_nothing_back() {
    let call = call("forecast");
    let mut scene = Scene::new();
    scene.filter = StdioFilter::new(LIMITS);
    assert_eq!(scene.client(&call).to_server, lines(&[&call]));
}
