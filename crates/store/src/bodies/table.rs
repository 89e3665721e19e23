//! Bodies in the store: they are added and read, and removed when they expire or events need the space.

use std::time::Duration;

use mcpmon_model::{SessionId, Timestamp};
use rusqlite::{Connection, Row, params};

use super::{BodyLabel, BodySide, SealedBody};

/// Most bodies that are removed in one transaction, because each can be large.
const CHUNK: i64 = 64;
/// The columns of a label.
const LABEL: &str = "request, side, session_id, dialect, at, length, kept, key";

/// Adds a body.
pub(crate) fn put(connection: &Connection, body: &SealedBody) -> rusqlite::Result<()> {
    let label = &body.label;
    connection
        .prepare_cached(
            "INSERT INTO bodies (request, side, session_id, dialect, at, expires, length, kept, key, nonce, sealed) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            label.request,
            label.side.as_str(),
            label.session.as_ref().map(SessionId::as_str),
            label.dialect,
            label.at.0,
            body.expires.0,
            label.length.cast_signed(),
            label.kept.cast_signed(),
            body.key,
            body.nonce,
            body.sealed,
        ])?;
    Ok(())
}

/// Shortens the expiry of existing bodies to this retention.
pub(crate) fn shorten(connection: &Connection, retention: Duration) -> rusqlite::Result<()> {
    let kept = i64::try_from(retention.as_nanos()).unwrap_or(i64::MAX);
    connection.execute(
        "UPDATE bodies SET expires = at + ?1 WHERE expires - at > ?1",
        [kept],
    )?;
    Ok(())
}

/// Returns the labels and key names of the newest `limit` bodies, oldest first.
pub(crate) fn labels(
    connection: &Connection,
    now: Timestamp,
    limit: u32,
) -> rusqlite::Result<Vec<(BodyLabel, String)>> {
    let sql = format!("SELECT {LABEL} FROM bodies WHERE expires > ?1 ORDER BY seq DESC LIMIT ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params![now.0, limit], |row| Ok((label(row)?, row.get("key")?)))?;
    let mut labels: Vec<_> = rows.collect::<Result<_, _>>()?;
    labels.reverse();
    Ok(labels)
}

/// Returns the bodies of one exchange, in the order they were written.
pub(crate) fn of(
    connection: &Connection,
    now: Timestamp,
    request: &str,
) -> rusqlite::Result<Vec<SealedBody>> {
    let sql = format!(
        "SELECT {LABEL}, expires, nonce, sealed FROM bodies WHERE request = ?1 AND expires > ?2 ORDER BY seq LIMIT ?3"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params![request, now.0, CHUNK], |row| {
        Ok(SealedBody {
            label: label(row)?,
            key: row.get("key")?,
            expires: Timestamp(row.get("expires")?),
            nonce: row.get("nonce")?,
            sealed: row.get("sealed")?,
        })
    })?;
    rows.collect()
}

/// Removes some expired bodies, and returns their number.
pub(crate) fn remove_expired(connection: &Connection, now: Timestamp) -> rusqlite::Result<usize> {
    connection
        .prepare_cached(
            "DELETE FROM bodies WHERE seq IN \
                 (SELECT seq FROM bodies WHERE expires <= ?1 ORDER BY expires LIMIT ?2)",
        )?
        .execute(params![now.0, CHUNK])
}

/// Removes some of the oldest bodies, and returns their number.
pub(crate) fn remove_oldest(connection: &Connection) -> rusqlite::Result<usize> {
    connection
        .prepare_cached(
            "DELETE FROM bodies WHERE seq IN (SELECT seq FROM bodies ORDER BY seq LIMIT \
                 (SELECT max(1, min(?1, count(*) / 10)) FROM bodies))",
        )?
        .execute([CHUNK])
}

fn label(row: &Row<'_>) -> rusqlite::Result<BodyLabel> {
    let side: String = row.get("side")?;
    Ok(BodyLabel {
        request: row.get("request")?,
        side: BodySide::parse(&side).ok_or_else(|| {
            let unknown = format!("`{side}` is no side of an exchange");
            rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, unknown.into())
        })?,
        session: row.get::<_, Option<String>>("session_id")?.map(SessionId::new),
        dialect: row.get("dialect")?,
        at: Timestamp(row.get("at")?),
        length: row.get::<_, i64>("length")?.cast_unsigned(),
        kept: row.get::<_, i64>("kept")?.cast_unsigned(),
    })
}
