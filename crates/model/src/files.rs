//! Files that a server runs from, as they were read.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Digest, Manifest};

/// A file and what it contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedFile {
    /// Its path inside the server's root; shown to the user and not compared.
    pub path: PathBuf,
    /// Its content.
    pub digest: Digest,
}

/// A package with what it depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedPackage {
    root: PathBuf,
    digest: Digest,
    manifest: Manifest,
    origin: Option<PackageOrigin>,
}

/// The origin of a package, as its installer recorded it next to the package; mcpmon does not verify it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageOrigin {
    /// The kind of registry.
    pub ecosystem: Ecosystem,
    /// Its name there.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The URL that it was downloaded from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<String>,
    /// The digest of its archive, as in the lock file: `sha512-…` of npm, `sha256:…` of Python, `commit:…` of a
    /// repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrity: Option<String>,
    /// The entry in the registry of MCP servers that the package claims as its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_entry: Option<RegistryEntry>,
}

/// An entry of the registry of MCP servers, as a package names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryEntry {
    /// The server's name there, with its namespace, such as `io.github.acme/mail`.
    pub name: String,
    /// The server's version there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The `server.json` next to the package, inside the server's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// The kind of registry that packages come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ecosystem {
    /// Packages of Node.
    Npm,
    /// Distributions of Python.
    Pypi,
}

impl PinnedPackage {
    /// Returns a package found at `root`; the digest follows from the manifest.
    pub fn new(root: PathBuf, manifest: Manifest) -> Self {
        Self {
            root,
            digest: manifest.digest(),
            manifest,
            origin: None,
        }
    }

    /// Returns the same package with its origin.
    #[must_use]
    pub fn with_origin(self, origin: Option<PackageOrigin>) -> Self {
        Self { origin, ..self }
    }

    /// Returns the origin, if the installer recorded one.
    pub const fn origin(&self) -> Option<&PackageOrigin> {
        self.origin.as_ref()
    }

    /// Returns its path inside the server's root, which is shown to the user and not compared.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the digest of the manifest.
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the manifest: its files and those of its dependencies.
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }
}

/// The result of reading one part of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<T> {
    /// The part was read in full.
    Hashed(T),
    /// The part exists, or may exist, and could not be hashed.
    Unknown {
        /// The file that could not be hashed; empty if that is not known.
        path: PathBuf,
        /// The cause, for the user.
        cause: String,
    },
}

/// The users who can change a file or replace it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writers {
    /// Root only: the file and every directory above it belong to root, and no mode lets others write to them.
    Root,
    /// Other users too, or it is not known.
    #[default]
    Others,
}

/// The files that a server runs from, as they are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// The file that runs: a binary, or the interpreter.
    pub executable: Part<PinnedFile>,
    /// The users who can change the executable.
    pub executable_writers: Writers,
    /// The entry script, if there is one.
    pub script: Option<Part<PinnedFile>>,
    /// The package with its dependencies, if there is one.
    pub package: Option<Part<PinnedPackage>>,
    /// The launcher that started it, if it was not started directly.
    pub launcher: Option<LauncherFiles>,
    /// The digest of the whole script, without its interpreter, if `script` has the digest of the code that it starts: an
    /// installer wrote it. Earlier versions compared this one.
    pub generated_script: Option<Digest>,
}

/// A change of a server's files with its cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The cause.
    pub cause: ChangeCause,
    /// The change in words.
    pub text: String,
}

/// The cause of a change of a server's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeCause {
    /// Files contradict the records of their package manager.
    Tampered,
    /// Nothing explains it.
    Unknown,
    /// The server's own package was updated, and agrees with the records.
    Package,
    /// Another file has the place or the version of the interpreter.
    RuntimeReplaced,
    /// The interpreter has another version, at another path.
    Runtime,
    /// The launcher is another one.
    Launcher,
    /// A dependency was updated, and agrees with the records.
    Dependency,
    /// A source of the user's own was edited, in a version-controlled work tree that existed when the pin was made.
    OwnSource,
}

/// The files of a launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LauncherFiles {
    /// The file that the command led to, with the scripts and programs that ran later in the same process. Its path is
    /// the one that was looked up.
    pub file: Part<PinnedFile>,
    /// The users who can change those files.
    pub writers: Writers,
    /// True if programs with its name are known to start servers and not to be servers themselves.
    pub is_known: bool,
}

impl<T> Part<T> {
    /// Returns the hashed value, if the part was read.
    pub const fn hashed(&self) -> Option<&T> {
        match self {
            Self::Hashed(value) => Some(value),
            Self::Unknown { .. } => None,
        }
    }
}
