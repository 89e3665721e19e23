use std::error::Error as _;

use super::*;
use crate::sample;

fn pragma(store: &Store, name: &str) -> String {
    store
        .connection()
        .pragma_query_value(None, name, |row| {
            row.get::<_, rusqlite::types::Value>(0)
                .map(|value| format!("{value:?}"))
        })
        .unwrap()
}

#[test]
fn a_store_is_opened_as_promised() {
    let (_directory, store) = sample::store();
    for (name, value) in [
        ("journal_mode", r#"Text("wal")"#),
        ("synchronous", "Integer(1)"),
        ("auto_vacuum", "Integer(2)"),
        ("foreign_keys", "Integer(1)"),
        ("trusted_schema", "Integer(0)"),
        ("cache_size", "Integer(-512)"),
        ("temp_store", "Integer(2)"),
    ] {
        assert_eq!(pragma(&store, name), value, "{name}");
    }
}

#[test]
fn a_store_that_is_removed_while_it_is_in_use_begins_anew_and_says_so() {
    let (directory, mut store) = sample::store();
    let mut other = Store::open(store.path(), Access::default()).unwrap();
    sample::fill(&mut store, [sample::started("a", 2)]);
    for name in ["mcpmon.db", "mcpmon.db-wal", "mcpmon.db-shm"] {
        fs::remove_file(directory.path().join(name)).unwrap();
    }
    sample::fill(&mut store, [sample::started("a", 3)]);
    sample::fill(&mut other, [sample::started("a", 4)]);
    let reader = StoreReader::open(store.path()).unwrap();
    let events = reader.events(&crate::Filter::default(), 10).unwrap();
    let pids = events
        .iter()
        .filter_map(|event| Some(event.process.as_ref()?.pid));
    assert_eq!(pids.collect::<Vec<_>>(), [3, 4]);
    assert_eq!(events[0].kind, "mcp_enforcement_degraded");
    assert_eq!(events[0].severity, Severity::High);
    assert!(events[0].data["cause"].as_str().unwrap().contains("removed"));
}

#[test]
fn many_may_open_a_new_store_at_once() {
    for _ in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        std::thread::scope(|scope| {
            let open = || Store::open(&path, Access::default());
            let opening: Vec<_> = (0..6).map(|_| scope.spawn(open)).collect();
            for opened in opening {
                opened.join().expect("no panic").expect("it is opened");
            }
        });
    }
}

#[test]
fn a_file_that_is_no_database_is_refused_by_name_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.txt");
    let text = "these are my notes, and they are longer than the header of a database would be\n".repeat(20);
    fs::write(&path, &text).unwrap();
    let error = Store::open(&path, Access::default()).unwrap_err();
    assert!(
        error.to_string().ends_with("notes.txt cannot be used as a store"),
        "{error}"
    );
    assert_eq!(error.source().unwrap().to_string(), "file is not a database");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn every_event_of_a_batch_has_its_position_however_many_one_statement_writes() {
    let (_directory, mut store) = sample::store();
    let started = |pid| StoredEvent::new(uuid::Uuid::nil(), "laptop", sample::started("a", pid));
    let entries = |pids: std::ops::Range<u32>| pids.map(started).map(StoreEntry::Event);
    let forget = std::iter::once(StoreEntry::ForgetRunning);
    let batch: Vec<StoreEntry> = entries(1..24).chain(forget).chain(entries(24..57)).collect();
    store.carry_out(&batch).unwrap();
    let rows = |select: &str| {
        let mut statement = store.connection().prepare(select).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.unwrap()
            .collect::<rusqlite::Result<Vec<(u32, u32)>>>()
            .unwrap()
    };
    let written: Vec<(u32, u32)> = (1..57).map(|number| (number, number)).collect();
    assert_eq!(rows("SELECT seq, pid FROM events ORDER BY seq"), written);
    let running = rows("SELECT started_seq, pid FROM running_servers ORDER BY pid");
    assert_eq!(
        running,
        written[23..],
        "what was forgotten in between started before"
    );
}

#[test]
fn a_batch_is_written_whole_or_not_at_all() {
    let (_directory, mut store) = sample::store();
    let event = StoredEvent::new(uuid::Uuid::nil(), "laptop", sample::started("a", 2));
    store
        .connection()
        .execute_batch(
            "CREATE TRIGGER refuse BEFORE INSERT ON events WHEN NEW.host = 'refused'
             BEGIN SELECT RAISE(ABORT, 'refused'); END",
        )
        .unwrap();
    let mut refused = event.clone();
    refused.host = "refused".into();
    let error = store.append(&[event, refused]).unwrap_err();
    assert!(!error.is_transient(), "{error}");
    let events: u32 = store
        .connection()
        .query_row("SELECT count(*) FROM events", [], |row| row.get(0))
        .unwrap();
    assert_eq!(events, 0);
}
