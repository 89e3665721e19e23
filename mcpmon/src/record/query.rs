//! Which events, as values: every parameter is bound, none is part of the statement's text.

use mcpmon_core::model::{Action, Severity, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params_from_iter, types::Value};
use uuid::Uuid;

use super::{StoredEvent, row};

/// What an event must be to be listed; an empty filter lists all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of these types; of any, where there are none.
    pub types: Vec<String>,
    /// Of this session.
    pub session: Option<String>,
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

/// Matching events, oldest first.
pub(super) fn events(
    connection: &Connection,
    filter: &Filter,
    window: Window,
) -> rusqlite::Result<Vec<StoredEvent>> {
    let mut conditions = conditions(filter);
    let (order, limit) = match window {
        Window::Newest { limit } => ("DESC", limit),
        Window::After { seq, limit } => {
            conditions.add("seq > ?", seq);
            ("ASC", limit)
        }
    };
    let Conditions { text, mut values } = conditions;
    values.push(limit.into());
    let mut events: Vec<StoredEvent> = connection
        .prepare_cached(&format!(
            "SELECT {columns} FROM events {text} ORDER BY seq {order} LIMIT ?",
            columns = row::COLUMNS
        ))?
        .query_map(params_from_iter(values), row::read)?
        .collect::<Result<_, _>>()?;
    if matches!(window, Window::Newest { .. }) {
        events.reverse();
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
    conditions.add_known("session_id = ?", filter.session.clone());
    conditions.add_known("server_id = ?", filter.server.clone());
    conditions.add_known("data ->> '$.tool_name' = ?", filter.tool.clone());
    if let Some(trace) = &filter.trace {
        conditions.join("(data ->> '$.tool_call_id' = ? OR instr(data ->> '$.trace_parent', ?) > 0)");
        conditions
            .values
            .extend([Value::from(trace.clone()), Value::from(trace.clone())]);
    }
    conditions.add_known(
        "action = ?",
        filter.action.map(|action| action.as_str().to_owned()),
    );
    conditions.add_known("severity >= ?", filter.severity.map(row::rank));
    conditions.add_known("timestamp >= ?", filter.since.map(|since| since.0));
    conditions.add_known("timestamp < ?", filter.until.map(|until| until.0));
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
    #[test_case(Filter { session: Some("s1".into()), ..any() } => vec![2]; "session")]
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

    #[test_case(Filter { types: vec!["t".into()], ..any() }, "events_by_type"; "type")]
    #[test_case(Filter { since: second(0), ..any() }, "events_by_timestamp"; "since")]
    #[test_case(Filter { server: Some("s".into()), ..any() }, "events_by_server"; "server")]
    fn each_index_serves_its_filter(filter: Filter, index: &str) {
        let (_directory, store) = sample::store();
        let Conditions { text, values } = conditions(&filter);
        let plan: String = store
            .connection
            .query_row(
                &format!("EXPLAIN QUERY PLAN SELECT seq FROM events {text}"),
                params_from_iter(values),
                |row| row.get("detail"),
            )
            .unwrap();
        assert!(plan.contains(index), "{plan}");
    }
}
