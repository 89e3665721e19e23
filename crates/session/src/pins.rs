//! Conversion of pins between the engine's form and the store's rows.

use std::{collections::BTreeMap, path::Path};

use mcpmon_engine::pins::{AcceptanceGround, AddedSet, PackagePin, PinBook, PinSet, PinnedFile, Pins};
use mcpmon_model::{Manifest, PinKey, PinPart, Timestamp};
use mcpmon_store::{BinaryPin, QueueRefusal, REFUSED_SET, Recorder, StoreEntry, Urgency};

/// The author of pins that were not approved.
pub(crate) const FIRST_USE: &str = "first_use";
/// The author of pins of an interpreter that only root can have changed.
pub(crate) const SYSTEM_UPGRADE: &str = "system_upgrade";
/// The author of pins of files that run in an environment that was not used before.
pub(crate) const NEW_ENVIRONMENT: &str = "new_environment";
/// The author of pins of changes that the policy accepts.
pub(crate) const POLICY: &str = "policy";
/// The author of pins that an earlier version of mcpmon made, and this one wrote in its own form.
pub(crate) const EARLIER_FORM: &str = "earlier_form";
/// The author of pins that root approved.
pub const APPROVED: &str = "root";
/// The author of refused versions, which nobody accepted. They are stored so that a person can approve them; no start
/// matches them.
pub(crate) const REFUSED: &str = "refused";

/// Returns the author of pins that were accepted without approval.
pub const fn by(ground: AcceptanceGround) -> &'static str {
    match ground {
        AcceptanceGround::FirstUse | AcceptanceGround::NewLauncher => FIRST_USE,
        AcceptanceGround::SystemUpgrade => SYSTEM_UPGRADE,
        AcceptanceGround::NewEnvironment => NEW_ENVIRONMENT,
        AcceptanceGround::Policy => POLICY,
        AcceptanceGround::EarlierForm => EARLIER_FORM,
    }
}

/// Writes an accepted set, and deletes the one that it replaces.
///
/// # Errors
/// Returns an error if the queue of the store is full or closed; the other rows are written.
pub fn store(recorder: &Recorder, now: Timestamp, added: &AddedSet, by: &str) -> Result<(), QueueRefusal> {
    let rows = to_rows(&added.set, now, by);
    let replaced = added
        .replaced
        .map(|number| StoreEntry::DeletePinSet(added.set.key.clone(), number));
    let entries = rows.into_iter().map(StoreEntry::PutPin).chain(replaced);
    let written: Vec<_> = entries
        .map(|entry| recorder.put(entry, Urgency::InOrder))
        .collect();
    written.into_iter().collect()
}

/// Returns the rows of one accepted set.
pub(crate) fn to_rows(set: &PinSet, now: Timestamp, by: &str) -> Vec<BinaryPin> {
    let row = |part, path: &Path, hash, manifest| BinaryPin {
        key: set.key.clone(),
        number: set.number,
        part,
        path: path.to_owned(),
        hash,
        manifest,
        pinned_at: now,
        pinned_by: by.to_owned(),
    };
    let file = |part, file: &PinnedFile| row(part, &file.path, file.digest, None);
    let pins = &set.pins;
    let mut rows = vec![file(PinPart::Executable, &pins.executable)];
    rows.extend(pins.script.as_ref().map(|script| file(PinPart::Script, script)));
    rows.extend(pins.package.as_ref().map(|package| {
        let manifest = package.manifest.as_ref().map(|text| text.as_bytes().to_vec());
        row(PinPart::Package, &package.root, package.digest, manifest)
    }));
    let launcher = pins.launcher.as_ref();
    rows.extend(launcher.map(|launcher| file(PinPart::Launcher, launcher)));
    rows
}

/// Returns the pins in the store. A set without its executable is left out. A damaged manifest is dropped, because only
/// the digest is compared.
pub fn from_rows(rows: Vec<BinaryPin>) -> PinBook {
    let mut sets: BTreeMap<(PinKey, u32), Vec<BinaryPin>> = BTreeMap::new();
    for row in rows.into_iter().filter(|row| row.number != REFUSED_SET) {
        sets.entry((row.key.clone(), row.number)).or_default().push(row);
    }
    let mut book = PinBook::default();
    for ((key, number), rows) in sets {
        if let Some(pins) = pins(rows) {
            book.restore(PinSet { key, number, pins });
        }
    }
    book
}

fn pins(rows: Vec<BinaryPin>) -> Option<Pins> {
    let (mut executable, mut script, mut package, mut launcher) = (None, None, None, None);
    for row in rows {
        match row.part {
            PinPart::Executable => executable = Some(file(row)),
            PinPart::Script => script = Some(file(row)),
            PinPart::Package => package = Some(package_pin(row)),
            PinPart::Launcher => launcher = Some(file(row)),
        }
    }
    Some(Pins {
        executable: executable?,
        script,
        package,
        launcher,
    })
}

fn file(row: BinaryPin) -> PinnedFile {
    PinnedFile {
        path: row.path,
        digest: row.hash,
    }
}

fn package_pin(row: BinaryPin) -> PackagePin {
    let manifest = row
        .manifest
        .and_then(|manifest| String::from_utf8(manifest).ok())
        .filter(|manifest| Manifest::digest_of_text(manifest) == row.hash);
    PackagePin {
        root: row.path,
        digest: row.hash,
        manifest: manifest.map(Into::into),
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_engine::pins::{AcceptedSets, PinnedPackage};
    use mcpmon_model::{Digest, ManifestEntry, ServerId};

    use super::*;

    fn sample() -> PinSet {
        let mut manifest = Manifest::default();
        manifest.insert(
            b"index.js",
            ManifestEntry::File {
                mode: 0o644,
                digest: Digest::of(b"1"),
            },
        );
        let pins = Pins {
            executable: PinnedFile {
                path: "/usr/bin/node".into(),
                digest: Digest::of(b"node"),
            },
            script: Some(PinnedFile {
                path: "/srv/index.js".into(),
                digest: Digest::of(b"1"),
            }),
            package: Some(PinnedPackage::new("/srv".into(), manifest).into()),
            launcher: Some(PinnedFile {
                path: "/usr/bin/npx".into(),
                digest: Digest::of(b"npx"),
            }),
        };
        let key = PinKey {
            server: ServerId::new("files").expect("id"),
            name: "@a/files".to_owned(),
            uid: 1000,
        };
        PinSet { key, number: 7, pins }
    }

    #[test]
    fn pins_survive_the_store() {
        let set = sample();
        let other = PinSet {
            number: 8,
            ..set.clone()
        };
        let mut rows = to_rows(&set, Timestamp(1), FIRST_USE);
        assert_eq!(rows.len(), 4);
        rows.extend(to_rows(&other, Timestamp(2), APPROVED));
        let mut expected = PinBook::default();
        expected.restore(set);
        expected.restore(other);
        assert_eq!(from_rows(rows), expected);
    }

    #[test]
    fn what_was_refused_is_not_accepted() {
        let set = PinSet {
            number: REFUSED_SET,
            ..sample()
        };
        assert_eq!(
            from_rows(to_rows(&set, Timestamp(1), REFUSED)),
            PinBook::default()
        );
    }

    #[test]
    fn a_damaged_manifest_is_dropped_and_the_digest_holds() {
        let set = sample();
        let mut rows = to_rows(&set, Timestamp(1), FIRST_USE);
        rows[2].hash = Digest::of(b"other");
        let book = from_rows(rows.clone());
        let AcceptedSets::Sets(sets) = book.accepted(&set.key) else {
            panic!("it is pinned")
        };
        let package = sets[&7].package.as_ref().expect("a package");
        assert_eq!(
            (package.digest, package.manifest.as_ref()),
            (Digest::of(b"other"), None)
        );
        assert_eq!(from_rows(rows.split_off(1)), PinBook::default());
    }
}
