//! The directory that keeps the last good bundle and its serial number.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use mcpmon_bundle::{BundleId, MAX_BUNDLE_BYTES};
use nix::fcntl::OFlag;

/// File of the last good bundle.
const BUNDLE: &str = "current.bundle";
/// File of the highest serial number that was in force.
const SERIAL: &str = "serial.json";
/// Longest file of the serial number, bytes.
const MAX_SERIAL_BYTES: u64 = 4096;

/// The directory of a host's bundle; it may not exist yet.
#[derive(Clone, Debug)]
pub(crate) struct BundleDirectory(PathBuf);

/// The reason why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    /// A file operation failed.
    #[error("cannot {what} {path}", path = .path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The file of the serial number is damaged: without it an old bundle cannot be told from a new one.
    #[error("{path} is damaged, so that an old bundle cannot be told from a new one: remove it to take any", path = .0.display())]
    Damaged(PathBuf),
}

impl KeepError {
    /// Returns the error with its cause.
    pub(crate) fn told(&self) -> String {
        match std::error::Error::source(self) {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}

impl BundleDirectory {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the last good bundle. The caller verifies it again.
    pub(crate) fn bundle(&self) -> Result<Option<Vec<u8>>, KeepError> {
        read(&self.0.join(BUNDLE), MAX_BUNDLE_BYTES as u64 + 1)
    }

    /// Returns the id of the bundle that was in force last.
    pub(crate) fn last(&self) -> Result<Option<BundleId>, KeepError> {
        let path = self.0.join(SERIAL);
        let Some(text) = read(&path, MAX_SERIAL_BYTES)? else {
            return Ok(None);
        };
        let id = serde_json::from_slice(&text).map_err(|_no_serial| KeepError::Damaged(path))?;
        Ok(Some(id))
    }

    /// Keeps a bundle, as a whole or not at all. The serial number is written last, so that its bundle always exists.
    pub(crate) fn keep(&self, bytes: &[u8], id: BundleId) -> Result<(), KeepError> {
        self.make()?;
        self.replace(BUNDLE, bytes)?;
        let serial = serde_json::to_vec(&id).expect("a serial is plain JSON");
        self.replace(SERIAL, &serial)
    }

    fn make(&self) -> Result<(), KeepError> {
        let failed = |source| KeepError::Io {
            what: "make",
            path: self.0.clone(),
            source,
        };
        match DirBuilder::new().mode(0o700).create(&self.0) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::set_permissions(&self.0, Permissions::from_mode(0o700)).map_err(failed)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Writes a new file, and renames it when its content is on the disk.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), KeepError> {
        let (path, new) = (self.0.join(name), self.0.join(format!("{name}.new")));
        let write = || -> io::Result<()> {
            match fs::remove_file(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.0)?.sync_all()
        };
        write().map_err(|source| KeepError::Io {
            what: "write",
            path: path.clone(),
            source,
        })
    }
}

/// Reads at most `most` bytes of a file. Returns `None` if there is no such file.
fn read(path: &Path, most: u64) -> Result<Option<Vec<u8>>, KeepError> {
    let failed = |source| KeepError::Io {
        what: "read",
        path: path.to_owned(),
        source,
    };
    let file = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW).bits())
        .open(path);
    let file = match file {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes))
}
