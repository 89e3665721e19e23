//! Notes of a manifest: the packages that its files belong to, as package managers recorded them.
//!
//! Notes explain a difference between two manifests. They are no part of a manifest's identity.

use super::{
    Ecosystem, Writers,
    manifest::{ManifestProblem, escape, unescape},
};

/// Most packages of one manifest.
const MAX_PACKAGES: usize = 5_000;
/// Most sites, and most work trees.
const MAX_PLACES: usize = 64;

/// The packages, module directories and work trees that the files of a manifest belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestNotes {
    /// The installed packages.
    pub packages: Vec<InstalledPackage>,
    /// The directories in which Python searches for installed modules, in that order.
    pub sites: Vec<NotedDirectory>,
    /// The version-controlled work trees of the user's own sources.
    pub work_trees: Vec<NotedDirectory>,
}

/// A directory, by its name in the manifest and by its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotedDirectory {
    /// Its escaped path relative to the directory that names of the manifest are relative to; empty for that itself.
    pub prefix: String,
    /// Its escaped path inside the server's root.
    pub path: String,
}

/// An installed package, as its package manager recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledPackage {
    /// The kind of registry.
    pub ecosystem: Ecosystem,
    /// Its name: of Python in the form of PEP 503.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its relation to the server.
    pub role: PackageRole,
    /// The relation of its files to the record of its installer.
    pub record: RecordState,
    /// The users who can change it.
    pub writers: Writers,
    /// The digest of its archive, if the record has one.
    pub integrity: Option<String>,
    /// The files and directories that belong to it, by their names in the manifest.
    pub places: Vec<String>,
}

/// The relation of a package to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackageRole {
    /// The server is its code.
    Own,
    /// The server depends on it.
    Dependency,
    /// Only code that runs at every start of the interpreter is in it.
    StartUp,
}

/// The relation of a package's files to the record of its installer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordState {
    /// They agree.
    Consistent,
    /// They contradict it.
    Contradicts,
    /// There is no record, or it cannot be used.
    Missing,
}

impl InstalledPackage {
    /// Returns whether a file of the manifest belongs to it, and how long the matching place is.
    pub fn covers(&self, path: &str) -> Option<usize> {
        let places = self.places.iter().filter(|place| is_below(place, path));
        places.map(String::len).max()
    }
}

impl NotedDirectory {
    /// Returns whether a file of the manifest is in the directory, which can be above the manifest's.
    pub fn contains(&self, path: &str) -> bool {
        let ups = |path: &str| path.split('/').take_while(|part| *part == "..").count();
        let above = ups(&self.prefix);
        let is_above = above > 0 && self.prefix.split('/').count() == above;
        is_above && ups(path) < above || self.relative(path).is_some()
    }

    /// Returns the path of a file in the directory, relative to it.
    pub fn relative<'p>(&self, path: &'p str) -> Option<&'p str> {
        if self.prefix.is_empty() {
            return (!path.starts_with("../")).then_some(path);
        }
        // `..` is not above a path that begins with `../..`.
        let rest = path.strip_prefix(self.prefix.as_str())?.strip_prefix('/')?;
        (!rest.starts_with("../") && rest != "..").then_some(rest)
    }
}

/// Returns whether `path` is `place` or below it.
fn is_below(place: &str, path: &str) -> bool {
    path.strip_prefix(place)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl ManifestNotes {
    /// Returns the package that a file belongs to: of several the one with the longest place.
    pub fn package_of(&self, path: &str) -> Option<&InstalledPackage> {
        let covering = self
            .packages
            .iter()
            .filter_map(|package| Some((package.covers(path)?, package)));
        covering
            .max_by_key(|(length, _)| *length)
            .map(|(_, package)| package)
    }

    /// Encodes the notes: one line for each, which begins with a tab, as no entry of a manifest does.
    pub(super) fn encode(&self) -> String {
        let mut lines = vec!["\tnotes\t1".to_owned()];
        let directories = |kind: &str, directories: &[NotedDirectory]| -> Vec<String> {
            let line =
                |directory: &NotedDirectory| format!("\t{kind}\t{}\t{}", directory.prefix, directory.path);
            directories.iter().take(MAX_PLACES).map(line).collect()
        };
        lines.extend(directories("site", &self.sites));
        lines.extend(directories("tree", &self.work_trees));
        lines.extend(
            self.packages
                .iter()
                .take(MAX_PACKAGES)
                .map(InstalledPackage::encode),
        );
        lines.into_iter().fold(String::new(), |mut text, line| {
            text.push_str(&line);
            text.push('\n');
            text
        })
    }

    /// Adds what a line of [`ManifestNotes::encode`] says. An unknown kind of note is skipped.
    pub(super) fn decode_line(&mut self, line: &str) -> Result<(), ManifestProblem> {
        let mut fields = line.split('\t').skip(1);
        let kind = fields.next().ok_or(ManifestProblem::Note)?;
        match kind {
            "site" | "tree" => {
                let (Some(prefix), Some(path), None) = (fields.next(), fields.next(), fields.next()) else {
                    return Err(ManifestProblem::Note);
                };
                let list = match kind {
                    "site" => &mut self.sites,
                    _ => &mut self.work_trees,
                };
                list.push(NotedDirectory {
                    prefix: prefix.to_owned(),
                    path: path.to_owned(),
                });
            }
            "package" => {
                let package = InstalledPackage::decode(&mut fields).ok_or(ManifestProblem::Note)?;
                self.packages.push(package);
            }
            _ => {}
        }
        let is_too_long = self.packages.len() > MAX_PACKAGES
            || self.sites.len() > MAX_PLACES
            || self.work_trees.len() > MAX_PLACES;
        if is_too_long {
            return Err(ManifestProblem::Note);
        }
        Ok(())
    }
}

impl InstalledPackage {
    fn encode(&self) -> String {
        let role = match self.role {
            PackageRole::Own => "own",
            PackageRole::Dependency => "dependency",
            PackageRole::StartUp => "start_up",
        };
        let record = match self.record {
            RecordState::Consistent => "consistent",
            RecordState::Contradicts => "contradicts",
            RecordState::Missing => "missing",
        };
        let ecosystem = match self.ecosystem {
            Ecosystem::Npm => "npm",
            Ecosystem::Pypi => "pypi",
        };
        let writers = match self.writers {
            Writers::Root => "root",
            Writers::Others => "others",
        };
        let [name, version, integrity] = [
            &self.name,
            &self.version,
            self.integrity.as_ref().unwrap_or(&String::new()),
        ]
        .map(|text| escape(text.as_bytes()));
        let places: String = self.places.iter().map(|place| format!("\t{place}")).collect();
        format!("\tpackage\t{ecosystem}\t{role}\t{record}\t{writers}\t{name}\t{version}\t{integrity}{places}")
    }

    fn decode<'t>(fields: &mut impl Iterator<Item = &'t str>) -> Option<Self> {
        let text =
            |fields: &mut dyn Iterator<Item = &'t str>| String::from_utf8(unescape(fields.next()?)?).ok();
        Some(Self {
            ecosystem: match fields.next()? {
                "npm" => Ecosystem::Npm,
                "pypi" => Ecosystem::Pypi,
                _ => return None,
            },
            role: match fields.next()? {
                "own" => PackageRole::Own,
                "dependency" => PackageRole::Dependency,
                "start_up" => PackageRole::StartUp,
                _ => return None,
            },
            record: match fields.next()? {
                "consistent" => RecordState::Consistent,
                "contradicts" => RecordState::Contradicts,
                "missing" => RecordState::Missing,
                _ => return None,
            },
            writers: match fields.next()? {
                "root" => Writers::Root,
                "others" => Writers::Others,
                _ => return None,
            },
            name: text(fields)?,
            version: text(fields)?,
            integrity: Some(text(fields)?).filter(|integrity| !integrity.is_empty()),
            places: fields.map(str::to_owned).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::{Digest, Manifest, ManifestEntry};

    fn package(name: &str, places: &[&str]) -> InstalledPackage {
        InstalledPackage {
            ecosystem: Ecosystem::Npm,
            name: name.to_owned(),
            version: "1.0\t0".to_owned(),
            role: PackageRole::Dependency,
            record: RecordState::Consistent,
            writers: Writers::Others,
            integrity: Some("sha512-AA==".to_owned()),
            places: places.iter().map(|place| (*place).to_owned()).collect(),
        }
    }

    fn notes() -> ManifestNotes {
        let directory = NotedDirectory {
            prefix: "../venv/lib".to_owned(),
            path: "/venv/lib".to_owned(),
        };
        ManifestNotes {
            packages: vec![
                package("a", &["node_modules/a"]),
                InstalledPackage {
                    integrity: None,
                    role: PackageRole::StartUp,
                    record: RecordState::Missing,
                    writers: Writers::Root,
                    ecosystem: Ecosystem::Pypi,
                    ..package("b", &["node_modules/a/node_modules/b", "c.py"])
                },
            ],
            sites: vec![directory.clone()],
            work_trees: vec![directory],
        }
    }

    #[test]
    fn notes_are_kept_and_change_no_digest() {
        let mut manifest = Manifest::default();
        let digest = Digest::of(b"x");
        manifest.insert(b"a", ManifestEntry::File { mode: 0o644, digest });
        let noted = manifest.clone().with_notes(notes());
        assert_eq!(Manifest::decode(&noted.encode()), Ok(noted.clone()));
        assert_eq!(noted.digest(), manifest.digest());
        assert_eq!(Manifest::digest_of_text(&noted.encode()), manifest.digest());
        assert_eq!(Manifest::digest_of_text(&manifest.encode()), manifest.digest());
        assert_ne!(noted, manifest);
    }

    #[test_case("node_modules/a/index.js" => Some("a".to_owned()); "below")]
    #[test_case("node_modules/a/node_modules/b/x" => Some("b".to_owned()); "the innermost")]
    #[test_case("node_modules/abc/x" => None; "a longer name")]
    #[test_case("c.py" => Some("b".to_owned()); "a file")]
    fn owners(path: &str) -> Option<String> {
        notes().package_of(path).map(|package| package.name.clone())
    }

    #[test_case("", "a/b" => Some("a/b".to_owned()); "the base")]
    #[test_case("", "../a" => None; "outside the base")]
    #[test_case("..", "../../a" => None; "above the parent")]
    #[test_case("..", "../a" => Some("a".to_owned()); "in the parent")]
    #[test_case("lib", "library/x" => None; "a longer name")]
    fn relative(prefix: &str, path: &str) -> Option<String> {
        let directory = NotedDirectory {
            prefix: prefix.to_owned(),
            path: String::new(),
        };
        directory.relative(path).map(str::to_owned)
    }

    #[test_case("\tpackage\tnpm\town" ; "cut off")]
    #[test_case("\tpackage\tcargo\town\tconsistent\troot\ta\t1\t"; "an unknown ecosystem")]
    #[test_case("\tsite\ta"; "a directory without its path")]
    fn broken_notes_are_refused(line: &str) {
        let error = Manifest::decode(&format!("\tnotes\t1\n{line}\n")).expect_err("it is broken");
        assert_eq!(error.problem, ManifestProblem::Note);
    }
}
