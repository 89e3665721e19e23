//! The ledger of changed files, from which they can be restored: the original text of each server, and a copy of every
//! file before its first change. Both may contain secrets, and only this user may read them.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use mcpmon_model::Digest;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use serde::{Deserialize, Serialize};

use crate::{
    edit::WrappedText,
    file::{self, FileError},
    settings::RecordedSetting,
};

/// Version of the format.
const VERSION: u32 = 1;
const LEDGER: &str = "setup.json";
const LOCK: &str = "setup.lock";

/// The records of all files; locked while they are changed.
#[derive(Debug)]
pub(crate) struct Ledger {
    directory: PathBuf,
    contents: LedgerContents,
    _lock: Option<Flock<File>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct LedgerContents {
    version: u32,
    files: BTreeMap<PathBuf, ChangedFile>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    settings: BTreeMap<PathBuf, ChangedSettings>,
}

/// A file that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangedFile {
    pub(crate) client: String,
    pub(crate) project: Option<PathBuf>,
    /// Digest of the file before its servers were wrapped.
    pub(crate) original: String,
    /// Name of the copy in the directory of the ledger.
    pub(crate) backup: String,
    pub(crate) servers: Vec<WrappedText>,
}

/// A file to which settings were added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangedSettings {
    pub(crate) client: String,
    /// Digest of the file before its first setting.
    pub(crate) original: String,
    /// Name of the copy in the directory of the ledger; `None` if the file was created.
    pub(crate) backup: Option<String>,
    /// The values that were added, the latest last.
    pub(crate) settings: Vec<RecordedSetting>,
}

/// The reason why the ledger cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Another `mcpmon setup` has locked the ledger.
    #[error("another `mcpmon setup` is running")]
    Busy,
    /// The file or its directory cannot be used.
    #[error("cannot use {path}", path = .path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The ledger is not valid JSON of this form.
    #[error("cannot understand {path}: move it away, and what was wrapped is still recognised by its form", path = .path.display())]
    Malformed {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The ledger is of a later version.
    #[error("{path} was written by a later mcpmon (version {version})", path = .path.display())]
    Version {
        /// The path.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The ledger cannot be written.
    #[error("cannot write {path}", path = .path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: FileError,
    },
}

impl Ledger {
    /// Reads the ledger in `directory`; nothing is created.
    pub(crate) fn read(directory: &Path) -> Result<Self, LedgerError> {
        Ok(Self {
            directory: directory.to_owned(),
            contents: contents(&directory.join(LEDGER))?,
            _lock: None,
        })
    }

    /// Locks and reads the ledger for a change.
    pub(crate) fn lock(directory: &Path) -> Result<Self, LedgerError> {
        let unusable = |path: &Path| {
            let path = path.to_owned();
            |source| LedgerError::Io { path, source }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(unusable(directory))?;
        let path = directory.join(LOCK);
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(unusable(&path))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| {
            if errno == Errno::EWOULDBLOCK {
                return LedgerError::Busy;
            }
            unusable(&path)(errno.into())
        })?;
        Ok(Self {
            _lock: Some(lock),
            ..Self::read(directory)?
        })
    }

    /// Returns the record of a file.
    pub(crate) fn get(&self, path: &Path) -> Option<&ChangedFile> {
        self.contents.files.get(path)
    }

    /// Returns the projects whose files were changed.
    pub(crate) fn projects(&self) -> impl Iterator<Item = &PathBuf> {
        self.contents
            .files
            .values()
            .filter_map(|changed| changed.project.as_ref())
    }

    /// Returns the path of a file's copy.
    pub(crate) fn backup(&self, changed: &ChangedFile) -> PathBuf {
        self.directory.join(&changed.backup)
    }

    /// Copies a file before its first change, and returns the name of the copy.
    pub(crate) fn back_up(&self, path: &Path, bytes: &[u8]) -> Result<String, LedgerError> {
        let place = Digest::of(path.as_os_str().as_encoded_bytes()).short(8);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let backup = format!(
            "setup-{place}-{}-{}",
            Digest::of(bytes).short(8),
            name.trim_start_matches('.')
        );
        self.write(&backup, bytes)?;
        Ok(backup)
    }

    /// Records a changed file.
    pub(crate) fn set(&mut self, path: PathBuf, changed: ChangedFile) -> Result<(), LedgerError> {
        self.contents.files.insert(path, changed);
        self.save()
    }

    /// Removes the record of a file.
    pub(crate) fn forget(&mut self, path: &Path) -> Result<(), LedgerError> {
        match self.contents.files.remove(path) {
            Some(_) => self.save(),
            None => Ok(()),
        }
    }

    /// Returns the record of the settings in a file.
    pub(crate) fn get_settings(&self, path: &Path) -> Option<&ChangedSettings> {
        self.contents.settings.get(path)
    }

    /// Returns the files to which settings were added.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&PathBuf, &ChangedSettings)> {
        self.contents.settings.iter()
    }

    /// Returns the path of the copy of a file with settings.
    pub(crate) fn settings_backup(&self, changed: &ChangedSettings) -> Option<PathBuf> {
        changed.backup.as_ref().map(|backup| self.directory.join(backup))
    }

    /// Records the settings in a file.
    pub(crate) fn set_settings(
        &mut self,
        path: PathBuf,
        changed: ChangedSettings,
    ) -> Result<(), LedgerError> {
        self.contents.settings.insert(path, changed);
        self.save()
    }

    /// Removes the record of the settings in a file.
    pub(crate) fn forget_settings(&mut self, path: &Path) -> Result<(), LedgerError> {
        match self.contents.settings.remove(path) {
            Some(_) => self.save(),
            None => Ok(()),
        }
    }

    /// Removes the copy of a restored file, unless the record of its servers needs it.
    pub(crate) fn remove_settings_backup(&self, changed: &ChangedSettings) -> Result<(), LedgerError> {
        let is_of_servers = |backup: &String| self.contents.files.values().any(|file| file.backup == *backup);
        match changed.backup.as_ref().filter(|backup| !is_of_servers(backup)) {
            Some(backup) => remove(self.directory.join(backup)),
            None => Ok(()),
        }
    }

    /// Removes the copy of a restored file, unless the record of its settings needs it.
    pub(crate) fn remove_backup(&self, changed: &ChangedFile) -> Result<(), LedgerError> {
        let mut settings = self.contents.settings.values();
        if settings.any(|other| other.backup.as_ref() == Some(&changed.backup)) {
            return Ok(());
        }
        remove(self.backup(changed))
    }

    fn save(&self) -> Result<(), LedgerError> {
        let text = serde_json::to_vec_pretty(&self.contents).map_err(|source| LedgerError::Malformed {
            path: self.directory.join(LEDGER),
            source,
        })?;
        self.write(LEDGER, &text)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), LedgerError> {
        let path = self.directory.join(name);
        file::write_private(&path, bytes).map_err(|source| LedgerError::Write { path, source })
    }
}

fn remove(path: PathBuf) -> Result<(), LedgerError> {
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(LedgerError::Io { path, source: error }),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn contents(path: &Path) -> Result<LedgerContents, LedgerError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(LedgerContents {
                version: VERSION,
                files: BTreeMap::new(),
                settings: BTreeMap::new(),
            });
        }
        Err(source) => {
            let path = path.to_owned();
            return Err(LedgerError::Io { path, source });
        }
    };
    let contents: LedgerContents =
        serde_json::from_slice(&text).map_err(|source| LedgerError::Malformed {
            path: path.to_owned(),
            source,
        })?;
    match contents.version {
        VERSION => Ok(contents),
        version => Err(LedgerError::Version {
            path: path.to_owned(),
            version,
        }),
    }
}
