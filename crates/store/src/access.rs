//! Access to a store: modes and group of its files, and checks that refuse unsafe paths.
//!
//! The file may not be a symbolic link and must belong to the user of this process. Its directory must belong to the
//! same user or to root, and may not be writable by everyone, unless it is sticky. So no other user can replace the
//! file.

use std::{
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

const DIRECTORY_MODE: u32 = 0o750;
const FILE_MODE: u32 = 0o640;
const OWNER: u32 = 0o700;
/// The permission bits of a mode.
const PERMISSIONS: u32 = 0o7777;
const WRITABLE_BY_OTHERS: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// The users who may read a store besides its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The group that may read the store; it is set on the files, and on a directory that is created for them. `None`
    /// if only the owner may, and those who could read them before.
    pub group: Option<u32>,
}

/// The reason why a path cannot hold a store.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The path names no file.
    #[error("{path} names no file", path = .0.display())]
    NoFile(PathBuf),
    /// The path is a directory.
    #[error("{path} is a directory, and no store", path = .0.display())]
    Directory(PathBuf),
    /// The file is a symbolic link, device or pipe.
    #[error("{path} is no regular file; a store is never opened through a link", path = .0.display())]
    NotRegular(PathBuf),
    /// The file or its directory belongs to another user.
    #[error("{path} belongs to user {owner}, not to user {us}: choose a path of your own with --db", path = path.display())]
    Owner {
        /// File or directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user of this process.
        us: u32,
    },
    /// Everyone can replace files in the directory.
    #[error("everyone can replace files in {path}: chmod o-w it, or choose another with --db", path = .0.display())]
    OpenDirectory(PathBuf),
    /// The system refused.
    #[error("cannot {what} {path}", path = path.display())]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl Access {
    /// Creates the directory and an empty file if they are missing. Returns the path with all links resolved.
    pub(super) fn prepare(self, path: &Path) -> Result<PathBuf, AccessError> {
        let path = self.place(path)?;
        self.make_file(&path)?;
        check_file(&path)?;
        Ok(path)
    }

    /// Creates the directory if it is missing. Returns the path with all links resolved.
    pub(super) fn place(self, path: &Path) -> Result<PathBuf, AccessError> {
        let name = path
            .file_name()
            .ok_or_else(|| AccessError::NoFile(path.to_owned()))?;
        let directory = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            Some(_) | None => Path::new("."),
        };
        if !directory.exists() {
            self.make_directory(directory)?;
        }
        let directory = fs::canonicalize(directory).map_err(failed("resolve", directory))?;
        check_directory(&directory)?;
        Ok(directory.join(name))
    }

    /// Sets mode and group of the existing files of a store.
    pub(super) fn apply(self, path: &Path) -> Result<(), AccessError> {
        for suffix in ["", "-wal", "-shm"] {
            let mut file = path.as_os_str().to_owned();
            file.push(suffix);
            match self.set(Path::new(&file), FILE_MODE) {
                Err(AccessError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// Sets mode and group of another file next to a store.
    pub(super) fn apply_to(self, path: &Path) -> Result<(), AccessError> {
        self.set(path, FILE_MODE)
    }

    fn make_directory(self, path: &Path) -> Result<(), AccessError> {
        DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE & OWNER)
            .create(path)
            .map_err(failed("make the directory", path))?;
        self.set(path, DIRECTORY_MODE)
    }

    fn make_file(self, path: &Path) -> Result<(), AccessError> {
        let created = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(FILE_MODE & OWNER)
            .open(path);
        match created {
            // Closed before SQLite opens it, because closing any descriptor of a file releases the process's locks on
            // it.
            Ok(file) => {
                drop(file);
                self.set(path, FILE_MODE)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(failed("create", path)(error)),
        }
    }

    /// Sets mode and group. The umask applies when a file is created, so the mode is set afterwards.
    fn set(self, path: &Path, mode: u32) -> Result<(), AccessError> {
        let mode = match self.group {
            Some(_) => mode,
            // The permissions are only reduced: a user's own group may have other members, and the daemon's store keeps
            // the mode that the daemon set.
            None => {
                let before = fs::metadata(path).map_err(failed("look at", path))?.mode();
                let mode = mode & (before | OWNER);
                if before & PERMISSIONS == mode {
                    return Ok(());
                }
                mode
            }
        };
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed("set the mode of", path))?;
        match self.group {
            Some(group) => {
                std::os::unix::fs::lchown(path, None, Some(group)).map_err(failed("set the group of", path))
            }
            None => Ok(()),
        }
    }
}

fn check_directory(path: &Path) -> Result<(), AccessError> {
    let metadata = fs::metadata(path).map_err(failed("look at", path))?;
    if metadata.mode() & WRITABLE_BY_OTHERS != 0 && metadata.mode() & STICKY == 0 {
        return Err(AccessError::OpenDirectory(path.to_owned()));
    }
    if metadata.uid() == 0 {
        return Ok(());
    }
    check_owner(path, metadata.uid())
}

fn check_file(path: &Path) -> Result<(), AccessError> {
    let metadata = fs::symlink_metadata(path).map_err(failed("look at", path))?;
    if metadata.is_dir() {
        return Err(AccessError::Directory(path.to_owned()));
    }
    if !metadata.is_file() {
        return Err(AccessError::NotRegular(path.to_owned()));
    }
    check_owner(path, metadata.uid())
}

fn check_owner(path: &Path, owner: u32) -> Result<(), AccessError> {
    let us = nix::unistd::geteuid().as_raw();
    if owner == us {
        return Ok(());
    }
    Err(AccessError::Owner {
        path: path.to_owned(),
        owner,
        us,
    })
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AccessError + use<> {
    let path = path.to_owned();
    move |source| AccessError::Io { what, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Store, StoreError, sample};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn the_group_can_read_and_nobody_else() {
        let directory = tempfile::tempdir().unwrap();
        let ours = directory.path().join("state/mcpmon");
        let path = ours.join("mcpmon.db");
        let group = nix::unistd::getegid().as_raw();
        let mut store = Store::open(&path, Access { group: Some(group) }).unwrap();
        sample::fill(&mut store, [sample::started("a", 2)]);
        assert_eq!(mode(&ours), 0o750);
        for suffix in ["", "-wal", "-shm"] {
            let file = ours.join(format!("mcpmon.db{suffix}"));
            assert_eq!(mode(&file), 0o640, "{}", file.display());
            assert_eq!(fs::metadata(&file).unwrap().gid(), group);
        }
    }

    #[test]
    fn modes_of_a_loose_store_are_tightened() {
        let (directory, store) = sample::store();
        drop(store);
        let path = directory.path().join("mcpmon.db");
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        drop(Store::open(&path, Access::default()).unwrap());
        assert_eq!(mode(&path), 0o640);
    }

    #[test]
    fn without_a_group_only_the_owner_reads_what_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let ours = directory.path().join("state/mcpmon");
        let path = ours.join("mcpmon.db");
        let mut store = Store::open(&path, Access::default()).unwrap();
        sample::fill(&mut store, [sample::started("a", 2)]);
        assert_eq!(mode(&ours), 0o700);
        for suffix in ["", "-wal", "-shm"] {
            let file = ours.join(format!("mcpmon.db{suffix}"));
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
    }

    fn refusal(path: &Path) -> AccessError {
        match Store::open(path, Access::default()) {
            Err(StoreError::Access(error)) => error,
            other => panic!("expected a refusal, got {other:?}"),
        }
    }

    #[test]
    fn a_link_is_refused_and_its_target_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("precious");
        fs::write(&target, "").unwrap();
        let link = directory.path().join("mcpmon.db");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(matches!(refusal(&link), AccessError::NotRegular(path) if path.ends_with("mcpmon.db")));
        assert_eq!(fs::read(&target).unwrap(), b"");
    }

    #[test]
    fn a_dangling_link_makes_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("mcpmon.db");
        std::os::unix::fs::symlink(directory.path().join("elsewhere"), &link).unwrap();
        assert!(matches!(refusal(&link), AccessError::NotRegular(_)));
        assert!(!directory.path().join("elsewhere").exists());
    }

    #[test]
    fn a_directory_everyone_can_write_to_is_refused_unless_sticky() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mcpmon.db");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(refusal(&path), AccessError::OpenDirectory(_)));
        assert!(!path.exists());
        fs::set_permissions(directory.path(), Permissions::from_mode(0o1777)).unwrap();
        drop(Store::open(&path, Access::default()).unwrap());
    }

    #[test]
    fn a_path_without_a_file_name_is_refused() {
        assert!(matches!(refusal(Path::new("/")), AccessError::NoFile(_)));
    }
}
