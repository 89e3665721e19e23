//! Calls that are held until a person answers, and the answers.

use mcpmon_model::{AnsweredCall, CallAnswer, HeldCall, PinKey, ProcessId, SessionId, Timestamp};
use rusqlite::{Connection, Row, params, types::Type};

use super::{name, parse_name};

/// The time after its end, in nanoseconds, for which a call is kept if its process was killed before it released the
/// call.
const REMEMBERED: i64 = 24 * 3_600_000_000_000;
/// Most rows that are kept; beyond it, the oldest are removed.
const MAX_ROWS: u32 = 10_000;
/// Most answers that are read for one session and server.
const MAX_ANSWERS: u32 = 1_000;

/// The result of answering a held call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answering {
    /// The answer is stored; the process that holds the call gets it.
    Answered(Box<HeldCall>),
    /// No call with this id is held.
    Unknown,
    /// More than one id begins with these digits.
    Ambiguous,
    /// The call was answered before.
    Known(AnsweredCall),
    /// The client no longer waits.
    Late,
}

/// Stores a call that `process` holds.
pub(super) fn put(connection: &Connection, process: ProcessId, held: &HeldCall) -> rusqlite::Result<()> {
    forget_old(connection, held.since)?;
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO held_calls \
             (id, session_id, server_id, name, uid, pid, start, tool, since, expires, call) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            held.id,
            held.session.as_ref().map(SessionId::as_str),
            held.identity.server.as_str(),
            held.identity.name,
            held.identity.uid,
            process.pid,
            process.start.cast_signed(),
            held.tool,
            held.since.0,
            held.expires.0,
            serde_json::to_string(held)
                .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?,
        ])?;
    Ok(())
}

/// Removes rows that are not needed any longer: calls of killed processes, and answers for sessions that are over.
fn forget_old(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM held_calls WHERE expires < ?1 AND answer IS NOT 'session'")?
        .execute([now.0.saturating_sub(REMEMBERED)])?;
    connection
        .prepare_cached(
            "DELETE FROM held_calls WHERE expires < ?1 AND answer = 'session' \
             AND session_id NOT IN (SELECT id FROM sessions)",
        )?
        .execute([now.0.saturating_sub(REMEMBERED)])?;
    connection
        .prepare_cached(
            "DELETE FROM held_calls WHERE id IN (SELECT id FROM held_calls ORDER BY since DESC LIMIT -1 OFFSET ?1)",
        )?
        .execute([MAX_ROWS])?;
    Ok(())
}

/// Removes a call whose client no longer waits. An answer for the whole session is kept.
pub(super) fn release(connection: &Connection, identity: &PinKey, id: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "DELETE FROM held_calls WHERE id = ?1 AND server_id = ?2 AND name = ?3 AND uid = ?4 \
             AND answer IS NOT 'session'",
        )?
        .execute(params![id, identity.server.as_str(), identity.name, identity.uid])?;
    Ok(())
}

/// Returns the calls that wait at `now`, with the processes that hold them, oldest first. Some of these processes may
/// have been killed.
pub(super) fn waiting(
    connection: &Connection,
    now: Timestamp,
) -> rusqlite::Result<Vec<(ProcessId, HeldCall)>> {
    connection
        .prepare_cached(
            "SELECT pid, start, call FROM held_calls WHERE answer IS NULL AND expires > ?1 ORDER BY since",
        )?
        .query_map([now.0], |row| {
            let process = ProcessId {
                pid: row.get(0)?,
                start: row.get::<_, i64>(1)?.cast_unsigned(),
            };
            Ok((process, call(row, 2)?))
        })?
        .collect()
}

/// Stores a person's answer to the call whose id begins with `digits`; with `own`, only calls of that user are seen.
pub(super) fn answer(
    connection: &Connection,
    now: Timestamp,
    digits: &str,
    answer: CallAnswer,
    by: &str,
    own: Option<u32>,
) -> rusqlite::Result<Answering> {
    let mut statement = connection.prepare_cached(
        "SELECT id, tool, expires, call, answer, answered_by FROM held_calls \
         WHERE substr(id, 1, length(?1)) = ?1 AND (?2 IS NULL OR uid = ?2) LIMIT 2",
    )?;
    let mut rows = statement.query(params![digits, own])?;
    let Some(row) = rows.next()? else {
        return Ok(Answering::Unknown);
    };
    let (id, expires): (String, i64) = (row.get(0)?, row.get(2)?);
    let held = call(row, 3)?;
    let known = answered(row, 4)?;
    if digits.is_empty() || rows.next()?.is_some() {
        return Ok(Answering::Ambiguous);
    }
    if let Some((answer, by)) = known {
        return Ok(Answering::Known(AnsweredCall {
            id,
            rules: held.rules().cloned().collect(),
            tool: held.tool,
            answer,
            by,
        }));
    }
    if expires <= now.0 {
        return Ok(Answering::Late);
    }
    connection
        .prepare_cached("UPDATE held_calls SET answer = ?2, answered_by = ?3 WHERE id = ?1")?
        .execute(params![id, name(&answer), by])?;
    Ok(Answering::Answered(Box::new(held)))
}

/// Returns the answers for one server in one session: those to calls that wait for one, and those for the session.
pub(super) fn answers(
    connection: &Connection,
    identity: &PinKey,
    session: &SessionId,
) -> rusqlite::Result<Vec<AnsweredCall>> {
    let rows = connection
        .prepare_cached(
            "SELECT id, call, answer, answered_by FROM held_calls \
             WHERE answer IS NOT NULL AND session_id = ?1 AND server_id = ?2 AND name = ?3 AND uid = ?4 \
             ORDER BY since DESC LIMIT ?5",
        )?
        .query_map(
            params![
                session.as_str(),
                identity.server.as_str(),
                identity.name,
                identity.uid,
                MAX_ANSWERS
            ],
            |row| {
                let (id, held) = (row.get(0)?, call(row, 1)?);
                let answered = answered(row, 2)?;
                Ok(answered.map(|(answer, by)| AnsweredCall {
                    id,
                    rules: held.rules().cloned().collect(),
                    tool: held.tool,
                    answer,
                    by,
                }))
            },
        )?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(rows.into_iter().flatten().collect())
}

fn call(row: &Row<'_>, column: usize) -> rusqlite::Result<HeldCall> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}

/// Returns the answer in this column, and the person in the next one.
fn answered(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<(CallAnswer, String)>> {
    let Some(answer) = row.get::<_, Option<String>>(column)? else {
        return Ok(None);
    };
    let answer = parse_name(&answer)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))?;
    Ok(Some((
        answer,
        row.get::<_, Option<String>>(column + 1)?.unwrap_or_default(),
    )))
}

#[cfg(test)]
mod tests {
    use mcpmon_model::Digest;

    use super::*;
    use crate::{Destination as _, Store, StoreEntry, sample};

    const NOW: Timestamp = Timestamp(100);

    fn held(id: &str, tool: &str) -> HeldCall {
        HeldCall {
            id: id.to_owned(),
            identity: sample::identity("files"),
            session: Some(SessionId::new("s1")),
            tool: tool.to_owned(),
            arguments: "{\"a\":1}".to_owned(),
            arguments_hash: Digest::of(b"{\"a\":1}"),
            rule: "ask".to_owned(),
            other_rules: Vec::new(),
            reason: "it is dear".to_owned(),
            since: Timestamp(50),
            expires: Timestamp(1_000),
        }
    }

    fn filled(calls: &[(&str, &str)]) -> (tempfile::TempDir, Store) {
        let (directory, mut store) = sample::store();
        let process = ProcessId { pid: 7, start: 8 };
        let entries: Vec<StoreEntry> = calls
            .iter()
            .map(|(id, tool)| StoreEntry::HoldCall(process, Box::new(held(id, tool))))
            .collect();
        store.keep(&entries).expect("kept");
        (directory, store)
    }

    fn ids(store: &mut Store, now: Timestamp) -> Vec<String> {
        let waiting = store.read(|reader| reader.held_calls(now)).expect("read");
        waiting.into_iter().map(|(_, call)| call.id).collect()
    }

    fn answers(store: &mut Store) -> Vec<AnsweredCall> {
        let identity = sample::identity("files");
        store
            .read(|reader| reader.answered_calls(&identity, &SessionId::new("s1")))
            .expect("read")
    }

    #[test]
    fn a_call_waits_until_it_is_answered_or_late() {
        let (_directory, mut store) = filled(&[("abc1", "pay"), ("abd2", "show")]);
        assert_eq!(
            store.read(|reader| reader.held_calls(NOW)).expect("read")[0].1,
            held("abc1", "pay")
        );
        assert_eq!(ids(&mut store, Timestamp(1_000)), Vec::<String>::new());
        let before = store.changes();
        let answered = store
            .answer_call(NOW, "abc", CallAnswer::Once, "ann", None)
            .expect("done");
        assert_eq!(answered, Answering::Answered(Box::new(held("abc1", "pay"))));
        assert!(store.changes() > before, "whoever holds it hears of it");
        assert_eq!(ids(&mut store, NOW), ["abd2"]);
        let once = AnsweredCall {
            id: "abc1".to_owned(),
            tool: "pay".to_owned(),
            rules: vec!["ask".to_owned()],
            answer: CallAnswer::Once,
            by: "ann".to_owned(),
        };
        assert_eq!(answers(&mut store), std::slice::from_ref(&once));
        let again = store
            .answer_call(NOW, "abc1", CallAnswer::Deny, "eve", None)
            .expect("done");
        assert_eq!(again, Answering::Known(once));
        let late = store.answer_call(Timestamp(1_000), "abd2", CallAnswer::Once, "ann", None);
        assert_eq!(late.expect("done"), Answering::Late);
    }

    #[test]
    fn an_answer_names_one_call() {
        let (_directory, mut store) = filled(&[("abc1", "pay"), ("abd2", "show")]);
        for (digits, expected) in [
            ("ab", Answering::Ambiguous),
            ("", Answering::Ambiguous),
            ("ff", Answering::Unknown),
        ] {
            let answering = store
                .answer_call(NOW, digits, CallAnswer::Once, "ann", None)
                .expect("done");
            assert_eq!(answering, expected, "{digits}");
        }
        assert_eq!(answers(&mut store), []);
    }

    #[test]
    fn only_an_answer_for_the_session_outlives_its_call() {
        let (_directory, mut store) = filled(&[("abc1", "pay"), ("abd2", "show")]);
        for (id, answer) in [("abc1", CallAnswer::Session), ("abd2", CallAnswer::Once)] {
            store.answer_call(NOW, id, answer, "ann", None).expect("done");
        }
        let release = |identity: &PinKey, id: &str| StoreEntry::ReleaseCall(identity.clone(), id.to_owned());
        let (own, other) = (sample::identity("files"), sample::identity("other"));
        store.keep(&[release(&other, "abd2")]).expect("kept");
        assert_eq!(answers(&mut store).len(), 2, "nobody takes another's calls back");
        store
            .keep(&[release(&own, "abc1"), release(&own, "abd2")])
            .expect("kept");
        let left = answers(&mut store);
        assert_eq!(left.len(), 1);
        assert_eq!(
            (left[0].tool.as_str(), left[0].answer),
            ("pay", CallAnswer::Session)
        );
    }

    #[test]
    fn calls_of_killed_processes_are_forgotten() {
        let (_directory, mut store) = filled(&[("abc1", "pay")]);
        let later = HeldCall {
            since: Timestamp(2_000 + REMEMBERED),
            expires: Timestamp(3_000 + REMEMBERED),
            ..held("abd2", "pay")
        };
        let process = ProcessId { pid: 7, start: 8 };
        store
            .keep(&[StoreEntry::HoldCall(process, Box::new(later))])
            .expect("kept");
        let gone = store
            .answer_call(NOW, "abc1", CallAnswer::Once, "ann", None)
            .expect("done");
        assert_eq!(gone, Answering::Unknown);
    }
}
