//! Queries of events by values. Every value is a bound parameter; none is part of the statement's text.

use std::{collections::BTreeSet, sync::LazyLock};

use mcpmon_model::{Action, Severity, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params_from_iter, types::Value};
use uuid::Uuid;

use super::{StoredEvent, row};

/// The conditions on listed events; an empty filter lists all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Events of one of these types; of any type if empty.
    pub types: Vec<String>,
    /// Events of one of these sessions; of any or no session if empty.
    pub sessions: Vec<String>,
    /// Events of this server.
    pub server: Option<String>,
    /// Events about this tool.
    pub tool: Option<String>,
    /// Events of this call, by the id of another layer: the model's id of the call, or a W3C trace id.
    pub trace: Option<String>,
    /// Events with this action.
    pub action: Option<Action>,
    /// Events of at least this severity.
    pub severity: Option<Severity>,
    /// Events at or after this time.
    pub since: Option<Timestamp>,
    /// Events before this time.
    pub until: Option<Timestamp>,
    /// Events of this process.
    pub pid: Option<u32>,
    /// Events of containers whose id begins with this.
    pub container: Option<String>,
}

/// The part of the matching events to return.
#[derive(Clone, Copy, Debug)]
pub(super) enum EventRange {
    Newest {
        limit: u32,
    },
    After {
        seq: i64,
        limit: u32,
    },
    /// After `seq`, up to `until`.
    Near {
        seq: i64,
        until: i64,
        limit: u32,
    },
}

/// The position of an event, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) seq: i64,
    pub(super) at: Timestamp,
}

/// The positions of matching events that were not read yet: a million of them take 16 MB.
#[derive(Clone, Debug, Default)]
pub struct EventPositions(pub(super) Vec<Position>);

impl EventPositions {
    /// Returns the number of positions.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no positions.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all but the newest `limit` positions. Returns whether any were removed.
    pub fn keep_newest(&mut self, limit: u32) -> bool {
        let beyond = self.0.len().saturating_sub(limit as usize);
        self.0.drain(..beyond);
        beyond > 0
    }

    /// Sorts by the time of the events: processes record at different times, so positions can differ from that order.
    pub fn sort_by_time(&mut self) {
        self.0
            .sort_unstable_by_key(|position| (position.at, position.seq));
    }
}

/// Matching events, in the order in which they were recorded.
pub(super) fn events(
    connection: &Connection,
    filter: &Filter,
    window: EventRange,
) -> rusqlite::Result<Vec<StoredEvent>> {
    let mut events = Vec::new();
    for position in find(connection, filter, window)? {
        events.extend(event_at(connection, position.seq)?);
    }
    Ok(events)
}

/// Returns the event with this id. The id contains the time, so the index over times finds the event.
pub(super) fn event(connection: &Connection, id: Uuid) -> rusqlite::Result<Option<StoredEvent>> {
    let Some(milliseconds) = milliseconds(id) else {
        return Ok(None);
    };
    let (since, until) = (
        milliseconds * 1_000_000,
        (milliseconds + 1).saturating_mul(1_000_000),
    );
    connection
        .prepare_cached(&format!(
            "SELECT {columns} FROM events WHERE timestamp >= ? AND timestamp < ? AND id = ?",
            columns = row::COLUMNS
        ))?
        .query_row((since, until, id.to_string()), row::read)
        .optional()
}

/// Returns the time in a UUIDv7, in milliseconds, if it can be that of an event.
fn milliseconds(id: Uuid) -> Option<i64> {
    let (seconds, nanoseconds) = id
        .get_timestamp()
        .filter(|_| id.get_version_num() == 7)?
        .to_unix();
    let seconds = i64::try_from(seconds).ok()?;
    let milliseconds = seconds
        .checked_mul(1000)?
        .checked_add(i64::from(nanoseconds) / 1_000_000)?;
    (milliseconds < i64::MAX / 1_000_000).then_some(milliseconds)
}

/// Returns the event at a position, unless retention removed it.
pub(super) fn event_at(connection: &Connection, seq: i64) -> rusqlite::Result<Option<StoredEvent>> {
    static SELECT: LazyLock<String> =
        LazyLock::new(|| format!("SELECT {} FROM events WHERE seq = ?1", row::COLUMNS));
    connection
        .prepare_cached(&SELECT)?
        .query_row([seq], row::read)
        .optional()
}

/// Returns the positions of matching events, in the order in which they were recorded.
pub(super) fn find(
    connection: &Connection,
    filter: &Filter,
    window: EventRange,
) -> rusqlite::Result<Vec<Position>> {
    let Some(within) = within(connection, filter)? else {
        return Ok(Vec::new());
    };
    let (first, last) = within.unwrap_or((i64::MIN, i64::MAX));
    let (order, first, last, limit) = match window {
        EventRange::Newest { limit } => (Order::NewestFirst, first, last, limit),
        EventRange::After { seq, limit } => {
            (Order::OldestFirst, first.max(seq.saturating_add(1)), last, limit)
        }
        EventRange::Near { seq, until, limit } => (
            Order::OldestFirst,
            first.max(seq.saturating_add(1)),
            last.min(until),
            limit,
        ),
    };
    let Select { text, values } = Select::new(filter, order, first, last, limit);
    let mut found = connection
        .prepare_cached(&text)?
        .query_map(params_from_iter(values), |row| {
            Ok(Position {
                seq: row.get(0)?,
                at: Timestamp(row.get(1)?),
            })
        })?
        .collect::<Result<Vec<_>, _>>()?;
    if order == Order::NewestFirst {
        found.reverse();
    }
    Ok(found)
}

/// Returns the first and last position in the time range of the filter, found by the index over times alone. Returns
/// `Some(None)` if the filter has no time range, and `None` if there are no events in the range.
#[expect(
    clippy::option_option,
    reason = "no bound, and nothing within the bound, are two things"
)]
fn within(connection: &Connection, filter: &Filter) -> rusqlite::Result<Option<Option<(i64, i64)>>> {
    if filter.since.is_none() && filter.until.is_none() {
        return Ok(Some(None));
    }
    let since = filter.since.map_or(i64::MIN, |since| since.0);
    let until = filter.until.map_or(i64::MAX, |until| until.0);
    connection
        .prepare_cached("SELECT min(seq), max(seq) FROM events WHERE timestamp >= ?1 AND timestamp < ?2")?
        .query_row([since, until], |row| {
            let (first, last): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
            Ok(first.zip(last).map(Some))
        })
}

/// The direction in which positions are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    NewestFirst,
    OldestFirst,
}

/// The statement that reads the positions of matching events, and their times.
#[derive(Debug)]
struct Select {
    text: String,
    values: Vec<Value>,
}

impl Select {
    /// Reads the positions of a session in order, or one list for each type and merges them, so that no more is read than
    /// is returned. Without either, all entries of the index are looked at for what is rare, which takes less than a
    /// tenth of a second for a million.
    fn new(filter: &Filter, order: Order, first: i64, last: i64, limit: u32) -> Self {
        let mut select = Self {
            text: String::new(),
            values: Vec::new(),
        };
        let within = format!(
            "seq >= {} AND seq <= {}",
            select.parameter(first),
            select.parameter(last)
        );
        let conditions: String = select
            .conditions(filter)
            .iter()
            .map(|condition| format!(" AND {condition}"))
            .collect();
        let lists: Vec<String> = match (&filter.sessions[..], &filter.types[..]) {
            ([], []) => {
                // What is recorded after a position is short, and where nearly all match, so is the way to the newest.
                let index = match order == Order::NewestFirst && is_selective(filter) {
                    true => "INDEXED BY events_listed",
                    false => "NOT INDEXED",
                };
                vec![format!("{index} WHERE {within}")]
            }
            ([], types) => {
                let types = select.each(types);
                let of = |name| format!("INDEXED BY events_listed WHERE type = {name} AND {within}");
                types.into_iter().map(of).collect()
            }
            (sessions, types) => {
                let (sessions, types) = (select.each(sessions).join(", "), select.each(types).join(", "));
                let types = match types.as_str() {
                    "" => String::new(),
                    types => format!(" AND type IN ({types})"),
                };
                let of = format!("session_id IN ({sessions}) AND {within}{types}");
                vec![format!("INDEXED BY events_by_session WHERE {of}")]
            }
        };
        let lists: Vec<String> = lists
            .into_iter()
            .map(|list| format!("SELECT seq, timestamp FROM events {list}{conditions}"))
            .collect();
        let direction = match order {
            Order::NewestFirst => "DESC",
            Order::OldestFirst => "ASC",
        };
        let limit = select.parameter(limit);
        select.text = format!(
            "{} ORDER BY seq {direction} LIMIT {limit}",
            lists.join(" UNION ALL ")
        );
        select
    }

    /// Adds a value, and returns the name of its parameter.
    fn parameter(&mut self, value: impl Into<Value>) -> String {
        self.values.push(value.into());
        format!("?{}", self.values.len())
    }

    /// Adds each of the values once, and returns the names of their parameters.
    fn each(&mut self, values: &[String]) -> Vec<String> {
        let values: BTreeSet<&String> = values.iter().collect();
        values
            .into_iter()
            .map(|value| self.parameter(value.clone()))
            .collect()
    }

    /// Adds the conditions of a filter besides those on session and type. The texts are those of the index.
    fn conditions(&mut self, filter: &Filter) -> Vec<String> {
        let severity = filter.severity.filter(|least| *least > Severity::Info);
        let values: [(&str, Option<Value>); 8] = [
            ("timestamp >=", filter.since.map(|since| since.0.into())),
            ("timestamp <", filter.until.map(|until| until.0.into())),
            ("server_id =", filter.server.clone().map(Value::from)),
            ("pid =", filter.pid.map(Value::from)),
            ("severity >=", severity.map(|least| row::rank(least).into())),
            (
                "action =",
                filter.action.map(|action| action.as_str().to_owned().into()),
            ),
            ("data ->> '$.tool_name' =", filter.tool.clone().map(Value::from)),
            (
                "1 = instr(container_id,",
                filter.container.clone().map(Value::from),
            ),
        ];
        let mut conditions = Vec::new();
        for (text, value) in values {
            if let Some(value) = value {
                let end = if text.contains('(') { ")" } else { "" };
                conditions.push(format!("{text} {}{end}", self.parameter(value)));
            }
        }
        if let Some(trace) = &filter.trace {
            // A `traceparent` header has the id between a version and two more numbers.
            let id = trace.split('-').nth(1).unwrap_or(trace).to_ascii_lowercase();
            conditions.push(format!(
                "(data ->> '$.tool_call_id' = {} OR substr(data ->> '$.trace_parent', 4, 32) = {})",
                self.parameter(trace.clone()),
                self.parameter(id),
            ));
        }
        conditions
    }
}

/// Returns whether few events may match the conditions besides those on session, type and time.
fn is_selective(filter: &Filter) -> bool {
    filter.server.is_some()
        || filter.tool.is_some()
        || filter.trace.is_some()
        || filter.pid.is_some()
        || filter.severity.is_some_and(|least| least > Severity::Info)
        || filter.action.is_some_and(|action| action != Action::Allow)
}

/// Returns the highest position ever assigned.
pub(super) fn last_seq(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .query_row(
            "SELECT seq FROM sqlite_sequence WHERE name = 'events'",
            [],
            |row| row.get(0),
        )
        .optional()
        .map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
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
            && (filter.sessions.is_empty()
                || session.is_some_and(|session| filter.sessions.contains(session)))
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
        let Select { text, values } = Select::new(filter, Order::NewestFirst, 0, 9, 7);
        let explain = format!("EXPLAIN QUERY PLAN {text}");
        let mut explain = store.connection.prepare(&explain).unwrap();
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
}
