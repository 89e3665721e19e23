//! Pins of servers' executables, scripts and packages in the store.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
};

use mcpmon_model::{Digest, PinKey, PinPart, ServerId, Timestamp, one_spelling};
use rusqlite::{Connection, Row, params};

use super::{names, row};

/// The accepted hash of one part, in one of the accepted sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinaryPin {
    /// Server, package and user.
    pub key: PinKey,
    /// The number of the set.
    pub number: u32,
    /// The part.
    pub part: PinPart,
    /// The path of the part when it was pinned.
    pub path: PathBuf,
    /// Digest of the file, or of the package's manifest.
    pub hash: Digest,
    /// The package's manifest, with which changed files can be named; not stored if it has too many files.
    pub manifest: Option<Vec<u8>>,
    /// The time it was pinned.
    pub pinned_at: Timestamp,
    /// The author: `first_use`, or a user's name.
    pub pinned_by: String,
}

/// Stores `pin`; it replaces one with the same key, set and part.
pub(super) fn put(connection: &Connection, pin: &BinaryPin) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO binary_pins \
                 (server_id, name, uid, number, part, path, hash, manifest, pinned_at, pinned_by) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            pin.key.server.as_str(),
            pin.key.name,
            pin.key.uid,
            pin.number,
            names::name(&pin.part),
            pin.path.as_os_str().as_bytes(),
            pin.hash.to_string(),
            pin.manifest,
            pin.pinned_at.0,
            pin.pinned_by,
        ])
        .map(drop)
}

/// Removes every pin of a server. Returns whether there was one.
pub(super) fn delete(connection: &Connection, server: &ServerId) -> rusqlite::Result<bool> {
    connection
        .execute("DELETE FROM binary_pins WHERE server_id = ?1", [server.as_str()])
        .map(|removed| removed > 0)
}

/// Removes one set, if it exists.
pub(super) fn delete_set(connection: &Connection, key: &PinKey, number: u32) -> rusqlite::Result<()> {
    connection
        .execute(
            "DELETE FROM binary_pins WHERE server_id = ?1 AND name = ?2 AND uid = ?3 AND number = ?4",
            params![key.server.as_str(), key.name, key.uid, number],
        )
        .map(drop)
}

/// Number of the set with refused files; accepted sets are numbered from 1.
pub const REFUSED_SET: u32 = 0;

/// Accepts the refused sets of a server, for every package and user, as a new set.
pub(super) fn trust_refused(connection: &Connection, server: &ServerId, by: &str) -> rusqlite::Result<bool> {
    let changed = connection.execute(
        "WITH next AS MATERIALIZED \
             (SELECT name, uid, max(number) + 1 AS number FROM binary_pins WHERE server_id = ?1 GROUP BY name, uid) \
         UPDATE binary_pins SET pinned_by = ?2, number = next.number FROM next \
         WHERE binary_pins.server_id = ?1 AND binary_pins.number = ?3 \
             AND binary_pins.name = next.name AND binary_pins.uid = next.uid",
        params![server.as_str(), by, REFUSED_SET],
    )?;
    Ok(changed > 0)
}

/// Returns all pins by key, set and part. An unreadable pin is an error, because a pin must not be lost unnoticed.
pub(super) fn load(connection: &Connection) -> rusqlite::Result<Vec<BinaryPin>> {
    connection
        .prepare(
            "SELECT server_id, name, uid, number, part, path, hash, manifest, pinned_at, pinned_by \
             FROM binary_pins ORDER BY server_id, name, uid, number, part",
        )?
        .query_map([], read)?
        .collect()
}

/// Returns the pins of one user that can be those of one package: under every id of the server, and under every name of its
/// id, which it has for each way to start it, by id, name, set and part. The module `a_b` and the command `a-b` are one name.
pub(super) fn of(connection: &Connection, key: &PinKey) -> rusqlite::Result<Vec<BinaryPin>> {
    connection
        .prepare(
            "SELECT server_id, name, uid, number, part, path, hash, manifest, pinned_at, pinned_by \
             FROM binary_pins WHERE uid = ?1 AND (server_id = ?2 OR name = ?3 \
                 OR replace(replace(lower(name), '_', '-'), '.', '-') = ?4) \
             ORDER BY server_id, name, number, part",
        )?
        .query_map(
            params![key.uid, key.server.as_str(), key.name, one_spelling(&key.name)],
            read,
        )?
        .collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<BinaryPin> {
    Ok(BinaryPin {
        key: PinKey {
            server: ServerId::new(row.get::<_, String>(0)?).map_err(row::malformed(0))?,
            name: row.get(1)?,
            uid: row.get(2)?,
        },
        number: row.get(3)?,
        part: row::named(row, 4)?,
        path: OsString::from_vec(row.get(5)?).into(),
        hash: row.get::<_, String>(6)?.parse().map_err(row::malformed(6))?,
        manifest: row.get(7)?,
        pinned_at: Timestamp(row.get(8)?),
        pinned_by: row.get(9)?,
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::sample;

    fn pin(server: &str, part: PinPart, content: &[u8]) -> BinaryPin {
        BinaryPin {
            key: PinKey {
                server: ServerId::new(server).unwrap(),
                name: format!("@a/{server}"),
                uid: 1000,
            },
            number: 1,
            part,
            path: OsStr::from_bytes(b"/opt/\xff/server").into(),
            hash: Digest::of(content),
            manifest: (part == PinPart::Package).then(|| content.to_vec()),
            pinned_at: Timestamp(sample::NOON),
            pinned_by: "first_use".into(),
        }
    }

    #[test]
    fn pins_are_kept_by_key_set_and_part() {
        let (_directory, store) = sample::store();
        let executable = pin("files", PinPart::Executable, b"node");
        let package = pin("files", PinPart::Package, b"manifest");
        let other = pin("weather", PinPart::Executable, b"python");
        for pin in [&other, &package, &executable] {
            put(store.connection(), pin).unwrap();
        }
        assert_eq!(
            load(store.connection()).unwrap(),
            [executable, package, other.clone()]
        );

        let newer = pin("files", PinPart::Executable, b"newer node");
        put(store.connection(), &newer).unwrap();
        assert_eq!(load(store.connection()).unwrap()[0], newer);

        let of_another = BinaryPin {
            key: PinKey {
                uid: 1001,
                ..newer.key.clone()
            },
            ..newer.clone()
        };
        let second = BinaryPin {
            number: 2,
            ..newer.clone()
        };
        put(store.connection(), &of_another).unwrap();
        put(store.connection(), &second).unwrap();
        for _ in 0..2 {
            delete_set(store.connection(), &newer.key, 1).unwrap();
        }
        assert_eq!(
            load(store.connection()).unwrap(),
            [second, of_another, other.clone()]
        );
        for _ in 0..2 {
            delete(store.connection(), &newer.key.server).unwrap();
        }
        assert_eq!(load(store.connection()).unwrap(), [other]);
    }

    #[test]
    fn what_was_refused_becomes_one_more_accepted_set() {
        let (_directory, store) = sample::store();
        let accepted = pin("files", PinPart::Executable, b"node");
        let refused = [PinPart::Executable, PinPart::Package].map(|part| BinaryPin {
            number: REFUSED_SET,
            pinned_by: "refused".into(),
            ..pin("files", part, b"newer")
        });
        for pin in refused.iter().chain([&accepted]) {
            put(store.connection(), pin).unwrap();
        }
        let server = &accepted.key.server;
        assert!(trust_refused(store.connection(), server, "ann").unwrap());
        assert!(!trust_refused(store.connection(), server, "ann").unwrap());
        let numbers: Vec<_> = load(store.connection())
            .unwrap()
            .into_iter()
            .map(|pin| (pin.number, pin.part, pin.pinned_by))
            .collect();
        assert_eq!(
            numbers,
            [
                (1, PinPart::Executable, "first_use".to_owned()),
                (2, PinPart::Executable, "ann".to_owned()),
                (2, PinPart::Package, "ann".to_owned()),
            ]
        );
    }

    #[test]
    fn a_package_is_found_under_its_ids_and_the_names_of_its_id() {
        let (_directory, store) = sample::store();
        let named = |server: &str, name: &str, uid| {
            let pin = pin(server, PinPart::Executable, b"x");
            BinaryPin {
                key: PinKey {
                    name: name.to_owned(),
                    uid,
                    ..pin.key
                },
                ..pin
            }
        };
        for pin in [
            named("time", "mcp-server-time", 1000),
            named("clock", "mcp_server_time", 1000),
            named("time", "/srv/time", 1000),
            named("other", "other", 1000),
            named("time", "mcp-server-time", 1001),
        ] {
            put(store.connection(), &pin).unwrap();
        }
        let found = of(store.connection(), &named("time", "mcp_server_time", 1000).key).unwrap();
        let keys: Vec<_> = found
            .iter()
            .map(|pin| format!("{} {}", pin.key.server, pin.key.name))
            .collect();
        assert_eq!(
            keys,
            ["clock mcp_server_time", "time /srv/time", "time mcp-server-time"]
        );
    }

    #[test]
    fn a_pin_that_cannot_be_read_is_an_error() {
        let (_directory, store) = sample::store();
        put(store.connection(), &pin("files", PinPart::Script, b"x")).unwrap();
        store
            .connection()
            .execute("UPDATE binary_pins SET hash = 'sha256:short'", [])
            .unwrap();
        let error = load(store.connection()).unwrap_err().to_string();
        assert!(error.contains("not a SHA-256 digest"), "{error}");
    }
}
