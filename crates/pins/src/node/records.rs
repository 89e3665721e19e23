//! The records of npm: the versions and archives of installed packages, in the lock file that npm keeps in `node_modules`.
//! It has no digests of files.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    path::{Path, PathBuf},
};

use mcpmon_model::{Ecosystem, InstalledPackage, ManifestNotes, PackageRole, RecordState};
use serde::Deserialize;

use super::{MODULES, NodePackage, description};
use crate::{
    ServerLayout,
    origin::{MAX_NPM_LOCK, if_text, short, text},
    package::Collector,
    root::Root,
};

/// The lock file that npm writes when it has installed.
const LOCK: &str = "node_modules/.package-lock.json";

/// The fields of a lock file of npm that are read.
#[derive(Debug, Default, Deserialize)]
struct NpmLock {
    #[serde(default)]
    packages: BTreeMap<String, LockedPackage>,
}

#[derive(Debug, Default, Deserialize)]
struct LockedPackage {
    #[serde(default, deserialize_with = "if_text")]
    version: Option<String>,
    #[serde(default, deserialize_with = "if_text")]
    integrity: Option<String>,
}

impl NodePackage {
    /// Returns the notes about the packages in these directories, whose files are collected.
    pub(super) fn notes(
        &self,
        setting: &ServerLayout<'_>,
        collector: &Collector<'_>,
        packages: &BTreeSet<PathBuf>,
    ) -> ManifestNotes {
        let mut locks: BTreeMap<PathBuf, Option<NpmLock>> = BTreeMap::new();
        let mut notes = ManifestNotes::default();
        let mut sources: BTreeSet<PathBuf> = match self {
            Self::Directory(_) => BTreeSet::new(),
            Self::Script(script) => script.parent().map(Path::to_owned).into_iter().collect(),
        };
        for package in packages {
            let Some(project) = project_of(package) else {
                sources.insert(package.clone());
                continue;
            };
            let lock = locks
                .entry(project.to_owned())
                .or_insert_with(|| read(setting.root, project));
            let role = match self {
                Self::Directory(own) if own == package => PackageRole::Own,
                Self::Directory(_) | Self::Script(_) => PackageRole::Dependency,
            };
            notes.packages.extend(noted(
                setting.root,
                collector,
                package,
                project,
                lock.as_ref(),
                role,
            ));
        }
        let trees: BTreeSet<PathBuf> = sources
            .iter()
            .filter_map(|directory| setting.work_tree(directory))
            .collect();
        notes.work_trees = trees.iter().map(|tree| collector.noted(tree)).collect();
        notes
    }
}

/// Returns the directory with the outermost `node_modules` above a package. Returns `None` if it is not installed.
fn project_of(package: &Path) -> Option<&Path> {
    let outermost = package
        .ancestors()
        .filter(|ancestor| ancestor.file_name() == Some(OsStr::new(MODULES)))
        .last();
    outermost?.parent()
}

fn read(root: &Root, project: &Path) -> Option<NpmLock> {
    serde_json::from_str(&text(root, &project.join(LOCK), MAX_NPM_LOCK)?).ok()
}

fn noted(
    root: &Root,
    collector: &Collector<'_>,
    package: &Path,
    project: &Path,
    lock: Option<&NpmLock>,
    role: PackageRole,
) -> Option<InstalledPackage> {
    let described = description(root, package).unwrap_or_default();
    let field = |name: &str| short(described.get(name)?.as_str()?);
    let place = package.strip_prefix(project).ok()?.to_str()?;
    let (name, version) = (field("name"), field("version").unwrap_or_default());
    let locked = lock.map(|lock| lock.packages.get(place));
    let record = match locked {
        None => RecordState::Missing,
        // Every package that npm installed is in its lock file.
        Some(None) => RecordState::Contradicts,
        Some(Some(locked)) if locked.version.as_ref() == Some(&version) => RecordState::Consistent,
        Some(Some(_)) => RecordState::Contradicts,
    };
    Some(InstalledPackage {
        ecosystem: Ecosystem::Npm,
        name: name.or_else(|| short(place.rsplit_once("node_modules/")?.1))?,
        version,
        role,
        record,
        writers: collector.writers(&[package.to_owned()]),
        integrity: locked
            .flatten()
            .and_then(|locked| short(locked.integrity.as_deref()?)),
        places: vec![collector.name(package)],
    })
}
