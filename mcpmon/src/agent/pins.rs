//! Pins between the core's form and the store's rows.

use std::collections::BTreeMap;

use mcpmon_core::{
    decide::pins::{PinnedFile, PinnedPackage, Pins},
    model::{Manifest, PinPart, ServerId, Timestamp},
};

use crate::record::BinaryPin;

/// Who pinned what nobody approved.
pub(crate) const FIRST_USE: &str = "first_use";
/// Who pinned what was approved: only root may.
pub(crate) const APPROVED: &str = "root";

/// Every part a server can have a pin for.
pub(crate) const PARTS: [PinPart; 3] = [PinPart::Executable, PinPart::Script, PinPart::Package];

/// The rows of a server's pins.
pub(crate) fn to_rows(server: &ServerId, pins: &Pins, now: Timestamp, by: &str) -> Vec<BinaryPin> {
    let row = |part, path: &std::path::Path, hash, manifest| BinaryPin {
        server_id: server.clone(),
        part,
        path: path.to_owned(),
        hash,
        manifest,
        pinned_at: now,
        pinned_by: by.to_owned(),
    };
    let file = |part, file: &PinnedFile| row(part, &file.path, file.digest, None);
    let mut rows = vec![file(PinPart::Executable, &pins.executable)];
    rows.extend(pins.script.as_ref().map(|script| file(PinPart::Script, script)));
    rows.extend(pins.package.as_ref().map(|package| {
        let manifest = package.manifest().encode().into_bytes();
        row(PinPart::Package, package.root(), package.digest(), Some(manifest))
    }));
    rows
}

/// The pins in the store, by server. A server whose rows are damaged keeps the parts that are whole, and one
/// without its executable is left out: its next start is judged as not pinned.
pub(crate) fn from_rows(rows: Vec<BinaryPin>) -> BTreeMap<ServerId, Pins> {
    let mut servers: BTreeMap<ServerId, Vec<BinaryPin>> = BTreeMap::new();
    for row in rows {
        servers.entry(row.server_id.clone()).or_default().push(row);
    }
    servers
        .into_iter()
        .filter_map(|(server, rows)| Some((server, pins(&rows)?)))
        .collect()
}

fn pins(rows: &[BinaryPin]) -> Option<Pins> {
    let row = |part| rows.iter().find(|row| row.part == part);
    let file = |part| {
        row(part).map(|row| PinnedFile {
            path: row.path.clone(),
            digest: row.hash,
        })
    };
    Some(Pins {
        executable: file(PinPart::Executable)?,
        script: file(PinPart::Script),
        package: row(PinPart::Package).and_then(package),
    })
}

fn package(row: &BinaryPin) -> Option<PinnedPackage> {
    let text = String::from_utf8(row.manifest.clone()?).ok()?;
    let package = PinnedPackage::new(row.path.clone(), Manifest::decode(&text).ok()?);
    (package.digest() == row.hash).then_some(package)
}

#[cfg(test)]
mod tests {
    use mcpmon_core::model::{Digest, ManifestEntry};

    use super::*;

    fn sample() -> Pins {
        let mut manifest = Manifest::default();
        manifest.insert(
            b"index.js",
            ManifestEntry::File {
                mode: 0o644,
                digest: Digest::of(b"1"),
            },
        );
        Pins {
            executable: PinnedFile {
                path: "/usr/bin/node".into(),
                digest: Digest::of(b"node"),
            },
            script: Some(PinnedFile {
                path: "/srv/index.js".into(),
                digest: Digest::of(b"1"),
            }),
            package: Some(PinnedPackage::new("/srv".into(), manifest)),
        }
    }

    #[test]
    fn pins_survive_the_store() {
        let server = ServerId::new("files").expect("id");
        let rows = to_rows(&server, &sample(), Timestamp(1), FIRST_USE);
        assert_eq!(rows.len(), 3);
        assert_eq!(from_rows(rows), [(server, sample())].into());
    }

    #[test]
    fn a_damaged_manifest_is_no_pin() {
        let server = ServerId::new("files").expect("id");
        let mut rows = to_rows(&server, &sample(), Timestamp(1), FIRST_USE);
        rows[2].hash = Digest::of(b"other");
        assert_eq!(from_rows(rows.clone())[&server].package, None);
        assert_eq!(from_rows(rows.split_off(1)), BTreeMap::new());
    }
}
