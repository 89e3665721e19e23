//! Collection of files into a manifest: which files are left out, the limits, and the names of files.

use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use mcpmon_model::{Manifest, ManifestEntry, ManifestNotes, NotedDirectory, SpecialFile, Writers};
use nix::sys::stat::FileStat;

use super::{
    Cancel,
    code::leads_to_code,
    file::{FileError, FileHasher},
    root::{EntryKind, FoundFile, Root, is_roots_alone},
};

/// The limits on one package with its dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackageLimits {
    /// Most files, links and special files.
    pub files: usize,
    /// Most bytes of all files together.
    pub bytes: u64,
    /// Most nested directories.
    pub depth: usize,
}

impl Default for PackageLimits {
    fn default() -> Self {
        Self {
            files: 50_000,
            bytes: 2 << 30,
            depth: 64,
        }
    }
}

/// The reason why a package has no digest.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// There are more than [`PackageLimits::files`].
    #[error("the package has more than {limit} files with its dependencies")]
    TooManyFiles {
        /// The limit.
        limit: usize,
    },
    /// The environment has more distributions than the limit.
    #[error("the environment has more than {limit} distributions")]
    TooManyDistributions {
        /// The limit.
        limit: usize,
    },
    /// There are more than [`PackageLimits::bytes`].
    #[error("the package has more than {limit} bytes with its dependencies")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// It is deeper than [`PackageLimits::depth`].
    #[error("{path} is more than {limit} directories deep")]
    TooDeep {
        /// The directory.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// One of its files cannot be hashed.
    #[error("{path} cannot be hashed")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: FileError,
    },
    /// One of its directories or links cannot be read.
    #[error("{path} cannot be read")]
    Read {
        /// The directory or link.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The module with which a server was started is not on its path.
    #[error("no module {name} was found; looked in {}", list(searched))]
    NoModule {
        /// Its name.
        name: String,
        /// The directories that were searched.
        searched: Vec<PathBuf>,
    },
    /// The package would be a whole home directory or file system.
    #[error("{path} is a home directory or the root, and is not hashed whole")]
    TooBroad {
        /// The directory.
        path: PathBuf,
    },
    /// The caller asked to stop.
    #[error("hashing was cancelled")]
    Cancelled,
}

impl PackageError {
    /// Returns the error that the file at `path` was not hashed.
    pub(crate) fn of(path: &Path, source: FileError) -> Self {
        match source {
            FileError::Cancelled => Self::Cancelled,
            FileError::NotRegular
            | FileError::TooLarge { .. }
            | FileError::Changed
            | FileError::Written
            | FileError::Io(_) => Self::File {
                path: path.to_owned(),
                source,
            },
        }
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths
        .iter()
        .map(|path| path.display().to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

/// The role of a directory in a package, which decides which of its entries are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectoryRole {
    /// A Node package: its dependencies are found by resolution, not by their location.
    Node,
    /// Python modules, or the checkout in which they are developed.
    Python,
    /// A `.dist-info` or `.egg-info` directory.
    PythonMetadata,
}

/// Directories in which tools of any runtime keep caches or history.
const CACHE_DIRECTORIES: [&str; 11] = [
    ".cache",
    ".git",
    ".hg",
    ".svn",
    ".mypy_cache",
    ".nox",
    ".nyc_output",
    ".pytest_cache",
    ".ruff_cache",
    ".tox",
    "__pycache__",
];
/// Data that widely used servers write next to their code: the graph of server-memory. None of it can be code.
const STATE_FILES: [&str; 2] = ["memory.json", "memory.jsonl"];
/// Files that differ in every installation: the installer's records, and paths and digests of generated scripts.
const INSTALLATION_RECORDS: [&str; 7] = [
    "RECORD",
    "INSTALLER",
    "REQUESTED",
    "direct_url.json",
    "installed-files.txt",
    "uv_build.json",
    "uv_cache.json",
];
/// The file that marks a virtual environment. One in a checkout is left out of the package: what a server uses of its own
/// environment is found by the interpreter (`python`).
const ENVIRONMENT_MARKER: &str = "pyvenv.cfg";

impl DirectoryRole {
    /// Returns the role of a directory called `name` inside this one.
    pub(super) fn below(self, name: &OsStr) -> Self {
        let extension = Path::new(name).extension();
        match self {
            Self::Python
                if extension.is_some_and(|extension| extension == "dist-info" || extension == "egg-info") =>
            {
                Self::PythonMetadata
            }
            Self::Node | Self::Python | Self::PythonMetadata => self,
        }
    }

    fn leaves_out(self, name: &OsStr, kind: EntryKind) -> bool {
        let listed = |names: &[&str]| names.iter().any(|listed| name == *listed);
        match (self, kind) {
            (_, EntryKind::Directory) if listed(&CACHE_DIRECTORIES) => true,
            (_, EntryKind::File) if name.as_bytes().ends_with(b".log") => true,
            (Self::Node, EntryKind::Directory | EntryKind::Link) => name == "node_modules",
            (Self::Node, EntryKind::File) => listed(&STATE_FILES),
            (Self::PythonMetadata, EntryKind::File) => listed(&INSTALLATION_RECORDS),
            (Self::Python | Self::PythonMetadata, EntryKind::Directory | EntryKind::Link)
            | (Self::Python, EntryKind::File)
            | (_, EntryKind::Pipe | EntryKind::Socket | EntryKind::Device) => false,
        }
    }
}

/// A manifest under construction. Paths are canonical and inside the root.
pub(super) struct Collector<'a> {
    root: &'a Root,
    files: &'a mut FileHasher,
    cancel: Cancel<'a>,
    limits: PackageLimits,
    base: PathBuf,
    bytes: u64,
    manifest: Manifest,
    /// Files and directories of the operating system that others than root can change.
    loose_system_files: Vec<PathBuf>,
}

/// The directory of the operating system's packages.
const SYSTEM: &str = "/usr";
/// Most files of the system that others can change; with more, nothing counts as changed by root alone.
const MAX_LOOSE: usize = 256;

impl<'a> Collector<'a> {
    /// Collects files of `root`, named relative to `base`.
    pub(super) fn new(
        root: &'a Root,
        files: &'a mut FileHasher,
        limits: PackageLimits,
        cancel: Cancel<'a>,
        base: PathBuf,
    ) -> Self {
        Self {
            root,
            files,
            cancel,
            limits,
            base,
            bytes: 0,
            manifest: Manifest::default(),
            loose_system_files: Vec::new(),
        }
    }

    /// Returns the root of the package.
    pub(super) const fn root(&self) -> &'a Root {
        self.root
    }

    /// Returns an error if the caller asked to stop.
    pub(super) fn go_on(&self) -> Result<(), PackageError> {
        go_on(self.cancel)
    }

    /// Returns what is collected so far.
    pub(super) const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the collected manifest, with notes.
    pub(super) fn finish(self, notes: ManifestNotes) -> Manifest {
        self.manifest.with_notes(notes)
    }

    /// Returns the name of a canonical path in the manifest.
    pub(super) fn name(&self, path: &Path) -> String {
        Manifest::name(relative(&self.base, path).as_os_str().as_bytes())
    }

    /// Returns a directory as notes have it.
    pub(super) fn noted(&self, directory: &Path) -> NotedDirectory {
        NotedDirectory {
            prefix: self.name(directory),
            path: Manifest::name(directory.as_os_str().as_bytes()),
        }
    }

    /// Returns who can change what was collected at these canonical paths and below: only root if it belongs to the
    /// operating system.
    pub(super) fn writers(&self, paths: &[PathBuf]) -> Writers {
        let is_roots = |path: &PathBuf| {
            let node = self.root.find_link(path);
            path.starts_with(SYSTEM)
                && node.is_ok_and(|node| self.root.writers(path, &node) == Writers::Root)
                && !self
                    .loose_system_files
                    .iter()
                    .any(|loose| loose.starts_with(path))
        };
        let is_counted = self.loose_system_files.len() < MAX_LOOSE;
        match is_counted && !paths.is_empty() && paths.iter().all(is_roots) {
            true => Writers::Root,
            false => Writers::Others,
        }
    }

    /// Notes a file of the operating system that others than root can change.
    fn note_writers(&mut self, path: &Path, stat: &FileStat) {
        let is_noted = path.starts_with(SYSTEM) && !is_roots_alone(stat);
        if is_noted && self.loose_system_files.len() < MAX_LOOSE {
            self.loose_system_files.push(path.to_owned());
        }
    }

    /// Adds everything below a directory.
    pub(super) fn add_directory(&mut self, path: &Path, contents: DirectoryRole) -> Result<(), PackageError> {
        let node = self.found(path)?;
        self.walk(&node, path, contents, 0)
    }

    /// Adds one entry of any kind, without following links; a directory with everything below it.
    pub(super) fn add(&mut self, path: &Path, contents: DirectoryRole) -> Result<(), PackageError> {
        let node = self.found(path)?;
        match node.kind() {
            EntryKind::Directory => self.walk(&node, path, contents, 0),
            EntryKind::File => self.add_file(&node, path),
            EntryKind::Link => self.add_link(&node, path),
            EntryKind::Pipe => self.insert(path, ManifestEntry::Special(SpecialFile::Pipe)),
            EntryKind::Socket => self.insert(path, ManifestEntry::Special(SpecialFile::Socket)),
            EntryKind::Device => self.insert(path, ManifestEntry::Special(SpecialFile::Device)),
        }
    }

    fn found(&self, path: &Path) -> Result<FoundFile, PackageError> {
        self.root.watch_way(path);
        let find = || self.root.find_link(path);
        find()
            .and_then(|node| self.root.watch_entry(path, node, find))
            .map_err(unreadable(path))
    }

    /// Records that `path` leads to the canonical path `target` through a link.
    pub(super) fn add_way(&mut self, path: &Path, target: &Path) -> Result<(), PackageError> {
        let target = relative(&self.base, target);
        self.insert(path, ManifestEntry::Link(target.as_os_str().as_bytes().to_vec()))
    }

    fn walk(
        &mut self,
        node: &FoundFile,
        path: &Path,
        contents: DirectoryRole,
        depth: usize,
    ) -> Result<(), PackageError> {
        if depth > self.limits.depth {
            return Err(PackageError::TooDeep {
                path: path.to_owned(),
                limit: self.limits.depth,
            });
        }
        self.root.watch_code(path);
        self.note_writers(path, node.stat());
        for name in node.names().map_err(unreadable(path))? {
            self.go_on()?;
            let child = path.join(&name);
            let stat = node.stat_entry(&name).map_err(unreadable(&child))?;
            if contents.leaves_out(&name, EntryKind::of(&stat)) {
                continue;
            }
            let again = || node.stat_entry(&name);
            let stat = self
                .root
                .watch_entry(&child, stat, again)
                .map_err(unreadable(&child))?;
            match EntryKind::of(&stat) {
                EntryKind::Directory => {
                    let directory = node.entry(&name).map_err(unreadable(&child))?;
                    if contents == DirectoryRole::Python
                        && directory.stat_entry(OsStr::new(ENVIRONMENT_MARKER)).is_ok()
                    {
                        continue;
                    }
                    self.walk(&directory, &child, contents.below(&name), depth + 1)?;
                }
                EntryKind::File => match self.files.cached(&stat) {
                    Some(digest) if !self.root.watches_file(&child, &stat) => {
                        self.insert_file(&child, &stat, digest)?;
                    }
                    _ => self.add_file(&node.entry(&name).map_err(unreadable(&child))?, &child)?,
                },
                EntryKind::Link => self.add_link(&node.entry(&name).map_err(unreadable(&child))?, &child)?,
                EntryKind::Pipe => self.insert(&child, ManifestEntry::Special(SpecialFile::Pipe))?,
                EntryKind::Socket => self.insert(&child, ManifestEntry::Special(SpecialFile::Socket))?,
                EntryKind::Device => self.insert(&child, ManifestEntry::Special(SpecialFile::Device))?,
            }
        }
        Ok(())
    }

    fn add_file(&mut self, node: &FoundFile, path: &Path) -> Result<(), PackageError> {
        let is_code = leads_to_code(path.file_name().unwrap_or_default(), node.stat());
        if is_code {
            self.root.watch_file(path, node);
        }
        let size = u64::try_from(node.stat().st_size).unwrap_or(0);
        if self.bytes.saturating_add(size) > self.limits.bytes {
            return Err(PackageError::TooLarge {
                limit: self.limits.bytes,
            });
        }
        let digest = match is_code {
            true => self.files.hash(node, self.cancel),
            false => self.files.hash_data(node, self.cancel),
        };
        let digest = digest.map_err(|source| PackageError::of(path, source))?;
        self.insert_file(path, node.stat(), digest)
    }

    fn insert_file(
        &mut self,
        path: &Path,
        stat: &FileStat,
        digest: mcpmon_model::Digest,
    ) -> Result<(), PackageError> {
        self.root.watch_time(path, stat);
        self.note_writers(path, stat);
        self.bytes = self
            .bytes
            .saturating_add(u64::try_from(stat.st_size).unwrap_or(0));
        if self.bytes > self.limits.bytes {
            return Err(PackageError::TooLarge {
                limit: self.limits.bytes,
            });
        }
        let mode = u16::try_from(stat.st_mode & 0o7777).expect("twelve bits fit sixteen");
        self.insert(path, ManifestEntry::File { mode, digest })
    }

    fn add_link(&mut self, node: &FoundFile, path: &Path) -> Result<(), PackageError> {
        self.root.watch_time(path, node.stat());
        self.note_writers(path, node.stat());
        let target = node.target().map_err(unreadable(path))?;
        self.insert(path, ManifestEntry::Link(target.as_bytes().to_vec()))
    }

    fn insert(&mut self, path: &Path, entry: ManifestEntry) -> Result<(), PackageError> {
        self.manifest
            .insert(relative(&self.base, path).as_os_str().as_bytes(), entry);
        if self.manifest.len() > self.limits.files {
            return Err(PackageError::TooManyFiles {
                limit: self.limits.files,
            });
        }
        Ok(())
    }
}

/// Returns an error if the caller asked to stop.
pub(super) fn go_on(cancel: Cancel<'_>) -> Result<(), PackageError> {
    if cancel() {
        Err(PackageError::Cancelled)
    } else {
        Ok(())
    }
}

/// Converts an error of reading `path`.
pub(super) fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> PackageError {
    let path = path.to_owned();
    move |source| PackageError::Read { path, source }
}

/// Returns the relative path from the directory `base` to `path`, both absolute and canonical.
fn relative(base: &Path, path: &Path) -> PathBuf {
    let shared = base
        .components()
        .zip(path.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = base.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(path.components().skip(shared)).collect()
}

#[cfg(test)]
mod tests;
