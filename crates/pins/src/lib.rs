//! Digests of what a server really runs: executable, script, package. The functions block, and are meant for a worker
//! thread.
//!
//! Files are read through `/proc/PID/exe` and `/proc/PID/root`, never by a path of this process, so that a server in a
//! container or chroot is compared by its own files.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "I/O")]

mod code;
mod elf;
mod file;
#[cfg(test)]
mod fixture;
mod held;
mod kept;
mod launcher;
mod lease;
mod loaded;
mod locks;
mod names;
mod node;
mod origin;
mod package;
mod process;
mod python;
mod quota;
mod registry_entry;
mod root;
mod watch;
mod work_tree;

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use mcpmon_model::{Digest, FileId, Manifest, ManifestEntry, Part, PinnedFile, PinnedPackage, ServerFiles};

pub use self::{
    file::{FileError, FileHasher, MAX_FILE},
    held::HeldProgram,
    launcher::Launcher,
    names::NameCounts,
    package::{PackageError, PackageLimits},
    process::{Executable, Process, ProcessError},
    python::{normalise, owner_of_command, owner_of_module},
    quota::{WatchQuota, WatchShare},
    root::{EntryKind, FoundFile, Root},
    watch::{MAX_MARKED, MAX_WATCHED, Touched, Watch},
};
use self::{
    loaded::ComparedProgram,
    package::{Collector, unreadable},
};

/// The variables by which a server's files are found.
pub const PLACE_VARIABLES: [&str; 3] = ["PATH", "HOME", "PYTHONPATH"];

/// Called between blocks and between files; returns whether to stop.
pub type Cancel<'a> = &'a dyn Fn() -> bool;

/// The code that the serving process was told to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryPoint {
    /// Its executable alone.
    Program,
    /// A script, as the arguments name it; relative to the working directory.
    Script(PathBuf),
    /// A Python module, `-m NAME`.
    Module(String),
    /// A container image, as given to the client of the container runtime: with its tag or digest.
    Image(String),
    /// A program that a dynamic loader was told to run, as the arguments name it, with the program's own entry point.
    Loaded(PathBuf, Box<Self>),
}

/// Hashes servers. It has a cache, so one is used for the whole process.
#[derive(Debug, Default)]
pub struct Hasher {
    files: FileHasher,
    limits: PackageLimits,
}

/// The command that this process is about to execute, in its own directory.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The executable, open.
    pub file: &'a File,
    /// The path at which the executable was found.
    pub path: &'a Path,
    /// First argument: the name by which it will be started.
    pub name: &'a OsStr,
    /// The environment it will have.
    pub environment: &'a [(OsString, OsString)],
}

/// The reason why a server could not be hashed at all. A problem with one part is a [`Part::Unknown`].
#[derive(Debug, thiserror::Error)]
pub enum HashError {
    /// The process ended, or may not be examined.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The process executed another program meanwhile: the files that were read may belong to either.
    #[error("process {pid} executed another program while it was hashed")]
    Replaced {
        /// The process.
        pid: u32,
    },
    /// The files that were kept open are not those from which the process ran.
    #[error("the program that its wrapper held is not the one that ran, or was written since")]
    NotHeld,
    /// The files from which the server would be started cannot be examined.
    #[error("cannot look at what the server is about to be started with")]
    Plan(#[source] std::io::Error),
    /// The caller asked to stop.
    #[error("hashing was cancelled")]
    Cancelled,
}

/// The facts that are needed to find a server's files; all paths are inside its root.
#[derive(Debug)]
struct ServerLayout<'a> {
    root: &'a Root,
    working_directory: PathBuf,
    executable: PathBuf,
    /// First argument: the name by which it was started.
    name: OsString,
    /// `PATH`, if known.
    search_path: Option<OsString>,
    /// `HOME`, if known.
    home: Option<PathBuf>,
    /// `PYTHONPATH`, if set.
    module_path: Option<OsString>,
}

/// The parts of a server that its interpreter runs, each absent where there is none.
#[derive(Debug, Default)]
struct ScriptParts {
    script: Option<Part<PinnedFile>>,
    package: Option<Part<PinnedPackage>>,
    /// The digest of the whole script, if an installer wrote it.
    generated: Option<Digest>,
}

/// The interpreter of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runtime {
    Node,
    Python,
    Other,
}

impl Hasher {
    /// A hasher that stores digests in a file, for later processes. If that is not possible, it works without.
    pub fn keeping(path: &Path) -> Self {
        let mut hasher = Self::default();
        match kept::DigestCache::open(path) {
            Ok(kept) => hasher.files.keep(kept),
            Err(error) => tracing::debug!(%error, path = %path.display(), "digests are not kept"),
        }
        hasher
    }

    /// Hashes all parts of the server that `process` runs. If a watch is given, script and package are watched from
    /// before they are read; the executable of a living process cannot change.
    ///
    /// # Errors
    /// [`HashError`]; a part that cannot be hashed is a [`Part::Unknown`].
    pub fn server(
        &mut self,
        process: &Process,
        entry: &EntryPoint,
        watch: Option<&Arc<Watch>>,
        cancel: Cancel<'_>,
    ) -> Result<ServerFiles, HashError> {
        let executable = process.executable()?;
        let identity = executable.node.identity();
        let root = process.root()?.watched(watch.cloned());
        let working_directory = process.working_directory()?;
        let name = process.arguments()?.into_iter().next().unwrap_or_default();
        let ComparedProgram {
            executable,
            name,
            entry,
        } = ComparedProgram::of(&root, &working_directory, executable, name, entry);
        let setting = ServerLayout {
            root: &root,
            working_directory,
            executable: executable.path.clone(),
            name,
            search_path: process.variable("PATH")?,
            home: process.variable("HOME")?.map(PathBuf::from),
            module_path: process.variable("PYTHONPATH")?,
        };
        let files = self.measure(&setting, executable, entry, cancel)?;
        match process.executable() {
            Ok(now) if identity != now.node.identity() => Err(HashError::Replaced { pid: process.pid() }),
            // A process that has ended cannot execute another program: the files are those from which it ran.
            Err(error) if !error.is_end() => Err(error.into()),
            Ok(_) | Err(_) => Ok(files),
        }
    }

    /// Hashes all parts of a server that has ended, or may have, from the files that its wrapper kept open: `file` is
    /// what the kernel saw it execute, as `name`.
    ///
    /// # Errors
    /// [`HashError`]; a part that cannot be hashed is a [`Part::Unknown`].
    pub fn held(
        &mut self,
        held: &HeldProgram,
        file: &FileId,
        name: OsString,
        entry: &EntryPoint,
        cancel: Cancel<'_>,
    ) -> Result<ServerFiles, HashError> {
        let ComparedProgram {
            executable,
            name,
            entry,
        } = ComparedProgram::of(
            held.root(),
            held.working_directory(),
            held.executable(file)?,
            name,
            entry,
        );
        let variable = |wanted: &str| held.variable(wanted).map(OsString::from);
        let setting = ServerLayout {
            root: held.root(),
            working_directory: held.working_directory().to_owned(),
            executable: executable.path.clone(),
            name,
            search_path: variable("PATH"),
            home: variable("HOME").map(PathBuf::from),
            module_path: variable("PYTHONPATH"),
        };
        let files = self.measure(&setting, executable, entry, cancel)?;
        // After its end, the executable can be written.
        held.executable(file)?;
        Ok(files)
    }

    /// Hashes all parts of a server that this process is about to start.
    ///
    /// # Errors
    /// [`HashError`]; a part that cannot be hashed is a [`Part::Unknown`].
    pub fn planned(
        &mut self,
        plan: Plan<'_>,
        entry: &EntryPoint,
        cancel: Cancel<'_>,
    ) -> Result<ServerFiles, HashError> {
        let root = Root::at(Path::new("/")).map_err(HashError::Plan)?;
        let path = std::path::absolute(plan.path).map_err(HashError::Plan)?;
        let path = root.canonical(&path).unwrap_or(path);
        let descriptor = plan.file.try_clone().map_err(HashError::Plan)?;
        let executable = Executable {
            path,
            deleted: false,
            node: FoundFile::new(descriptor.into()).map_err(HashError::Plan)?,
        };
        let variable = |wanted: &str| {
            let mut variables = plan.environment.iter();
            variables.find_map(|(name, value)| (name == wanted).then(|| value.clone()))
        };
        let working_directory = std::env::current_dir().map_err(HashError::Plan)?;
        let ComparedProgram {
            executable,
            name,
            entry,
        } = ComparedProgram::of(&root, &working_directory, executable, plan.name.to_owned(), entry);
        let setting = ServerLayout {
            root: &root,
            working_directory,
            executable: executable.path.clone(),
            name,
            search_path: variable("PATH"),
            home: variable("HOME").map(PathBuf::from),
            module_path: variable("PYTHONPATH"),
        };
        self.measure(&setting, executable, entry, cancel)
    }

    fn measure(
        &mut self,
        setting: &ServerLayout<'_>,
        executable: Executable,
        entry: &EntryPoint,
        cancel: Cancel<'_>,
    ) -> Result<ServerFiles, HashError> {
        let executable_writers = setting.root.writers(&executable.path, &executable.node);
        let executable = self.hash_executable(executable, cancel)?;
        let ScriptParts {
            script,
            package,
            generated,
        } = self.scripts(setting, entry, cancel)?;
        Ok(ServerFiles {
            executable,
            executable_writers,
            script,
            package,
            launcher: None,
            generated_script: generated,
        })
    }

    fn hash_executable(
        &mut self,
        executable: Executable,
        cancel: Cancel<'_>,
    ) -> Result<Part<PinnedFile>, HashError> {
        match self.files.hash(&executable.node, cancel) {
            Ok(digest) => Ok(Part::Hashed(PinnedFile {
                path: executable.path,
                digest,
            })),
            Err(FileError::Cancelled) => Err(HashError::Cancelled),
            Err(error) => Ok(unknown(executable.path, &error)),
        }
    }

    fn scripts(
        &mut self,
        setting: &ServerLayout<'_>,
        entry: &EntryPoint,
        cancel: Cancel<'_>,
    ) -> Result<ScriptParts, HashError> {
        match (entry, setting.runtime()) {
            (EntryPoint::Program, _) => Ok(ScriptParts::default()),
            (EntryPoint::Loaded(_, entry), _) => self.scripts(setting, entry, cancel),
            (EntryPoint::Image(image), _) => {
                // Only the container runtime knows the content of the image.
                let mut manifest = Manifest::default();
                manifest.insert(b"image", ManifestEntry::Link(image.clone().into_bytes()));
                let package = PinnedPackage::new(PathBuf::from(image), manifest);
                Ok(ScriptParts {
                    package: Some(Part::Hashed(package)),
                    ..ScriptParts::default()
                })
            }
            (EntryPoint::Script(path), Runtime::Other) => {
                let path = setting.working_directory.join(path);
                let digest = self.hash_script(setting.root, &path, cancel);
                Ok(ScriptParts {
                    script: Some(part(digest, &path)?),
                    ..ScriptParts::default()
                })
            }
            (EntryPoint::Script(path), Runtime::Node) => {
                let written = setting.working_directory.join(path);
                let path = node::entry_file(setting.root, &written).unwrap_or(written);
                let script = part(self.hash_script(setting.root, &path, cancel), &path)?;
                let package = node::NodePackage::of(setting, &path);
                let collector = self.collector(setting.root, package.base(), cancel);
                let manifest = package.collect(setting, collector);
                let found = manifest.map(|manifest| {
                    let origin = origin::of_node(setting.root, package.root(), package.base());
                    PinnedPackage::new(package.root().to_owned(), manifest).with_origin(origin)
                });
                Ok(ScriptParts {
                    script: Some(script),
                    package: Some(part(found, package.root())?),
                    generated: None,
                })
            }
            (EntryPoint::Script(path), Runtime::Python) => {
                let path = setting.working_directory.join(path);
                let (script, package, generated) = self.python_script(setting, &path, cancel);
                Ok(ScriptParts {
                    script: Some(part(script, &path)?),
                    package: Some(part(package, &path)?),
                    generated,
                })
            }
            (EntryPoint::Module(name), Runtime::Python | Runtime::Node | Runtime::Other) => {
                let package = self.python_package(setting, python::PythonEntry::Module(name), cancel);
                Ok(ScriptParts {
                    package: Some(part(package, &setting.working_directory)?),
                    ..ScriptParts::default()
                })
            }
        }
    }

    fn hash_script(
        &mut self,
        root: &Root,
        path: &Path,
        cancel: Cancel<'_>,
    ) -> Result<PinnedFile, PackageError> {
        let path = root.canonical(path).map_err(unreadable(path))?;
        let node = root.find(&path).map_err(unreadable(&path))?;
        root.watch_file(&path, &node);
        match self.files.hash(&node, cancel) {
            Ok(digest) => Ok(PinnedFile { path, digest }),
            Err(FileError::Cancelled) => Err(PackageError::Cancelled),
            Err(source) => Err(PackageError::File { path, source }),
        }
    }

    fn python_script(
        &mut self,
        setting: &ServerLayout<'_>,
        path: &Path,
        cancel: Cancel<'_>,
    ) -> (
        Result<PinnedFile, PackageError>,
        Result<PinnedPackage, PackageError>,
        Option<Digest>,
    ) {
        let file = self.hash_script(setting.root, path, cancel);
        let script = file.as_ref().map_or(path, |file| &file.path);
        let text = python::source(setting.root, script).unwrap_or_default();
        let package = self.python_package(setting, python::PythonEntry::Script(script, &text), cancel);
        let neutral = python::without_interpreter(&text);
        let entry_point = neutral.as_deref().and_then(python::entry_point);
        let digest = |text: &String| Digest::of(text.as_bytes());
        let neutral = neutral.as_ref().map(digest);
        let generated = neutral.filter(|_| entry_point.is_some());
        let compared = entry_point.as_ref().map(digest).or(neutral);
        (
            file.map(|file| PinnedFile {
                digest: compared.unwrap_or(file.digest),
                ..file
            }),
            package,
            generated,
        )
    }

    fn python_package(
        &mut self,
        setting: &ServerLayout<'_>,
        start: python::PythonEntry<'_>,
        cancel: Cancel<'_>,
    ) -> Result<PinnedPackage, PackageError> {
        let package = python::PythonPackage::of(setting, start, cancel)?;
        let manifest = package.collect(setting, self.collector(setting.root, package.base(), cancel))?;
        let origin = package.origin(setting.root);
        Ok(PinnedPackage::new(package.root().to_owned(), manifest).with_origin(origin))
    }

    fn collector<'c>(&'c mut self, root: &'c Root, base: &Path, cancel: Cancel<'c>) -> Collector<'c> {
        Collector::new(root, &mut self.files, self.limits, cancel, base.to_owned())
    }
}

/// Converts the result for a part to a [`Part`]; a cancellation is returned as an error.
fn part<T>(result: Result<T, PackageError>, path: &Path) -> Result<Part<T>, HashError> {
    match result {
        Ok(value) => Ok(Part::Hashed(value)),
        Err(PackageError::Cancelled) => Err(HashError::Cancelled),
        Err(error) => Ok(unknown(path.to_owned(), &error)),
    }
}

/// Returns a part without a digest, with all causes of the error.
fn unknown<T>(path: PathBuf, error: &dyn std::error::Error) -> Part<T> {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let cause = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    Part::Unknown { path, cause }
}

impl ServerLayout<'_> {
    fn runtime(&self) -> Runtime {
        let name = self.executable.file_name().unwrap_or_default().as_bytes();
        let called = |names: &[&str]| names.iter().any(|known| name == known.as_bytes());
        if called(&["node", "nodejs", "bun", "deno"]) {
            Runtime::Node
        } else if name.starts_with(b"python") || name.starts_with(b"pypy") {
            Runtime::Python
        } else {
            Runtime::Other
        }
    }

    /// Returns the path of the executable as it was started, before links are followed: from the first argument, which
    /// is looked up in `PATH` if it is a bare name, or else the executable itself.
    fn invoked_as(&self) -> PathBuf {
        let name = Path::new(&self.name);
        let exists = |path: &PathBuf| self.root.is(path, EntryKind::File);
        let invoked = match (self.name.as_bytes().contains(&b'/'), &self.search_path) {
            (true, _) => Some(self.working_directory.join(name)).filter(exists),
            (false, Some(search_path)) => std::env::split_paths(search_path)
                .map(|directory| self.working_directory.join(directory).join(name))
                .find(exists),
            (false, None) => None,
        };
        invoked.unwrap_or_else(|| self.executable.clone())
    }

    /// Returns whether a directory belongs to more than one server: the root, a home directory, or its parent.
    fn is_too_broad(&self, path: &Path) -> bool {
        let is_home = path.parent() == Some(Path::new("/home")) || path == Path::new("/root");
        path.parent().is_none() || path == Path::new("/home") || is_home || self.home.as_deref() == Some(path)
    }
}

#[cfg(test)]
mod tests;
