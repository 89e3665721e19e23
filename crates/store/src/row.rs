//! Conversion between events and rows of the table `events`.

use std::sync::LazyLock;

use mcpmon_model::{ContainerRef, ProcessRef, Severity, Timestamp};
use rusqlite::{
    Connection, Row, Statement, ToSql, params,
    types::{FromSqlError, Type},
};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{StoredEvent, names};

/// The columns [`read`] expects, in its order.
pub(super) const COLUMNS: &str = "seq, id, type, timestamp, host, session_id, server_id, layer, severity, action, \
     rule, reason, pid, exe, comm, uid, container_id, pod_uid, namespace, pod, data";

/// The number of parameters that [`bind`] binds.
const BOUND: usize = 20;

/// Rows that one statement writes: starting and ending a statement, and finding the end of each index, costs as much as
/// a row.
const ROWS: usize = 10;

/// The statements have values by position, because a look-up by name costs as much as the write. `OR FAIL`: a failed
/// row leaves those before it in place. The transaction is rolled back as a whole anyway, so SQLite need not save each
/// page as it was before the statement.
static INSERT: LazyLock<String> = LazyLock::new(|| inserting(1));
static INSERT_ROWS: LazyLock<String> = LazyLock::new(|| inserting(ROWS));

fn inserting(rows: usize) -> String {
    let row = format!("({})", ["?"; BOUND].join(", "));
    format!(
        "INSERT OR FAIL INTO events (id, type, timestamp, host, session_id, server_id, layer, severity, action, rule, reason, \
         pid, exe, comm, uid, container_id, pod_uid, namespace, pod, data) VALUES {}",
        vec![row; rows].join(", ")
    )
}

/// Writes `events` in their order, and calls `written` with the position of each.
pub(super) fn insert<'e>(
    connection: &Connection,
    events: &[&'e StoredEvent],
    mut written: impl FnMut(&'e StoredEvent, i64) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let (heaps, rest) = events.as_chunks::<ROWS>();
    let heaps = heaps.iter().map(|heap| (heap.as_slice(), &*INSERT_ROWS));
    for (heap, statement) in heaps.chain(rest.chunks(1).map(|one| (one, &*INSERT))) {
        let mut statement = connection.prepare_cached(statement)?;
        for (event, first) in heap.iter().zip((1..).step_by(BOUND)) {
            bind(&mut statement, first, event)?;
        }
        statement.raw_execute()?;
        let last = connection.last_insert_rowid();
        for (event, after) in heap.iter().zip((0..heap.len() as i64).rev()) {
            // The rows of one statement have consecutive positions.
            written(event, last - after)?;
        }
    }
    Ok(())
}

/// Binds the values of a row, from the parameter `first` on.
fn bind(statement: &mut Statement<'_>, first: usize, event: &StoredEvent) -> rusqlite::Result<()> {
    let process = event.process.as_ref();
    let container = event.container.as_ref();
    let data = serde_json::to_string(&event.data).expect("a map of JSON values serialises");
    let (mut id, layer, action) = (Uuid::encode_buffer(), event.layer.as_str(), event.action.as_str());
    let id: &str = event.id.hyphenated().encode_lower(&mut id);
    let values: &[&dyn ToSql; BOUND] = &[
        &id,
        &event.kind,
        &event.timestamp.0,
        &event.host,
        &event.session_id,
        &event.server_id,
        &layer,
        &rank(event.severity),
        &action,
        &event.rule,
        &event.reason,
        &process.map(|process| process.pid),
        &process
            .and_then(|process| process.exe.as_ref())
            .map(|exe| exe.to_string_lossy()),
        &process.and_then(|process| process.comm.as_deref()),
        &process.and_then(|process| process.uid),
        &container.and_then(|container| container.container_id.as_deref()),
        &container.and_then(|container| container.pod_uid.as_deref()),
        &container.and_then(|container| container.namespace.as_deref()),
        &container.and_then(|container| container.pod.as_deref()),
        &data,
    ];
    for (value, position) in values.iter().zip(first..) {
        statement.raw_bind_parameter(position, value)?;
    }
    Ok(())
}

/// Returns whether an event is stored already, found by the index over times.
pub(super) fn is_there(connection: &Connection, event: &StoredEvent) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM events WHERE timestamp = ?1 AND id = ?2)")?
        .query_row(params![event.timestamp.0, event.id.to_string()], |row| row.get(0))
}

/// Reads an event from a row of [`COLUMNS`].
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<StoredEvent> {
    let data: String = row.get(20)?;
    Ok(StoredEvent {
        seq: row.get(0)?,
        id: row.get::<_, String>(1)?.parse().map_err(malformed(1))?,
        kind: row.get(2)?,
        timestamp: Timestamp(row.get(3)?),
        host: row.get(4)?,
        session_id: row.get(5)?,
        server_id: row.get(6)?,
        layer: named(row, 7)?,
        severity: severity(row.get(8)?)?,
        action: named(row, 9)?,
        rule: row.get(10)?,
        reason: row.get(11)?,
        process: process(row)?,
        container: container(row)?,
        data: serde_json::from_str(&data).map_err(malformed(20))?,
    })
}

/// Returns the number that stands for a severity, so that a minimum is a comparison.
pub(super) const fn rank(severity: Severity) -> i64 {
    match severity {
        Severity::Info => 0,
        Severity::Low => 1,
        Severity::Medium => 2,
        Severity::High => 3,
        Severity::Critical => 4,
    }
}

/// Returns the variant named in a column.
pub(super) fn named<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let name: String = row.get(column)?;
    names::parse_name(&name).map_err(malformed(column))
}

/// Returns the variant named in a column that may be empty.
pub(super) fn named_or_null<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    let name: Option<String> = row.get(column)?;
    name.map(|name| names::parse_name(&name).map_err(malformed(column)))
        .transpose()
}

/// Converts an error about the text in a column.
pub(super) fn malformed<E: std::error::Error + Send + Sync + 'static>(
    column: usize,
) -> impl FnOnce(E) -> rusqlite::Error {
    move |error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

fn severity(stored: i64) -> rusqlite::Result<Severity> {
    match stored {
        0 => Ok(Severity::Info),
        1 => Ok(Severity::Low),
        2 => Ok(Severity::Medium),
        3 => Ok(Severity::High),
        4 => Ok(Severity::Critical),
        other => Err(rusqlite::Error::FromSqlConversionFailure(
            8,
            Type::Integer,
            Box::new(FromSqlError::OutOfRange(other)),
        )),
    }
}

fn process(row: &Row<'_>) -> rusqlite::Result<Option<ProcessRef>> {
    let Some(pid) = row.get(12)? else {
        return Ok(None);
    };
    Ok(Some(ProcessRef {
        pid,
        exe: row.get::<_, Option<String>>(13)?.map(Into::into),
        comm: row.get(14)?,
        uid: row.get(15)?,
    }))
}

fn container(row: &Row<'_>) -> rusqlite::Result<Option<ContainerRef>> {
    let container = ContainerRef {
        container_id: row.get(16)?,
        pod_uid: row.get(17)?,
        namespace: row.get(18)?,
        pod: row.get(19)?,
    };
    Ok((container != ContainerRef::default()).then_some(container))
}
