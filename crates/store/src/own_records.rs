//! The records of one user, copied from a store that this user may not read. The copy is a store in memory, so that
//! every listing works with it.

use rusqlite::{
    Connection, MAIN_DB, Transaction, params,
    types::{Value, ValueRef},
};

use super::{StoredEvent, row, schema, servers};

/// Most events in a copy: the newest.
pub const MAX_OWN_EVENTS: u32 = 20_000;
/// Most bytes of the texts of these events.
const MAX_BYTES: usize = 16 << 20;
/// Most bytes of texts in another table.
const MAX_TABLE_BYTES: usize = 4 << 20;
/// Most rows of another table.
const MAX_ROWS: u32 = 10_000;

/// The condition for events of the user `?1`: those of own processes, and those without a process in a session to which
/// no other user ever belonged, as far as is known. A session's id is chosen by those who join it.
const OWN_EVENTS: &str = "uid = ?1 OR (uid IS NULL AND session_id IN (
        SELECT session_id FROM session_servers GROUP BY session_id HAVING min(uid) = ?1 AND max(uid) = ?1
    ) AND NOT EXISTS (
        SELECT 1 FROM events AS other
        WHERE other.session_id = events.session_id AND other.uid IS NOT NULL AND other.uid <> ?1
    ))";

/// Further tables with rows of users, and the condition for those of the user `?1`. What is no user's is not copied,
/// except for the time in which the host was watched and the stop of the whole host.
const TABLES: [(&str, &str); 7] = [
    ("binary_pins", "uid = ?1"),
    ("definitions", "uid = ?1"),
    ("forgotten", "uid = ?1"),
    ("held_calls", "uid = ?1"),
    ("session_servers", "uid = ?1"),
    (
        "sessions",
        "id IN (SELECT session_id FROM session_servers WHERE uid = ?1)",
    ),
    ("watches", "?1 IS NOT NULL"),
];

/// The name of the stop of the host among the stops of sessions.
const KILLS: (&str, &str) = ("kills", "scope = '' AND ?1 IS NOT NULL");

/// Copies the records of `uid` into a new database, and returns its bytes.
pub(super) fn copy(from: &Connection, uid: u32) -> rusqlite::Result<Vec<u8>> {
    let mut to = Connection::open_in_memory()?;
    schema::migrate(&mut to).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let moment = from.unchecked_transaction()?;
    let transaction = to.transaction()?;
    copy_events(&moment, &transaction, uid)?;
    for (table, own) in TABLES.into_iter().chain([KILLS]) {
        copy_table(&moment, &transaction, table, own, uid)?;
    }
    transaction.commit()?;
    to.execute_batch("PRAGMA journal_mode = OFF")?;
    Ok(to.serialize(MAIN_DB)?.to_vec())
}

/// Copies events as if they were recorded anew, so that the summaries of servers contain what the user may see.
fn copy_events(from: &Connection, to: &Transaction<'_>, uid: u32) -> rusqlite::Result<()> {
    let select = format!(
        "SELECT {columns} FROM events WHERE {OWN_EVENTS} ORDER BY seq DESC LIMIT {MAX_OWN_EVENTS}",
        columns = row::COLUMNS
    );
    let (mut events, mut bytes) = (Vec::<StoredEvent>::new(), 0);
    let mut statement = from.prepare(&select)?;
    let mut rows = statement.query([uid])?;
    while let Some(found) = rows.next()? {
        bytes += found.get_ref(20)?.as_str().map_or(0, str::len);
        if bytes > MAX_BYTES {
            break;
        }
        events.push(row::read(found)?);
    }
    events.reverse();
    let events: Vec<&StoredEvent> = events.iter().collect();
    let mut touched = servers::TouchedServers::default();
    row::insert(to, &events, |event, seq| {
        servers::apply(to, event, seq, &mut touched)
    })?;
    touched.write(to)
}

fn copy_table(from: &Connection, to: &Connection, table: &str, own: &str, uid: u32) -> rusqlite::Result<()> {
    let mut select = from.prepare(&format!("SELECT * FROM {table} WHERE {own} LIMIT {MAX_ROWS}"))?;
    let columns = select.column_count();
    let names: Vec<String> = select.column_names().map(str::to_owned).collect();
    let places = vec!["?"; columns].join(", ");
    let mut insert = to.prepare(&format!(
        "INSERT OR IGNORE INTO {table} ({}) VALUES ({places})",
        names.join(", ")
    ))?;
    let mut rows = select.query(params![uid])?;
    let mut bytes = 0;
    while let Some(found) = rows.next()? {
        for column in 0..columns {
            bytes += match found.get_ref(column)? {
                ValueRef::Text(text) | ValueRef::Blob(text) => text.len(),
                ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 0,
            };
        }
        if bytes > MAX_TABLE_BYTES {
            break;
        }
        for column in 0..columns {
            insert.raw_bind_parameter(column + 1, found.get::<_, Value>(column)?)?;
        }
        insert.raw_execute()?;
    }
    Ok(())
}

/// Opens the bytes of a copy.
pub(super) fn open(bytes: &[u8]) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_in_memory()?;
    connection.deserialize_read_exact(MAIN_DB, bytes, bytes.len(), true)?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{Event, EventKind, Kill, Layer, ProcessRef, ServerId, SessionId, Timestamp};

    use crate::{Destination as _, Filter, Selection, Store, StoreEntry, StoreReader, sample};

    const BOB: u32 = 2000;

    fn event(uid: Option<u32>, server: &str, session: &str) -> Event {
        let kind = EventKind::EnforcementRestored {
            component: "daemon".to_owned(),
            cause: server.to_owned(),
        };
        let mut event = Event::new(Timestamp(sample::NOON), Layer::Agent, kind);
        event.server_id = Some(ServerId::new(server).unwrap());
        event.session_id = Some(SessionId::new(session));
        event.process = uid.map(|uid| ProcessRef {
            pid: 7,
            exe: None,
            comm: None,
            uid: Some(uid),
        });
        event
    }

    fn join(store: &mut Store, uid: u32, session: &str) {
        let mut member = sample::member(session, "files", 100 + uid);
        member.identity.uid = uid;
        store.join(Timestamp(1), &member).unwrap();
    }

    fn own(store: &Store, uid: u32) -> StoreReader {
        let reader = StoreReader::open(store.path()).unwrap();
        StoreReader::of_own_records(&reader.own_records(uid).unwrap()).unwrap()
    }

    fn servers(reader: &StoreReader) -> Vec<String> {
        let events = reader.events(&Filter::default(), 100).unwrap();
        events.into_iter().filter_map(|event| event.server_id).collect()
    }

    #[test]
    fn a_user_gets_own_records_and_none_of_others() {
        let (_directory, mut store) = sample::store();
        let alice = sample::definition("files", "read_file", "r").key.identity.uid;
        join(&mut store, alice, "s-alice");
        join(&mut store, BOB, "s-bob");
        store
            .record(vec![
                event(Some(alice), "alice-files", "s-alice"),
                event(None, "alice-late", "s-alice"),
                event(Some(BOB), "bob-files", "s-bob"),
                event(None, "bob-late", "s-bob"),
                event(None, "of-nobody", "s-unknown"),
            ])
            .unwrap();
        store
            .keep(&[StoreEntry::Definition(sample::definition(
                "files",
                "read_file",
                "r",
            ))])
            .unwrap();
        let kill = Kill {
            by: "root".to_owned(),
            at: Timestamp(7),
        };
        store.kill(None, &kill).unwrap();
        store.kill(Some(&SessionId::new("s-bob")), &kill).unwrap();

        let of_alice = own(&store, alice);
        assert_eq!(servers(&of_alice), ["alice-files", "alice-late"]);
        assert_eq!(of_alice.definitions(&Selection::default()).unwrap().len(), 1);
        let kills = of_alice.kills().unwrap();
        assert!(kills.host.is_some() && kills.sessions.is_empty());
        let of_bob = own(&store, BOB);
        assert_eq!(servers(&of_bob), ["bob-files", "bob-late"]);
        assert_eq!(of_bob.definitions(&Selection::default()).unwrap(), []);
    }

    #[test]
    fn joining_the_session_of_another_user_shows_nothing_of_it() {
        let (_directory, mut store) = sample::store();
        store
            .record(vec![
                event(Some(1), "alice-files", "s-alice"),
                event(None, "alice-late", "s-alice"),
            ])
            .unwrap();
        join(&mut store, BOB, "s-alice");
        assert_eq!(servers(&own(&store, BOB)), Vec::<String>::new());
    }
}
