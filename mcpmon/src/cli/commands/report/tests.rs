//! Tests of a report on a session with events of many types.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use html5ever::tendril::TendrilSink as _;
use markup5ever_rcdom::{NodeData, RcDom};
use mcpmon_model::{Action, CallOutcome, Direction, Event, EventKind};
use mcpmon_store::{Span, StoreEntry, sample};
use sha2::{Digest as _, Sha256};

use super::*;
use crate::cli::{ErrorKind, commands::scene, output::Form};

fn events() -> Vec<Event> {
    let mut started = sample::started("files", 10);
    if let EventKind::ServerStarted { wrapped, .. } = &mut started.kind {
        *wrapped = true;
    }
    vec![
        sample::called("read_file", 1),
        started,
        sample::started("files", 11),
        sample::connection("files", 10, "192.0.2.1:443", Direction::ServerEgress),
        sample::connection("unrelated", 99, "192.0.2.9:443", Direction::ServerEgress),
        sample::returned("read_file", 1, CallOutcome::Ok),
        sample::detected("<script>|helper"),
        sample::intercepted("write_file", 2, Action::Block),
    ]
}

/// Returns the report on these events, all of them watched.
fn watched(events: Vec<Event>, form: Form, format: Option<Format>) -> String {
    let options = Options {
        session: "s1".to_owned(),
        format,
    };
    let since = mcpmon_model::Timestamp(sample::NOON);
    let until = mcpmon_model::Timestamp(sample::NOON + 100 * sample::SECOND);
    let watch = StoreEntry::Watch(Span { since, until });
    scene::shown_with(vec![watch], events, form, |reader, output| {
        run(&options, &reader, output)
    })
}

fn shown(format: Format) -> String {
    watched(events(), Form::Json, Some(format))
}

#[test]
fn the_json_is_as_documented() {
    scene::assert_documented("report", false, &shown(Format::Json));
}

#[test]
fn what_nobody_could_see_is_said_to_be_unseen() {
    let options = |format| Options {
        session: "s1".to_owned(),
        format: Some(format),
    };
    let mut started = sample::started("files", 10);
    if let EventKind::ServerStarted { wrapped, .. } = &mut started.kind {
        *wrapped = true;
    }
    started.session_id = Some(mcpmon_model::SessionId::new("s1"));
    let of = |format| {
        let events = vec![started.clone(), sample::called("read_file", 1)];
        scene::shown(events, Form::Json, |reader, output| {
            run(&options(format), &reader, output)
        })
    };
    let page = of(Format::Md);
    for said in [
        "| coverage | unknown: only a daemon sees servers that no wrapper started |",
        "## Connections\n\nNot recorded: only the daemon sees connections, and no trace of one is left.\n",
        "no daemon watched the session: connections, and servers that no wrapper started, were neither seen nor stopped",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    let json: serde_json::Value = serde_json::from_str(of(Format::Json).lines().next().unwrap()).unwrap();
    assert_eq!(json["coverage"]["percent"], serde_json::Value::Null);
    assert_eq!(json["connections"], serde_json::Value::Null);
    assert_eq!(json["watched"], "no");
    assert_eq!(json["not_enforced"].as_array().unwrap().len(), 1);
}

#[test]
fn a_server_that_a_model_invented_is_not_among_those_that_were_connected() {
    let mut invented = sample::wanted("read_file", Some("toolu_9"), Action::Allow);
    invented.server_id = Some(mcpmon_model::ServerId::new("imagined").unwrap());
    let report = report_of(vec![sample::called("read_file", 1), invented]);
    assert_eq!(report["servers_connected"], serde_json::json!(["files"]));
}

#[test]
fn a_report_as_markdown() {
    insta::assert_snapshot!(shown(Format::Md), @r#"
        # Session s1

        ## Overview

        | what | value |
        |---|---|
        | agent | unknown |
        | started | 2026-11-20T12:00:00.000000000Z |
        | ended | 2026-11-20T12:00:00.000000000Z |
        | tools seen | 0 |
        | coverage | 1 of 2 launches wrapped (50 %) |

        ## Servers connected

        | server |
        |---|
        | files |

        ## Tools seen

        None.

        ## Tools changed

        None.

        ## Detections by severity

        | severity | count |
        |---|---|
        | critical | 1 |

        ## Top detections

        | server | tool | pattern | severity | count |
        |---|---|---|---|---|
        | files | \<script\>\|helper | credential_file | critical | 1 |

        ## Calls by verdict

        | verdict | count |
        |---|---|
        | allow | 1 |
        | block | 1 |

        ## Blocked

        | time | server | what | rule | reason and remedy |
        |---|---|---|---|---|
        | 2026-11-20T12:00:00.000000000Z | files | mcp_detection \<script\>\|helper |  |  |
        | 2026-11-20T12:00:00.000000000Z | files | mcp_tool_call_intercepted write_file | mcp.version_pinning | its definition changed; run \`mcpmon approve files:read_file\` |

        ## Connections

        | remote | action | count |
        |---|---|---|
        | 192.0.2.1:443 | allow | 1 |

        ## Would have been blocked

        None.

        ## What was not enforced

        None.

        ## Changes of tools

        None.

        ## Timeline

        | time | call | layer | type | server | what | verdict | severity | rule | reason and remedy | arguments | event |
        |---|---|---|---|---|---|---|---|---|---|---|---|
        | 2026-11-20T12:00:00.000000000Z | 1 | stdio | mcp_tool_called | files | read_file | allow | info |  |  | {"path":"/home/me/a.txt"} | 00000000-0000-0000-0000-000000000001 |
        | 2026-11-20T12:00:00.000000000Z |  | kernel | mcp_server_started | files | npx -y @modelcontextprotocol/server-filesystem /home/me | allow | info |  |  |  | 00000000-0000-0000-0000-000000000002 |
        | 2026-11-20T12:00:00.000000000Z |  | kernel | mcp_server_started | files | npx -y @modelcontextprotocol/server-filesystem /home/me | allow | info |  |  |  | 00000000-0000-0000-0000-000000000003 |
        | 2026-11-20T12:00:00.000000000Z |  | kernel | mcp_network_connection | files | 192.0.2.1:443 | allow | info |  |  |  | 00000000-0000-0000-0000-000000000004 |
        | 2026-11-20T12:00:00.000000000Z | 1 | stdio | mcp_tool_returned | files | read_file ok after 12ms | allow | info |  |  |  | 00000000-0000-0000-0000-000000000006 |
        | 2026-11-20T12:00:00.000000000Z |  | stdio | mcp_detection | files | \<script\>\|helper: credential_file in description | block | critical |  |  |  | 00000000-0000-0000-0000-000000000007 |
        | 2026-11-20T12:00:00.000000000Z | 2 | stdio | mcp_tool_call_intercepted | files | write_file | block | high | mcp.version_pinning | its definition changed; run \`mcpmon approve files:read_file\` | {"path":"/home/me/a.txt"} | 00000000-0000-0000-0000-000000000008 |
        ---
        "#);
}

#[test]
fn the_form_of_every_command_is_that_of_a_report_too() {
    let of = |format| watched(events(), Form::Json, format);
    assert_eq!(of(None), shown(Format::Json));
    assert_eq!(of(Some(Format::Html)), shown(Format::Html));
    assert_ne!(of(None), of(Some(Format::Html)));
}

#[test]
fn a_report_as_json() {
    let text = shown(Format::Json);
    let report: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(report["servers_connected"], serde_json::json!(["files"]));
    assert_eq!(report["calls"], serde_json::json!({"allow": 1, "block": 1}));
    assert_eq!(
        report["coverage"],
        serde_json::json!({"seen": 2, "wrapped": 1, "percent": 50})
    );
    assert_eq!(
        report["detections_by_severity"],
        serde_json::json!({"critical": 1})
    );
    assert_eq!(report["connections"][0]["remote"], "192.0.2.1:443");
    assert_eq!(
        report["connections"].as_array().unwrap().len(),
        1,
        "of its own servers"
    );
    assert_eq!(report["blocked_count"], 2);
}

fn report_of(events: Vec<Event>) -> serde_json::Value {
    let text = watched(events, Form::Json, Some(Format::Json));
    serde_json::from_str(text.lines().next().unwrap()).unwrap()
}

fn with(action: Action, mut event: Event) -> Event {
    event.action = action;
    event
}

/// Returns the subjects in a list of a report, each without its time.
fn whats(report: &serde_json::Value, list: &str) -> Vec<String> {
    let entries = report[list].as_array().unwrap().iter();
    entries
        .map(|entry| entry["what"].as_str().unwrap().to_owned())
        .collect()
}

/// A result with two findings that is withheld, and a definition with one that is hidden, listed twice.
fn stopped(action: Action) -> Vec<Event> {
    let events = vec![
        sample::called("read_mail", 1),
        with(action, sample::at(1, sample::detected("read_mail"))),
        with(action, sample::at(1, sample::detected("read_mail"))),
        with(action, sample::at(1, sample::inspected("read_mail"))),
        with(
            action,
            sample::at(1, sample::returned("read_mail", 1, CallOutcome::Withheld)),
        ),
        with(action, sample::at(2, sample::hidden("helper"))),
        with(action, sample::at(2, sample::detected("helper"))),
        with(action, sample::at(2, sample::hidden("other"))),
        with(action, sample::at(2, sample::detected("other"))),
        with(action, sample::at(3, sample::hidden("helper"))),
        // The finding is in a resource, so there is no result of a call.
        with(action, sample::at(4, sample::detected(""))),
        with(action, sample::at(4, sample::inspected(""))),
    ];
    events
}

#[test]
fn a_finding_and_what_is_stopped_for_it_count_once() {
    let report = report_of(stopped(Action::Block));
    assert_eq!(
        report["detections_by_severity"],
        serde_json::json!({"critical": 5})
    );
    let top = report["top_detections"].as_array().unwrap().iter();
    let counts = top.map(|top| (top["tool_name"].as_str().unwrap(), top["count"].as_u64().unwrap()));
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [("read_mail", 2), ("", 1), ("helper", 1), ("other", 1)]
    );
    assert_eq!(
        whats(&report, "blocked"),
        [
            "mcp_tool_returned read_mail",
            "mcp_tool_seen helper",
            "mcp_tool_seen other",
            "mcp_output_inspection "
        ]
    );
    assert_eq!(report["blocked_count"], 4);
}

#[test]
fn a_line_says_what_was_stopped() {
    let told = |events: Vec<Event>| {
        let (directory, mut store) = sample::store();
        sample::fill(&mut store, events);
        let reader = StoreReader::open(&directory.path().join("mcpmon.db")).unwrap();
        line(&reader, "s1").unwrap()
    };
    assert_eq!(
        told(stopped(Action::Block)),
        "1 server, 1 call, 2 definitions hidden, 2 other uses blocked, 5 findings"
    );
    let call = sample::intercepted("write_file", 2, Action::Block);
    assert_eq!(
        told(vec![sample::called("read_file", 1), call]),
        "1 server, 2 calls, 1 call blocked, 0 findings"
    );
    assert_eq!(
        told(stopped(Action::WouldBlock)),
        "1 server, 1 call, 4 uses that would have been blocked, 5 findings"
    );
}

#[test]
fn what_would_have_been_stopped_is_told_as_not_enforced() {
    let mut events = stopped(Action::WouldBlock);
    events.extend([
        sample::at(5, sample::intercepted("send", 2, Action::WouldBlock)),
        sample::at(5, with(Action::WouldBlock, sample::called("send", 2))),
    ]);
    let report = report_of(events.clone());
    assert_eq!(report["blocked_count"], 0);
    assert_eq!(
        whats(&report, "would_block"),
        [
            "mcp_tool_returned read_mail",
            "mcp_tool_seen helper",
            "mcp_tool_seen other",
            "mcp_output_inspection ",
            "mcp_tool_call_intercepted send"
        ]
    );
    assert_eq!(report["would_block_count"], 5);
    let page = watched(events, Form::Json, Some(Format::Md));
    let (_, gaps) = page.split_once("## What was not enforced").unwrap();
    assert!(
        gaps.contains("mode observe: 5 uses went on that would have been blocked"),
        "{page}"
    );
}

#[test]
fn calls_that_are_stopped_at_one_time_are_as_many_as_they_are() {
    let mut crossed = sample::called("send", 1);
    crossed.kind = EventKind::CrossServerBlocked {
        blocked_tool_name: "send".to_owned(),
        related_calls: Vec::new(),
        evidence: Vec::new(),
    };
    let report = report_of(vec![
        with(Action::Block, crossed),
        sample::intercepted("send", 1, Action::Block),
        sample::intercepted("send", 2, Action::Block),
        with(Action::Block, sample::detected("send")),
    ]);
    let call = "mcp_tool_call_intercepted send";
    assert_eq!(whats(&report, "blocked"), [call, call]);
}

/// Returns the JSON from which a page draws the report.
fn embedded(html: &str) -> &str {
    let (_, rest) = html
        .split_once(r#"<script type="application/json" id="report">"#)
        .unwrap();
    rest.split_once("</script>").unwrap().0
}

#[test]
fn what_a_server_says_is_no_markup() {
    let html = watched(
        vec![sample::detected(
            "</script><script>alert(1)<!--\u{202e}{script}&lt;",
        )],
        Form::Json,
        Some(Format::Html),
    );
    assert_eq!(html.matches("</script").count(), 2, "its data and its own script");
    let json = embedded(&html);
    assert!(!json.contains(['<', '>', '&', '\u{202e}']), "{json}");
    let report: serde_json::Value = serde_json::from_str(json).unwrap();
    let tool = &report["top_detections"][0]["tool_name"];
    assert_eq!(tool, "</script><script>alert(1)<!--\u{202e}{script}&lt;");
}

#[test]
fn a_page_has_all_that_the_json_has() {
    let (html, json) = (shown(Format::Html), shown(Format::Json));
    let parse = |text| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(parse(embedded(&html)), parse(json.lines().next().unwrap()));
}

#[test]
fn a_page_lets_nothing_run_or_load_but_what_it_brings() {
    let html = shown(Format::Html);
    let (_, policy) = html.split_once(r#"content="default-src 'none'; "#).unwrap();
    let policy = policy.split_once('"').unwrap().0;
    assert_eq!(policy.matches("'sha256-").count(), 2, "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(!html.contains("_digest}"), "{html}");
    let links = [
        "src",
        "href",
        "srcset",
        "data",
        "action",
        "style",
        "background",
        "poster",
        "ping",
    ];
    let elements = elements(&html);
    for element in &elements {
        let names = element.attributes.keys().map(String::as_str);
        let external: Vec<_> = names
            .filter(|name| links.contains(name) || name.starts_with("on"))
            .collect();
        assert!(external.is_empty(), "{} has {external:?}", element.name);
    }
    let names: BTreeSet<&str> = elements.iter().map(|element| element.name.as_str()).collect();
    let expected = [
        "body", "code", "head", "html", "main", "meta", "noscript", "p", "script", "style", "title",
    ];
    assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);
    for (text, part) in [(page::STYLE, "the style"), (page::SCRIPT, "the script")] {
        for fetched in [
            "http:",
            "https:",
            "@import",
            "url(",
            "fetch(",
            "import(",
            "innerHTML",
            "eval(",
        ] {
            assert!(!text.contains(fetched), "{part} has {fetched}");
        }
    }
}

/// An element of a page, as a browser parses it.
struct HtmlElement {
    name: String,
    attributes: BTreeMap<String, String>,
    /// The text directly in the element.
    text: String,
}

/// Returns the elements of a page in their order, read without a script as well: `noscript` has elements.
fn elements(html: &str) -> Vec<HtmlElement> {
    let options = html5ever::ParseOpts {
        tree_builder: html5ever::tree_builder::TreeBuilderOpts {
            scripting_enabled: false,
            ..Default::default()
        },
        ..Default::default()
    };
    let document = html5ever::parse_document(RcDom::default(), options).one(html);
    let mut nodes = vec![document.document.clone()];
    let mut elements = Vec::new();
    while let Some(node) = nodes.pop() {
        let children = node.children.borrow();
        nodes.extend(children.iter().rev().cloned());
        let NodeData::Element { name, attrs, .. } = &node.data else {
            continue;
        };
        let attribute = |attribute: &html5ever::Attribute| {
            (attribute.name.local.to_string(), attribute.value.to_string())
        };
        let texts = children.iter().filter_map(|child| match &child.data {
            NodeData::Text { contents } => Some(contents.borrow().to_string()),
            NodeData::Document
            | NodeData::Doctype { .. }
            | NodeData::Comment { .. }
            | NodeData::Element { .. }
            | NodeData::ProcessingInstruction { .. } => None,
        });
        elements.push(HtmlElement {
            name: name.local.to_string(),
            attributes: attrs.borrow().iter().map(attribute).collect(),
            text: texts.collect(),
        });
    }
    elements
}

/// A browser draws nothing if the digests in the policy are not those of the style and the script as it reads them.
#[test]
fn the_policy_of_a_page_allows_its_style_and_script() {
    let html = shown(Format::Html);
    for (directive, name) in [("style-src", "style"), ("script-src", "script")] {
        let elements = elements(&html).into_iter();
        let of_name = elements.filter(|element| element.name == name && element.attributes.is_empty());
        let texts: Vec<String> = of_name.map(|element| element.text).collect();
        assert_eq!(texts.len(), 1, "{name}");
        let digest = STANDARD.encode(Sha256::digest(&texts[0]));
        assert!(
            html.contains(&format!("{directive} 'sha256-{digest}'")),
            "{directive}"
        );
    }
}

#[test]
fn a_page_parsed_as_html_has_the_report_with_every_character() {
    let hostile = "</script><!--<script>\u{2028}\u{2029}\u{202e}\u{200b}\0]]>&lt;{report}{style}\\u003c";
    let html = watched(
        vec![sample::detected(hostile), sample::called(hostile, 1)],
        Form::Json,
        Some(Format::Html),
    );
    let scripts = elements(&html)
        .into_iter()
        .filter(|element| element.name == "script");
    let scripts: Vec<HtmlElement> = scripts.collect();
    assert_eq!(scripts.len(), 2);
    let json = &scripts[0].text;
    assert_eq!(scripts[0].attributes["type"], "application/json");
    assert!(
        !json.contains(['\u{2028}', '\u{2029}', '\u{202e}', '\u{200b}', '\0', '<']),
        "{json}"
    );
    let report: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(report["top_detections"][0]["tool_name"], hostile);
}

#[test]
fn more_than_a_report_has_is_counted_in_each_form() {
    let connection = |number: u16| {
        let address = format!("192.0.{}.{}:443", number / 250, number % 250);
        sample::connection("files", 10, &address, Direction::ServerEgress)
    };
    let events = || {
        let connections = std::iter::once(sample::called("read_file", 0)).chain((0..1_003).map(connection));
        let calls = (1..2_000).map(|id| sample::at(1, sample::called("read_file", id)));
        let last = sample::at(2, sample::detected("read_file"));
        connections.chain(calls).chain([last]).collect::<Vec<_>>()
    };
    let report = report_of(events());
    assert_eq!(report["connections"].as_array().unwrap().len(), 1_000);
    assert_eq!(report["connections_count"], 1_003);
    let timeline = report["timeline"].as_array().unwrap();
    assert_eq!(
        (timeline.len(), &report["timeline_count"]),
        (2_000, &3_004.into())
    );
    assert_eq!(
        timeline.last().unwrap()["type"],
        "mcp_detection",
        "the most severe stays"
    );
    let page = watched(events(), Form::Json, Some(Format::Md));
    for said in [
        "and 3 more: the store has them",
        "and 1004 more: the store has them",
    ] {
        assert!(page.contains(said), "{said}");
    }
}

#[test]
fn long_arguments_are_cut_and_it_is_said() {
    let mut call = sample::called("read_file", 1);
    if let EventKind::ToolCalled { input, .. } = &mut call.kind {
        *input = Some(format!("{{\"text\":\"{}\"}}", "é".repeat(3_000)));
    }
    let report = report_of(vec![call]);
    let input = report["timeline"][0]["input"].as_str().unwrap();
    assert!(input.ends_with("é … (1011 characters more)"), "{input}");
}

#[test]
fn the_events_of_a_call_are_joined() {
    let mut wanted = sample::wanted("read_file", Some("toolu_9"), Action::Allow);
    wanted.session_id = Some(mcpmon_model::SessionId::new("s1"));
    let mut called = sample::called("read_file", 1);
    if let EventKind::ToolCalled { tool_call_id, .. } = &mut called.kind {
        *tool_call_id = Some("toolu_9".to_owned());
    }
    let events = vec![
        sample::at(0, wanted),
        sample::at(1, called),
        sample::at(2, sample::returned("read_file", 1, CallOutcome::Ok)),
        // The server was started again, and counts its ids from the beginning.
        sample::at(3, sample::called("read_file", 1)),
        sample::at(4, sample::detected("read_file")),
    ];
    let report = report_of(events);
    let timeline = report["timeline"].as_array().unwrap().iter();
    let calls: Vec<_> = timeline.map(|entry| entry["call"].as_u64()).collect();
    assert_eq!(calls, [Some(1), Some(1), Some(1), Some(2), None]);
    assert_eq!(report["timeline_count"], 5);
}

#[test]
fn what_changed_in_a_tool_is_told_field_by_field() {
    let mut changed = sample::at(1, sample::detected("read_file"));
    changed.kind = EventKind::ToolChanged {
        definition: mcpmon_model::DefinitionKind::Tool,
        tool_name: "read_file".to_owned(),
        previous_hash: mcpmon_model::Digest::of(b"before"),
        new_hash: Some(mcpmon_model::Digest::of(b"now")),
        changes: vec![mcpmon_model::FieldChange {
            field: "description".to_owned(),
            previous: "Reads a file".to_owned(),
            new: "Reads\u{200b} a file|".to_owned(),
        }],
        renamed_from: Some("read".to_owned()),
        detections: Vec::new(),
    };
    let page = watched(
        vec![sample::called("read_file", 1), changed.clone()],
        Form::Json,
        Some(Format::Md),
    );
    for row in [
        "| files | read_file | (renamed) | read | read_file |",
        r"| files | read_file | description | Reads a file | Reads\\u{200b} a file\| |",
    ] {
        assert!(page.contains(row), "{row}: {page}");
    }
    let report = report_of(vec![sample::called("read_file", 1), changed]);
    assert_eq!(report["tool_changes_count"], 1);
    let change = &report["tool_changes"][0];
    assert_eq!(
        (&change["tool_name"], &change["listed"]),
        (&"read_file".into(), &true.into())
    );
    let field = &change["fields"][0];
    assert_ne!(field["previous"], field["new"], "{change}");
    let pairs = report["tools_changed"].as_array().unwrap();
    assert_eq!(pairs.len(), 1);
}

#[test]
fn a_session_that_is_not_there_is_said_to_be_none() {
    let (_directory, store) = sample::store();
    let reader = StoreReader::open(store.path()).unwrap();
    let (mut data, mut notes) = (Vec::new(), Vec::new());
    let mut output = Output::plain(&mut data, &mut notes, Form::Table);
    let options = Options {
        session: "none".to_owned(),
        format: None,
    };
    let error = run(&options, &reader, &mut output).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
}
