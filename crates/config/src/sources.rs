//! Sources of the configuration: the files, and their content.

use std::{
    env, fmt,
    fs::{File, Metadata, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use mcpmon_bundle::{BundleFile, BundleId, VerifiedBundle};
use mcpmon_model::Digest;
use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};

use super::{
    load,
    mistake::Origin,
    trust::{self, Distrust, Trust},
};

/// The policy of a host without a configuration.
const EMBEDDED_DEFAULT: &str = include_str!("../../../policies/default.yaml");
/// Largest file, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Most files in a `conf.d` directory.
const MAX_FRAGMENTS: usize = 256;
/// The directory of a host's configuration.
const SYSTEM_DIRECTORY: &str = "/etc/mcpmon";
/// Name of a configuration file in every place that is searched.
pub(super) const FILE_NAME: &str = "mcpmon.yaml";

/// The places to search, in the order of the fields. The first that exists is used, alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// `--config`; must exist.
    pub explicit: Option<PathBuf>,
    /// `$MCPMON_CONFIG`; must exist.
    pub variable: Option<PathBuf>,
    /// `./mcpmon.yaml`, if the user allowed it.
    pub local: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME/mcpmon/mcpmon.yaml`.
    pub user: Option<PathBuf>,
    /// Directory with `mcpmon.yaml` and `conf.d/*.yaml`, which are merged.
    pub system: PathBuf,
}

/// The treatment of the working directory: searched or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalConfig {
    /// No: a checked-out repository must not bring its own policy.
    Ignore,
    /// Yes: `--allow-local-config`.
    Allow,
}

impl Search {
    /// Returns the places of this process; `explicit` is the value of `--config`.
    pub fn of_process(explicit: Option<PathBuf>, local: LocalConfig) -> Self {
        let directory = |name| {
            env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let user = directory("XDG_CONFIG_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| directory("HOME").map(|home| home.join(".config")));
        Self {
            explicit,
            variable: directory("MCPMON_CONFIG"),
            local: match local {
                LocalConfig::Ignore => None,
                LocalConfig::Allow => Some(PathBuf::from(FILE_NAME)),
            },
            user: user.map(|directory| directory.join("mcpmon").join(FILE_NAME)),
            system: PathBuf::from(SYSTEM_DIRECTORY),
        }
    }

    /// Returns the host's places alone.
    pub fn of_host(&self) -> Self {
        Self {
            explicit: None,
            variable: None,
            local: None,
            user: None,
            system: self.system.clone(),
        }
    }

    /// Returns the host's file, if there is one, whether or not it can be read.
    pub fn host_file(&self) -> Option<PathBuf> {
        let path = self.system.join(FILE_NAME);
        path.symlink_metadata().is_ok().then_some(path)
    }

    /// Returns the file to create if there is none: the user's, or the host's.
    pub fn new_file(&self) -> PathBuf {
        self.user.clone().unwrap_or_else(|| self.system.join(FILE_NAME))
    }

    /// Reads the user's own file, the first that is found. Returns `None` if there is none.
    ///
    /// # Errors
    /// Returns an error if it exists, or is named, and cannot be read, or is not trusted.
    pub fn read_own(&self, trust: Trust) -> Result<Option<Sources>, SourceError> {
        if let Some(path) = self.explicit.as_ref().or(self.variable.as_ref()) {
            return Sources::read(path, trust).map(Some);
        }
        for path in [&self.local, &self.user].into_iter().flatten() {
            if let Some(text) = read_if_there(path, trust)? {
                return Ok(Some(Sources(vec![(Source::File(path.clone()), text)])));
            }
        }
        Ok(None)
    }

    /// Returns the user's own file: the named one, or the first that exists.
    pub fn own_file(&self) -> Option<&Path> {
        let named = self.explicit.as_ref().or(self.variable.as_ref());
        let searched = [&self.local, &self.user].into_iter().flatten();
        let own = named.or_else(|| searched.into_iter().find(|path| path.exists()));
        own.map(PathBuf::as_path)
    }

    /// Returns the place of the file of a user with the home directory `home` and no other variable.
    pub fn user_place(home: &Path) -> PathBuf {
        home.join(".config/mcpmon").join(FILE_NAME)
    }

    /// Returns the place of the user's own file, which may not exist.
    pub fn own_place(&self) -> Option<&Path> {
        self.own_file().or(self.user.as_deref())
    }

    /// Reads the configuration that is found.
    ///
    /// # Errors
    /// Returns an error if a file exists and cannot be read, or is not trusted.
    pub fn read(&self, trust: Trust) -> Result<Sources, SourceError> {
        if let Some(own) = self.read_own(trust)? {
            return Ok(own);
        }
        let path = self.system.join(FILE_NAME);
        let base = match read_if_there(&path, trust)? {
            Some(text) => (Source::File(path), text),
            None => (Source::EmbeddedDefault, EMBEDDED_DEFAULT.to_owned()),
        };
        let mut sources = vec![base];
        for path in fragments(&self.system.join("conf.d"))? {
            // A file that vanished since it was listed counts as absent.
            if let Some(text) = read_if_there(&path, trust)? {
                sources.push((Source::File(path), text));
            }
        }
        Ok(Sources(sources))
    }
}

/// The source of a part of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// The default in this program.
    EmbeddedDefault,
    /// A file of a signed bundle.
    Bundle {
        /// The bundle.
        id: BundleId,
        /// The file in it.
        file: BundleFile,
    },
}

impl Source {
    /// Returns the bundle that it is a file of.
    pub(super) const fn bundle(&self) -> Option<BundleId> {
        match self {
            Self::Bundle { id, .. } => Some(*id),
            Self::File(_) | Self::EmbeddedDefault => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::EmbeddedDefault => f.write_str("embedded default"),
            Self::Bundle { id, file } => write!(f, "bundle {}/{}", id.serial, file.name()),
        }
    }
}

/// The texts of a configuration. Later ones are merged on top of earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources(Vec<(Source, String)>);

impl Sources {
    /// Reads one file.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, or is not trusted.
    pub fn read(path: &Path, trust: Trust) -> Result<Self, SourceError> {
        let text = read_file(path, trust)?;
        Ok(Self(vec![(Source::File(path.to_owned()), text)]))
    }

    /// Returns the default for a host without a configuration.
    pub fn embedded_default() -> Self {
        Self(vec![(Source::EmbeddedDefault, EMBEDDED_DEFAULT.to_owned())])
    }

    /// Returns the sources in order; never empty.
    pub fn names(&self) -> impl Iterator<Item = &Source> {
        self.0.iter().map(|(source, _)| source)
    }

    /// Returns the digest of the content: that of a single file, or that of all digests if there are several.
    pub fn digest(&self) -> Digest {
        match &self.0[..] {
            [(_, text)] => Digest::of(text.as_bytes()),
            parts => {
                let digests: Vec<_> = parts
                    .iter()
                    .flat_map(|(_, text)| *Digest::of(text.as_bytes()).as_bytes())
                    .collect();
                Digest::of(&digests)
            }
        }
    }

    /// Returns the sources from parts that [`Self::parts`] returned in another process. Returns `None` if there are
    /// none.
    pub fn of_parts(parts: Vec<(Source, String)>) -> Option<Self> {
        (!parts.is_empty()).then_some(Self(parts))
    }

    /// Returns each part with its text, in order.
    pub fn parts(&self) -> &[(Source, String)] {
        &self.0
    }

    /// Returns the texts without what only the daemon uses: addresses and files of exports, keys and bundles. Returns
    /// `None` if one of them cannot be parsed.
    pub fn for_users(&self) -> Option<Self> {
        let parts = self.0.iter().map(|(source, text)| {
            let text = load::without_host_sections(text)?;
            Some((source.clone(), text))
        });
        parts.collect::<Option<_>>().map(Self)
    }

    /// Returns the bundle's files with these files of the host on top. The embedded default is for hosts without a
    /// policy, and is left out.
    pub fn on_bundle(&self, bundle: &VerifiedBundle) -> Self {
        let id = bundle.id();
        let part = |(file, text): &(BundleFile, String)| (Source::Bundle { id, file: *file }, text.clone());
        let parts = bundle.bundle.files.iter().map(part);
        let is_written = |(source, _): &&(Source, String)| *source != Source::EmbeddedDefault;
        Self(parts.chain(self.0.iter().filter(is_written).cloned()).collect())
    }

    /// Returns the host's files alone.
    pub(super) fn without_bundle(&self) -> Self {
        let own = self.0.iter().filter(|(source, _)| source.bundle().is_none());
        Self(own.cloned().collect())
    }

    /// Returns the bundle among them.
    pub fn bundle(&self) -> Option<BundleId> {
        self.names().find_map(Source::bundle)
    }

    /// Returns the source of one file that was read elsewhere.
    pub(super) fn of_file(source: Source, text: String) -> Self {
        Self(vec![(source, text)])
    }

    /// Returns texts without files, under names like those of files.
    #[cfg(test)]
    pub(super) fn of_texts(files: &[(&str, &str)]) -> Self {
        let part = |(name, text): &(&str, &str)| (Source::File(PathBuf::from(name)), (*text).to_owned());
        Self(files.iter().map(part).collect())
    }

    pub(super) fn origins(&self) -> Vec<Origin> {
        self.0.iter().map(origin).collect()
    }

    /// Returns the files of a bundle, and those of the host.
    pub(super) fn bundle_and_own(&self) -> (Vec<(BundleFile, Origin)>, Vec<Origin>) {
        let (mut bundle, mut own) = (Vec::new(), Vec::new());
        for part in &self.0 {
            match &part.0 {
                Source::Bundle { file, .. } => bundle.push((*file, origin(part))),
                Source::File(_) | Source::EmbeddedDefault => own.push(origin(part)),
            }
        }
        (bundle, own)
    }
}

fn origin((source, text): &(Source, String)) -> Origin {
    Origin {
        name: source.to_string(),
        text: text.clone(),
    }
}

/// The reason why a configuration cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file cannot be read.
    #[error("cannot read {path}", path = .path.display())]
    Read {
        /// File or directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The path is a directory, pipe or device.
    #[error("{path} is no regular file: give the path of a YAML file", path = .path.display())]
    NotAFile {
        /// The given path.
        path: PathBuf,
    },
    /// The file is larger than 1 MiB.
    #[error("{path} is too large: a configuration file has at most 1 MiB", path = .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file is not text.
    #[error("{path} is no UTF-8 text: line {line} contains other bytes", path = .path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// First line that is not UTF-8, from 1.
        line: usize,
    },
    /// The directory has too many files.
    #[error("{path} holds more than {MAX_FRAGMENTS} files: join some of them", path = .path.display())]
    TooMany {
        /// The directory.
        path: PathBuf,
    },
    /// Another user can change the file.
    #[error(transparent)]
    Distrusted(#[from] Distrust),
}

/// Returns the `*.yaml` files of a directory by name, without hidden ones; none if there is no directory.
fn fragments(directory: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let read_error = |source| SourceError::Read {
        path: directory.to_owned(),
        source,
    };
    let entries = match directory.read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(read_error(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let name = entry.map_err(read_error)?.file_name();
        let bytes = name.as_encoded_bytes();
        if bytes.starts_with(b".") || !bytes.ends_with(b".yaml") {
            continue;
        }
        paths.push(directory.join(name));
        if paths.len() > MAX_FRAGMENTS {
            return Err(SourceError::TooMany {
                path: directory.to_owned(),
            });
        }
    }
    paths.sort();
    Ok(paths)
}

fn read_if_there(path: &Path, trust: Trust) -> Result<Option<String>, SourceError> {
    match read_file(path, trust) {
        Ok(text) => Ok(Some(text)),
        Err(SourceError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_file(path: &Path, trust: Trust) -> Result<String, SourceError> {
    let file = open(path).map_err(|source| SourceError::Read {
        path: path.to_owned(),
        source,
    })?;
    contents(path, file, |metadata| Ok(trust::check(path, metadata, trust)?))
}

/// Reads the open `file` at `path`, after `check` accepted it.
pub(super) fn contents(
    path: &Path,
    file: File,
    check: impl FnOnce(&Metadata) -> Result<(), SourceError>,
) -> Result<String, SourceError> {
    let read_error = |source| SourceError::Read {
        path: path.to_owned(),
        source,
    };
    let metadata = file.metadata().map_err(read_error)?;
    if !metadata.is_file() {
        return Err(SourceError::NotAFile {
            path: path.to_owned(),
        });
    }
    check(&metadata)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(read_error)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(SourceError::TooLarge {
            path: path.to_owned(),
        });
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        SourceError::NotText {
            path: path.to_owned(),
            line: valid.iter().filter(|byte| **byte == b'\n').count() + 1,
        }
    })
}

/// Opens without blocking, so that a pipe in the place of a file does not delay this process.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)
}
