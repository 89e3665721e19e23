//! Decisions and events that go from one store into another: into a standby store, and back from there.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, params_from_iter, types::Value};

use super::{Destination as _, Entry, QueryError, Reader, Store, StoreError, journal, servers};

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

/// Tables to which rows are only added, with the column that counts them, which is another in each store.
const GROWING: [(&str, &str); 2] = [("events", "seq"), ("bodies", "seq")];

/// What else is taken over from a standby store. What the store has already stays as it is there.
const RECORDS: [&str; 5] = ["unposted", "watches", "servers", "sessions", "session_servers"];

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
                    let source = Source::all(from, table)?;
                    source.copy(from, to, &adopted, "INSERT", "")?;
                    source.copy(from, to, table, "INSERT OR REPLACE", "")?;
                }
                Ok(())
            })
        })?;
        Ok(())
    }

    /// Takes over what the standby store at `other` has, see [`Adoption`]. Returns how many events those are.
    ///
    /// # Errors
    /// Where one cannot be read, or the other not written; then nothing is taken over.
    pub fn adopt_all(&mut self, other: &Path) -> Result<u64, CopyError> {
        let mut adoption = Adoption::new(other);
        adoption.finish(self)?;
        self.adopt_journals(other)?;
        Ok(adoption.events)
    }

    /// Takes over the journals beside the standby store at `other`, whether or not that is there.
    ///
    /// # Errors
    /// Where the store cannot be written; then those that are left stay.
    pub fn adopt_journals(&mut self, other: &Path) -> Result<(), StoreError> {
        for orphan in journal::orphans(other) {
            let entries: Vec<Entry> = orphan.events.iter().cloned().map(Entry::Rescued).collect();
            self.keep(&entries)?;
            orphan.remove();
        }
        Ok(())
    }

    /// Whether anything is pinned, approved or stopped in it.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn has_decisions(&mut self) -> Result<bool, StoreError> {
        self.write_outside(|connection| {
            DECISIONS.iter().try_fold(false, |found, decisions| {
                let select = format!("SELECT 1 FROM {} LIMIT 1", decisions.table);
                Ok(found || connection.prepare(&select)?.exists([])?)
            })
        })
    }
}

/// A standby store on its way into the store that it stood in for: its events, bodies and whatever else was recorded,
/// and what was decided there since it took over the decisions of that store. Where it began without any, what it holds
/// replaces nothing.
#[derive(Debug)]
pub struct Adoption {
    standby: PathBuf,
    /// How far each growing table was copied.
    copied: [i64; GROWING.len()],
    /// Events that were copied.
    pub events: u64,
}

impl Adoption {
    /// Of the store at `standby`, of which nothing was copied yet.
    #[must_use]
    pub fn new(standby: &Path) -> Self {
        Self {
            standby: standby.to_owned(),
            copied: [0; GROWING.len()],
            events: 0,
        }
    }

    /// Copies what was recorded since it was copied last, while the standby store is still written.
    ///
    /// # Errors
    /// Where one cannot be read, or the other not written; then nothing is copied.
    pub fn copy_records(&mut self, store: &mut Store) -> Result<(), CopyError> {
        self.run(store, |_, _| Ok(()))
    }

    /// Copies the rest, once the standby store is not written any more.
    ///
    /// # Errors
    /// Where one cannot be read, or the other not written; then nothing more is copied.
    pub fn finish(&mut self, store: &mut Store) -> Result<(), CopyError> {
        self.run(store, |from, to| {
            for decisions in &DECISIONS {
                decisions.take_over(from, to)?;
            }
            for table in RECORDS {
                Source::all(from, table)?.copy(from, to, table, "INSERT OR IGNORE", "")?;
            }
            take_over_running(from, to)
        })
    }

    fn run(
        &mut self,
        store: &mut Store,
        more: impl FnOnce(&Connection, &Connection) -> rusqlite::Result<()>,
    ) -> Result<(), CopyError> {
        let standby = Reader::open_any_version(&self.standby)?;
        let (copied, events) = store.write(|to| {
            standby.with(|from| {
                let (mut copied, mut events) = (self.copied, 0);
                for ((table, counting), copied) in GROWING.into_iter().zip(&mut copied) {
                    let unless = match table {
                        "events" => {
                            "WHERE NOT EXISTS (SELECT 1 FROM events WHERE timestamp = ?3 AND id = ?1)"
                        }
                        _ => "",
                    };
                    let Some((source, last)) = Source::grown(from, table, counting, *copied)? else {
                        continue;
                    };
                    let count = source.copy(from, to, table, "INSERT OR IGNORE", unless)?;
                    *copied = last;
                    if table == "events" {
                        events = count;
                    }
                }
                more(from, to)?;
                Ok((copied, events))
            })
        })?;
        self.copied = copied;
        self.events += events;
        Ok(())
    }
}

/// Which servers run is what the standby store says; their starts have other positions here.
fn take_over_running(from: &Connection, to: &Connection) -> rusqlite::Result<()> {
    servers::forget_running(to)?;
    let mut select = from.prepare(
        "SELECT running.server_id, running.pid, events.timestamp, events.id FROM running_servers AS running \
         JOIN events ON events.seq = running.started_seq",
    )?;
    let mut insert = to.prepare(
        "INSERT OR REPLACE INTO running_servers (server_id, pid, started_seq) \
         SELECT ?1, ?2, seq FROM events WHERE timestamp = ?3 AND id = ?4",
    )?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        insert.execute(params_from_iter(values(row, 4)?))?;
    }
    Ok(())
}

impl Decisions {
    /// Does in `to` what was changed in `from` since the decisions were adopted there.
    fn take_over(&self, from: &Connection, to: &Connection) -> rusqlite::Result<()> {
        let Self { table, key } = self;
        let adopted = adopted(table);
        if !has_table(from, &adopted)? {
            // First sight may have pinned what the store has another pin for.
            Source::all(from, table)?.copy(from, to, table, "INSERT OR IGNORE", "")?;
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
        let source = Source::all(from, &adopted)?;
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
    /// Every row of `table`. A store of an earlier version may not have the table.
    fn all(from: &Connection, table: &str) -> rusqlite::Result<Self> {
        let columns = columns(from, table)?;
        Ok(Self {
            query: format!("SELECT {} FROM {table}", columns.join(", ")),
            columns,
        })
    }

    /// The rows of `table` that come after `copied` in the column `counting`, without that column, with its last value;
    /// `None` where there are none.
    fn grown(
        from: &Connection,
        table: &str,
        counting: &str,
        copied: i64,
    ) -> rusqlite::Result<Option<(Self, i64)>> {
        let mut columns = columns(from, table)?;
        if columns.is_empty() {
            return Ok(None);
        }
        columns.retain(|name| name != counting);
        let select = format!("SELECT max({counting}) FROM {table} WHERE {counting} > {copied}");
        let last: Option<i64> = from.query_row(&select, [], |row| row.get(0))?;
        let names = columns.join(", ");
        let source = |last: i64| {
            let query = format!(
                "SELECT {names} FROM {table} WHERE {counting} > {copied} AND {counting} <= {last} ORDER BY {counting}"
            );
            (Self { query, columns }, last)
        };
        Ok(last.map(source))
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

fn columns(from: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    from.prepare("SELECT name FROM pragma_table_info(?1)")?
        .query_map([table], |row| row.get(0))?
        .collect()
}

fn values(row: &rusqlite::Row<'_>, count: usize) -> rusqlite::Result<Vec<Value>> {
    (0..count).map(|at| row.get(at)).collect()
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{Digest, Kill, PinPart, SessionId, Timestamp};

    use super::*;
    use crate::{BinaryPin, Ending, Filter, StoredEvent, Unposted, json, sample};

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
    fn what_is_recorded_while_it_is_copied_comes_once_with_what_runs() {
        let (_directory, mut store) = sample::store();
        let (_elsewhere, mut standby) = sample::store();
        sample::fill(&mut store, [sample::started("before", 2)]);
        let body = |request: &str| Entry::Body(Box::new(sample::body(request)));
        standby.keep(&[body("r1")]).unwrap();
        standby
            .record(vec![sample::started("a", 3), sample::started("b", 4)])
            .unwrap();
        let mut adoption = Adoption::new(standby.path());
        adoption.copy_records(&mut store).unwrap();
        standby.keep(&[body("r2")]).unwrap();
        standby
            .record(vec![sample::exited("a", 3, 0), sample::started("c", 5)])
            .unwrap();
        assert!(standby.kill(Some(&session("s1")), &kill()).unwrap());
        adoption.finish(&mut store).unwrap();
        assert_eq!(adoption.events, 4);
        assert_eq!(stopped(&mut store), ["s1"]);
        let reader = Reader::open(store.path()).unwrap();
        let events = reader.events(&Filter::default(), 10).unwrap();
        let pids = events
            .iter()
            .filter_map(|event| Some(event.process.as_ref()?.pid));
        assert_eq!(pids.collect::<Vec<_>>(), [2, 3, 4, 3, 5]);
        let bodies = reader.bodies(Timestamp(0), 10).unwrap();
        assert_eq!(bodies.len(), 2);
        let launches = reader.launches(&Filter::default(), 10).unwrap();
        let running = launches
            .iter()
            .filter(|launch| launch.ending == Ending::Running)
            .filter_map(|launch| launch.started.server_id.as_deref());
        assert_eq!(running.collect::<Vec<_>>(), ["b", "c"]);
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
