//! A file of a client: it is read as a whole, and replaced atomically.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use nix::fcntl::OFlag;

/// Largest file, in bytes: Claude Code keeps histories in the file with its servers.
const MAX_FILE: u64 = 64 << 20;
/// Mode bit of directories in which only the owner of a file can remove it.
const STICKY: u32 = 0o1000;

/// Mode bit of files that their owner can write.
const OWNER_WRITE: u32 = 0o200;

/// A file as it was read.
#[derive(Debug)]
pub(crate) struct Original {
    /// Its path, with links resolved.
    path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    mode: u32,
    pub(crate) owner: u32,
    group: u32,
}

/// The reason why a file is left unchanged.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// The path is a directory, pipe or device.
    #[error("it is no regular file")]
    NotAFile,
    /// The file is larger than 64 MiB.
    #[error("it is larger than 64 MiB")]
    TooLarge,
    /// The file belongs to another user; the new file would belong to this one.
    #[error("it belongs to user {owner}: run `sudo -u '#{owner}' mcpmon setup`")]
    Foreign {
        /// The owner.
        owner: u32,
    },
    /// The file is read-only for its owner, which may be intended.
    #[error("it is read-only: run `chmod u+w {path}`, or change it where it is made", path = .path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// Root would write to a path that another user can redirect.
    #[error(
        "{path} can be changed by user {owner}, who could lead root to another file: run `sudo -u '#{owner}' mcpmon setup`",
        path = .path.display()
    )]
    Led {
        /// The file, or a directory on the way to it.
        path: PathBuf,
        /// The owner.
        owner: u32,
    },
    /// Root would write to a path that everyone, or a group, can redirect.
    #[error("{path} can be changed by others, who could lead root to another file: run `chmod go-w {path}`", path = .path.display())]
    Open {
        /// A directory on the way to the file.
        path: PathBuf,
    },
    /// The file changed since it was read.
    #[error("it was changed meanwhile: run the command again")]
    Changed,
    /// The file cannot be replaced.
    #[error("it cannot be written")]
    Write(#[source] io::Error),
}

impl Original {
    /// Reads the file at `path` for a change by this user.
    pub(crate) fn read(path: &Path, user: u32) -> Result<Self, FileError> {
        let real = path.canonicalize().map_err(FileError::Read)?;
        if user == 0 {
            check_way(path)?;
            check_way(&real)?;
        }
        Self::open(real)
    }

    /// Reads the file at `path`, which is not to be changed, without the checks for a change: an attacker who could
    /// replace it would gain nothing.
    pub(crate) fn read_only(path: &Path) -> Result<Self, FileError> {
        Self::open(path.canonicalize().map_err(FileError::Read)?)
    }

    fn open(real: PathBuf) -> Result<Self, FileError> {
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW;
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .custom_flags(flags.bits())
            .open(&real)
            .map_err(FileError::Read)?;
        let metadata = file.metadata().map_err(FileError::Read)?;
        if !metadata.is_file() {
            return Err(FileError::NotAFile);
        }
        Ok(Self {
            path: real,
            bytes: contents(file)?,
            mode: metadata.mode() & 0o7777,
            owner: metadata.uid(),
            group: metadata.gid(),
        })
    }

    /// Returns its permission bits.
    pub(crate) const fn mode(&self) -> u32 {
        self.mode
    }

    /// Checks that this user may change the file: files of others and read-only files are left unchanged.
    pub(crate) fn check_writable(&self, user: u32) -> Result<(), FileError> {
        if self.owner != user {
            return Err(FileError::Foreign { owner: self.owner });
        }
        match self.mode & OWNER_WRITE == 0 {
            true => Err(FileError::ReadOnly {
                path: self.path.clone(),
            }),
            false => Ok(()),
        }
    }

    /// Removes the file, unless it was changed meanwhile.
    pub(crate) fn remove(&self, user: u32) -> Result<(), FileError> {
        self.check_writable(user)?;
        match Self::read(&self.path, user)?.bytes == self.bytes {
            true => fs::remove_file(&self.path).map_err(FileError::Write),
            false => Err(FileError::Changed),
        }
    }

    /// Replaces the content by `bytes`, with the same mode and owner, unless the file was changed meanwhile.
    pub(crate) fn replace(&self, bytes: &[u8], user: u32) -> Result<(), FileError> {
        self.check_writable(user)?;
        let unchanged = || match Self::read(&self.path, user) {
            Ok(now) if now.bytes == self.bytes => Ok(()),
            Ok(_) => Err(FileError::Changed),
            Err(error) => Err(error),
        };
        let access = Access {
            mode: self.mode,
            group: Some(self.group),
        };
        write(&self.path, bytes, access, unchanged)
    }
}

/// Replaces a file atomically if its content is `before`.
///
/// # Errors
/// Returns a [`FileError`]; [`FileError::Changed`] if the content is another one.
pub fn replace_file(path: &Path, before: &[u8], after: &[u8], user: u32) -> Result<(), FileError> {
    let original = Original::read(path, user)?;
    match original.bytes == before {
        true => original.replace(after, user),
        false => Err(FileError::Changed),
    }
}

/// Creates a file atomically, with the mode that new files of this process have. A file that exists is left.
///
/// # Errors
/// Returns an error if the file exists or cannot be written; nothing is left of it then.
pub fn create_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary(path);
    let written = fill_new(&temporary, bytes).and_then(|()| match fs::hard_link(&temporary, path) {
        // The file system may have no hard links.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !path.exists() => {
            fs::rename(&temporary, path)
        }
        outcome => outcome,
    });
    // The temporary file may not exist.
    drop(fs::remove_file(&temporary));
    written?;
    let directory = path.parent().map(File::open).transpose()?;
    directory.map_or(Ok(()), |directory| directory.sync_all())
}

fn fill_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Returns the path at which a file is written before it is renamed.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".mcpmon-{}", std::process::id()));
    path.with_file_name(name)
}

/// Mode and group of a new file.
#[derive(Clone, Copy, Debug)]
struct Access {
    mode: u32,
    group: Option<u32>,
}

/// Creates a file that only this user may read, if there is none.
pub(crate) fn create_private(path: &Path, bytes: &[u8], user: u32) -> Result<(), FileError> {
    let directory = path
        .parent()
        .unwrap_or(path)
        .canonicalize()
        .map_err(FileError::Write)?;
    if user == 0 {
        check_way(&directory)?;
    }
    let owner = fs::metadata(&directory).map_err(FileError::Write)?.uid();
    if owner != user {
        return Err(FileError::Foreign { owner });
    }
    let path = directory.join(path.file_name().unwrap_or_default());
    let access = Access {
        mode: 0o600,
        group: None,
    };
    write(&path, bytes, access, || match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(_) | Err(_) => Err(FileError::Changed),
    })
}

/// Writes a file that only this user may read, atomically.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let access = Access {
        mode: 0o600,
        group: None,
    };
    write(path, bytes, access, || Ok(()))
}

fn write(
    path: &Path,
    bytes: &[u8],
    access: Access,
    last_check: impl FnOnce() -> Result<(), FileError>,
) -> Result<(), FileError> {
    let temporary = temporary(path);
    let written = fill(&temporary, bytes, access)
        .map_err(FileError::Write)
        .and_then(|()| last_check())
        .and_then(|()| fs::rename(&temporary, path).map_err(FileError::Write));
    if written.is_err() {
        // The temporary file may not exist.
        drop(fs::remove_file(&temporary));
        return written;
    }
    let directory = path.parent().map(File::open).transpose();
    let synced = directory.and_then(|directory| directory.map_or(Ok(()), |directory| directory.sync_all()));
    synced.map_err(FileError::Write)
}

fn fill(path: &Path, bytes: &[u8], access: Access) -> io::Result<()> {
    // A process with the same number may have ended before it renamed its file.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    if let Some(group) = access.group
        && file.metadata()?.gid() != group
    {
        std::os::unix::fs::fchown(&file, None, Some(group))?;
    }
    // After the change of the group, which clears mode bits.
    file.set_permissions(fs::Permissions::from_mode(access.mode))?;
    file.sync_all()
}

fn contents(file: File) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(FileError::Read)?;
    match bytes.len() as u64 > MAX_FILE {
        true => Err(FileError::TooLarge),
        false => Ok(bytes),
    }
}

/// Checks that only root decides which file is at `path`: a link of another user could lead root to another file.
fn check_way(path: &Path) -> Result<(), FileError> {
    let path = std::path::absolute(path).map_err(FileError::Read)?;
    for part in path.ancestors() {
        let metadata = fs::symlink_metadata(part).map_err(FileError::Read)?;
        let led = |owner| FileError::Led {
            path: part.to_owned(),
            owner,
        };
        if metadata.uid() != 0 {
            return Err(led(metadata.uid()));
        }
        let is_open = metadata.is_dir() && metadata.mode() & 0o022 != 0 && metadata.mode() & STICKY == 0;
        if is_open {
            return Err(FileError::Open {
                path: part.to_owned(),
            });
        }
    }
    Ok(())
}
