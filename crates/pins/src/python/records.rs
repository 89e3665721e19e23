//! The record of a distribution's installer: which files it installed, with their digests
//! (<https://packaging.python.org/en/latest/specifications/recording-installed-packages/>).

use std::{
    collections::BTreeMap,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use mcpmon_model::{Digest, Ecosystem, InstalledPackage, ManifestEntry, PackageRole, RecordState, Writers};

use super::{
    PythonPackage,
    distribution::{Distribution, recorded_path},
};
use crate::{package::Collector, root::Root};

/// Largest record that is read, in bytes.
const MAX_RECORD: u64 = 16 << 20;
/// The kind of digest that is compared.
const ALGORITHM: &str = "sha256=";

impl PythonPackage {
    /// Returns the note about a distribution that is collected.
    pub(super) fn noted(
        &self,
        root: &Root,
        collector: &Collector<'_>,
        name: &str,
        role: PackageRole,
    ) -> Option<InstalledPackage> {
        let distribution = self.index.get(name)?;
        let places: Vec<PathBuf> = std::iter::once(&distribution.metadata)
            .chain(&distribution.entries)
            .cloned()
            .collect();
        Some(InstalledPackage {
            places: places.iter().map(|place| collector.name(place)).collect(),
            record: compare(root, collector, distribution, &places),
            writers: collector.writers(&places),
            ..package(name, distribution, role)
        })
    }
}

/// Returns the note about a distribution, without what depends on its files.
pub(super) fn package(name: &str, distribution: &Distribution, role: PackageRole) -> InstalledPackage {
    InstalledPackage {
        ecosystem: Ecosystem::Pypi,
        name: name.to_owned(),
        version: distribution.version.clone(),
        role,
        record: RecordState::Missing,
        writers: Writers::Others,
        integrity: None,
        places: Vec::new(),
    }
}

/// Compares the collected files at these places with the record. Each must be recorded with its digest; a file that is
/// recorded and missing runs no code.
pub(super) fn compare(
    root: &Root,
    collector: &Collector<'_>,
    distribution: &Distribution,
    places: &[PathBuf],
) -> RecordState {
    let Some(record) = read(root, collector, distribution) else {
        return RecordState::Missing;
    };
    let names: Vec<String> = places.iter().map(|place| collector.name(place)).collect();
    let files = names.iter().flat_map(|name| collector.manifest().below(name));
    let mut is_consistent = true;
    for (path, entry) in files {
        let ManifestEntry::File { digest, .. } = entry else {
            // A link leads to a file that is not read.
            return RecordState::Missing;
        };
        match record.get(path) {
            Some(RecordedDigest::Sha256(recorded)) => is_consistent &= recorded == digest,
            Some(RecordedDigest::Other) => return RecordState::Missing,
            Some(RecordedDigest::Ambiguous) | None => is_consistent = false,
        }
    }
    match is_consistent {
        true => RecordState::Consistent,
        false => RecordState::Contradicts,
    }
}

/// The digest of a file in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordedDigest {
    Sha256(Digest),
    /// There is none, or one of a kind that is not compared.
    Other,
    /// It cannot be read, or there are two.
    Ambiguous,
}

/// Reads a record: the digests by the names that the files have in the manifest.
fn read(
    root: &Root,
    collector: &Collector<'_>,
    distribution: &Distribution,
) -> Option<BTreeMap<String, RecordedDigest>> {
    let content = root
        .read(&distribution.metadata.join("RECORD"), MAX_RECORD)
        .ok()?;
    let text = String::from_utf8(content).ok()?;
    let mut record: BTreeMap<String, RecordedDigest> = BTreeMap::new();
    for line in text.lines() {
        let path = recorded_path(line);
        let is_plain = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !is_plain {
            continue;
        }
        let name = collector.name(
            &distribution
                .site
                .join(Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()))),
        );
        let digest = recorded_digest(line);
        let known = record.insert(name.clone(), digest);
        if known.is_some_and(|known| known != digest) {
            record.insert(name, RecordedDigest::Ambiguous);
        }
    }
    Some(record)
}

/// Returns the digest in a line of a record: `path,sha256=…,size`.
fn recorded_digest(line: &str) -> RecordedDigest {
    let digest = line.rsplit(',').nth(1);
    let Some(encoded) = digest.and_then(|digest| digest.strip_prefix(ALGORITHM)) else {
        return RecordedDigest::Other;
    };
    match decoded(encoded) {
        Some(bytes) => RecordedDigest::Sha256(Digest::from_bytes(bytes)),
        None => RecordedDigest::Ambiguous,
    }
}

/// Decodes 32 bytes of base 64 in the alphabet for URLs, without padding.
fn decoded(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let (mut buffer, mut bits, mut at) = (0_u32, 0, 0);
    for c in text.trim_end_matches('=').bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        buffer = buffer << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            *bytes.get_mut(at)? = u8::try_from(buffer >> bits & 0xff).ok()?;
            at += 1;
        }
        buffer &= (1 << bits) - 1;
    }
    (at == bytes.len() && buffer == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("a.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0" => true; "of nothing")]
    #[test_case("\"a,b.py\",sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0" => true; "quoted")]
    #[test_case("a.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuF,0" => false; "too short")]
    #[test_case("a.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFUA,0" => false; "too long")]
    #[test_case("a.py,,0" => false; "none")]
    #[test_case("a.py" => false; "no fields")]
    #[test_case("a.py,md5=x,0" => false; "another kind")]
    fn digests(line: &str) -> bool {
        recorded_digest(line) == RecordedDigest::Sha256(Digest::of(b""))
    }
}
