//! Module directories of a Python interpreter: those of its virtual environment, or the system's.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use crate::{
    ServerLayout,
    root::{EntryKind, Root},
};

const CONFIGURATION: &str = "pyvenv.cfg";
/// Largest `pyvenv.cfg` or `.pth` that is read, in bytes.
const MAX_SMALL_FILE: u64 = 64 * 1024;

/// Most directories that path files may add.
const MAX_ADDED: usize = 64;

/// An interpreter's module directories.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Environment {
    /// The installation prefix.
    pub(super) prefix: PathBuf,
    /// The scope: one program, or the whole system.
    pub(super) scope: EnvironmentScope,
    /// Directories in `PYTHONPATH`, canonical. They are searched first, and belong to the user who set the variable
    /// rather than to the environment.
    pub(super) named: Vec<PathBuf>,
    /// `site-packages` and `dist-packages`, canonical, in the order in which they are searched.
    pub(super) sites: Vec<PathBuf>,
    /// Directories that path files in those add: an environment that uv layers over others uses their packages.
    pub(super) added: Vec<PathBuf>,
    /// The standard library, if it is found.
    pub(super) library: Option<PathBuf>,
}

/// The scope of an environment: it belongs to one program or to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EnvironmentScope {
    /// A virtual environment, which belongs to one program.
    Virtual,
    /// The environment of an interpreter itself, which all programs of the host share.
    System,
}

impl Environment {
    /// Finds the environment of the interpreter that `setting` runs, as Python does: from the name by which it was
    /// started, before links are followed. `script` may be in a user's own directory.
    pub(super) fn of(setting: &ServerLayout<'_>, script: Option<&Path>) -> Self {
        let root = setting.root;
        let invoked = setting.invoked_as();
        let version = version_directory(&setting.executable);
        let named = distinct(root, setting.module_directories());
        let library = library(root, &setting.executable);
        if let Some(prefix) = virtual_prefix(root, &invoked) {
            let configuration = root
                .read(&prefix.join(CONFIGURATION), MAX_SMALL_FILE)
                .unwrap_or_default();
            let configuration = String::from_utf8_lossy(&configuration);
            let mut sites = site_directories(root, &prefix, version);
            if value(&configuration, "include-system-site-packages") == Some("true")
                && let Some(home) = value(&configuration, "home")
            {
                sites.extend(system_sites(root, parent(Path::new(home)), version));
            }
            let sites = distinct(root, sites);
            return Self {
                prefix,
                scope: EnvironmentScope::Virtual,
                named,
                added: added(root, &sites),
                sites,
                library,
            };
        }
        let executable = root
            .canonical(&invoked)
            .unwrap_or_else(|_| setting.executable.clone());
        let prefix = parent(parent(&executable)).to_owned();
        let own = [
            script
                .and_then(|script| script.ancestors().nth(2))
                .map(Path::to_owned),
            setting.home.as_ref().map(|home| home.join(".local")),
        ];
        let sites = own
            .into_iter()
            .flatten()
            .flat_map(|prefix| site_directories(root, &prefix, version))
            .chain(system_sites(root, &prefix, version))
            .collect();
        let sites = distinct(root, sites);
        Self {
            prefix,
            scope: EnvironmentScope::System,
            named,
            added: added(root, &sites),
            sites,
            library,
        }
    }
}

impl Environment {
    /// Returns the directories into which package managers install.
    pub(super) fn places(&self) -> impl Iterator<Item = &PathBuf> {
        self.sites.iter().chain(&self.added)
    }

    /// Returns every directory in which modules are searched for, in that order.
    pub(super) fn directories(&self) -> impl Iterator<Item = &PathBuf> {
        self.named.iter().chain(&self.sites).chain(&self.added)
    }
}

impl ServerLayout<'_> {
    /// Returns the directories in `PYTHONPATH`, relative to the working directory.
    fn module_directories(&self) -> Vec<PathBuf> {
        let entries = self.module_path.iter().flat_map(std::env::split_paths);
        entries.map(|entry| self.working_directory.join(entry)).collect()
    }
}

/// Returns the directory of `path`; that of the root is the root.
fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// Returns `python3.11` of `/usr/bin/python3.11`. Returns `None` if the name has no minor version.
fn version_directory(executable: &Path) -> Option<&str> {
    let name = executable.file_name()?.to_str()?;
    name.split_once('.')?;
    Some(name)
}

/// Returns the standard library of the interpreter at `executable`: the directory with the module by which Python
/// itself finds it.
fn library(root: &Root, executable: &Path) -> Option<PathBuf> {
    let prefix = parent(parent(executable));
    let named = |library: &str| {
        let directory = prefix.join(library);
        let versions = root.names(&directory).unwrap_or_default();
        let version = version_directory(executable);
        let mut found = versions
            .into_iter()
            .filter(|name| is_version_directory(name))
            .filter(|name| version.is_none_or(|version| name == version))
            .map(|name| directory.join(name))
            .filter(|path| root.is(&path.join("os.py"), EntryKind::File));
        found.next()
    };
    named("lib").or_else(|| named("lib64"))
}

pub(super) fn virtual_prefix(root: &Root, invoked: &Path) -> Option<PathBuf> {
    let directory = invoked.parent()?;
    [Some(directory), directory.parent()]
        .into_iter()
        .flatten()
        .find(|prefix| root.is(&prefix.join(CONFIGURATION), EntryKind::File))
        .and_then(|prefix| root.canonical(prefix).ok())
}

fn value<'t>(configuration: &'t str, key: &str) -> Option<&'t str> {
    configuration.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        name.trim().eq_ignore_ascii_case(key).then(|| value.trim())
    })
}

/// Returns the directories below `PREFIX/lib`; only that of the interpreter's version if it is known and exists.
pub(super) fn site_directories(root: &Root, prefix: &Path, version: Option<&str>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for library in ["lib", "lib64"] {
        let library = prefix.join(library);
        let mut names = root.names(&library).unwrap_or_default();
        names.retain(|name| is_version_directory(name));
        if let Some(version) = version.filter(|version| names.iter().any(|name| name == *version)) {
            names.retain(|name| name == version || name == "python3");
        }
        for name in names {
            found.extend(["site-packages", "dist-packages"].map(|site| library.join(&name).join(site)));
        }
    }
    found
}

/// Returns whether the name is like `python3`, `python3.11`, `pypy3.10`.
fn is_version_directory(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b"python3") || name.starts_with(b"pypy3")
}

pub(super) fn system_sites(root: &Root, prefix: &Path, version: Option<&str>) -> Vec<PathBuf> {
    let local =
        (prefix == Path::new("/usr")).then(|| site_directories(root, Path::new("/usr/local"), version));
    local
        .into_iter()
        .flatten()
        .chain(site_directories(root, prefix, version))
        .collect()
}

/// Returns the directories that the code in path files of `sites` adds, and in path files of these.
fn added(root: &Root, sites: &[PathBuf]) -> Vec<PathBuf> {
    let mut pending = sites.to_vec();
    let mut added: Vec<PathBuf> = Vec::new();
    while let Some(site) = pending.pop() {
        for name in root.names(&site).unwrap_or_default() {
            if !name.as_bytes().ends_with(b".pth") {
                continue;
            }
            let text = root.read(&site.join(&name), MAX_SMALL_FILE).unwrap_or_default();
            let named = named_directories(&String::from_utf8_lossy(&text));
            for directory in distinct(root, named) {
                let is_known = sites.contains(&directory) || added.contains(&directory);
                if !is_known && added.len() < MAX_ADDED {
                    added.push(directory.clone());
                    pending.push(directory);
                }
            }
        }
    }
    added
}

/// Returns the absolute paths in quotes, on code lines that add directories.
fn named_directories(text: &str) -> Vec<PathBuf> {
    let code = text.lines().filter(|line| line.starts_with("import"));
    let adding = code.filter(|line| line.contains("addsitedir") || line.contains("sys.path"));
    let quoted = adding.flat_map(|line| line.split(['"', '\'']).skip(1).step_by(2));
    quoted
        .filter(|text| text.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

/// Returns the existing directories, each once.
fn distinct(root: &Root, sites: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    sites
        .into_iter()
        .filter(|site| root.is(site, EntryKind::Directory))
        .filter_map(|site| root.canonical(&site).ok())
        .filter(|site| seen.insert(site.clone()))
        .collect()
}
