//! All queries of a store. It is opened for reading only, while a daemon writes it, after the daemon, or without rights
//! to its directory; or it is the one that this process writes.

#[cfg(test)]
mod tests;

use std::{
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use mcpmon_model::{
    AnsweredCall, DefinitionKey, DefinitionRecord, HeldCall, Kills, PinKey, ProcessId, Recent, ServerId,
    SessionId, Timestamp,
};
use nix::{
    fcntl::{AT_FDCWD, AtFlags},
    unistd::{AccessFlags, faccessat},
};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use uuid::Uuid;

use super::{
    BinaryPin, BodyLabel, CallPlaces, EventPositions, Filter, Launch, RunningStart, SealedBody, Selection,
    ServerSummary, SessionMember, SessionSummary, SkillPin, Span, StoreError, StoredEvent, ToolCall, bodies,
    calls, definitions, forgotten, held_calls, kills, launches,
    open_error::OpenError,
    own_records, pins,
    query::{self, EventRange},
    recent,
    schema::{self, SchemaError},
    servers, sessions, skills, watches,
};

const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// The place of a copy of own records, as messages name it.
const OWN_RECORDS: &str = "the daemon's store";

/// The queries of a store.
#[derive(Debug)]
pub struct StoreReader {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    view: View,
}

/// The view of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// Later writes are visible.
    Live,
    /// The file as it was when it was opened.
    Frozen,
}

/// A query failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot read from the store {path}", path = path.display())]
pub struct QueryError {
    path: PathBuf,
    #[source]
    source: rusqlite::Error,
}

impl From<QueryError> for StoreError {
    fn from(QueryError { path, source }: QueryError) -> Self {
        Self::Sqlite { path, source }
    }
}

impl StoreReader {
    /// Opens the store at `path`.
    ///
    /// # Errors
    /// Returns an error if it is missing, may not be read, or has another version.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::open_checked(path, schema::check)
    }

    /// Opens a store that an earlier mcpmon may have written: only tables and columns that it has may be read.
    pub(super) fn open_any_version(path: &Path) -> Result<Self, OpenError> {
        Self::open_checked(path, schema::check_ours)
    }

    fn open_checked(path: &Path, check: Check) -> Result<Self, OpenError> {
        // SQLite has one error for all of these causes. Opening the file to find out would release the locks that this
        // process has on it.
        fs::metadata(path).map_err(|error| OpenError::of(path, error))?;
        faccessat(AT_FDCWD, path, AccessFlags::R_OK, AtFlags::AT_EACCESS)
            .map_err(|errno| OpenError::of(path, errno.into()))?;
        let (connection, view) = connect(path, check).map_err(|source| match source {
            SchemaError::Empty => OpenError::Missing(path.to_owned()),
            source @ (SchemaError::Foreign
            | SchemaError::Newer { .. }
            | SchemaError::Older { .. }
            | SchemaError::Sqlite(_)) => OpenError::Schema {
                path: path.to_owned(),
                source,
            },
        })?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            view,
        })
    }

    /// Copies the records of one user into a database of its own, and returns its bytes.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn own_records(&self, uid: u32) -> Result<Vec<u8>, QueryError> {
        self.run(|connection| own_records::copy(connection, uid))
    }

    /// Opens the copy that [`own_records`](Self::own_records) returned in another process.
    ///
    /// # Errors
    /// Returns an error if it is no store of this version.
    pub fn of_own_records(bytes: &[u8]) -> Result<Self, OpenError> {
        let path = PathBuf::from(OWN_RECORDS);
        let opened = own_records::open(bytes).map_err(SchemaError::Sqlite);
        let connection = opened.and_then(|connection| prepared(connection, schema::check));
        match connection {
            Ok(connection) => Ok(Self::over(connection, path)),
            Err(source) => Err(OpenError::Schema { path, source }),
        }
    }

    /// The queries of a store that is open for writing.
    pub(super) const fn over(connection: Connection, path: PathBuf) -> Self {
        Self {
            connection,
            path,
            view: View::Live,
        }
    }

    /// Returns the event with this id, if it is stored.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn event(&self, id: Uuid) -> Result<Option<StoredEvent>, QueryError> {
        self.run(|connection| query::event(connection, id))
    }

    /// Returns the newest `limit` matching events, oldest first.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn events(&self, filter: &Filter, limit: u32) -> Result<Vec<StoredEvent>, QueryError> {
        self.run(|connection| query::events(connection, filter, EventRange::Newest { limit }))
    }

    /// Returns the positions of the newest `limit` events that match, in the order in which they were
    /// recorded.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub fn find(&self, filter: &Filter, limit: u32) -> Result<EventPositions, QueryError> {
        self.run(|connection| query::find(connection, filter, EventRange::Newest { limit }))
            .map(EventPositions)
    }

    /// Calls `look` with each of the found events; those that retention removed since are left out.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read, or `look` fails.
    pub fn each<E: From<QueryError>>(
        &self,
        found: &EventPositions,
        mut look: impl FnMut(StoredEvent) -> Result<(), E>,
    ) -> Result<(), E> {
        for position in &found.0 {
            if let Some(event) = self.run(|connection| query::event_at(connection, position.seq))? {
                look(event)?;
            }
        }
        Ok(())
    }

    /// Returns at most `limit` matching events after position `seq`, oldest first.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn events_after(
        &self,
        seq: i64,
        filter: &Filter,
        limit: u32,
    ) -> Result<Vec<StoredEvent>, QueryError> {
        self.run(|connection| query::events(connection, filter, EventRange::After { seq, limit }))
    }

    /// Returns the newest `limit` matching server starts, oldest first, each with its end and its mismatches.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn launches(&self, filter: &Filter, limit: u32) -> Result<Vec<Launch>, QueryError> {
        self.run(|connection| launches::load(connection, filter, limit))
    }

    /// Returns the starts of the running servers, as far as they are stored: the newest `limit`, oldest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub fn running(&self, limit: u32) -> Result<Vec<RunningStart>, QueryError> {
        self.run(|connection| launches::running(connection, limit))
    }

    /// Returns the positions of the newest `limit` tool calls that match, oldest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub fn calls(&self, filter: &Filter, limit: u32) -> Result<Vec<CallPlaces>, QueryError> {
        self.run(|connection| calls::find(connection, filter, limit))
    }

    /// Returns a found call, without the events that retention removed since.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn call(&self, places: &CallPlaces) -> Result<ToolCall, QueryError> {
        self.run(|connection| calls::read(connection, places))
    }

    /// Returns all servers by id.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn servers(&self) -> Result<Vec<ServerSummary>, QueryError> {
        self.run(servers::load)
    }

    /// Returns all pins by key, set and part.
    ///
    /// # Errors
    /// Returns an error if the store, or one of the pins, cannot be read.
    pub fn pins(&self) -> Result<Vec<BinaryPin>, QueryError> {
        self.run(pins::load)
    }

    /// Returns the pins of one server's files, by set and part.
    ///
    /// # Errors
    /// Returns an error if the store, or one of the pins, cannot be read.
    pub fn pins_of(&self, key: &PinKey) -> Result<Vec<BinaryPin>, QueryError> {
        self.run(|connection| pins::of(connection, key))
    }

    /// Returns the pins of skills, by path.
    ///
    /// # Errors
    /// Returns an error if the store, or one of the pins, cannot be read.
    pub fn skill_pins(&self) -> Result<Vec<SkillPin>, QueryError> {
        self.run(skills::load)
    }

    /// Returns the selected definitions, by server, package, user, kind and name.
    ///
    /// # Errors
    /// Returns an error if the store, or one of them, cannot be read.
    pub fn definitions(&self, selection: &Selection) -> Result<Vec<DefinitionRecord>, QueryError> {
        self.run(|connection| definitions::load(connection, selection))
    }

    /// Returns the definitions of one server, package and user, by kind and name.
    ///
    /// # Errors
    /// Returns an error if the store, or one of them, cannot be read.
    pub fn definitions_of(&self, identity: &PinKey) -> Result<Vec<DefinitionRecord>, QueryError> {
        self.run(|connection| definitions::of(connection, identity))
    }

    /// Returns the definitions of one server, package and user that a person refused: the person and the time, in words.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub fn refused(&self, identity: &PinKey) -> Result<Vec<(DefinitionKey, String)>, QueryError> {
        self.run(|connection| definitions::refused(connection, identity))
    }

    /// Returns the forget orders for definitions of one server and user: the name, `None` for all names, and
    /// the time.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub fn forgotten(&self, identity: &PinKey) -> Result<Vec<(Option<String>, Timestamp)>, QueryError> {
        self.run(|connection| forgotten::of(connection, identity))
    }

    /// Returns the ids of the servers of one user that have pins.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn pinned_servers(&self, uid: u32) -> Result<Vec<ServerId>, QueryError> {
        self.run(|connection| definitions::pinned_servers(connection, uid))
    }

    /// Returns the labels of the newest `limit` bodies, oldest first, each with the name of its key.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn bodies(&self, now: Timestamp, limit: u32) -> Result<Vec<(BodyLabel, String)>, QueryError> {
        self.run(|connection| bodies::table::labels(connection, now, limit))
    }

    /// Returns the bodies of one exchange, in the order in which they were written.
    ///
    /// # Errors
    /// Returns an error if the store, or one of them, cannot be read.
    pub fn bodies_of(&self, now: Timestamp, request: &str) -> Result<Vec<SealedBody>, QueryError> {
        self.run(|connection| bodies::table::of(connection, now, request))
    }

    /// Returns the kill switches in force.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub fn kills(&self) -> Result<Kills, QueryError> {
        self.run(kills::load)
    }

    /// Returns the calls that wait for a person at `now`, with the processes that hold them, oldest first. Some of these
    /// processes may have been killed.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub fn held_calls(&self, now: Timestamp) -> Result<Vec<(ProcessId, HeldCall)>, QueryError> {
        self.run(|connection| held_calls::waiting(connection, now))
    }

    /// Returns the answers to held calls of one server in one session, and those for the whole session.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub fn answered_calls(
        &self,
        identity: &PinKey,
        session: &SessionId,
    ) -> Result<Vec<AnsweredCall>, QueryError> {
        self.run(|connection| held_calls::answers(connection, identity, session))
    }

    /// Returns the members of a session that have not left; some of them may have died.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub fn members(&self, session: &SessionId) -> Result<Vec<SessionMember>, QueryError> {
        self.run(|connection| sessions::members(connection, session))
    }

    /// Returns the members of all sessions that have not left; a killed one never reports that it leaves.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub fn everybody(&self) -> Result<Vec<SessionMember>, QueryError> {
        self.run(sessions::everybody)
    }

    /// Returns whether a session is remembered.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn knows_session(&self, session: &SessionId) -> Result<bool, QueryError> {
        self.run(|connection| sessions::is_known(connection, session))
    }

    /// Returns the newest `limit` sessions, oldest first.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn sessions(&self, limit: u32) -> Result<Vec<SessionSummary>, QueryError> {
        self.run(|connection| sessions::load(connection, limit))
    }

    /// Returns the time of the oldest event that is kept.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub fn oldest_event(&self) -> Result<Option<Timestamp>, QueryError> {
        let select = "SELECT min(timestamp) FROM events";
        let oldest =
            self.run(|connection| connection.query_row(select, [], |row| row.get::<_, Option<i64>>(0)))?;
        Ok(oldest.map(Timestamp))
    }

    /// Returns the newest calls and results of the sessions in a store of many users, oldest first: the user, the key of
    /// the session, and the call or result.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn recent_of_users(&self) -> Result<Vec<(u32, SessionId, Recent)>, QueryError> {
        self.run(recent::of_users)
    }

    /// Returns the parts of `span` in which no daemon watched.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn unwatched(&self, span: Span) -> Result<Vec<Span>, QueryError> {
        self.run(|connection| watches::unwatched(connection, span))
    }

    /// Returns the id of every session that is remembered, or that an event names, ordered by their latest events.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn session_ids(&self) -> Result<Vec<String>, QueryError> {
        self.run(sessions::ids)
    }

    /// Returns the highest position so far, 0 in a new store.
    pub(super) fn last_seq(&self) -> Result<i64, QueryError> {
        self.run(query::last_seq)
    }

    /// Opens a frozen store again, because another process may have opened it since: so a long-lived reader sees later
    /// writes.
    pub fn thaw(&mut self) {
        if self.view == View::Live {
            return;
        }
        // If that fails, the earlier view remains valid.
        if let Ok(reader) = Self::open(&self.path) {
            *self = reader;
        }
    }

    /// Returns the path of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads for the writing of another store.
    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        work(&self.connection)
    }

    pub(super) fn run<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, QueryError> {
        work(&self.connection).map_err(|source| QueryError {
            path: self.path.clone(),
            source,
        })
    }
}

/// Checks whether a database can be read.
type Check = fn(&Connection) -> Result<(), SchemaError>;

/// Opens a database. In WAL mode, it needs the files `-shm` and `-wal`. After a clean stop they are gone, and a process
/// that may not create them can still read the file alone, which is complete then.
fn connect(path: &Path, check: Check) -> Result<(Connection, View), SchemaError> {
    match open_live(path, check) {
        Err(SchemaError::Sqlite(error)) if needs_log(&error) && !has_log(path) => {
            Ok((open_frozen(path, check)?, View::Frozen))
        }
        outcome => Ok((outcome?, View::Live)),
    }
}

fn open_live(path: &Path, check: Check) -> Result<Connection, SchemaError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    prepared(Connection::open_with_flags(path, flags)?, check)
}

fn open_frozen(path: &Path, check: Check) -> Result<Connection, SchemaError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    prepared(Connection::open_with_flags(frozen_uri(path), flags)?, check)
}

fn prepared(connection: Connection, check: Check) -> Result<Connection, SchemaError> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "query_only", true)?;
    check(&connection)?;
    Ok(connection)
}

fn needs_log(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        // If the disk has no room for the shared-memory file, that is an I/O failure.
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::SystemIoFailure)
    )
}

fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    fs::metadata(log).is_ok_and(|metadata| metadata.len() > 0)
}

fn frozen_uri(path: &Path) -> String {
    use std::fmt::Write as _;
    let mut uri = "file:".to_owned();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => uri.push(char::from(byte)),
            _ => write!(uri, "%{byte:02x}").expect("writing to a String cannot fail"),
        }
    }
    uri + "?immutable=1"
}
