//! Queries of events by values. Every value is a bound parameter; none is part of the statement's text.

use std::{collections::BTreeSet, sync::LazyLock};

use mcpmon_model::{Action, Package, Severity, Timestamp};
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
    /// Events of this server, by its id or its package (`npm:name`).
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
        EventRange::Newest { limit } => (ReadOrder::NewestFirst, first, last, limit),
        EventRange::After { seq, limit } => (
            ReadOrder::OldestFirst,
            first.max(seq.saturating_add(1)),
            last,
            limit,
        ),
        EventRange::Near { seq, until, limit } => (
            ReadOrder::OldestFirst,
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
    if order == ReadOrder::NewestFirst {
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
enum ReadOrder {
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
    fn new(filter: &Filter, order: ReadOrder, first: i64, last: i64, limit: u32) -> Self {
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
                let index = match order == ReadOrder::NewestFirst && is_selective(filter) {
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
            ReadOrder::NewestFirst => "DESC",
            ReadOrder::OldestFirst => "ASC",
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
        // An id has no kind of package before a colon.
        let server = filter.server.as_deref();
        let is_package = server.is_some_and(|server| Package::parse(server).is_some());
        let of_server = if is_package {
            "data ->> '$.package' ="
        } else {
            "server_id ="
        };
        let values: [(&str, Option<Value>); 8] = [
            ("timestamp >=", filter.since.map(|since| since.0.into())),
            ("timestamp <", filter.until.map(|until| until.0.into())),
            (of_server, filter.server.clone().map(Value::from)),
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
mod tests;
