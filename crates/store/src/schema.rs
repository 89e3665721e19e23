//! The schema: tables, and the migration of an older store.

use rusqlite::{Connection, TransactionBehavior};

/// Marks a SQLite file as a store of mcpmon (`PRAGMA application_id`): "MCPM".
const APPLICATION_ID: i32 = 0x4d43_504d;

/// Each step brings a store from version `index` to `index + 1`; a released step never changes.
///
/// `events_listed` contains what the listings filter by: all entries of a type, or of the whole store, are looked at, and
/// one index for all filters costs each event a third of what one for each filter did. `timestamp` has an index for
/// `--since`, retention and the look-up of an id, `session_id` for `--session` and reports. `events_of_launches` joins a
/// launch with its end, and `events_notable` has what retention spares (`NOTABLE`); hardly any event is in these two.
/// AUTOINCREMENT keeps positions increasing when retention empties the table.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL,
        type TEXT NOT NULL,
        timestamp INTEGER NOT NULL,
        host TEXT NOT NULL,
        session_id TEXT,
        server_id TEXT,
        layer TEXT NOT NULL,
        severity INTEGER NOT NULL,
        action TEXT NOT NULL,
        rule TEXT,
        reason TEXT,
        pid INTEGER,
        exe TEXT,
        comm TEXT,
        uid INTEGER,
        container_id TEXT,
        pod_uid TEXT,
        namespace TEXT,
        pod TEXT,
        data TEXT NOT NULL
    );
    CREATE INDEX events_by_type ON events (type);
    CREATE INDEX events_by_timestamp ON events (timestamp);
    CREATE INDEX events_by_server ON events (server_id, type) WHERE server_id IS NOT NULL;

    CREATE TABLE binary_pins (
        server_id TEXT NOT NULL,
        name TEXT NOT NULL,
        uid INTEGER NOT NULL,
        number INTEGER NOT NULL,
        part TEXT NOT NULL,
        path BLOB NOT NULL,
        hash TEXT NOT NULL,
        manifest BLOB,
        pinned_at INTEGER NOT NULL,
        pinned_by TEXT NOT NULL,
        PRIMARY KEY (server_id, name, uid, number, part)
    ) WITHOUT ROWID;

    CREATE TABLE servers (
        server_id TEXT PRIMARY KEY,
        server_type TEXT,
        command TEXT,
        declared INTEGER NOT NULL DEFAULT 0,
        first_seen INTEGER,
        last_seen INTEGER,
        launches INTEGER NOT NULL DEFAULT 0,
        last_pid INTEGER,
        exe_sha256 TEXT,
        package_sha256 TEXT,
        pin TEXT,
        denied INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;

    CREATE TABLE running_servers (
        server_id TEXT NOT NULL,
        pid INTEGER NOT NULL,
        started_seq INTEGER NOT NULL,
        PRIMARY KEY (server_id, pid)
    ) WITHOUT ROWID;
",
    "
    CREATE TABLE definitions (
        server_id TEXT NOT NULL,
        name TEXT NOT NULL,
        uid INTEGER NOT NULL,
        kind TEXT NOT NULL,
        item TEXT NOT NULL,
        seen_hash TEXT NOT NULL,
        seen_text TEXT NOT NULL,
        pinned_hash TEXT,
        pinned_text TEXT,
        approved_by TEXT,
        refused_by TEXT,
        first_seen INTEGER NOT NULL,
        last_seen INTEGER NOT NULL,
        findings TEXT NOT NULL,
        hidden INTEGER NOT NULL,
        PRIMARY KEY (server_id, name, uid, kind, item)
    );

    CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        agent TEXT,
        started INTEGER NOT NULL,
        ended INTEGER
    ) WITHOUT ROWID;

    CREATE TABLE session_servers (
        session_id TEXT NOT NULL,
        server_id TEXT NOT NULL,
        name TEXT NOT NULL,
        uid INTEGER NOT NULL,
        pid INTEGER NOT NULL,
        start INTEGER NOT NULL,
        joined_at INTEGER NOT NULL,
        left_at INTEGER,
        PRIMARY KEY (session_id, server_id, pid, start)
    ) WITHOUT ROWID;

    CREATE INDEX events_by_session ON events (session_id) WHERE session_id IS NOT NULL;
",
    "
    CREATE TABLE kills (
        scope TEXT PRIMARY KEY,
        set_by TEXT NOT NULL,
        set_at INTEGER NOT NULL
    ) WITHOUT ROWID;

    CREATE TABLE recent (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT NOT NULL,
        at INTEGER NOT NULL,
        is_output INTEGER NOT NULL,
        what TEXT NOT NULL
    );

    CREATE INDEX recent_by_session ON recent (session_id);
",
    "
    CREATE TABLE forgotten (
        server_id TEXT,
        uid INTEGER,
        item TEXT,
        at INTEGER NOT NULL
    );
",
    "
    CREATE TABLE bodies (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        request TEXT NOT NULL,
        side TEXT NOT NULL,
        session_id TEXT,
        dialect TEXT NOT NULL,
        at INTEGER NOT NULL,
        expires INTEGER NOT NULL,
        length INTEGER NOT NULL,
        kept INTEGER NOT NULL,
        key TEXT NOT NULL,
        nonce BLOB NOT NULL,
        sealed BLOB NOT NULL
    );

    CREATE INDEX bodies_by_request ON bodies (request);
    CREATE INDEX bodies_by_end ON bodies (expires);
",
    "
    CREATE INDEX recent_outputs ON recent (seq) WHERE is_output;
    CREATE INDEX session_servers_present ON session_servers (session_id) WHERE left_at IS NULL;
",
    "
    CREATE INDEX events_by_pid ON events (pid) WHERE pid IS NOT NULL;
    CREATE INDEX events_by_tool ON events (data ->> '$.tool_name') WHERE data ->> '$.tool_name' IS NOT NULL;
    CREATE INDEX events_by_call ON events (data ->> '$.tool_call_id') WHERE data ->> '$.tool_call_id' IS NOT NULL;
    CREATE INDEX events_by_trace ON events (substr(data ->> '$.trace_parent', 4, 32))
        WHERE data ->> '$.trace_parent' IS NOT NULL;
    CREATE INDEX events_by_severity ON events (severity) WHERE severity > 0;
    CREATE INDEX events_by_action ON events (action) WHERE action <> 'allow';
    CREATE INDEX events_notable ON events (seq)
        WHERE severity >= 2 OR action IN ('block', 'would_block') OR type = 'mcp_detection';

    CREATE TABLE watches (
        since INTEGER PRIMARY KEY,
        until INTEGER NOT NULL
    );

    CREATE TABLE clock (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        wall INTEGER NOT NULL,
        boot TEXT NOT NULL,
        uptime INTEGER NOT NULL,
        doubted INTEGER NOT NULL
    );

    CREATE TABLE unposted (
        event_id TEXT PRIMARY KEY,
        timestamp INTEGER NOT NULL
    ) WITHOUT ROWID;
",
    "
    ALTER TABLE unposted ADD COLUMN claimed_until INTEGER NOT NULL DEFAULT 0;

    DROP INDEX events_by_server;
    CREATE INDEX events_by_server ON events (server_id) WHERE server_id IS NOT NULL;

    DROP INDEX events_notable;
    CREATE INDEX events_notable ON events (seq)
        WHERE (severity >= 2 OR action IN ('block', 'would_block') OR type = 'mcp_detection')
            AND NOT (type = 'mcp_tool_returned' AND rule IS 'output_poisoning');
",
    "
    CREATE TABLE skill_pins (
        path BLOB PRIMARY KEY,
        manifest TEXT NOT NULL,
        pinned_at INTEGER NOT NULL,
        pinned_by TEXT NOT NULL
    ) WITHOUT ROWID;
",
    "
    CREATE TABLE held_calls (
        id TEXT PRIMARY KEY,
        session_id TEXT,
        server_id TEXT NOT NULL,
        name TEXT NOT NULL,
        uid INTEGER NOT NULL,
        pid INTEGER NOT NULL,
        start INTEGER NOT NULL,
        tool TEXT NOT NULL,
        since INTEGER NOT NULL,
        expires INTEGER NOT NULL,
        call TEXT NOT NULL,
        answer TEXT,
        answered_by TEXT
    ) WITHOUT ROWID;
",
    "
    CREATE TABLE exports (
        outlet TEXT PRIMARY KEY,
        seq INTEGER NOT NULL
    ) WITHOUT ROWID;
",
    "
    -- Wrappers of the version before go on writing here, by the key of the event: it stays the webhook's table.
    ALTER TABLE unposted ADD COLUMN outlet TEXT NOT NULL DEFAULT 'webhook';

    CREATE TABLE unposted_elsewhere (
        outlet TEXT NOT NULL,
        event_id TEXT NOT NULL,
        timestamp INTEGER NOT NULL,
        claimed_until INTEGER NOT NULL,
        PRIMARY KEY (outlet, event_id)
    ) WITHOUT ROWID;
",
    "
    DROP INDEX events_by_type;
    DROP INDEX events_by_server;
    DROP INDEX events_by_pid;
    DROP INDEX events_by_tool;
    DROP INDEX events_by_call;
    DROP INDEX events_by_trace;
    DROP INDEX events_by_severity;
    DROP INDEX events_by_action;

    CREATE INDEX events_listed ON events (
        type, seq, timestamp, server_id, pid, severity, action, data ->> '$.tool_name', data ->> '$.tool_call_id',
        substr(data ->> '$.trace_parent', 4, 32)
    );
    CREATE INDEX events_of_launches ON events (pid)
        WHERE (type = 'mcp_server_started' OR type = 'mcp_server_exited'
            OR type = 'mcp_server_orphaned' OR type = 'mcp_server_binary_mismatch');
",
    "
    ALTER TABLE servers ADD COLUMN package TEXT;
",
    "
    -- The user, in a store of many users.
    ALTER TABLE recent ADD COLUMN uid INTEGER;

    DROP INDEX recent_by_session;
    DROP INDEX recent_outputs;
    CREATE INDEX recent_by_session ON recent (session_id, uid);
    CREATE INDEX recent_by_user ON recent (uid, is_output);
",
];

/// The condition for events that belong to the launch of a server. The index `events_of_launches` has the same
/// condition. SQLite would make a table of a list of names, for each event that is written.
pub(super) const OF_LAUNCHES: &str = "(type = 'mcp_server_started' OR type = 'mcp_server_exited' \
     OR type = 'mcp_server_orphaned' OR type = 'mcp_server_binary_mismatch')";

/// The condition for events that outlive ordinary ones when the store is full: detections, stopped actions,
/// and everything else of severity medium or worse. A withheld result is represented by the finding that
/// caused it. The index `events_notable` has the same condition.
pub(super) const NOTABLE: &str = "((severity >= 2 OR action IN ('block', 'would_block') OR type = 'mcp_detection') \
     AND NOT (type = 'mcp_tool_returned' AND rule IS 'output_poisoning'))";

/// The reason why a file cannot be used as a store of this version.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The database has no table, and is opened for reading only: the store is being created.
    #[error("it is empty")]
    Empty,
    /// The database belongs to another program.
    #[error("it is a SQLite database of another program")]
    Foreign,
    /// The store was written by a later mcpmon.
    #[error("it has schema version {found}, this mcpmon knows up to {known}: use the newer mcpmon")]
    Newer {
        /// Version in the file.
        found: usize,
        /// Latest version known here.
        known: usize,
    },
    /// The store was written by an earlier mcpmon, and is opened for reading only.
    #[error(
        "it has schema version {found}, this mcpmon reads {known}: start `mcpmon daemon` once to bring it up to date"
    )]
    Older {
        /// The version in the file.
        found: usize,
        /// Version needed.
        known: usize,
    },
    /// SQLite failed.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// Prepares a new or existing database for writing.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), SchemaError> {
    migrate_with(connection, MIGRATIONS)
}

/// Checks that a database can be read without a migration.
pub(super) fn check(connection: &Connection) -> Result<(), SchemaError> {
    let moment = connection.unchecked_transaction()?;
    match version(&moment, MIGRATIONS.len())? {
        Some(found) if found == MIGRATIONS.len() => Ok(()),
        Some(found) => Err(SchemaError::Older {
            found,
            known: MIGRATIONS.len(),
        }),
        None => Err(SchemaError::Empty),
    }
}

/// Checks that a database is a store of this or an earlier version.
pub(super) fn check_ours(connection: &Connection) -> Result<(), SchemaError> {
    let moment = connection.unchecked_transaction()?;
    match version(&moment, MIGRATIONS.len())? {
        Some(_) => Ok(()),
        None => Err(SchemaError::Empty),
    }
}

fn migrate_with(connection: &mut Connection, steps: &[&str]) -> Result<(), SchemaError> {
    // Read in one transaction, because another process may be creating the tables.
    let found = version(&*connection.transaction()?, steps.len())?;
    match found {
        // This is final: no process lowers the version.
        Some(current) if current == steps.len() => return Ok(()),
        Some(_) => {}
        // Takes effect only before the first table exists.
        None => connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?,
    }
    // The version is read again under the lock: another process may be migrating too.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let current = version(&transaction, steps.len())?.unwrap_or(0);
    for step in &steps[current..] {
        transaction.execute_batch(step)?;
    }
    if current < steps.len() {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        let version = u32::try_from(steps.len()).expect("there are a handful of steps");
        transaction.pragma_update(None, "user_version", version)?;
    }
    transaction.commit()?;
    Ok(())
}

/// Returns the schema version of a store; `None` for an empty database. Has to be called within a transaction, in which
/// the marks of a new store and its tables become visible at the same time.
fn version(connection: &Connection, known: usize) -> Result<Option<usize>, SchemaError> {
    let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let found: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let found = found as usize;
    if application != APPLICATION_ID {
        let objects: u32 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        let empty = application == 0 && found == 0 && objects == 0;
        return if empty {
            Ok(None)
        } else {
            Err(SchemaError::Foreign)
        };
    }
    if found > known {
        return Err(SchemaError::Newer { found, known });
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "CREATE TABLE a (x INTEGER)";
    const SECOND: &str = "ALTER TABLE a ADD COLUMN y TEXT NOT NULL DEFAULT 'old'";

    fn database() -> Connection {
        Connection::open_in_memory().unwrap()
    }

    #[test]
    fn an_older_store_keeps_its_rows() {
        let mut connection = database();
        migrate_with(&mut connection, &[FIRST]).unwrap();
        connection.execute("INSERT INTO a (x) VALUES (7)", []).unwrap();
        migrate_with(&mut connection, &[FIRST, SECOND]).unwrap();
        let row: (i64, String) = connection
            .query_row("SELECT x, y FROM a", [], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        assert_eq!(row, (7, "old".to_owned()));
        // No step is left, and another migration changes nothing.
        migrate_with(&mut connection, &[FIRST, SECOND]).unwrap();
    }

    #[test]
    fn what_the_webhook_had_to_post_stays_its_own() {
        let mut connection = database();
        migrate_with(&mut connection, &MIGRATIONS[..11]).unwrap();
        connection
            .execute("INSERT INTO unposted VALUES ('e', 5, 7)", [])
            .unwrap();
        migrate(&mut connection).unwrap();
        // As a wrapper of the previous version does that is still running.
        let upsert = "INSERT INTO unposted (event_id, timestamp, claimed_until) VALUES (?1, ?2, ?3) \
             ON CONFLICT (event_id) DO UPDATE SET claimed_until = excluded.claimed_until";
        for (id, until) in [("e", 8), ("f", 9)] {
            connection.execute(upsert, (id, 5, until)).unwrap();
        }
        let mut select = connection
            .prepare("SELECT outlet, event_id, timestamp, claimed_until FROM unposted ORDER BY event_id")
            .unwrap();
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)));
        let rows: Vec<(String, String, i64, i64)> = rows.unwrap().map(Result::unwrap).collect();
        let row = |id: &str, until| ("webhook".to_owned(), id.to_owned(), 5, until);
        assert_eq!(rows, [row("e", 8), row("f", 9)]);
    }

    #[test]
    fn events_of_the_version_before_are_listed_and_it_goes_on_writing() {
        let mut connection = database();
        migrate_with(&mut connection, &MIGRATIONS[..12]).unwrap();
        // As a wrapper of the previous version does.
        let insert = "INSERT OR FAIL INTO events (id, type, timestamp, host, session_id, server_id, layer, severity, \
             action, rule, reason, pid, exe, comm, uid, container_id, pod_uid, namespace, pod, data) \
             VALUES (?1, 'mcp_tool_called', 7, 'laptop', 's', 'files', 'stdio', 0, 'allow', NULL, NULL, 42, NULL, NULL, \
             NULL, NULL, NULL, NULL, NULL, '{\"tool_name\":\"read\"}')";
        connection.execute(insert, ["e"]).unwrap();
        migrate(&mut connection).unwrap();
        connection.execute(insert, ["f"]).unwrap();
        let filter = crate::Filter {
            tool: Some("read".to_owned()),
            pid: Some(42),
            ..crate::Filter::default()
        };
        let window = crate::query::EventRange::Newest { limit: 9 };
        let found = crate::query::find(&connection, &filter, window).unwrap();
        assert_eq!(found.len(), 2);
        let indexes: Vec<String> = connection
            .prepare("SELECT name FROM pragma_index_list('events') ORDER BY name")
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let expected = [
            "events_by_session",
            "events_by_timestamp",
            "events_listed",
            "events_notable",
            "events_of_launches",
        ];
        assert_eq!(indexes, expected);
    }

    #[test]
    fn calls_of_the_version_before_are_those_of_the_stores_own_user() {
        let mut connection = database();
        migrate_with(&mut connection, &MIGRATIONS[..14]).unwrap();
        // As a wrapper of the previous version does.
        let insert = "INSERT INTO recent (session_id, at, is_output, what) VALUES ('s', 7, 0, '{}')";
        connection.execute(insert, []).unwrap();
        migrate(&mut connection).unwrap();
        connection.execute(insert, []).unwrap();
        let count = "SELECT count(*) FROM recent WHERE session_id = 's' AND uid IS NULL";
        let count: u32 = connection.query_row(count, [], |row| row.get(0)).unwrap();
        assert_eq!(count, 2);
    }

    #[test]
    fn a_failing_step_leaves_the_old_version() {
        let mut connection = database();
        migrate_with(&mut connection, &[FIRST]).unwrap();
        let error = migrate_with(&mut connection, &[FIRST, "CREATE TABLE b (x); no SQL"]).unwrap_err();
        assert!(matches!(error, SchemaError::Sqlite(_)), "{error}");
        assert_eq!(version(&connection, 1).unwrap(), Some(1));
        connection.prepare("SELECT * FROM b").unwrap_err();
    }

    #[test]
    fn a_newer_store_is_refused() {
        let mut connection = database();
        migrate_with(&mut connection, &[FIRST, SECOND]).unwrap();
        let error = migrate_with(&mut connection, &[FIRST]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "it has schema version 2, this mcpmon knows up to 1: use the newer mcpmon"
        );
    }

    #[test]
    fn an_older_store_cannot_be_read_without_migration() {
        let mut connection = database();
        migrate(&mut connection).unwrap();
        check(&connection).unwrap();
        connection.pragma_update(None, "user_version", 0).unwrap();
        assert!(matches!(
            check(&connection),
            Err(SchemaError::Older { found: 0, .. })
        ));
    }

    #[test]
    fn a_store_that_is_being_made_is_none_of_another_program() {
        let connection = database();
        assert!(matches!(check(&connection), Err(SchemaError::Empty)));
        assert!(matches!(check_ours(&connection), Err(SchemaError::Empty)));
    }

    #[test]
    fn a_database_of_another_program_is_refused_and_left_alone() {
        let mut connection = database();
        connection.execute_batch("CREATE TABLE theirs (x)").unwrap();
        assert!(matches!(migrate(&mut connection), Err(SchemaError::Foreign)));
        connection.prepare("SELECT * FROM events").unwrap_err();
    }
}
