//! Which events, as values: every parameter is bound, none is part of the statement's text.

use std::sync::LazyLock;

use mcpmon_core::model::{Action, Severity, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params_from_iter, types::Value};
use uuid::Uuid;

use super::{StoredEvent, row};

/// What an event must be to be listed; an empty filter lists all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of these types; of any, where there are none.
    pub types: Vec<String>,
    /// Of any of these sessions; of any or none, where there are none.
    pub sessions: Vec<String>,
    /// Of this server.
    pub server: Option<String>,
    /// About this tool.
    pub tool: Option<String>,
    /// Of this call, by the id of another layer: the client's id of the call, or a W3C trace id.
    pub trace: Option<String>,
    /// With this action.
    pub action: Option<Action>,
    /// At least this bad.
    pub severity: Option<Severity>,
    /// Not before.
    pub since: Option<Timestamp>,
    /// Before.
    pub until: Option<Timestamp>,
    /// Of this process.
    pub pid: Option<u32>,
    /// Of the containers whose id starts so.
    pub container: Option<String>,
}

/// Which of the matching events.
#[derive(Clone, Copy, Debug)]
pub(super) enum Window {
    Newest { limit: u32 },
    After { seq: i64, limit: u32 },
}

/// Where an event is, and when it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) seq: i64,
    pub(super) at: Timestamp,
}

/// Events that were found and not read yet: a million of them take little room.
#[derive(Clone, Debug, Default)]
pub struct Found(pub(super) Vec<Position>);

impl Found {
    /// How many.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Leaves out what was recorded before the newest `limit`, and says whether there was any.
    pub fn keep_newest(&mut self, limit: u32) -> bool {
        let beyond = self.0.len().saturating_sub(limit as usize);
        self.0.drain(..beyond);
        beyond > 0
    }

    /// In the order in which they happened: each process records when it finds time to.
    pub fn sort_by_time(&mut self) {
        self.0
            .sort_unstable_by_key(|position| (position.at, position.seq));
    }
}

/// Matching events, in the order in which they were recorded.
pub(super) fn events(
    connection: &Connection,
    filter: &Filter,
    window: Window,
) -> rusqlite::Result<Vec<StoredEvent>> {
    let mut events = Vec::new();
    for position in find(connection, filter, window)? {
        events.extend(event_at(connection, position.seq)?);
    }
    Ok(events)
}

/// The event of this identity. Its time is in its id: the index over times finds it.
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

/// The time in a UUIDv7, of which an event can be.
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

/// The event at a position, unless retention removed it.
pub(super) fn event_at(connection: &Connection, seq: i64) -> rusqlite::Result<Option<StoredEvent>> {
    static SELECT: LazyLock<String> =
        LazyLock::new(|| format!("SELECT {} FROM events WHERE seq = ?1", row::COLUMNS));
    connection
        .prepare_cached(&SELECT)?
        .query_row([seq], row::read)
        .optional()
}

/// Where matching events are, in the order in which they were recorded.
pub(super) fn find(
    connection: &Connection,
    filter: &Filter,
    window: Window,
) -> rusqlite::Result<Vec<Position>> {
    let Some(within) = within(connection, filter)? else {
        return Ok(Vec::new());
    };
    let (after, order, limit) = match window {
        Window::Newest { limit } => (None, "DESC", limit),
        Window::After { seq, limit } => (Some(seq), "ASC", limit),
    };
    let mut found = Vec::new();
    for branch in branches(filter) {
        let mut conditions = conditions(filter);
        branch.into_iter().for_each(|term| conditions.add_term(term));
        if let Some((first, last)) = within {
            conditions.add("seq >= ?", first);
            conditions.add("seq <= ?", last);
        }
        conditions.add_known("seq > ?", after);
        let Conditions { text, mut values } = conditions;
        values.push(limit.into());
        let select = format!("SELECT seq, timestamp FROM events {text} ORDER BY seq {order} LIMIT ?");
        let mut select = connection.prepare_cached(&select)?;
        let mut rows = select.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            found.push(Position {
                seq: row.get(0)?,
                at: Timestamp(row.get(1)?),
            });
        }
    }
    found.sort_unstable();
    found.dedup();
    match window {
        Window::Newest { .. } => drop(found.drain(..found.len().saturating_sub(limit as usize))),
        Window::After { .. } => found.truncate(limit as usize),
    }
    Ok(found)
}

/// First and last position of what happened in the time that the filter names, as the index over times alone tells it;
/// `Some(None)` where it names none, `None` where nothing happened then.
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

/// Conditions of which any may hold, asked one after the other: each is answered by its own index, newest first.
fn branches(filter: &Filter) -> Vec<Vec<(&'static str, Value)>> {
    let mut branches = vec![Vec::new()];
    if let Some(least) = filter.severity.filter(|least| *least > Severity::Info) {
        let severities = [
            Severity::Low,
            Severity::Medium,
            Severity::High,
            Severity::Critical,
        ];
        let terms = severities.into_iter().filter(|severity| *severity >= least);
        let terms = terms.map(|severity| ("severity > 0 AND severity = ?", row::rank(severity).into()));
        branches = either(&branches, &terms.collect::<Vec<_>>());
    }
    if let Some(trace) = &filter.trace {
        // A header bears the id between a version and two more numbers.
        let id = trace.split('-').nth(1).unwrap_or(trace).to_ascii_lowercase();
        let terms = [
            ("data ->> '$.tool_call_id' = ?", Value::from(trace.clone())),
            (
                "data ->> '$.trace_parent' IS NOT NULL AND substr(data ->> '$.trace_parent', 4, 32) = ?",
                Value::from(id),
            ),
        ];
        branches = either(&branches, &terms);
    }
    branches
}

fn either(
    branches: &[Vec<(&'static str, Value)>],
    terms: &[(&'static str, Value)],
) -> Vec<Vec<(&'static str, Value)>> {
    let with = |branch: &Vec<(&'static str, Value)>, term: &(&'static str, Value)| {
        let mut branch = branch.clone();
        branch.push(term.clone());
        branch
    };
    let each = branches
        .iter()
        .flat_map(|branch| terms.iter().map(move |term| with(branch, term)));
    each.collect()
}

/// The highest position ever given.
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

#[derive(Default)]
struct Conditions {
    text: String,
    values: Vec<Value>,
}

impl Conditions {
    fn add(&mut self, condition: &'static str, value: impl Into<Value>) {
        self.values.push(value.into());
        self.join(condition);
    }

    fn add_term(&mut self, (condition, value): (&'static str, Value)) {
        self.add(condition, value);
    }

    fn add_known(&mut self, condition: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.add(condition, value);
        }
    }

    fn join(&mut self, condition: &str) {
        self.text
            .push_str(if self.text.is_empty() { "WHERE " } else { " AND " });
        self.text.push_str(condition);
    }
}

fn conditions(filter: &Filter) -> Conditions {
    let mut conditions = Conditions::default();
    if !filter.types.is_empty() {
        let places = vec!["?"; filter.types.len()].join(", ");
        conditions.join(&format!("type IN ({places})"));
        conditions
            .values
            .extend(filter.types.iter().cloned().map(Value::from));
    }
    if !filter.sessions.is_empty() {
        let places = vec!["?"; filter.sessions.len()].join(", ");
        conditions.join(&format!("session_id IN ({places})"));
        conditions
            .values
            .extend(filter.sessions.iter().cloned().map(Value::from));
    }
    conditions.add_known("server_id = ?", filter.server.clone());
    conditions.add_known("data ->> '$.tool_name' = ?", filter.tool.clone());
    if let Some(action) = filter.action {
        // As its index has it.
        if action != Action::Allow {
            conditions.join("action <> 'allow'");
        }
        conditions.add("action = ?", action.as_str().to_owned());
    }
    // The plus keeps the index over times out: what it has to say is known.
    conditions.add_known("+timestamp >= ?", filter.since.map(|since| since.0));
    conditions.add_known("+timestamp < ?", filter.until.map(|until| until.0));
    conditions.add_known("pid = ?", filter.pid);
    conditions.add_known("instr(container_id, ?) = 1", filter.container.clone());
    conditions
}

#[cfg(test)]
mod tests {
    use mcpmon_core::model::{ContainerRef, Direction};
    use test_case::test_case;

    use super::*;
    use crate::record::{Reader, sample};

    fn reader() -> (tempfile::TempDir, Reader) {
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
        let reader = Reader::open(&directory.path().join("mcpmon.db")).unwrap();
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
        let reader = Reader::open(&directory.path().join("mcpmon.db")).unwrap();
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
        let plans: Vec<String> = branches(&filter)
            .into_iter()
            .map(|branch| {
                let mut conditions = conditions(&filter);
                branch.into_iter().for_each(|term| conditions.add_term(term));
                let Conditions { text, values } = conditions;
                let select = format!(
                    "EXPLAIN QUERY PLAN SELECT seq, timestamp FROM events {text} ORDER BY seq DESC LIMIT 9"
                );
                let mut select = store.connection.prepare(&select).unwrap();
                let lines = select
                    .query_map(params_from_iter(values), |row| row.get::<_, String>("detail"))
                    .unwrap();
                lines.map(Result::unwrap).collect::<Vec<_>>().join("; ")
            })
            .collect();
        assert!(plans.iter().any(|plan| plan.contains(index)), "{plans:?}");
        assert!(
            plans
                .iter()
                .all(|plan| plan.contains("INDEX") && !plan.contains("TEMP B-TREE")),
            "{plans:?}"
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
        let reader = Reader::open(&directory.path().join("mcpmon.db")).unwrap();
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
        let reader = Reader::open(&directory.path().join("mcpmon.db")).unwrap();
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
