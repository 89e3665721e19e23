//! Queries of events by values. Every value is a bound parameter; none is part of the statement's text.

use std::sync::LazyLock;

use mcpmon_model::{Action, Severity, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params_from_iter, types::Value};
use uuid::Uuid;

use super::{
    StoredEvent,
    positions::{CommonPositions, Condition, Order},
    row,
};

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
    Newest { limit: u32 },
    After { seq: i64, limit: u32 },
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
    let (order, first, limit) = match window {
        EventRange::Newest { limit } => (Order::NewestFirst, first, limit),
        EventRange::After { seq, limit } => (Order::OldestFirst, first.max(seq.saturating_add(1)), limit),
    };
    let mut common = CommonPositions::new(conditions(filter), order, first, last);
    let remaining = RemainingConditions::new(filter);
    let mut found = Vec::new();
    while found.len() < limit as usize
        && let Some(seq) = common.next(connection)?
    {
        if let Some(at) = remaining.time_of(connection, seq)? {
            found.push(Position { seq, at });
        }
    }
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

/// Returns the conditions that an index can answer. Of each group at least one must hold.
fn conditions(filter: &Filter) -> Vec<Vec<Condition>> {
    let any_of = |text, values: &[String]| {
        let values = values.iter().cloned();
        values.map(|value| Condition::new(text, value)).collect()
    };
    let one = |text, value: Option<Value>| {
        let conditions = value.into_iter().map(|value| Condition::new(text, value));
        conditions.collect::<Vec<_>>()
    };
    let action = filter.action.filter(|action| *action != Action::Allow);
    // The conditions that match the fewest events come first. The texts are those of the indexes.
    let mut groups = vec![
        trace(filter),
        one("pid = ?1", filter.pid.map(Value::from)),
        severities(filter),
        one(
            "action <> 'allow' AND action = ?1",
            action.map(|action| action.as_str().to_owned().into()),
        ),
        one(
            "data ->> '$.tool_name' = ?1",
            filter.tool.clone().map(Value::from),
        ),
        any_of("session_id = ?1", &filter.sessions),
        one("server_id = ?1", filter.server.clone().map(Value::from)),
        any_of("type = ?1", &filter.types),
    ];
    groups.retain(|group| !group.is_empty());
    if groups.is_empty() {
        groups.push(vec![Condition::new("?1 IS NULL", Value::Null)]);
    }
    groups
}

fn severities(filter: &Filter) -> Vec<Condition> {
    let Some(least) = filter.severity.filter(|least| *least > Severity::Info) else {
        return Vec::new();
    };
    let severities = [
        Severity::Low,
        Severity::Medium,
        Severity::High,
        Severity::Critical,
    ];
    let severities = severities.into_iter().filter(|severity| *severity >= least);
    severities
        .map(|severity| Condition::new("severity > 0 AND severity = ?1", row::rank(severity)))
        .collect()
}

fn trace(filter: &Filter) -> Vec<Condition> {
    let Some(trace) = &filter.trace else {
        return Vec::new();
    };
    // A `traceparent` header has the id between a version and two more numbers.
    let id = trace.split('-').nth(1).unwrap_or(trace).to_ascii_lowercase();
    vec![
        Condition::new("data ->> '$.tool_call_id' = ?1", trace.clone()),
        Condition::new(
            "data ->> '$.trace_parent' IS NOT NULL AND substr(data ->> '$.trace_parent', 4, 32) = ?1",
            id,
        ),
    ]
}

/// The conditions that no index can answer: they are checked in the rows that meet the other conditions.
struct RemainingConditions {
    select: String,
    values: Vec<Value>,
}

impl RemainingConditions {
    fn new(filter: &Filter) -> Self {
        let allowed = filter.action.filter(|action| *action == Action::Allow);
        let conditions: [(&str, Option<Value>); 4] = [
            ("timestamp >= ?", filter.since.map(|since| since.0.into())),
            ("timestamp < ?", filter.until.map(|until| until.0.into())),
            (
                "instr(container_id, ?) = 1",
                filter.container.clone().map(Value::from),
            ),
            (
                "action = ?",
                allowed.map(|action| action.as_str().to_owned().into()),
            ),
        ];
        let mut select = "SELECT timestamp FROM events WHERE seq = ?".to_owned();
        let mut values = Vec::new();
        for (text, value) in conditions {
            if let Some(value) = value {
                select.push_str(" AND +");
                select.push_str(text);
                values.push(value);
            }
        }
        Self { select, values }
    }

    /// Returns the time of the event at a position, if the event meets the conditions.
    fn time_of(&self, connection: &Connection, seq: i64) -> rusqlite::Result<Option<Timestamp>> {
        let mut select = connection.prepare_cached(&self.select)?;
        let seq = Value::from(seq);
        let values = std::iter::once(&seq).chain(&self.values);
        let at = select.query_row(params_from_iter(values), |row| row.get(0));
        Ok(at.optional()?.map(Timestamp))
    }
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
    use mcpmon_model::{ContainerRef, Direction};
    use rusqlite::params;
    use test_case::test_case;

    use super::*;
    use crate::{StoreReader, sample};

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

    #[test_case(Filter { types: vec!["t".into()], ..any() }, "events_by_type"; "kind")]
    #[test_case(Filter { sessions: vec!["s".into()], ..any() }, "events_by_session"; "of a session")]
    #[test_case(Filter { server: Some("s".into()), ..any() }, "events_by_server"; "of a server")]
    #[test_case(Filter { tool: Some("t".into()), ..any() }, "events_by_tool"; "about a tool")]
    #[test_case(Filter { pid: Some(7), ..any() }, "events_by_pid"; "of a process")]
    #[test_case(Filter { action: Some(Action::Block), ..any() }, "events_by_action"; "with an action")]
    #[test_case(Filter { severity: Some(Severity::High), ..any() }, "events_by_severity"; "as bad")]
    #[test_case(Filter { trace: Some("t".into()), ..any() }, "events_by_call"; "of a call")]
    #[test_case(Filter { trace: Some("t".into()), ..any() }, "events_by_trace"; "of a trace")]
    fn each_index_serves_its_filter_without_sorting(filter: Filter, index: &str) {
        let (_directory, store) = sample::store();
        for order in [Order::NewestFirst, Order::OldestFirst] {
            let plans: Vec<String> = conditions(&filter)
                .concat()
                .into_iter()
                .map(|condition| {
                    let explain = format!("EXPLAIN QUERY PLAN {}", condition.select(order));
                    let mut explain = store.connection.prepare(&explain).unwrap();
                    let lines = explain
                        .query_map(params![condition.value, 7, 9], |row| {
                            row.get::<_, String>("detail")
                        })
                        .unwrap();
                    lines.map(Result::unwrap).collect::<Vec<_>>().join("; ")
                })
                .collect();
            assert!(plans.iter().any(|plan| plan.contains(index)), "{plans:?}");
            let is_in_order = |plan: &String| plan.contains("INDEX") && !plan.contains("TEMP B-TREE");
            assert!(plans.iter().all(is_in_order), "{plans:?}");
        }
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
