//! Events in batches, written by mcpmon's store, by plain SQLite into tables and indexes like the store's, and by plain
//! SQLite into a table with two indexes.

use anyhow::Result;
use mcpmon_bench::{sample, site::Site};
use mcpmon_model::{Event, SessionId, Timestamp};
use mcpmon_store::{Access, Store, StoredEvent};
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::seconds;

/// The number of events of one transaction.
const BATCH: u32 = 100;
/// The number of transactions of one measurement.
const BATCHES: u32 = 50;

const PRAGMAS: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
";
/// The floor of a log without questions: a table with the fields of an event, and two indexes.
const TWO_INDEXES: &str = "
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY, id TEXT, type TEXT, timestamp INTEGER, host TEXT, session_id TEXT, server_id TEXT,
        layer TEXT, severity INTEGER, action TEXT, data TEXT
    );
    CREATE INDEX events_by_type ON events (type);
    CREATE INDEX events_by_timestamp ON events (timestamp);
";
const INSERT: &str = "INSERT INTO events (id, type, timestamp, host, session_id, server_id, layer, severity, action, \
     data) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";

/// The columns of the store that an event of a call has.
const INSERT_ALIKE: &str = "INSERT INTO events (id, type, timestamp, host, session_id, server_id, layer, severity, \
     action, rule, reason, pid, exe, comm, uid, container_id, pod_uid, namespace, pod, data) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, ?10)";

/// The stores, and the number of the next event.
pub(crate) struct Events {
    /// Two indexes.
    plain: Connection,
    /// The store's own schema.
    alike: Connection,
    store: Store,
    next: u32,
}

impl Events {
    /// Opens three empty stores.
    pub(crate) fn open(site: &Site) -> Result<Self> {
        let plain = Connection::open(site.path("plain.db"))?;
        plain.execute_batch(PRAGMAS)?;
        plain.execute_batch(TWO_INDEXES)?;
        let alike = site.path("alike.db");
        drop(Store::open(&alike, Access::default())?);
        let alike = Connection::open(alike)?;
        alike.execute_batch(PRAGMAS)?;
        Ok(Self {
            plain,
            alike,
            store: Store::open(&site.path("store.db"), Access::default())?,
            next: 0,
        })
    }

    /// Returns the nanoseconds that plain SQLite takes for an event with two indexes.
    pub(crate) fn plain(&mut self) -> Result<f64> {
        let batches = self.plain_batches()?;
        written_plainly(&mut self.plain, INSERT, &batches)
    }

    /// Returns the nanoseconds that plain SQLite takes for an event with the columns and indexes of the store.
    pub(crate) fn alike(&mut self) -> Result<f64> {
        let batches = self.plain_batches()?;
        written_plainly(&mut self.alike, INSERT_ALIKE, &batches)
    }

    /// Returns the nanoseconds that the store takes for an event, from receiving it to the commit.
    pub(crate) fn recorded(&mut self) -> Result<f64> {
        let batches = self.batches()?;
        let took = seconds(|| {
            for batch in batches {
                let batch: Vec<StoredEvent> = batch.into_iter().map(stored).collect();
                self.store.append(&batch)?;
            }
            Ok(())
        })?;
        Ok(each(took))
    }

    fn plain_batches(&mut self) -> Result<Vec<Vec<StoredEvent>>> {
        let batches = self.batches()?.into_iter();
        Ok(batches
            .map(|batch| batch.into_iter().map(stored).collect())
            .collect())
    }

    fn batches(&mut self) -> Result<Vec<Vec<(Uuid, Event)>>> {
        (0..BATCHES)
            .map(|_| (0..BATCH).map(|_| self.event()).collect())
            .collect()
    }

    /// Returns the next event.
    fn event(&mut self) -> Result<(Uuid, Event)> {
        self.next += 1;
        let at = Timestamp(1_790_000_000_000_000_000 + i64::from(self.next) * 1000);
        let mut event = sample::event(self.next, at)?;
        event.session_id = Some(SessionId::new("bench-1"));
        let id = Uuid::new_v7(uuid::Timestamp::from_unix(
            uuid::NoContext,
            1_790_000_000,
            self.next,
        ));
        Ok((id, event))
    }
}

/// Returns the nanoseconds that `insert` takes for an event, one row at a time.
fn written_plainly(to: &mut Connection, insert: &str, batches: &[Vec<StoredEvent>]) -> Result<f64> {
    let took = seconds(|| {
        for batch in batches {
            let transaction = to.transaction()?;
            let mut insert = transaction.prepare_cached(insert)?;
            for event in batch {
                insert.execute(params![
                    event.id.to_string(),
                    event.kind,
                    event.timestamp.0,
                    event.host,
                    event.session_id,
                    event.server_id,
                    "stdio",
                    0,
                    event.action.as_str(),
                    serde_json::to_string(&event.data)?,
                ])?;
            }
            drop(insert);
            transaction.commit()?;
        }
        Ok(())
    })?;
    Ok(each(took))
}

fn stored((id, event): (Uuid, Event)) -> StoredEvent {
    StoredEvent::new(id, "bench", event)
}

fn each(seconds: f64) -> f64 {
    seconds * 1e9 / f64::from(BATCH * BATCHES)
}
