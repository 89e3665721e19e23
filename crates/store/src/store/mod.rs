//! The database opened for writing: one transaction per batch.

mod error;

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use mcpmon_model::{
    CallAnswer, DefinitionKey, Event, EventKind, Kill, Layer, Recent, ServerId, SessionId, Severity,
    Timestamp,
};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

pub use self::error::StoreError;
use super::{
    Access, Answering, ApprovalOutcome, Generation, QueryError, Selection, SessionMember, SkillPin,
    StoreEntry, StoreLocation, StoreReader, StoredEvent, bodies,
    definitions::{self, Put},
    generation::GenerationCounters,
    held_calls, kills, locks, pins, recent, row,
    schema::{self, SchemaError},
    servers, sessions, sinks, skills, watches,
};

/// Cache for pages, KiB: enough for one batch.
const CACHE: i64 = 512;
/// Pages up to which a larger transaction is held in memory until its end. Pages that are written before that have to
/// be read and written again each time they change once more.
const UNSPILLED: i64 = 2048;

/// The size to which the write-ahead log is cut after a checkpoint, in bytes.
const LOG_SIZE_LIMIT: i64 = 16 << 20;

/// A store opened for writing. [`Recorder`](super::Recorder) gives one to its writer thread.
#[derive(Debug)]
pub struct Store {
    reader: StoreReader,
    location: StoreLocation,
    /// The path of the location when the store was opened.
    place: PathBuf,
    generation: GenerationCounters,
    access: Access,
    /// Device and inode number of the open file.
    file: Option<(u64, u64)>,
    /// True if a caller waits for each write.
    is_awaited: bool,
    /// The position up to which retention left only notable events.
    pub(super) spared: i64,
}

impl Store {
    /// Opens the store at `path`; creates or migrates it first if needed.
    ///
    /// # Errors
    /// Returns an error if the path is unsafe, the file is not a store or from a later version, or SQLite fails.
    pub fn open(path: &Path, access: Access) -> Result<Self, StoreError> {
        Self::open_at(&StoreLocation::new(path), access)
    }

    /// Opens the store at `location`, and follows the location when it changes.
    ///
    /// # Errors
    /// Returns the errors of [`Store::open`].
    pub fn open_at(location: &StoreLocation, access: Access) -> Result<Self, StoreError> {
        let place = location.path();
        let path = access.prepare(&place)?;
        let connection = connect(&path)?;
        access.apply(&path)?;
        let has_moved = location.generation() != Generation::path(&place);
        let before = has_moved.then(|| location.generation());
        Ok(Self {
            generation: GenerationCounters::open(&path, before, access)?,
            file: file_at(&path),
            reader: StoreReader::over(connection, path),
            location: location.clone(),
            place,
            access,
            is_awaited: false,
            spared: 0,
        })
    }

    /// Runs the queries of `work`. If the store was moved, or its file was replaced, they read the current file.
    ///
    /// # Errors
    /// Returns the error of `work`, or an error if the current file cannot be opened.
    pub fn read<T>(
        &mut self,
        work: impl FnOnce(&StoreReader) -> Result<T, QueryError>,
    ) -> Result<T, StoreError> {
        let location = self.location.clone();
        loop {
            self.follow_file()?;
            // The location cannot change meanwhile.
            let place = location.hold();
            if place.path == self.place {
                return Ok(work(&self.reader)?);
            }
        }
    }

    /// Writes `events` in one transaction, with the summaries of their servers.
    ///
    /// # Errors
    /// Returns an error if SQLite fails; none of them is written then.
    pub fn append(&mut self, events: &[StoredEvent]) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut touched = servers::TouchedServers::default();
            put_events(transaction, events, &mut touched)?;
            touched.write(transaction)
        })
    }

    pub(super) const fn connection(&self) -> &Connection {
        &self.reader.connection
    }

    /// Frees the cached pages.
    pub(super) fn shrink(&self) {
        // If that fails, the pages remain valid.
        let _kept = self.connection().execute_batch("PRAGMA shrink_memory");
    }

    /// Applies `entries` in one transaction, in their order.
    pub(super) fn carry_out(&mut self, entries: &[StoreEntry]) -> Result<(), StoreError> {
        let (mut without_room, mut news) = (None, false);
        self.write(|transaction| {
            let mut touched = servers::TouchedServers::default();
            let are_events = |one: &StoreEntry, next: &StoreEntry| {
                matches!((one, next), (StoreEntry::Event(_), StoreEntry::Event(_)))
            };
            for run in entries.chunk_by(are_events) {
                put_events(
                    transaction,
                    run.iter().filter_map(StoreEntry::event),
                    &mut touched,
                )?;
                for entry in run {
                    match entry {
                        StoreEntry::Event(_) => {} // with its run
                        StoreEntry::Rescued(event) => {
                            if !row::is_there(transaction, event)? {
                                put_events(transaction, [event], &mut touched)?;
                            }
                        }
                        StoreEntry::Definition(record) => match definitions::put(transaction, record)? {
                            Put::Known | Put::Late | Put::Forgotten => {}
                            Put::News => news = true,
                            Put::NoRoom => without_room = Some(&record.key.identity.server),
                        },
                        StoreEntry::ForgetDefinition(key) => {
                            definitions::forget(transaction, key)?;
                            news = true;
                        }
                        StoreEntry::HoldCall(process, held) => held_calls::put(transaction, *process, held)?,
                        StoreEntry::ReleaseCall(identity, id) => {
                            held_calls::release(transaction, identity, id)?
                        }
                        StoreEntry::Recent(session, happened, uid) => {
                            recent::put(transaction, session, *uid, happened)?;
                        }
                        StoreEntry::Unread(session, output, _) => {
                            recent::put(transaction, session, None, &Recent::Output((**output).clone()))?;
                        }
                        StoreEntry::Leave(now, member) => {
                            sessions::leave(transaction, *now, member)?;
                            news = true;
                        }
                        StoreEntry::PutPin(pin) => pins::put(transaction, pin)?,
                        StoreEntry::DeletePins(server) => drop(pins::delete(transaction, server)?),
                        StoreEntry::DeletePinSet(key, number) => pins::delete_set(transaction, key, *number)?,
                        StoreEntry::Declare(declared) => servers::declare(transaction, declared)?,
                        StoreEntry::ForgetRunning => servers::forget_running(transaction)?,
                        StoreEntry::Watch(watch) => watches::put(transaction, *watch)?,
                        StoreEntry::Unposted(unposted) => sinks::keep_unposted(transaction, unposted)?,
                        StoreEntry::PolicyChanged => news = true,
                        StoreEntry::Body(body) => bodies::table::put(transaction, body)?,
                        StoreEntry::ShortenBodies(retention) => {
                            bodies::table::shorten(transaction, *retention)?
                        }
                    }
                }
            }
            touched.write(transaction)
        })?;
        if news {
            self.tell();
        }
        if let Some(server) = without_room {
            tracing::warn!(%server, "it lists more definitions than are kept of one server: the rest is not pinned");
        }
        Ok(())
    }

    /// Adds a server to its session, and returns the other members.
    ///
    /// # Errors
    /// Returns an error if SQLite fails.
    pub fn join(&mut self, now: Timestamp, member: &SessionMember) -> Result<Vec<SessionMember>, StoreError> {
        // A power failure would end the joining process too, so its server need not wait for the disk to start.
        self.synchronous("OFF")?;
        let others = self.write(|transaction| {
            let others = sessions::members(transaction, &member.session)?;
            sessions::join(transaction, now, member)?;
            Ok(others)
        });
        self.synchronous("NORMAL")?;
        self.tell();
        others
    }

    /// Limits the wait for a lock to half a second, because a caller waits for this store.
    ///
    /// # Errors
    /// Returns an error if SQLite fails.
    pub fn with_somebody_waiting(mut self) -> Result<Self, StoreError> {
        locks::wake_in_time();
        self.await_briefly()?;
        Ok(self)
    }

    fn await_briefly(&mut self) -> Result<(), StoreError> {
        self.is_awaited = true;
        let mut prepare = || {
            self.reader
                .connection
                .busy_handler(Some(locks::look_again_meanwhile))?;
            // The log is written back at the commits of those that nobody waits for, such as a recorder: each call has an
            // event. It is not written back whenever they rest, because SQLite syncs a log that begins anew, and the next
            // call would wait for the disk: milliseconds in place of microseconds.
            self.reader
                .connection
                .pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))
        };
        prepare().map_err(|source| StoreError::Sqlite {
            path: self.reader.path.clone(),
            source,
        })
    }

    /// Pins a skill in its current version. Returns `false` if too many are pinned already.
    ///
    /// # Errors
    /// Returns an error if SQLite fails.
    pub fn pin_skill(&mut self, pin: &SkillPin) -> Result<bool, StoreError> {
        self.write(|transaction| skills::put(transaction, pin))
    }

    /// Accepts a definition as it was last listed. If `hash` is given, its first hexadecimal digits, the definition is
    /// accepted only if they match.
    ///
    /// # Errors
    /// Returns an error if SQLite fails.
    pub fn approve(
        &mut self,
        key: &DefinitionKey,
        hash: Option<&str>,
        by: &str,
    ) -> Result<ApprovalOutcome, StoreError> {
        let approved = self.write(|transaction| definitions::approve(transaction, key, hash, by))?;
        self.tell();
        Ok(approved)
    }

    /// Refuses a definition as it was last listed. Returns `false` if it never was.
    ///
    /// # Errors
    /// Returns an error if SQLite fails.
    pub fn refuse(&mut self, key: &DefinitionKey, now: Timestamp, by: &str) -> Result<bool, StoreError> {
        let refused = self.write(|transaction| definitions::refuse(transaction, key, now, by))?;
        self.tell();
        Ok(refused)
    }

    /// Stops a session, or the host if `scope` is `None`. Returns `false` if too many sessions are stopped already.
    ///
    /// # Errors
    /// Returns an error if SQLite fails.
    pub fn kill(&mut self, scope: Option<&SessionId>, kill: &Kill) -> Result<bool, StoreError> {
        let set = self.write(|transaction| kills::set(transaction, scope, kill))?;
        self.tell();
        Ok(set)
    }

    /// Lifts the kill switch of a session, or of the host if `scope` is `None`. Returns `false` if there was none.
    ///
    /// # Errors
    /// Returns an error if SQLite fails.
    pub fn lift_kill(&mut self, scope: Option<&SessionId>) -> Result<bool, StoreError> {
        let lifted = self.write(|transaction| kills::lift(transaction, scope))?;
        self.tell();
        Ok(lifted)
    }

    /// Stores a person's answer to the held call whose id begins with `digits`.
    ///
    /// # Errors
    /// Returns an error if SQLite fails.
    pub fn answer_call(
        &mut self,
        now: Timestamp,
        digits: &str,
        answer: CallAnswer,
        by: &str,
        own: Option<u32>,
    ) -> Result<Answering, StoreError> {
        let answering =
            self.write(|transaction| held_calls::answer(transaction, now, digits, answer, by, own))?;
        self.tell();
        Ok(answering)
    }

    /// Accepts the refused files of a server, in addition to the accepted ones. Returns whether there were any.
    ///
    /// # Errors
    /// Returns an error if SQLite fails.
    pub fn trust_refused_pins(&mut self, server: &ServerId, by: &str) -> Result<bool, StoreError> {
        self.write(|transaction| pins::trust_refused(transaction, server, by))
    }

    /// Removes every pin of a server's files.
    ///
    /// # Errors
    /// Returns an error if SQLite fails.
    pub fn forget_pins(&mut self, server: &ServerId) -> Result<bool, StoreError> {
        self.write(|transaction| pins::delete(transaction, server))
    }

    /// Removes the selected definitions, and returns their number: their next listing is a first use.
    ///
    /// # Errors
    /// Returns an error if SQLite fails.
    pub fn forget_definitions(&mut self, now: Timestamp, selection: &Selection) -> Result<usize, StoreError> {
        let forgotten = self.write(|transaction| definitions::forget_all(transaction, now, selection))?;
        self.tell();
        Ok(forgotten)
    }

    /// Gives `events` ids, and writes them.
    ///
    /// # Errors
    /// Returns an error if SQLite fails; none of them is written then.
    pub fn record(&mut self, events: Vec<Event>) -> Result<(), StoreError> {
        let host = super::recorder::host_name();
        let stored: Vec<StoredEvent> = events
            .into_iter()
            .map(|event| StoredEvent::identified(&host, event))
            .collect();
        self.append(&stored)
    }

    /// Writes a test table, and removes it again.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn probe(&mut self) -> Result<(), StoreError> {
        self.write_outside(|connection| {
            connection.execute_batch("CREATE TABLE IF NOT EXISTS probe (x); DROP TABLE probe")
        })
    }

    /// Returns the file with the number of [`changes`](Self::changes).
    pub fn generation(&self) -> PathBuf {
        self.location
            .public()
            .unwrap_or_else(|| Generation::path(&self.reader.path))
    }

    /// Returns the number of changes of shared state.
    pub fn changes(&self) -> u64 {
        self.generation.now()
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.reader.path
    }

    /// Notifies other processes that shared state has changed.
    fn tell(&self) {
        if let Err(error) = self.location.raise(|| self.generation.raise()) {
            tracing::warn!(%error, "running wrappers do not hear that something changed");
        }
    }

    /// Runs `work` in one transaction that holds the write lock from its beginning.
    pub(super) fn write<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.write_outside(|connection| {
            let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        })
    }

    /// Sets when a commit waits for the disk.
    fn synchronous(&mut self, when: &str) -> Result<(), StoreError> {
        self.write_outside(|connection| connection.pragma_update(None, "synchronous", when))
    }

    /// Runs `work` outside a transaction, for statements that SQLite does not allow within one.
    pub(super) fn write_outside<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.read(|reader| reader.run(work))
    }

    /// Follows the store's file. Writes to a removed file would be lost: if there is another file at the path, or none,
    /// that file is written from here on, and an event records the reason. If the location has changed, the file there
    /// is written.
    fn follow_file(&mut self) -> Result<(), StoreError> {
        let file = file_at(&self.reader.path);
        let has_moved = self.location.hold().path != self.place;
        if file.is_some() && file == self.file && !has_moved {
            return Ok(());
        }
        let why = match has_moved {
            true => "which was moved",
            false => "which was removed",
        };
        let opened = Self::open_at(&self.location, self.access);
        let opened = opened.map_err(|error| StoreError::Unreachable {
            who: format!("the store {}, {why}", self.reader.path.display()),
            source: io::Error::other(error),
        })?;
        let is_awaited = self.is_awaited;
        *self = opened;
        if is_awaited {
            self.await_briefly()?;
        }
        if has_moved {
            return Ok(());
        }
        let component = "store".to_owned();
        let cause = "its file was removed or replaced while it was in use: what it held is gone, pins and approvals too";
        tracing::error!(path = %self.reader.path.display(), "the store: {cause}");
        let kind = EventKind::EnforcementDegraded {
            component,
            cause: cause.to_owned(),
        };
        let mut event = Event::new(super::writer::now(), Layer::Agent, kind);
        event.severity = Severity::High;
        self.record(vec![event])
    }
}

/// Returns device and inode number of the file at `path`. Returns `None` if there is none.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

fn put_events<'e>(
    transaction: &Transaction<'_>,
    events: impl IntoIterator<Item = &'e StoredEvent>,
    touched: &mut servers::TouchedServers,
) -> rusqlite::Result<()> {
    let events: Vec<&StoredEvent> = events.into_iter().collect();
    row::insert(transaction, &events, |event, seq| {
        servers::apply(transaction, event, seq, touched)
    })
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NOFOLLOW | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let prepare = || {
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_handler(Some(locks::look_again))?;
        connection.pragma_update(None, "trusted_schema", false)?;
        // SQLite would sort a large index in temporary files, and a service has no directory for these.
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        schema::migrate(&mut connection)?;
        // Each pragma returns its new value.
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.pragma_update_and_check(None, "journal_size_limit", LOG_SIZE_LIMIT, |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "cache_size", -CACHE)?;
        connection.pragma_update(None, "cache_spill", UNSPILLED)?;
        Ok(connection)
    };
    // If two processes create the log of a new file at once, SQLite refuses both without waiting for the lock, because
    // they would wait for each other.
    let is_locked = |error: &SchemaError| match error {
        SchemaError::Sqlite(error) => error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy),
        SchemaError::Empty | SchemaError::Foreign | SchemaError::Newer { .. } | SchemaError::Older { .. } => {
            false
        }
    };
    let mut looks = 0;
    loop {
        match prepare() {
            Err(error) if is_locked(&error) && locks::look_again(looks) => looks += 1,
            outcome => {
                return outcome.map_err(|source| StoreError::Schema {
                    path: path.to_owned(),
                    source,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
