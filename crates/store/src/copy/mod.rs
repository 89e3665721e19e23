//! Copying of decisions and events between stores: to a standby store, and back.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, params_from_iter, types::Value};

use super::{Destination as _, QueryError, Store, StoreEntry, StoreError, StoreReader, journal, servers};

/// A table of decisions: pins, approvals, and kill switches.
struct Decisions {
    table: &'static str,
    /// The columns that identify a row; empty for a table from which no row is ever removed here.
    key: &'static [&'static str],
}

const DECISIONS: [Decisions; 5] = [
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
    Decisions {
        table: "skill_pins",
        key: &["path"],
    },
];

/// The table with the latest event of the store from which decisions were adopted: it identifies that store later.
const ADOPTED_EVENT: &str = "adopted_event";

/// Tables to which rows are only added, with the column that numbers them; each store has its own numbers.
const GROWING: [(&str, &str); 2] = [("events", "seq"), ("bodies", "seq")];

/// Further tables that are copied from a standby store, and what happens if the store has a row with the same key.
const RECORDS: [(&str, &str); 6] = [
    ("unposted", "NOTHING"),
    ("unposted_elsewhere", "NOTHING"),
    ("watches", "NOTHING"),
    // If the same standby store is copied again, its launches are not counted again.
    (
        "servers",
        "UPDATE SET
             server_type = iif(excluded.server_type = 'http' AND server_type = 'sse', 'sse',
                 coalesce(excluded.server_type, server_type)),
             command = coalesce(excluded.command, command),
             declared = max(declared, excluded.declared),
             first_seen = coalesce(first_seen, excluded.first_seen),
             last_seen = max(coalesce(last_seen, excluded.last_seen), coalesce(excluded.last_seen, last_seen)),
             launches = launches + iif(excluded.last_seen > coalesce(last_seen, 0), excluded.launches, 0),
             last_pid = coalesce(excluded.last_pid, last_pid),
             exe_sha256 = iif(excluded.launches > 0, excluded.exe_sha256, exe_sha256),
             package_sha256 = iif(excluded.launches > 0, excluded.package_sha256, package_sha256),
             pin = coalesce(excluded.pin, pin),
             denied = iif(excluded.launches > 0, excluded.denied, max(denied, excluded.denied))",
    ),
    (
        "sessions",
        "UPDATE SET agent = coalesce(agent, excluded.agent), started = min(started, excluded.started),
             ended = excluded.ended",
    ),
    (
        "session_servers",
        "UPDATE SET joined_at = excluded.joined_at, left_at = excluded.left_at",
    ),
];

/// The error of copying between stores.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] super::OpenError),
    /// The store cannot be read.
    #[error(transparent)]
    Read(#[from] QueryError),
    /// The target store cannot be written.
    #[error(transparent)]
    Write(#[from] StoreError),
}

impl Store {
    /// Adopts the decisions of the store at `other`: pins, approvals, and kill switches. Their adopted state is stored
    /// too, so that [`Self::adopt_all`] knows what was changed here. If decisions were adopted before, those in this
    /// store are kept.
    ///
    /// # Errors
    /// Returns an error if one store cannot be read, or the other not written; nothing is adopted then.
    pub fn adopt_decisions(&mut self, other: &Path) -> Result<(), CopyError> {
        let other = StoreReader::open_any_version(other)?;
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
                    let source = RowSource::all(from, table)?;
                    source.copy(from, to, &adopted, "INSERT", "")?;
                    source.copy(from, to, table, "INSERT OR REPLACE", "")?;
                }
                to.execute_batch(&format!("CREATE TABLE {ADOPTED_EVENT} (seq INTEGER, id TEXT)"))?;
                let latest = "SELECT seq, id FROM events ORDER BY seq DESC LIMIT 1";
                // If its events cannot be read, its decisions are adopted nevertheless.
                if let Ok(event) = from.query_row(latest, [], |row| values(row, 2)) {
                    let insert = format!("INSERT INTO {ADOPTED_EVENT} VALUES (?1, ?2)");
                    to.execute(&insert, params_from_iter(event))?;
                }
                Ok(())
            })
        })?;
        Ok(())
    }

    /// Copies the content of the standby store at `other`, see [`Adoption`]. Returns the number of events.
    ///
    /// # Errors
    /// Returns an error if one store cannot be read, or the other not written; nothing is adopted then.
    pub fn adopt_all(&mut self, other: &Path) -> Result<u64, CopyError> {
        let mut adoption = Adoption::new(other);
        adoption.finish(self)?;
        self.adopt_journals(other)?;
        Ok(adoption.events)
    }

    /// Copies the journals next to the standby store at `other`, which need not exist.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written; the remaining journals are kept then.
    pub fn adopt_journals(&mut self, other: &Path) -> Result<(), StoreError> {
        for orphan in journal::orphans(other) {
            let entries: Vec<StoreEntry> = orphan.events.iter().cloned().map(StoreEntry::Rescued).collect();
            self.keep(&entries)?;
            orphan.remove();
        }
        Ok(())
    }
}

/// The copying of a standby store into the store that it replaced: its events, bodies and other records, and the
/// decisions that were made in it since it adopted those of the store. If the standby store adopted none, its decisions
/// replace nothing. A new store gets all decisions of the standby store.
#[derive(Debug)]
pub struct Adoption {
    standby: PathBuf,
    /// The position up to which each growing table was copied.
    copied: [i64; GROWING.len()],
    /// Number of events that were copied.
    pub events: u64,
}

impl Adoption {
    /// A copy of the store at `standby`, at its beginning.
    pub fn new(standby: &Path) -> Self {
        Self {
            standby: standby.to_owned(),
            copied: [0; GROWING.len()],
            events: 0,
        }
    }

    /// Returns whether all decisions in `store` are valid in the standby store too: either it adopted them, or `store`
    /// is new and has none.
    ///
    /// # Errors
    /// Returns an error if one of them cannot be read.
    pub fn knows_decisions(&self, store: &mut Store) -> Result<bool, CopyError> {
        let standby = StoreReader::open_any_version(&self.standby)?;
        let knows = store.write_outside(|to| {
            standby.with(|from| {
                for decisions in &DECISIONS {
                    if !decisions.are_as_adopted(from, to)? {
                        return begins_anew(from, to);
                    }
                }
                Ok(true)
            })
        })?;
        Ok(knows)
    }

    /// Copies the records that were added since the last copy, while the standby store is still written.
    ///
    /// # Errors
    /// Returns an error if one store cannot be read, or the other not written; nothing is copied then.
    pub fn copy_records(&mut self, store: &mut Store) -> Result<(), CopyError> {
        self.run(store, |_, _| Ok(()))
    }

    /// Copies the rest, after the last write to the standby store.
    ///
    /// # Errors
    /// Returns an error if one store cannot be read, or the other not written; nothing more is copied then.
    pub fn finish(&mut self, store: &mut Store) -> Result<(), CopyError> {
        self.run(store, |from, to| {
            let begins_anew = begins_anew(from, to)?;
            for decisions in &DECISIONS {
                decisions.take_over(from, to, begins_anew)?;
            }
            for (table, join) in RECORDS {
                let join = format!("WHERE true ON CONFLICT DO {join}");
                RowSource::all(from, table)?.copy(from, to, table, "INSERT", &join)?;
            }
            take_over_running(from, to)
        })
    }

    fn run(
        &mut self,
        store: &mut Store,
        more: impl FnOnce(&Connection, &Connection) -> rusqlite::Result<()>,
    ) -> Result<(), CopyError> {
        let standby = StoreReader::open_any_version(&self.standby)?;
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
                    let Some((source, last)) = RowSource::grown(from, table, counting, *copied)? else {
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

/// Copies the running servers from the standby store; their starts have other positions here.
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

/// Returns whether `to` holds no pins, approvals or kills, and is not the store whose decisions `from`
/// adopted: a person may have undone the last of them there.
fn begins_anew(from: &Connection, to: &Connection) -> rusqlite::Result<bool> {
    for Decisions { table, .. } in &DECISIONS {
        if to
            .prepare(&format!("SELECT 1 FROM {table} LIMIT 1"))?
            .exists([])?
        {
            return Ok(false);
        }
    }
    if !has_table(from, ADOPTED_EVENT)? {
        return Ok(true);
    }
    let mut latest = from.prepare(&format!("SELECT seq, id FROM {ADOPTED_EVENT}"))?;
    let mut latest = latest.query([])?;
    let Some(latest) = latest.next()? else {
        return Ok(true);
    };
    let is_there = to
        .prepare("SELECT 1 FROM events WHERE seq = ?1 AND id = ?2")?
        .exists(params_from_iter(values(latest, 2)?))?;
    Ok(!is_there)
}

impl Decisions {
    /// Returns whether the decisions in `to` are those that `from` adopted.
    fn are_as_adopted(&self, from: &Connection, to: &Connection) -> rusqlite::Result<bool> {
        let adopted = adopted(self.table);
        if !has_table(from, &adopted)? {
            return Ok(false);
        }
        let RowSource { query, columns } = RowSource::all(to, self.table)?;
        let names = columns.join(", ");
        let mut theirs = to.prepare(&format!("{query} ORDER BY {names}"))?;
        let mut ours = from.prepare(&format!("SELECT {names} FROM {adopted} ORDER BY {names}"))?;
        let (mut theirs, mut ours) = (theirs.query([])?, ours.query([])?);
        loop {
            match (theirs.next()?, ours.next()?) {
                (None, None) => return Ok(true),
                (Some(one), Some(other)) if values(one, columns.len())? == values(other, columns.len())? => {}
                _ => return Ok(false),
            }
        }
    }

    /// Applies to `to` what was changed in `from` since decisions were adopted there. If `to` is new, all decisions in
    /// `from` are copied.
    fn take_over(&self, from: &Connection, to: &Connection, begins_anew: bool) -> rusqlite::Result<()> {
        let Self { table, key } = self;
        let adopted = adopted(table);
        if begins_anew || !has_table(from, &adopted)? {
            // The store may have another pin for what was pinned at its first use here.
            RowSource::all(from, table)?.copy(from, to, table, "INSERT OR IGNORE", "")?;
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
        let source = RowSource::all(from, &adopted)?;
        let columns = source.columns.join(", ");
        let changed = RowSource {
            query: format!("SELECT {columns} FROM {table} EXCEPT SELECT {columns} FROM {adopted}"),
            ..source
        };
        changed.copy(from, to, table, "INSERT OR REPLACE", "")?;
        Ok(())
    }
}

/// Returns the name of the table with the adopted decisions.
fn adopted(table: &str) -> String {
    format!("adopted_{table}")
}

fn has_table(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1")?
        .exists([table])
}

/// Rows to copy.
struct RowSource {
    query: String,
    columns: Vec<String>,
}

impl RowSource {
    /// Selects every row of `table`. A store of an earlier version may not have the table.
    fn all(from: &Connection, table: &str) -> rusqlite::Result<Self> {
        let columns = columns(from, table)?;
        Ok(Self {
            query: format!("SELECT {} FROM {table}", columns.join(", ")),
            columns,
        })
    }

    /// Selects the rows of `table` after `copied` in the column `counting`, without that column; also returns its last
    /// value. Returns `None` if there are none.
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

    /// Inserts the rows into `table`, with the `clauses` of the statement, and returns their number.
    fn copy(
        &self,
        from: &Connection,
        to: &Connection,
        table: &str,
        insert: &str,
        clauses: &str,
    ) -> rusqlite::Result<u64> {
        let count = self.columns.len();
        if count == 0 {
            return Ok(0);
        }
        let places = vec!["?"; count].join(", ");
        let columns = self.columns.join(", ");
        let mut insert = to.prepare(&format!(
            "{insert} INTO {table} ({columns}) SELECT {places} {clauses}"
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
mod tests;
