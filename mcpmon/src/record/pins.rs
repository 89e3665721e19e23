//! Pins of servers' executables, scripts and packages, as they are kept.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
};

use mcpmon_core::model::{Digest, PinPart, ServerId, Timestamp};
use rusqlite::{Connection, Row, params};

use super::{names, row};

/// What one part of one server must hash to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinaryPin {
    /// Server it belongs to.
    pub server_id: ServerId,
    /// Part it covers.
    pub part: PinPart,
    /// Where the part was when it was pinned.
    pub path: PathBuf,
    /// Digest of the file, or of the package's manifest.
    pub hash: Digest,
    /// The package's manifest, from which changed files can be named.
    pub manifest: Option<Vec<u8>>,
    /// When it was pinned.
    pub pinned_at: Timestamp,
    /// By whom: `first_use`, or a user's name.
    pub pinned_by: String,
}

/// Writes `pin` over the one of its server and part.
pub(super) fn put(connection: &Connection, pin: &BinaryPin) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO binary_pins (server_id, part, path, hash, manifest, pinned_at, pinned_by) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            pin.server_id.as_str(),
            names::name(&pin.part),
            pin.path.as_os_str().as_bytes(),
            pin.hash.to_string(),
            pin.manifest,
            pin.pinned_at.0,
            pin.pinned_by,
        ])
        .map(drop)
}

/// Removes the pin of `part`; without one that is no error.
pub(super) fn delete(connection: &Connection, server: &ServerId, part: PinPart) -> rusqlite::Result<()> {
    connection
        .execute(
            "DELETE FROM binary_pins WHERE server_id = ?1 AND part = ?2",
            params![server.as_str(), names::name(&part)],
        )
        .map(drop)
}

/// All pins by server and part. One that cannot be read is an error: a pin must not be lost in silence.
pub(super) fn load(connection: &Connection) -> rusqlite::Result<Vec<BinaryPin>> {
    connection
        .prepare(
            "SELECT server_id, part, path, hash, manifest, pinned_at, pinned_by \
             FROM binary_pins ORDER BY server_id, part",
        )?
        .query_map([], read)?
        .collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<BinaryPin> {
    Ok(BinaryPin {
        server_id: ServerId::new(row.get::<_, String>(0)?).map_err(row::malformed(0))?,
        part: row::named(row, 1)?,
        path: OsString::from_vec(row.get(2)?).into(),
        hash: row.get::<_, String>(3)?.parse().map_err(row::malformed(3))?,
        manifest: row.get(4)?,
        pinned_at: Timestamp(row.get(5)?),
        pinned_by: row.get(6)?,
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::record::sample;

    fn pin(server: &str, part: PinPart, content: &[u8]) -> BinaryPin {
        BinaryPin {
            server_id: ServerId::new(server).unwrap(),
            part,
            path: OsStr::from_bytes(b"/opt/\xff/server").into(),
            hash: Digest::of(content),
            manifest: (part == PinPart::Package).then(|| content.to_vec()),
            pinned_at: Timestamp(sample::NOON),
            pinned_by: "first_use".into(),
        }
    }

    #[test]
    fn pins_are_kept_by_server_and_part() {
        let (_directory, store) = sample::store();
        let executable = pin("files", PinPart::Executable, b"node");
        let package = pin("files", PinPart::Package, b"manifest");
        let other = pin("weather", PinPart::Executable, b"python");
        for pin in [&other, &package, &executable] {
            put(&store.connection, pin).unwrap();
        }
        assert_eq!(
            load(&store.connection).unwrap(),
            [executable, package.clone(), other.clone()]
        );

        let newer = pin("files", PinPart::Executable, b"newer node");
        put(&store.connection, &newer).unwrap();
        assert_eq!(load(&store.connection).unwrap()[0], newer);

        delete(&store.connection, &newer.server_id, PinPart::Executable).unwrap();
        delete(&store.connection, &newer.server_id, PinPart::Executable).unwrap();
        assert_eq!(load(&store.connection).unwrap(), [package, other]);
    }

    #[test]
    fn a_pin_that_cannot_be_read_is_an_error() {
        let (_directory, store) = sample::store();
        put(&store.connection, &pin("files", PinPart::Script, b"x")).unwrap();
        store
            .connection
            .execute("UPDATE binary_pins SET hash = 'sha256:short'", [])
            .unwrap();
        let error = load(&store.connection).unwrap_err().to_string();
        assert!(error.contains("not a SHA-256 digest"), "{error}");
    }
}
