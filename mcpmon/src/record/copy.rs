//! What one store has goes into another: into one that stands in, and back from there.

use std::path::Path;

use rusqlite::{Connection, params_from_iter, types::Value};

use super::{QueryError, Reader, Store, StoreError};

/// What is decided by: pins, approvals, and what persons stopped.
const DECIDED_BY: [&str; 4] = ["binary_pins", "definitions", "forgotten", "kills"];

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
    /// Takes over by what the store at `other` decides: pins, approvals, and what persons stopped.
    ///
    /// # Errors
    /// Where one cannot be read, or the other not written; then nothing is taken over.
    pub fn adopt_decisions(&mut self, other: &Path) -> Result<(), CopyError> {
        let other = Reader::open(other)?;
        self.adopt(&other, false)?;
        Ok(())
    }

    /// Takes over what the store at `other` decides by and its events, and says how many those are.
    ///
    /// # Errors
    /// Where one cannot be read, or the other not written; then nothing is taken over.
    pub fn adopt_all(&mut self, other: &Path) -> Result<u64, CopyError> {
        let other = Reader::open(other)?;
        self.adopt(&other, true)
    }

    fn adopt(&mut self, other: &Reader, with_events: bool) -> Result<u64, CopyError> {
        let copied = self.write(|to| {
            other.with(|from| {
                // What comes back from a store that stood in replaces nothing: it may have begun without any pins.
                let conflict = if with_events { "IGNORE" } else { "REPLACE" };
                for table in DECIDED_BY {
                    copy(from, to, table, "", conflict)?;
                }
                if !with_events {
                    return Ok(0);
                }
                copy(from, to, "events", "seq", "REPLACE")
            })
        })?;
        Ok(copied)
    }
}

/// Copies the rows of `table` without the column `left_out`; an event that is there already is left as it is.
fn copy(
    from: &Connection,
    to: &Connection,
    table: &str,
    left_out: &str,
    conflict: &str,
) -> rusqlite::Result<u64> {
    let mut select = from.prepare(&format!("SELECT * FROM {table} ORDER BY 1"))?;
    let names: Vec<String> = select.column_names().map(str::to_owned).collect();
    let kept: Vec<usize> = (0..names.len()).filter(|at| names[*at] != left_out).collect();
    let columns: Vec<&str> = kept.iter().map(|at| &*names[*at]).collect();
    let places = vec!["?"; kept.len()].join(", ");
    let unless = match table {
        "events" => "WHERE NOT EXISTS (SELECT 1 FROM events WHERE timestamp = ?3 AND id = ?1)",
        _ => "",
    };
    let mut insert = to.prepare(&format!(
        "INSERT OR {conflict} INTO {table} ({columns}) SELECT {places} {unless}",
        columns = columns.join(", ")
    ))?;
    let mut rows = select.query([])?;
    let mut copied = 0;
    while let Some(row) = rows.next()? {
        let values = kept.iter().map(|at| row.get::<_, Value>(*at));
        let values: Vec<Value> = values.collect::<rusqlite::Result<_>>()?;
        copied += insert.execute(params_from_iter(values))? as u64;
    }
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use mcpmon_core::model::{Kill, SessionId, Timestamp};

    use super::*;
    use crate::record::{Filter, sample};

    #[test]
    fn what_is_decided_by_goes_over_and_events_come_back_once() {
        let (_directory, mut store) = sample::store();
        let (_elsewhere, mut other) = sample::store();
        sample::fill(&mut store, [sample::started("a", 2)]);
        let kill = Kill {
            by: "root".to_owned(),
            at: Timestamp(7),
        };
        assert!(store.kill(Some(&SessionId::new("s1")), &kill).unwrap());
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
}
