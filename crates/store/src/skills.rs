//! Pins of skills in the store: the accepted files of each skill.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
};

use mcpmon_model::{Manifest, Timestamp};
use rusqlite::{Connection, params};

use super::row;

/// Most skills that are pinned.
pub const MAX_SKILL_PINS: u32 = 20_000;

/// The accepted version of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillPin {
    /// Its directory, with links resolved.
    pub path: PathBuf,
    /// Its files.
    pub manifest: Manifest,
    /// The time it was pinned.
    pub pinned_at: Timestamp,
    /// The author: `first_use`, or a user's name.
    pub pinned_by: String,
}

/// Stores `pin`; it replaces one with the same path. Returns `false` if there is no room for another one.
pub(super) fn put(connection: &Connection, pin: &SkillPin) -> rusqlite::Result<bool> {
    let path = pin.path.as_os_str().as_bytes();
    let written = connection
        .prepare_cached(
            "INSERT OR REPLACE INTO skill_pins (path, manifest, pinned_at, pinned_by) \
             SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM skill_pins WHERE path = ?1) \
                 OR (SELECT count(*) FROM skill_pins) < ?5",
        )?
        .execute(params![
            path,
            pin.manifest.encode(),
            pin.pinned_at.0,
            pin.pinned_by,
            MAX_SKILL_PINS
        ])?;
    Ok(written > 0)
}

/// Returns all pins by path. An unreadable pin is an error, because a pin must not be lost unnoticed.
pub(super) fn load(connection: &Connection) -> rusqlite::Result<Vec<SkillPin>> {
    connection
        .prepare("SELECT path, manifest, pinned_at, pinned_by FROM skill_pins ORDER BY path")?
        .query_map([], |row| {
            Ok(SkillPin {
                path: OsString::from_vec(row.get(0)?).into(),
                manifest: Manifest::decode(&row.get::<_, String>(1)?).map_err(row::malformed(1))?,
                pinned_at: Timestamp(row.get(2)?),
                pinned_by: row.get(3)?,
            })
        })?
        .collect()
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{Digest, ManifestEntry};

    use super::*;
    use crate::{Access, Store, StoreReader};

    fn pin(path: &str, content: &[u8]) -> SkillPin {
        let mut manifest = Manifest::default();
        manifest.insert(
            b"SKILL.md",
            ManifestEntry::File {
                mode: 0o644,
                digest: Digest::of(content),
            },
        );
        SkillPin {
            path: path.into(),
            manifest,
            pinned_at: Timestamp(5),
            pinned_by: "first_use".to_owned(),
        }
    }

    #[test]
    fn a_skill_is_pinned_by_its_path() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::open(&directory.path().join("mcpmon.db"), Access { group: None }).unwrap();
        assert!(store.pin_skill(&pin("/b", b"x")).unwrap());
        assert!(store.pin_skill(&pin("/a", b"x")).unwrap());
        assert!(store.pin_skill(&pin("/b", b"y")).unwrap());
        assert_eq!(
            store.read(StoreReader::skill_pins).unwrap(),
            [pin("/a", b"x"), pin("/b", b"y")]
        );
        let damaged = "UPDATE skill_pins SET manifest = 'x' WHERE path = CAST('/a' AS BLOB)";
        store.connection().execute(damaged, []).unwrap();
        store.read(StoreReader::skill_pins).unwrap_err();
    }
}
