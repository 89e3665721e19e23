//! Decisions and events that go from one store into another: into a standby store, and back from there.

use std::path::Path;

use rusqlite::{Connection, params_from_iter, types::Value};

use super::{Destination as _, Entry, QueryError, Reader, Store, StoreError, journal};

/// A table of what is decided by: pins, approvals, and what persons stopped.
struct Decisions {
    table: &'static str,
    /// What a row is found by; empty for one of which no row is ever removed here.
    key: &'static [&'static str],
}

const DECISIONS: [Decisions; 4] = [
    Decisions {
        table: "binary_pins",
        key: &["server_id", "name", "uid", "number", "part"],
    },
    Decisions {
        table: "definitions",
        key: &["server_id", "name", "uid", "kind", "item"],
    },
    Decisions {
        table: "forgotten",
        key: &[],
    },
    Decisions {
        table: "kills",
        key: &["scope"],
    },
];

/// What else is taken over from a standby store, with the column that counts up and is left out. What the store has
/// already stays as it is there.
const RECORDS: [(&str, &str); 7] = [
    ("events", "seq"),
    ("unposted", ""),
    ("bodies", "seq"),
    ("watches", ""),
    ("servers", ""),
    ("sessions", ""),
    ("session_servers", ""),
];

/// What one store has cannot be put into another.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] super::OpenError),
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] QueryError),
    /// The other one cannot be written.
    #[error(transparent)]
    Write(#[from] StoreError),
}

impl Store {
    /// Takes over by what the store at `other` decides: pins, approvals, and what persons stopped. What they were is
    /// kept beside them, so that [`Self::adopt_all`] knows what was changed here. Where they were taken over before,
    /// those that hold here stay.
    ///
    /// # Errors
    /// Where one cannot be read, or the other not written; then nothing is taken over.
    pub fn adopt_decisions(&mut self, other: &Path) -> Result<(), CopyError> {
        let other = Reader::open_any_version(other)?;
        self.write(|to| {
            other.with(|from| {
                for Decisions { table, .. } in &DECISIONS {
                    let adopted = adopted(table);
                    if has_table(to, &adopted)? {
                        return Ok(());
                    }
                    to.execute_batch(&format!(
                        "CREATE TABLE {adopted} AS SELECT * FROM {table} WHERE false"
                    ))?;
                    let source = Source::all(from, table, "")?;
                    source.copy(from, to, &adopted, "INSERT", "")?;
                    source.copy(from, to, table, "INSERT OR REPLACE", "")?;
                }
                Ok(())
            })
        })?;
        Ok(())
    }

    /// Takes over what the standby store at `other` has: its events and the journals beside it, and what was decided
    /// there since it took over the decisions of this store. Where it began without any, what it holds replaces
    /// nothing. Returns how many events those are.
    ///
    /// # Errors
    /// Where one cannot be read, or the other not written; then nothing is taken over.
    pub fn adopt_all(&mut self, other: &Path) -> Result<u64, CopyError> {
        let reader = Reader::open_any_version(other)?;
        let copied = self.write(|to| {
            reader.with(|from| {
                for decisions in &DECISIONS {
                    decisions.take_over(from, to)?;
                }
                let mut events = 0;
                for (table, left_out) in RECORDS {
                    let unless = match table {
                        "events" => {
                            "WHERE NOT EXISTS (SELECT 1 FROM events WHERE timestamp = ?3 AND id = ?1)"
                        }
                        _ => "",
                    };
                    let copied = Source::all(from, table, left_out)?.copy(
                        from,
                        to,
                        table,
                        "INSERT OR IGNORE",
                        unless,
                    )?;
                    if table == "events" {
                        events = copied;
                    }
                }
                Ok(events)
            })
        })?;
        for orphan in journal::orphans(other) {
            let entries: Vec<Entry> = orphan.events.iter().cloned().map(Entry::Rescued).collect();
            self.keep(&entries)?;
            orphan.remove();
        }
        Ok(copied)
    }
}

impl Decisions {
    /// Does in `to` what was changed in `from` since the decisions were adopted there.
    fn take_over(&self, from: &Connection, to: &Connection) -> rusqlite::Result<()> {
        let Self { table, key } = self;
        let adopted = adopted(table);
        if !has_table(from, &adopted)? {
            // First sight may have pinned what the store has another pin for.
            Source::all(from, table, "")?.copy(from, to, table, "INSERT OR IGNORE", "")?;
            return Ok(());
        }
        if !key.is_empty() {
            let columns = key.join(", ");
            let gone = format!("SELECT {columns} FROM {adopted} EXCEPT SELECT {columns} FROM {table}");
            let places = key
                .iter()
                .zip(1..)
                .map(|(column, at)| format!("{column} IS ?{at}"));
            let places: Vec<String> = places.collect();
            let mut delete = to.prepare(&format!("DELETE FROM {table} WHERE {}", places.join(" AND ")))?;
            let mut select = from.prepare(&gone)?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                delete.execute(params_from_iter(values(row, key.len())?))?;
            }
        }
        let source = Source::all(from, &adopted, "")?;
        let columns = source.columns.join(", ");
        let changed = Source {
            query: format!("SELECT {columns} FROM {table} EXCEPT SELECT {columns} FROM {adopted}"),
            ..source
        };
        changed.copy(from, to, table, "INSERT OR REPLACE", "")?;
        Ok(())
    }
}

/// The name of the table with the decisions as they were adopted.
fn adopted(table: &str) -> String {
    format!("adopted_{table}")
}

fn has_table(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1")?
        .exists([table])
}

/// Rows to copy.
struct Source {
    query: String,
    columns: Vec<String>,
}

impl Source {
    /// Every row of `table` without the column `left_out`. A store of an earlier version may not have the table.
    fn all(from: &Connection, table: &str, left_out: &str) -> rusqlite::Result<Self> {
        let columns: Vec<String> = from
            .prepare("SELECT name FROM pragma_table_info(?1)")?
            .query_map([table], |row| row.get(0))?
            .filter(|name| name.as_ref().map_or(true, |name| name != left_out))
            .collect::<rusqlite::Result<_>>()?;
        let mut query = format!("SELECT {} FROM {table}", columns.join(", "));
        if !left_out.is_empty() {
            query += &format!(" ORDER BY {left_out}");
        }
        Ok(Self { query, columns })
    }

    /// Copies them into `table`, but not `unless` that holds, and returns how many those are.
    fn copy(
        &self,
        from: &Connection,
        to: &Connection,
        table: &str,
        insert: &str,
        unless: &str,
    ) -> rusqlite::Result<u64> {
        let count = self.columns.len();
        if count == 0 {
            return Ok(0);
        }
        let places = vec!["?"; count].join(", ");
        let columns = self.columns.join(", ");
        let mut insert = to.prepare(&format!(
            "{insert} INTO {table} ({columns}) SELECT {places} {unless}"
        ))?;
        let mut select = from.prepare(&self.query)?;
        let mut rows = select.query([])?;
        let mut copied = 0;
        while let Some(row) = rows.next()? {
            copied += insert.execute(params_from_iter(values(row, count)?))? as u64;
        }
        Ok(copied)
    }
}

fn values(row: &rusqlite::Row<'_>, count: usize) -> rusqlite::Result<Vec<Value>> {
    (0..count).map(|at| row.get(at)).collect()
}

#[cfg(test)]
mod tests {
    use mcpmon_core::model::{Digest, Kill, PinPart, SessionId, Timestamp};

    use super::*;
    use crate::record::{BinaryPin, Filter, StoredEvent, Unposted, json, sample};

    fn kill() -> Kill {
        Kill {
            by: "root".to_owned(),
            at: Timestamp(7),
        }
    }

    fn pin(server: &str, hash: u8) -> BinaryPin {
        BinaryPin {
            key: sample::identity(server),
            number: 0,
            part: PinPart::Executable,
            path: "/bin/a".into(),
            hash: Digest::from_bytes([hash; 32]),
            manifest: None,
            pinned_at: Timestamp(1),
            pinned_by: "first_use".to_owned(),
        }
    }

    fn session(name: &str) -> SessionId {
        SessionId::new(name)
    }

    fn stopped(store: &mut Store) -> Vec<String> {
        let kills = store.kills().unwrap();
        kills
            .sessions
            .keys()
            .map(|name| name.as_str().to_owned())
            .collect()
    }

    #[test]
    fn what_is_decided_by_goes_over_and_events_come_back_once() {
        let (_directory, mut store) = sample::store();
        let (_elsewhere, mut other) = sample::store();
        sample::fill(&mut store, [sample::started("a", 2)]);
        assert!(store.kill(Some(&session("s1")), &kill()).unwrap());
        other.adopt_decisions(store.path()).unwrap();
        assert_eq!(other.kills().unwrap(), store.kills().unwrap());
        other
            .record(vec![sample::started("a", 3), sample::started("a", 4)])
            .unwrap();
        assert_eq!(store.adopt_all(other.path()).unwrap(), 2);
        assert_eq!(store.adopt_all(other.path()).unwrap(), 0, "they are there");
        let reader = Reader::open(store.path()).unwrap();
        let events = reader.events(&Filter::default(), 10).unwrap();
        let pids = events
            .iter()
            .filter_map(|event| Some(event.process.as_ref()?.pid));
        assert_eq!(pids.collect::<Vec<_>>(), [2, 3, 4]);
    }

    #[test]
    fn what_was_undone_meanwhile_stays_undone_and_what_nobody_touched_stays() {
        let (_directory, mut store) = sample::store();
        let (_elsewhere, mut standby) = sample::store();
        for name in ["lifted", "kept"] {
            assert!(store.kill(Some(&session(name)), &kill()).unwrap());
        }
        store
            .keep(&["reset", "held"].map(|server| Entry::PutPin(pin(server, 1))))
            .unwrap();
        standby.adopt_decisions(store.path()).unwrap();
        assert!(standby.lift_kill(Some(&session("lifted"))).unwrap());
        assert!(standby.kill(Some(&session("new")), &kill()).unwrap());
        assert!(standby.forget_pins(&sample::identity("reset").server).unwrap());
        // A daemon that is started again while the store cannot be written undoes none of that.
        standby.adopt_decisions(store.path()).unwrap();
        assert_eq!(stopped(&mut standby), ["kept", "new"]);
        store.adopt_all(standby.path()).unwrap();
        assert_eq!(stopped(&mut store), ["kept", "new"]);
        let pinned = Reader::open(store.path()).unwrap().pins().unwrap();
        assert_eq!(pinned, [pin("held", 1)]);
    }

    #[test]
    fn one_that_began_without_decisions_replaces_none() {
        let (_directory, mut store) = sample::store();
        let (_elsewhere, mut standby) = sample::store();
        store.keep(&[Entry::PutPin(pin("a", 1))]).unwrap();
        standby.keep(&[Entry::PutPin(pin("a", 2))]).unwrap();
        store.adopt_all(standby.path()).unwrap();
        let pinned = Reader::open(store.path()).unwrap().pins().unwrap();
        assert_eq!(pinned, [pin("a", 1)]);
    }

    #[test]
    fn alarms_and_journals_come_back_and_an_older_store_is_read() {
        let (_directory, mut store) = sample::store();
        let (elsewhere, mut standby) = sample::store();
        assert!(store.kill(Some(&session("s1")), &kill()).unwrap());
        store
            .write_outside(|connection| {
                connection.execute_batch("DROP TABLE unposted; PRAGMA user_version = 3")
            })
            .unwrap();
        standby.adopt_decisions(store.path()).unwrap();
        assert_eq!(stopped(&mut standby), ["s1"]);

        let (_directory, mut store) = sample::store();
        let event = StoredEvent::identified("laptop", sample::denied("a"));
        let waiting = vec![(event.id, event.timestamp)];
        standby
            .keep(&[
                Entry::Event(event.clone()),
                Entry::Unposted(Unposted {
                    waiting,
                    claimed_until: Timestamp(0),
                    settled: Vec::new(),
                }),
            ])
            .unwrap();
        let rescued = StoredEvent::identified("laptop", sample::denied("b"));
        let line = serde_json::to_string(&json::to_json(&rescued)).unwrap();
        let name = format!("{}.1-x.blocks", standby.path().file_name().unwrap().display());
        std::fs::write(elsewhere.path().join(name), line + "\n").unwrap();
        assert_eq!(store.adopt_all(standby.path()).unwrap(), 1);
        let claimed = store.claim_unposted(Timestamp(1), 10).unwrap();
        let ids = |events: &[StoredEvent]| events.iter().map(|event| event.id).collect::<Vec<_>>();
        assert_eq!(ids(&claimed.events), [event.id]);
        let reader = Reader::open(store.path()).unwrap();
        let events = reader.events(&Filter::default(), 10).unwrap();
        assert_eq!(ids(&events), [event.id, rescued.id]);
    }
}
