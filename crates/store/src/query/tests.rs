use mcpmon_model::{ContainerRef, Direction, ProcessRef};
use proptest::prelude::*;
use test_case::test_case;

use super::*;
use crate::{Store, StoreReader, sample};

fn reader() -> (tempfile::TempDir, StoreReader) {
    let (directory, mut store) = sample::store();
    let mut contained = sample::connection("weather", 30, "192.0.2.1:443", Direction::ServerEgress);
    contained.container = Some(ContainerRef {
        container_id: Some("4f1c9a".into()),
        ..ContainerRef::default()
    });
    sample::fill(
        &mut store,
        [
            sample::at(1, sample::started("files", 10)),
            sample::at(2, sample::blocked_connection()),
            sample::at(3, sample::mismatch("files", 10)),
            sample::at(4, contained),
            sample::at(5, sample::exited("files", 10, 0)),
        ],
    );
    let reader = StoreReader::open(&directory.path().join("mcpmon.db")).unwrap();
    (directory, reader)
}

fn listed(filter: &Filter) -> Vec<i64> {
    let (_directory, reader) = reader();
    let events = reader.events(filter, 100).unwrap();
    events.into_iter().map(|event| event.seq).collect()
}

fn any() -> Filter {
    Filter::default()
}

/// Returns an event whose fields have these numbers of few values; 0 is none of a field that may be missing.
fn numbered(
    number: u128,
    [kind, server, session, pid, tool, severity, action, at]: [usize; 8],
) -> StoredEvent {
    let id = Uuid::from_u128(number);
    let mut event = StoredEvent::new(id, "laptop", sample::started("files", 10));
    event.kind = KINDS[kind].to_owned();
    event.server_id = (server > 0).then(|| server.to_string());
    event.session_id = (session > 0).then(|| session.to_string());
    event.severity = SEVERITIES[severity];
    event.action = ACTIONS[action];
    event.timestamp = Timestamp(at as i64);
    event.process = (pid > 0).then_some(ProcessRef {
        pid: pid as u32,
        exe: None,
        comm: None,
        uid: None,
    });
    event.data.clear();
    event
        .data
        .extend((tool > 0).then(|| ("tool_name".to_owned(), tool.to_string().into())));
    event
}

const KINDS: [&str; 3] = ["mcp_server_started", "mcp_tool_called", "mcp_mind_read"];
const SEVERITIES: [Severity; 3] = [Severity::Info, Severity::Medium, Severity::High];
const ACTIONS: [Action; 3] = [Action::Allow, Action::Audit, Action::Block];

/// Returns whether an event meets the conditions of a filter.
fn is_met(filter: &Filter, event: &StoredEvent) -> bool {
    let pid = event.process.as_ref().map(|process| process.pid);
    let tool = event.data.get("tool_name").and_then(|tool| tool.as_str());
    let session = event.session_id.as_ref();
    (filter.types.is_empty() || filter.types.contains(&event.kind))
        && (filter.sessions.is_empty() || session.is_some_and(|session| filter.sessions.contains(session)))
        && (filter.server.is_none() || filter.server == event.server_id)
        && (filter.pid.is_none() || filter.pid == pid)
        && (filter.tool.is_none() || filter.tool.as_deref() == tool)
        && filter.severity.is_none_or(|least| event.severity >= least)
        && filter.action.is_none_or(|action| event.action == action)
        && filter.since.is_none_or(|since| event.timestamp >= since)
        && filter.until.is_none_or(|until| event.timestamp < until)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_found_is_what_a_look_at_every_event_finds(
        rows in prop::collection::vec(prop::array::uniform8(0..3_usize), 0..60),
        (kinds, sessions) in (prop::collection::vec(0..3_usize, 0..3), prop::collection::vec(1..3_usize, 0..3)),
        [server, pid, tool] in prop::array::uniform3(prop::option::of(1..3_usize)),
        [severity, action] in prop::array::uniform2(prop::option::of(0..3_usize)),
        [since, until] in prop::array::uniform2(prop::option::of(0..4_i64)),
        (after, limit) in (prop::option::of(0..60_i64), 0..70_u32),
    ) {
        let mut connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&mut connection).unwrap();
        let events: Vec<StoredEvent> = (0..).zip(rows).map(|(number, row)| numbered(number, row)).collect();
        row::insert(&connection, &events.iter().collect::<Vec<_>>(), |_, _| Ok(())).unwrap();
        let filter = Filter {
            types: kinds.into_iter().map(|kind| KINDS[kind].to_owned()).collect(),
            sessions: sessions.iter().map(usize::to_string).collect(),
            server: server.map(|server| server.to_string()),
            pid: pid.map(|pid| pid as u32),
            tool: tool.map(|tool| tool.to_string()),
            severity: severity.map(|severity| SEVERITIES[severity]),
            action: action.map(|action| ACTIONS[action]),
            since: since.map(Timestamp),
            until: until.map(Timestamp),
            ..any()
        };
        let window = match after {
            Some(seq) => EventRange::After { seq, limit },
            None => EventRange::Newest { limit },
        };
        let found = find(&connection, &filter, window).unwrap();
        let met = (1..).zip(&events).filter(|(seq, event)| {
            *seq > after.unwrap_or_default() && is_met(&filter, event)
        });
        let mut expected: Vec<i64> = met.map(|(seq, _)| seq).collect();
        match after {
            Some(_) => expected.truncate(limit as usize),
            None => drop(expected.drain(..expected.len().saturating_sub(limit as usize))),
        }
        let found: Vec<i64> = found.into_iter().map(|position| position.seq).collect();
        prop_assert_eq!(found, expected);
    }
}

fn second(second: i64) -> Option<Timestamp> {
    Some(Timestamp(sample::NOON + second * sample::SECOND))
}

#[test_case(any() => vec![1, 2, 3, 4, 5]; "everything")]
#[test_case(Filter { types: vec!["mcp_server_started".into()], ..any() } => vec![1]; "one type")]
#[test_case(Filter { types: vec!["mcp_server_started".into(), "mcp_server_exited".into()], ..any() } => vec![1, 5]; "two types")]
#[test_case(Filter { types: vec!["mcp_server_%".into()], ..any() } => vec![0; 0]; "a type is no pattern")]
#[test_case(Filter { sessions: vec!["s1".into()], ..any() } => vec![2]; "session")]
#[test_case(Filter { server: Some("files".into()), ..any() } => vec![1, 3, 5]; "server")]
#[test_case(Filter { server: Some("files' OR '1'='1".into()), ..any() } => vec![0; 0]; "a value is no SQL")]
#[test_case(Filter { action: Some(Action::Block), ..any() } => vec![2]; "action")]
#[test_case(Filter { severity: Some(Severity::High), ..any() } => vec![2, 3]; "severity or worse")]
#[test_case(Filter { severity: Some(Severity::Critical), ..any() } => vec![0; 0]; "nothing as bad")]
#[test_case(Filter { since: second(2), until: second(4), ..any() } => vec![2, 3]; "from and before")]
#[test_case(Filter { pid: Some(4242), ..any() } => vec![2]; "process")]
#[test_case(Filter { container: Some("4f1c".into()), ..any() } => vec![4]; "start of a container id")]
#[test_case(Filter { container: Some("1c9a".into()), ..any() } => vec![0; 0]; "middle of a container id")]
#[test_case(Filter { server: Some("files".into()), action: Some(Action::Audit), ..any() } => vec![3]; "both")]
#[test_case(Filter { server: Some("files".into()), action: Some(Action::Allow), ..any() } => vec![1, 5]; "allowed, of a server")]
#[test_case(Filter { types: vec!["mcp_server_started".into(), "mcp_server_exited".into()], pid: Some(10), since: second(2), ..any() } => vec![5]; "two types, of a process, from a time on")]
fn filters(filter: Filter) -> Vec<i64> {
    listed(&filter)
}

#[test]
fn a_tool_is_found_in_the_kinds_own_fields() {
    let (directory, mut store) = sample::store();
    let mut event = StoredEvent::new(Uuid::nil(), "laptop", sample::started("files", 10));
    store.append(std::slice::from_ref(&event)).unwrap();
    event.data.insert("tool_name".into(), "read_file".into());
    store.append(&[event]).unwrap();
    let reader = StoreReader::open(&directory.path().join("mcpmon.db")).unwrap();
    let filter = Filter {
        tool: Some("read_file".into()),
        ..any()
    };
    assert_eq!(reader.events(&filter, 10).unwrap()[0].seq, 2);
}

#[test]
fn the_newest_are_listed_oldest_first() {
    let (_directory, reader) = reader();
    let seqs = |events: Vec<StoredEvent>| events.into_iter().map(|event| event.seq).collect::<Vec<_>>();
    assert_eq!(seqs(reader.events(&any(), 2).unwrap()), [4, 5]);
    assert_eq!(seqs(reader.events_after(1, &any(), 2).unwrap()), [2, 3]);
    assert_eq!(reader.last_seq().unwrap(), 5);
}

/// The steps by which the newest events are found.
fn plan(store: &Store, filter: &Filter) -> Vec<String> {
    let Select { text, values } = Select::new(filter, ReadOrder::NewestFirst, 0, 9, 7);
    let explain = format!("EXPLAIN QUERY PLAN {text}");
    let mut explain = store.connection().prepare(&explain).unwrap();
    let steps = explain
        .query_map(params_from_iter(values), |row| row.get("detail"))
        .unwrap();
    steps.map(Result::unwrap).collect()
}

fn is_sorted(plan: &[String]) -> bool {
    plan.iter().any(|step| step.contains("TEMP B-TREE"))
}

#[test_case(Filter { server: Some("s".into()), ..any() }; "of a server")]
#[test_case(Filter { tool: Some("t".into()), ..any() }; "about a tool")]
#[test_case(Filter { pid: Some(7), ..any() }; "of a process")]
#[test_case(Filter { action: Some(Action::Block), ..any() }; "with an action")]
#[test_case(Filter { severity: Some(Severity::High), ..any() }; "as bad")]
#[test_case(Filter { trace: Some("t".into()), ..any() }; "of a trace")]
fn each_filter_is_looked_at_in_the_index_alone(filter: Filter) {
    let (_directory, store) = sample::store();
    let alone = plan(&store, &filter);
    assert!(
        alone[0].starts_with("SCAN events USING COVERING INDEX events_listed"),
        "{alone:?}"
    );
    let types = vec!["t".to_owned(), "u".to_owned()];
    let of_types = plan(&store, &Filter { types, ..filter });
    let looks = "SEARCH events USING COVERING INDEX events_listed (type=? AND seq>? AND seq<?)";
    assert_eq!(
        of_types.iter().filter(|step| *step == looks).count(),
        2,
        "{of_types:?}"
    );
    assert!(!is_sorted(&of_types), "{of_types:?}");
}

#[test]
fn a_session_is_found_by_its_index_in_order() {
    let (_directory, store) = sample::store();
    let sessions = vec!["s".to_owned(), "s".to_owned()];
    let types = vec!["t".to_owned(), "u".to_owned()];
    let plan = plan(
        &store,
        &Filter {
            sessions,
            types,
            ..any()
        },
    );
    assert!(
        plan[0].contains("INDEX events_by_session (session_id=?"),
        "{plan:?}"
    );
    assert!(!is_sorted(&plan), "{plan:?}");
}

#[test]
fn what_most_events_have_is_found_from_the_newest_on() {
    let (_directory, store) = sample::store();
    let action = Some(Action::Allow);
    let plan = plan(&store, &Filter { action, ..any() });
    assert_eq!(
        plan,
        ["SEARCH events USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"]
    );
}

#[test]
fn a_trace_is_found_by_its_id_or_its_header_and_a_call_by_its_own_once() {
    let (directory, mut store) = sample::store();
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let header = format!("00-{trace}-00f067aa0ba902b7-01");
    let mut traced = StoredEvent::new(Uuid::nil(), "laptop", sample::called("read_file", 1));
    traced.data.insert("trace_parent".into(), header.clone().into());
    traced.data.insert("tool_call_id".into(), trace.into());
    store.append(&[traced]).unwrap();
    sample::fill(&mut store, [sample::called("read_file", 2)]);
    let reader = StoreReader::open(&directory.path().join("mcpmon.db")).unwrap();
    let of = |trace: &str| {
        let filter = Filter {
            trace: Some(trace.to_owned()),
            ..any()
        };
        let events = reader.events(&filter, 10).unwrap();
        events.into_iter().map(|event| event.seq).collect::<Vec<_>>()
    };
    assert_eq!(
        (of(trace), of(&header), of("toolu_2")),
        (vec![1], vec![1], vec![2])
    );
    assert_eq!(of("00f067aa"), [0; 0]);
}

#[test]
fn a_time_bounds_what_is_looked_at_and_nothing_happened_then_is_nothing() {
    let (_directory, reader) = reader();
    let of = |since, until| {
        let filter = Filter {
            since,
            until,
            ..any()
        };
        reader.events(&filter, 100).unwrap().len()
    };
    assert_eq!(of(second(100), None), 0);
    assert_eq!(of(None, second(0)), 0);
    assert_eq!(of(second(2), second(3)), 1);
}

#[test]
fn what_was_found_is_put_in_the_order_in_which_it_happened() {
    let (directory, mut store) = sample::store();
    sample::fill(
        &mut store,
        [3, 1, 2].map(|at| sample::at(at, sample::started("a", 2))),
    );
    let reader = StoreReader::open(&directory.path().join("mcpmon.db")).unwrap();
    let mut found = reader.find(&any(), 100).unwrap();
    found.sort_by_time();
    let seqs: Vec<i64> = found.0.iter().map(|position| position.seq).collect();
    assert_eq!(seqs, [2, 3, 1]);
    let mut newest = reader.find(&any(), 100).unwrap();
    assert!(newest.keep_newest(2));
    assert_eq!(
        newest.0.iter().map(|position| position.seq).collect::<Vec<_>>(),
        [2, 3]
    );
    assert!(!newest.keep_newest(2));
}
