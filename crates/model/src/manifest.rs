//! A package as a sorted list of its files, so that a difference can be named and not only noticed.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{Digest, ManifestNotes, PackageRole, ParseDigestError};

/// Endings of what installers write beside the code of a package.
const METADATA: [&str; 3] = [".dist-info", ".egg-info", ".pth"];
/// Beginning of the modules that find a checkout in development mode.
const FINDER: &str = "__editable__";

/// Every file of a package and of the packages that it depends on, by path relative to the directory of installation.
///
/// Directories are not listed: an empty one changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    entries: BTreeMap<String, ManifestEntry>,
    notes: Option<ManifestNotes>,
}

/// One entry of a [`Manifest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestEntry {
    /// A regular file.
    File {
        /// Permission bits, set-user-id and the like included.
        mode: u16,
        /// Digest of its content.
        digest: Digest,
    },
    /// A symbolic link, by its target as written.
    Link(Vec<u8>),
    /// A socket, pipe or device, which has no content to compare.
    Special(SpecialFile),
}

/// Kinds of files that are never read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialFile {
    /// Named pipe.
    Pipe,
    /// Unix socket.
    Socket,
    /// Character or block device.
    Device,
}

/// A stored manifest that cannot be read back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("manifest line {line}: {problem}")]
pub struct ParseManifestError {
    /// Line number, from 1.
    pub line: usize,
    /// The problem with the line.
    pub problem: ManifestProblem,
}

/// The problems that a line of a stored manifest can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestProblem {
    /// Not path, mode, kind and value.
    #[error("expected four fields separated by tabs")]
    Fields,
    /// A mode that is not octal.
    #[error("the mode is no octal number")]
    Mode,
    /// An unknown kind.
    #[error("the kind is none of file, link, pipe, socket, device")]
    Kind,
    /// A file without a digest.
    #[error("the digest cannot be read")]
    Digest(#[source] ParseDigestError),
    /// A link target with a broken escape.
    #[error("the link target has a broken escape")]
    Target,
    /// A note that is cut off, or one of too many.
    #[error("the note cannot be read")]
    Note,
}

impl Manifest {
    /// Most lines [`Manifest::changes`] returns.
    pub const MAX_CHANGES: usize = 20;

    /// Adds or replaces the entry at `path`, given as the bytes of the file system.
    pub fn insert(&mut self, path: &[u8], entry: ManifestEntry) {
        self.entries.insert(escape(path), entry);
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the escaped paths, in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Returns the escaped paths with their entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &ManifestEntry)> {
        self.entries.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// Returns the entries at an escaped path and below it.
    pub fn below<'m>(&'m self, place: &'m str) -> impl Iterator<Item = (&'m str, &'m ManifestEntry)> {
        let from = self
            .entries
            .range::<str, _>((std::ops::Bound::Included(place), std::ops::Bound::Unbounded));
        let alike = from.take_while(move |(path, _)| path.starts_with(place));
        let below =
            alike.filter(move |(path, _)| path.len() == place.len() || path[place.len()..].starts_with('/'));
        below.map(|(path, entry)| (path.as_str(), entry))
    }

    /// Returns a digest of the code of the server's own packages, which does not depend on the directory that they are in;
    /// `None` if no such code is known, as of a checkout that is installed in development mode.
    pub fn own_code(&self) -> Option<Digest> {
        let notes = self.notes()?;
        let mut code: Vec<(&str, &str, &ManifestEntry)> = Vec::new();
        for package in notes
            .packages
            .iter()
            .filter(|package| package.role == PackageRole::Own)
        {
            for place in &package.places {
                let (parent, name) = place.rsplit_once('/').unwrap_or(("", place));
                if name.starts_with(FINDER) || METADATA.iter().any(|ending| name.ends_with(ending)) {
                    continue;
                }
                let is_own = |path: &str| {
                    let found = notes.package_of(path);
                    found.is_some_and(|found| found.role == PackageRole::Own)
                };
                let files = self.below(place).filter(|(path, _)| is_own(path));
                code.extend(
                    files.map(|(path, entry)| (path, path[parent.len()..].trim_start_matches('/'), entry)),
                );
            }
        }
        // A file below two places counts once, and one that covers another file of its name counts as well.
        code.sort_by_key(|(whole, _, _)| *whole);
        code.dedup_by_key(|(whole, _, _)| *whole);
        code.sort_by_key(|(_, path, _)| *path);
        let mut text = Vec::new();
        for (_, path, entry) in &code {
            let content = match entry {
                ManifestEntry::File { digest, .. } => digest.to_string().into_bytes(),
                ManifestEntry::Link(target) => target.clone(),
                ManifestEntry::Special(_) => Vec::new(),
            };
            text.extend_from_slice(path.as_bytes());
            text.push(0);
            text.extend_from_slice(&content);
            text.push(0);
        }
        (!code.is_empty()).then(|| Digest::of(&text))
    }

    /// Returns the name that a path has in a manifest.
    pub fn name(path: &[u8]) -> String {
        escape(path)
    }

    /// Returns the entry at an escaped path.
    pub fn entry(&self, path: &str) -> Option<&ManifestEntry> {
        self.entries.get(path)
    }

    /// Returns the same manifest with notes about the packages that its files belong to.
    #[must_use]
    pub fn with_notes(self, notes: ManifestNotes) -> Self {
        Self {
            notes: Some(notes),
            ..self
        }
    }

    /// Returns the notes; `None` for a manifest of an earlier version, or of something that was not installed.
    pub const fn notes(&self) -> Option<&ManifestNotes> {
        self.notes.as_ref()
    }

    /// Returns the digest of the encoded manifest: it is equal if and only if path, mode, kind and content of every
    /// entry are equal. Notes do not count.
    pub fn digest(&self) -> Digest {
        Digest::of(self.encode_entries().as_bytes())
    }

    /// Returns the digest of the manifest that [`Manifest::encode`] wrote.
    pub fn digest_of_text(text: &str) -> Digest {
        let mut entries = text;
        while is_note(entries) {
            entries = entries.split_once('\n').map_or("", |(_, rest)| rest);
        }
        Digest::of(entries.as_bytes())
    }

    /// Encodes the manifest: its notes, and one line per entry with path, mode, kind, and digest or target, separated by
    /// tabs.
    ///
    /// Everything except printable ASCII is escaped, so that no name can forge a field, a line or a terminal sequence.
    pub fn encode(&self) -> String {
        let notes = self.notes.as_ref().map(ManifestNotes::encode);
        notes.unwrap_or_default() + &self.encode_entries()
    }

    fn encode_entries(&self) -> String {
        self.entries.iter().fold(
            String::with_capacity(self.entries.len() * 128),
            |mut text, (path, entry)| {
                let written = match entry {
                    ManifestEntry::File { mode, digest } => {
                        writeln!(text, "{path}\t{mode:o}\tfile\t{digest}")
                    }
                    ManifestEntry::Link(target) => writeln!(text, "{path}\t0\tlink\t{}", escape(target)),
                    ManifestEntry::Special(kind) => writeln!(text, "{path}\t0\t{}\t", kind.name()),
                };
                written.expect("writing to a String cannot fail");
                text
            },
        )
    }

    /// Reads what [`Manifest::encode`] wrote.
    ///
    /// # Errors
    /// At the first line that is no entry.
    pub fn decode(text: &str) -> Result<Self, ParseManifestError> {
        let mut manifest = Self::default();
        for (index, line) in text.lines().enumerate() {
            let read = match is_note(line) {
                true => manifest.notes.get_or_insert_default().decode_line(line),
                false => decode_line(line).map(|(path, entry)| _ = manifest.entries.insert(path, entry)),
            };
            read.map_err(|problem| ParseManifestError {
                line: index + 1,
                problem,
            })?;
        }
        Ok(manifest)
    }

    /// Lists the entries that differ: `added`, `removed` or `changed` and the path. There are at most
    /// [`Manifest::MAX_CHANGES`] lines; the last of them counts the rest if there are more.
    pub fn changes(old: &Self, new: &Self) -> Vec<String> {
        let mut changes: BTreeMap<&str, &str> = BTreeMap::new();
        for (path, entry) in &new.entries {
            match old.entries.get(path) {
                None => _ = changes.insert(path, "added"),
                Some(before) if before != entry => _ = changes.insert(path, "changed"),
                Some(_) => {}
            }
        }
        changes.extend(
            old.entries
                .keys()
                .filter(|path| !new.entries.contains_key(*path))
                .map(|path| (path.as_str(), "removed")),
        );
        let total = changes.len();
        let shown = if total > Self::MAX_CHANGES {
            Self::MAX_CHANGES - 1
        } else {
            total
        };
        let mut lines: Vec<_> = changes
            .into_iter()
            .take(shown)
            .map(|(path, change)| format!("{change} {path}"))
            .collect();
        if shown < total {
            lines.push(format!("and {} more", total - shown));
        }
        lines
    }
}

impl SpecialFile {
    const fn name(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::Device => "device",
        }
    }
}

/// Returns whether a line is a note: it begins with a tab and a word. An entry with an empty path has its mode there.
fn is_note(line: &str) -> bool {
    let rest = line.strip_prefix('\t');
    rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_alphabetic()))
}

fn decode_line(line: &str) -> Result<(String, ManifestEntry), ManifestProblem> {
    let mut fields = line.split('\t');
    let (Some(path), Some(mode), Some(kind), Some(value), None) = (
        fields.next(),
        fields.next(),
        fields.next(),
        fields.next(),
        fields.next(),
    ) else {
        return Err(ManifestProblem::Fields);
    };
    let entry = match kind {
        "file" => ManifestEntry::File {
            mode: u16::from_str_radix(mode, 8).ok().ok_or(ManifestProblem::Mode)?,
            digest: value.parse().map_err(ManifestProblem::Digest)?,
        },
        "link" => ManifestEntry::Link(unescape(value).ok_or(ManifestProblem::Target)?),
        "pipe" => ManifestEntry::Special(SpecialFile::Pipe),
        "socket" => ManifestEntry::Special(SpecialFile::Socket),
        "device" => ManifestEntry::Special(SpecialFile::Device),
        _ => return Err(ManifestProblem::Kind),
    };
    Ok((path.to_owned(), entry))
}

/// Keeps printable ASCII but the backslash, writes every other byte as `\xNN`: no two inputs give one text.
pub(super) fn escape(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len()), |mut text, &byte| {
            match byte {
                b' '..=b'~' if byte != b'\\' => text.push(char::from(byte)),
                _ => write!(text, "\\x{byte:02x}").expect("writing to a String cannot fail"),
            }
            text
        })
}

pub(super) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'\\' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let digits = after.strip_prefix(b"x")?.get(..2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after.get(3..)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    fn file(content: &str) -> ManifestEntry {
        ManifestEntry::File {
            mode: 0o644,
            digest: Digest::of(content.as_bytes()),
        }
    }

    fn manifest(entries: &[(&str, ManifestEntry)]) -> Manifest {
        let mut manifest = Manifest::default();
        for (path, entry) in entries {
            manifest.insert(path.as_bytes(), entry.clone());
        }
        manifest
    }

    /// Returns a manifest in which these files belong to the server's own package, and those below `deps` to a dependency.
    fn installed(site: &str, files: &[(&str, &str)]) -> Manifest {
        let package = |name: &str, role, places: &[&str]| crate::InstalledPackage {
            ecosystem: crate::Ecosystem::Pypi,
            name: name.to_owned(),
            version: "1.0".to_owned(),
            role,
            record: crate::RecordState::Consistent,
            writers: crate::Writers::Others,
            integrity: None,
            places: places.iter().map(|place| format!("{site}{place}")).collect(),
        };
        let own = ["weather", "weather-1.0.dist-info", "x.pth", "earlier/weather"];
        let entries: Vec<_> = files
            .iter()
            .map(|(path, content)| (format!("{site}{path}"), file(content)))
            .collect();
        let entries: Vec<_> = entries
            .iter()
            .map(|(path, entry)| (path.as_str(), entry.clone()))
            .collect();
        manifest(&entries).with_notes(ManifestNotes {
            packages: vec![
                package("weather", PackageRole::Own, &own),
                package("deps", PackageRole::Dependency, &["deps", "weather/deps"]),
            ],
            ..ManifestNotes::default()
        })
    }

    const CODE: (&str, &str) = ("weather/__init__.py", "one");

    #[test_case("", &[CODE] => true; "the same")]
    #[test_case("lib/python3.12/site-packages/", &[CODE] => true; "in another directory")]
    #[test_case("", &[CODE, ("deps/a.py", "x"), ("weather/deps/b.js", "x")] => true; "with other dependencies")]
    #[test_case("", &[CODE, ("weather-1.0.dist-info/METADATA", "x"), ("x.pth", "x")] => true; "with other metadata")]
    #[test_case("", &[("weather/__init__.py", "two")] => false; "changed")]
    #[test_case("", &[CODE, ("weather/evil.py", "x")] => false; "with another file")]
    #[test_case("", &[CODE, ("earlier/weather/__init__.py", "evil")] => false; "with a file that covers one")]
    fn the_own_code_of_a_package(site: &str, files: &[(&str, &str)]) -> bool {
        installed(site, files).own_code() == installed("", &[CODE]).own_code()
    }

    #[test]
    fn a_checkout_in_development_mode_has_no_own_code() {
        let files = [("weather-1.0.dist-info/METADATA", "x"), ("x.pth", "/srv/weather")];
        assert_eq!(installed("", &files).own_code(), None);
        assert_eq!(manifest(&[("a.py", file("a"))]).own_code(), None, "without notes");
    }

    #[test]
    fn every_kind_of_difference_is_named() {
        let old = manifest(&[
            ("content", file("a")),
            ("mode", file("a")),
            ("link", ManifestEntry::Link(b"a".to_vec())),
            ("kind", file("a")),
            ("gone", file("a")),
            ("same", file("a")),
        ]);
        let new = manifest(&[
            ("content", file("b")),
            (
                "mode",
                ManifestEntry::File {
                    mode: 0o755,
                    digest: Digest::of(b"a"),
                },
            ),
            ("link", ManifestEntry::Link(b"b".to_vec())),
            ("kind", ManifestEntry::Special(SpecialFile::Pipe)),
            ("new", file("a")),
            ("same", file("a")),
        ]);
        assert_eq!(
            Manifest::changes(&old, &new),
            [
                "changed content",
                "removed gone",
                "changed kind",
                "changed link",
                "changed mode",
                "added new"
            ]
        );
        assert_ne!(old.digest(), new.digest());
        assert_eq!(Manifest::changes(&old, &old), [""; 0]);
    }

    #[test_case(20 => 20; "all of them")]
    #[test_case(21 => 20; "the rest is counted")]
    #[test_case(5_000 => 20; "however many")]
    fn changes_are_bounded(count: usize) -> usize {
        let mut new = Manifest::default();
        for index in 0..count {
            new.insert(format!("{index:05}").as_bytes(), file("a"));
        }
        let changes = Manifest::changes(&Manifest::default(), &new);
        let counted = changes.last().and_then(|line| {
            line.strip_prefix("and ")?
                .strip_suffix(" more")?
                .parse::<usize>()
                .ok()
        });
        assert_eq!(
            counted.map_or(changes.len(), |rest| changes.len() - 1 + rest),
            count
        );
        changes.len()
    }

    #[test]
    fn a_name_cannot_forge_a_line() {
        let forged = format!("a\t644\tfile\t{}\nb", Digest::of(b"x"));
        let one = manifest(&[(&forged, file("y"))]);
        let two = manifest(&[("a", file("x")), ("b", file("y"))]);
        assert_ne!(one.encode(), two.encode());
        assert_eq!(one.encode().lines().count(), 1);
        assert!(
            Manifest::changes(&two, &one)
                .iter()
                .all(|line| !line.contains('\n'))
        );
    }

    #[test_case("a\t644\tfile" => ManifestProblem::Fields; "too few")]
    #[test_case("a\t644\tfile\tx\ty" => ManifestProblem::Fields; "too many")]
    #[test_case("a\t9\tfile\tx" => ManifestProblem::Mode; "mode")]
    #[test_case("a\t644\tfile\tx" => ManifestProblem::Digest(ParseDigestError); "digest")]
    #[test_case("a\t0\tdoor\t" => ManifestProblem::Kind; "kind")]
    #[test_case("a\t0\tlink\t\\xé" => ManifestProblem::Target; "target")]
    fn what_is_no_manifest_is_refused(line: &str) -> ManifestProblem {
        let error =
            Manifest::decode(&format!("ok\t0\tpipe\t\n{line}\n")).expect_err("the second line is broken");
        assert_eq!(error.line, 2);
        error.problem
    }

    fn any_entry() -> impl Strategy<Value = ManifestEntry> {
        prop_oneof![
            (0_u16..0o10000, any::<[u8; 32]>()).prop_map(|(mode, bytes)| ManifestEntry::File {
                mode,
                digest: Digest::from_bytes(bytes)
            }),
            any::<Vec<u8>>().prop_map(ManifestEntry::Link),
            Just(ManifestEntry::Special(SpecialFile::Socket)),
        ]
    }

    proptest! {
        #[test]
        fn encoding_is_lossless_and_order_is_irrelevant(
            entries in proptest::collection::btree_map(any::<Vec<u8>>(), any_entry(), 0..12),
        ) {
            let mut forwards = Manifest::default();
            let mut backwards = Manifest::default();
            for (path, entry) in &entries {
                forwards.insert(path, entry.clone());
            }
            for (path, entry) in entries.iter().rev() {
                backwards.insert(path, entry.clone());
            }
            prop_assert_eq!(forwards.len(), entries.len());
            prop_assert_eq!(forwards.digest(), backwards.digest());
            prop_assert_eq!(Manifest::decode(&forwards.encode()), Ok(forwards));
        }
    }
}
