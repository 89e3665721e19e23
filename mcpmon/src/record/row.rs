//! Events as rows of the table `events`, both ways.

use mcpmon_core::model::{ContainerRef, ProcessRef, Severity, Timestamp};
use rusqlite::{
    Connection, Row, params,
    types::{FromSqlError, Type},
};
use serde::de::DeserializeOwned;

use super::{StoredEvent, names};

/// The columns [`read`] expects, in its order.
pub(super) const COLUMNS: &str = "seq, id, type, timestamp, host, session_id, server_id, layer, severity, action, \
     rule, reason, pid, exe, comm, uid, container_id, pod_uid, namespace, pod, data";

/// Its values by position: to look each up by its name costs as much as to write it.
const INSERT: &str = "INSERT INTO events (id, type, timestamp, host, session_id, server_id, layer, severity, \
     action, rule, reason, pid, exe, comm, uid, container_id, pod_uid, namespace, pod, data) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)";

/// Writes `event` and returns its position.
pub(super) fn insert(connection: &Connection, event: &StoredEvent) -> rusqlite::Result<i64> {
    let process = event.process.as_ref();
    let container = event.container.as_ref();
    let data = serde_json::to_string(&event.data).expect("a map of JSON values serialises");
    connection.prepare_cached(INSERT)?.insert(params![
        event.id.to_string(),
        event.kind,
        event.timestamp.0,
        event.host,
        event.session_id,
        event.server_id,
        names::name(&event.layer),
        rank(event.severity),
        event.action.as_str(),
        event.rule,
        event.reason,
        process.map(|process| process.pid),
        process
            .and_then(|process| process.exe.as_ref())
            .map(|exe| exe.to_string_lossy()),
        process.and_then(|process| process.comm.as_deref()),
        process.and_then(|process| process.uid),
        container.and_then(|container| container.container_id.as_deref()),
        container.and_then(|container| container.pod_uid.as_deref()),
        container.and_then(|container| container.namespace.as_deref()),
        container.and_then(|container| container.pod.as_deref()),
        data,
    ])
}

/// Whether an event is in the store already. The index over times finds it.
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

/// How severities are kept, so that a minimum is a comparison.
pub(super) const fn rank(severity: Severity) -> i64 {
    match severity {
        Severity::Info => 0,
        Severity::Low => 1,
        Severity::Medium => 2,
        Severity::High => 3,
        Severity::Critical => 4,
    }
}

/// The variant named in a column.
pub(super) fn named<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let name: String = row.get(column)?;
    names::parse_name(&name).map_err(malformed(column))
}

/// The variant named in a column that may be empty.
pub(super) fn named_or_null<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    let name: Option<String> = row.get(column)?;
    name.map(|name| names::parse_name(&name).map_err(malformed(column)))
        .transpose()
}

/// Wraps what is wrong with the text in a column.
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
