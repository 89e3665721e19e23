//! A report of a session with a little of everything.

use mcpmon_model::{Action, CallOutcome, Direction, Event, EventKind};
use mcpmon_store::{Entry, Span, sample};

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
    let watch = Entry::Watch(Span { since, until });
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
        "## Connections\n\nNot seen: only a daemon sees connections, and none watched.\n",
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
        // Of a resource: no call comes back.
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
        let reader = Reader::open(&directory.path().join("mcpmon.db")).unwrap();
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
    let page = watched(events, Form::Table, None);
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

#[test]
fn what_a_server_says_is_no_markup() {
    let html = shown(Format::Html);
    assert!(
        html.contains("&lt;script&gt;|helper") && !html.contains("<script>"),
        "{html}"
    );
    assert!(html.contains("Content-Security-Policy"));
}

#[test]
fn a_session_that_is_not_there_is_said_to_be_none() {
    let (_directory, store) = sample::store();
    let reader = Reader::open(store.path()).unwrap();
    let (mut data, mut notes) = (Vec::new(), Vec::new());
    let mut output = Output::plain(&mut data, &mut notes, Form::Table);
    let options = Options {
        session: "none".to_owned(),
        format: None,
    };
    let error = run(&options, &reader, &mut output).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
}
