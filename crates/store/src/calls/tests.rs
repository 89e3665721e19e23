use std::collections::BTreeSet;

use mcpmon_model::{CallOutcome, Event, EventKind, ProcessRef, ServerId, Severity};
use test_case::test_case;

use super::*;
use crate::sample;

fn loaded(events: Vec<Event>, filter: &Filter, limit: u32) -> Vec<String> {
    let (_directory, mut store) = sample::store();
    sample::fill(&mut store, events);
    let name = |event: &Option<StoredEvent>| event.as_ref().map_or(0, |event| event.seq);
    find(store.connection(), filter, limit)
        .unwrap()
        .iter()
        .map(|places| read(store.connection(), places).unwrap())
        .map(|call| {
            let intent = match &call.intent {
                Some(intent) => format!("{}>", intent.seq),
                None => String::new(),
            };
            format!(
                "{intent}{}-{}-{}",
                name(&call.judged),
                name(&call.called),
                name(&call.returned)
            )
        })
        .collect()
}

#[test]
fn each_call_has_its_own_judgement_and_answer() {
    let events = vec![
        sample::called("a", 1),
        sample::intercepted("b", 2, Action::Audit),
        sample::called("b", 2),
        sample::returned("b", 2, CallOutcome::Ok),
        sample::intercepted("c", 3, Action::Block),
        sample::returned("a", 1, CallOutcome::Failed),
        sample::called("a", 1),
    ];
    assert_eq!(
        loaded(events.clone(), &Filter::default(), 10),
        ["0-1-6", "2-3-4", "5-0-0", "0-7-0"]
    );
    assert_eq!(loaded(events.clone(), &Filter::default(), 2), ["5-0-0", "0-7-0"]);
    let blocked = Filter {
        action: Some(Action::Block),
        ..Filter::default()
    };
    assert_eq!(loaded(events, &blocked, 10), ["5-0-0"]);
    assert_eq!(loaded(Vec::new(), &Filter::default(), 10), [""; 0]);
}

#[test]
fn calls_of_other_sessions_are_others() {
    let mut elsewhere = sample::returned("a", 1, CallOutcome::Ok);
    elsewhere.session_id = Some(SessionId::new("s2"));
    let events = vec![sample::called("a", 1), elsewhere];
    assert_eq!(loaded(events, &Filter::default(), 10), ["0-1-0"]);
}

fn wanted(tool: &str, id: Option<&str>, second: i64, action: Action) -> Event {
    sample::at(second, sample::wanted(tool, id, action))
}

#[test]
fn what_was_wanted_first_and_written_last_is_of_its_call() {
    let call = sample::at(1, sample::called("a", 1));
    let answer = sample::at(2, sample::returned("a", 1, CallOutcome::Ok));
    let intent = wanted("a", Some("toolu_1"), 0, Action::Allow);
    let events = vec![call, answer, intent];
    assert_eq!(loaded(events, &Filter::default(), 10), ["3>0-1-2"]);
}

/// A call of a client that sends no ids of other layers.
fn called(tool: &str, request: u32, input: &str, second: i64) -> Event {
    let mut event = sample::called(tool, request);
    if let EventKind::ToolCalled {
        tool_call_id,
        input: given,
        ..
    } = &mut event.kind
    {
        *tool_call_id = None;
        *given = Some(input.to_owned());
    }
    sample::at(second, event)
}

/// An event of a component that does not know which server has the tool `visible`.
fn unknown(mut event: Event, visible: &str) -> Event {
    event.server_id = None;
    if let EventKind::ToolCallIntercepted { tool_name, .. } = &mut event.kind {
        visible.clone_into(tool_name);
    }
    event
}

fn of_session(mut event: Event, session: Option<&str>) -> Event {
    event.session_id = session.map(SessionId::new);
    event
}

fn of_server(mut event: Event, server: &str) -> Event {
    event.server_id = Some(ServerId::new(server).unwrap());
    event
}

/// An event of a component that knows the user.
fn of_user(mut event: Event, user: u32) -> Event {
    use EventKind::{ToolCallIntercepted, ToolCalled, ToolReturned};
    if let ToolCallIntercepted { client_uid, .. }
    | ToolCalled { client_uid, .. }
    | ToolReturned { client_uid, .. } = &mut event.kind
    {
        *client_uid = Some(user);
    }
    event
}

/// An event of a server that this user runs.
fn of_process(mut event: Event, user: u32) -> Event {
    event.process = Some(ProcessRef {
        pid: 10,
        uid: Some(user),
        ..ProcessRef::default()
    });
    event
}

/// An event of a client whose session is unknown.
fn alone(event: Event, user: u32) -> Event {
    of_user(of_session(event, None), user)
}

#[test]
fn calls_of_two_users_whose_sessions_nobody_knows_are_two() {
    let events = vec![
        alone(sample::intercepted("a", 1, Action::Audit), 1000),
        alone(sample::called("b", 1), 1001),
        alone(sample::called("a", 1), 1000),
        alone(sample::returned("a", 1, CallOutcome::Ok), 1000),
        alone(sample::returned("b", 1, CallOutcome::Ok), 1001),
    ];
    assert_eq!(loaded(events, &Filter::default(), 10), ["1-3-4", "0-2-5"]);
}

const INPUT: &str = r#"{"path":"/home/me/a.txt"}"#;

#[test_case(vec![wanted("a", Some("toolu_1"), 0, Action::Allow), sample::at(1, sample::called("a", 1))] => vec!["1>0-2-0"]; "by its id")]
#[test_case(vec![wanted("a", Some("toolu_2"), 0, Action::Allow), sample::at(1, sample::called("a", 1))] => vec!["1>0-0-0", "0-2-0"]; "another id")]
#[test_case(vec![wanted("a", Some("x"), 0, Action::Allow), called("a", 1, INPUT, 1)] => vec!["1>0-2-0"]; "by its content")]
#[test_case(vec![wanted("a", None, 0, Action::Allow), called("a", 1, "{ \"path\" : \"/home/me/a.txt\" }", 1)] => vec!["1>0-2-0"]; "written in another way")]
#[test_case(vec![wanted("a", None, 0, Action::Allow), called("a", 1, "{}", 1)] => vec!["1>0-0-0", "0-2-0"]; "other arguments")]
#[test_case(vec![wanted("a", None, 0, Action::Allow), called("b", 1, INPUT, 1)] => vec!["1>0-0-0", "0-2-0"]; "another tool")]
#[test_case(vec![wanted("a", None, 0, Action::Allow), called("a", 1, INPUT, 300)] => vec!["1>0-2-0"]; "as late as can be")]
#[test_case(vec![wanted("a", None, 0, Action::Allow), called("a", 1, INPUT, 301)] => vec!["1>0-0-0", "0-2-0"]; "too late")]
#[test_case(vec![wanted("a", None, 0, Action::Allow), wanted("a", None, 1, Action::Allow), called("a", 1, INPUT, 2), called("a", 2, INPUT, 3)] => vec!["1>0-3-0", "2>0-4-0"]; "two alike")]
#[test_case(vec![wanted("a", Some("toolu_1"), 0, Action::Block), sample::at(1, sample::called("a", 1))] => vec!["1>0-0-0", "0-2-0"]; "one that was stopped does not come")]
#[test_case(vec![unknown(wanted("a", Some("toolu_1"), 0, Action::Allow), "mcp__files__a"), sample::at(1, sample::called("a", 1))] => vec!["1>0-2-0"]; "by its id, whosever it is")]
#[test_case(vec![unknown(wanted("a", None, 0, Action::Allow), "mcp__my_files__Read_A"), called("read-a", 1, INPUT, 1)] => vec!["1>0-2-0"]; "by its content, whosever it is")]
#[test_case(vec![unknown(wanted("a", None, 0, Action::Allow), "mcp__my_files__read_b"), called("read-a", 1, INPUT, 1)] => vec!["1>0-0-0", "0-2-0"]; "another tool of nobody knows whom")]
#[test_case(vec![of_session(wanted("a", Some("toolu_1"), 0, Action::Allow), Some("review-0123456789ab")), of_session(sample::at(1, sample::called("a", 1)), Some("claude-0123456789ab"))] => vec!["1>0-2-0"]; "a session under two names")]
#[test_case(vec![of_session(wanted("a", None, 0, Action::Allow), Some("review-0123456789ab")), of_session(called("a", 1, INPUT, 1), Some("claude-0123456789ab"))] => vec!["1>0-2-0"]; "by its content, in a session under two names")]
#[test_case(vec![of_session(wanted("a", Some("toolu_1"), 0, Action::Allow), None), sample::at(1, sample::called("a", 1))] => vec!["1>0-2-0"]; "of a session that only one knows")]
#[test_case(vec![of_session(wanted("a", Some("toolu_1"), 0, Action::Allow), Some("claude-0123456789ab")), of_session(sample::at(1, sample::called("a", 1)), Some("claude-0123456789ac"))] => vec!["1>0-0-0", "0-2-0"]; "the same id in another session")]
#[test_case(vec![of_session(wanted("b", Some("toolu_1"), 0, Action::Allow), None), sample::at(1, sample::called("a", 1))] => vec!["1>0-0-0", "0-2-0"]; "the same id of another tool in a session that only one knows")]
#[test_case(vec![wanted("a", Some("toolu_1"), 0, Action::Allow), of_session(of_server(sample::at(1, sample::called("a", 1)), "mail"), None)] => vec!["1>0-0-0", "0-2-0"]; "the same id of another server in a session that only one knows")]
#[test_case(vec![of_session(unknown(wanted("a", Some("toolu_1"), 0, Action::Allow), "t7"), None), sample::at(1, sample::called("a", 1))] => vec!["1>0-0-0", "0-2-0"]; "the same id under another name in a session that only one knows")]
#[test_case(vec![unknown(wanted("a", Some("toolu_1"), 0, Action::Allow), "t7"), sample::at(1, sample::called("a", 1))] => vec!["1>0-2-0"]; "by its id under another name")]
#[test_case(vec![wanted("a", Some("toolu_1"), 0, Action::Allow), of_server(sample::at(1, sample::called("a", 1)), "mail")] => vec!["1>0-2-0"]; "by its id, of another server that has such a tool")]
#[test_case(vec![wanted("b", Some("toolu_1"), 0, Action::Allow), sample::at(1, sample::called("a", 1))] => vec!["1>0-0-0", "0-2-0"]; "the same id of another tool")]
#[test_case(vec![wanted("a", Some("toolu_1"), 0, Action::Allow), sample::at(300, sample::called("a", 1))] => vec!["1>0-2-0"]; "by its id, as late as can be")]
#[test_case(vec![wanted("a", Some("toolu_1"), 0, Action::Allow), sample::at(301, sample::called("a", 1))] => vec!["1>0-0-0", "0-2-0"]; "the same id too late")]
#[test_case(vec![unknown(wanted("a", None, 0, Action::Allow), "mcp__files__搜索"), called("搜索", 1, INPUT, 1)] => vec!["1>0-2-0"]; "by its content, in letters of any script")]
#[test_case(vec![unknown(wanted("a", None, 0, Action::Allow), "mcp__files__read"), called("搜索", 1, INPUT, 1)] => vec!["1>0-0-0", "0-2-0"]; "another tool, in letters of any script")]
#[test_case(vec![unknown(wanted("a", None, 0, Action::Allow), "mcp__files__read"), called("__", 1, INPUT, 1)] => vec!["1>0-0-0", "0-2-0"]; "a tool without a letter")]
#[test_case(vec![wanted("b", Some("toolu_1"), 0, Action::Allow), wanted("a", Some("toolu_1"), 0, Action::Allow), sample::at(1, sample::called("b", 1)), sample::at(1, sample::called("a", 1))] => vec!["1>0-3-0", "2>0-4-0"]; "one id for two calls")]
#[test_case(vec![wanted("a", Some("toolu_1"), 0, Action::Allow), wanted("a", Some("toolu_1"), 1, Action::Allow), sample::at(2, sample::called("a", 1))] => vec!["1>0-0-0", "2>0-3-0"]; "asked for twice, called once")]
#[test_case(vec![alone(wanted("a", Some("toolu_1"), 0, Action::Allow), 1000), of_user(sample::at(1, sample::called("a", 1)), 1001)] => vec!["1>0-0-0", "0-2-0"]; "the same id of another user")]
#[test_case(vec![alone(wanted("a", None, 0, Action::Allow), 1000), of_user(called("a", 1, INPUT, 1), 1001)] => vec!["1>0-0-0", "0-2-0"]; "the same content of another user")]
#[test_case(vec![alone(wanted("a", None, 0, Action::Allow), 1000), alone(wanted("a", None, 0, Action::Allow), 1001), of_user(called("a", 1, INPUT, 1), 1001)] => vec!["1>0-0-0", "2>0-3-0"]; "the same content of two users")]
#[test_case(vec![alone(wanted("a", None, 0, Action::Allow), 1000), called("a", 1, INPUT, 1)] => vec!["1>0-2-0"]; "by its content, where only one knows the user")]
#[test_case(vec![of_user(wanted("a", Some("toolu_1"), 0, Action::Allow), 1000), of_process(sample::at(1, sample::called("a", 1)), 1001)] => vec!["1>0-0-0", "0-2-0"]; "the same id of another user's server")]
#[test_case(vec![of_user(wanted("a", Some("toolu_1"), 0, Action::Allow), 1000), of_process(sample::at(1, sample::called("a", 1)), 1000)] => vec!["1>0-2-0"]; "by its id, of a server of the user")]
#[test_case(vec![sample::intercepted("a", 1, Action::Block), wanted("a", Some("toolu_1"), 1, Action::Allow), sample::at(2, sample::called("a", 1))] => vec!["1-0-0", "2>0-3-0"]; "an id that a stopped call had")]
#[test_case(vec![wanted("a", Some("toolu_1"), 0, Action::Allow), sample::at(1, sample::intercepted("a", 1, Action::Audit)), sample::at(1, sample::called("a", 1)), sample::at(2, sample::returned("a", 1, CallOutcome::Ok))] => vec!["1>2-3-4"]; "all of it")]
fn what_a_model_wanted_is_part_of_the_call(events: Vec<Event>) -> Vec<String> {
    loaded(events, &Filter::default(), 10)
}

#[test_case(Filter { severity: Some(Severity::Low), ..Filter::default() }; "as bad")]
#[test_case(Filter { action: Some(Action::Audit), ..Filter::default() }; "with an action")]
fn what_came_of_a_judged_call_is_found_whatever_was_recorded_before_it(filter: Filter) {
    let audited = |request| {
        let mut event = sample::intercepted("b", request, Action::Audit);
        event.severity = Severity::Low;
        event
    };
    let others = (100..200).flat_map(|request| {
        [
            sample::called("a", request),
            sample::returned("a", request, CallOutcome::Ok),
        ]
    });
    let call = |request| {
        [
            audited(request),
            sample::called("b", request),
            sample::called("b", request + 1),
            sample::returned("b", request, CallOutcome::Ok),
        ]
    };
    let events: Vec<Event> = call(1).into_iter().chain(others).chain(call(3)).collect();
    // The limit is three events of each kind; the results in between belong to other calls.
    assert_eq!(loaded(events.clone(), &filter, 2), ["1-2-4", "205-206-208"]);
    assert_eq!(loaded(events, &filter, 1), ["205-206-208"]);
}

#[test]
fn companions_of_many_judged_calls_are_each_found_once() {
    const CALLS: u32 = 240;
    let tools = ["a", "b"].into_iter().cycle();
    let sessions = [None, Some("s1"), Some("s2")].into_iter().cycle();
    let events = (0..CALLS)
        .zip(tools)
        .zip(sessions)
        .flat_map(|((number, tool), session)| {
            let judged = sample::intercepted(tool, number, Action::Audit);
            [
                unknown(judged.clone(), &format!("t{number}")),
                judged,
                sample::called(tool, number),
                sample::returned(tool, number, CallOutcome::Ok),
            ]
            .map(|event| of_session(event, session))
        });
    let (_directory, mut store) = sample::store();
    sample::fill(&mut store, events);
    let connection = store.connection();
    let newest = EventRange::Newest { limit: 4 * CALLS };
    let judged = query::find(connection, &of_types(&Filter::default(), &[JUDGED]), newest).unwrap();
    // The companions of each judgement alone.
    let mut expected = BTreeSet::new();
    for position in &judged {
        let event = query::event_at(connection, position.seq).unwrap().unwrap();
        let window = EventRange::After {
            seq: position.seq - POSITIONS_BEFORE,
            limit: MAX_NEAR,
        };
        expected.extend(query::find(connection, &companions_of(event), window).unwrap());
    }
    let found = companions(connection, &judged).unwrap();
    assert_eq!(found.iter().copied().collect::<BTreeSet<_>>(), expected);
    // Events with the same tool or none, in the same session or none.
    assert!(found.len() <= 4 * expected.len(), "{}", found.len());
}

#[test]
fn the_least_severity_is_no_filter() {
    // More results of other calls than are searched for one judged call.
    let others = (2..200).map(|request| sample::returned("a", request, CallOutcome::Ok));
    let answer = sample::returned("a", 1, CallOutcome::Ok);
    let events = std::iter::once(sample::called("a", 1))
        .chain(others)
        .chain([answer]);
    let filter = Filter {
        severity: Some(Severity::Info),
        ..Filter::default()
    };
    assert_eq!(loaded(events.collect(), &filter, 100), ["0-1-200"]);
}

#[test]
fn the_newest_calls_are_kept_with_their_answers_where_there_are_more() {
    let events = (1..=50).flat_map(|request| {
        [
            sample::called("a", request),
            sample::intercepted("b", 100 + request, Action::Audit),
            sample::returned("a", request, CallOutcome::Ok),
        ]
    });
    assert_eq!(
        loaded(events.collect(), &Filter::default(), 3),
        ["146-0-0", "0-148-150", "149-0-0"]
    );
}
