//! Pages that servers have their clients show, and tools that only these may call.

use mcpmon_model::EventKind;
use test_case::test_case;

use super::*;

const PAGE: &str = "ui://clock/view.html";

impl World {
    fn show(&mut self, text: &str, domain: &str) -> Judgement {
        let ui = format!(r#"{{"csp":{{"connectDomains":["{domain}"]}},"permissions":{{"camera":{{}}}}}}"#);
        let text = RawJson::quoted(text);
        let result = format!(r#"{{"contents":[{{"uri":"{PAGE}","text":{text},"_meta":{{"ui":{ui}}}}}]}}"#);
        let what = ClientRequestKind::Read { uri: PAGE.into() };
        self.result(what, &result, ResultKind::Complete)
    }

    fn call_by(&mut self, is_by_model: bool) -> Judgement {
        let id = RequestId::Number("8".into());
        let message = Message {
            era: Era::Handshake,
            id: Some(&id),
            trace: Trace {
                tool_call: is_by_model.then(|| "toolu_1".into()),
                parent: None,
            },
            size: 100,
            content: Content::Client(FromClient::Call(Call {
                tool: "set".into(),
                arguments: None,
                resumes: None,
            })),
        };
        self.monitor.observe(
            self.now,
            Observation::Message(&self.conversation, &message, Vec::new()),
        )
    }

    fn offer(&mut self, visibility: &str) {
        let tool = format!(r#"{{"name":"set","_meta":{{"ui":{{"visibility":{visibility}}}}}}}"#);
        let listing = Listing {
            kind: ListKind::Tools,
            items: vec![ListedItem {
                name: "set".into(),
                definition: RawJson::trusted(&tool),
            }],
            continued: false,
            more: false,
            is_part: false,
            result: RawJson::trusted("{}"),
            again: None,
        };
        drop(self.say(Content::Server(FromServer::Listing(listing))));
    }
}

#[test]
fn a_page_is_pinned_with_what_it_asks_for() {
    let mut world = World::new(policy());
    let first = world.show("<p>12:00</p>", "https://time.example");
    assert_eq!(first.verdict, Verdict::Allow, "{:?}", told(&first));
    let demands = first.events.iter().find_map(|event| {
        let EventKind::ToolSeen { description, .. } = &event.kind else {
            return None;
        };
        description.clone()
    });
    assert_eq!(
        demands.as_deref(),
        Some("connectDomains: https://time.example; permissions: camera")
    );
    assert_eq!(stored(&first), [PAGE]);
    assert_eq!(
        world.show("<p>12:00</p>", "https://time.example").verdict,
        Verdict::Allow
    );
    for (text, domain) in [
        ("<p>12:00</p>", "https://elsewhere.example"),
        ("<p>13:00</p>", "https://time.example"),
    ] {
        let changed = world.show(text, domain);
        assert_eq!(blocked_by(&changed), Some("version_pin"), "{:?}", told(&changed));
    }
    let key = DefinitionKey {
        kind: DefinitionKind::App,
        ..world.key(PAGE)
    };
    drop(
        world
            .monitor
            .approve(world.now, &key, "eve")
            .expect("it was read"),
    );
    assert_eq!(
        world.show("<p>13:00</p>", "https://time.example").verdict,
        Verdict::Allow
    );
}

#[test]
fn a_page_has_one_content() {
    let what = || ClientRequestKind::Read { uri: PAGE.into() };
    for contents in [
        "[]",
        r#"[{"text":"a"},{"text":"b"}]"#,
        r#"[{"text":"a","blob":""}]"#,
    ] {
        let mut world = World::new(policy());
        let read = world.result(
            what(),
            &format!(r#"{{"contents":{contents}}}"#),
            ResultKind::Complete,
        );
        assert_eq!(blocked_by(&read), Some("app_page"), "{contents}");
        assert_eq!(told(&read), ["mcp_request_judged block app_page"]);
    }
}

#[test_case(r#"["app"]"#, true, false => Some(Severity::High); "a model calls it")]
#[test_case(r#"["app"]"#, true, true => Some(Severity::High); "a model calls it beside an app")]
#[test_case(r#"["app"]"#, false, false => Some(Severity::Medium); "no app is open")]
#[test_case(r#"["app"]"#, false, true => None; "an app calls it")]
#[test_case(r#"["app","model"]"#, true, false => None; "a tool for both")]
fn tools_for_apps_alone(visibility: &str, is_by_model: bool, is_open: bool) -> Option<Severity> {
    let mut world = World::new(policy());
    world.offer(visibility);
    if is_open {
        drop(world.show("<p>", "https://time.example"));
    }
    let called = world.call_by(is_by_model);
    assert_eq!(called.verdict, Verdict::Allow);
    let noted = called
        .events
        .iter()
        .find(|event| event.rule.as_deref() == Some("app_only_tool"));
    noted.map(|event| event.severity)
}
