//! The directory in a BPF file system in which maps and links stay after the daemon's end. It is checked and locked,
//! and belongs to one daemon.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use mcpmon_common::ABI_VERSION;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
    mount::{MsFlags, mount},
    sys::statfs::{BPF_FS_MAGIC, fstatfs, statfs},
    unistd::geteuid,
};

use super::sys;

/// The default directory.
pub const DEFAULT_DIRECTORY: &str = "/sys/fs/bpf/mcpmon";
/// The mount point of the BPF file system.
const MOUNT_POINT: &str = "/sys/fs/bpf";
/// Prefix of the names of links.
const LINK: &str = "link_";
/// Suffix of a new pin that is about to replace another one. The file system allows no dots.
const NEW: &str = "_new";
/// Names of whole sets during a replacement, besides that of the version.
const NEXT_SET: &str = "next";
const LAST_SET: &str = "last";

/// The reason why nothing can be pinned in the directory.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// There is no BPF file system.
    #[error(
        "{path} is not in a BPF file system, and none can be mounted: {cause}; mount one on the host: `mount -t bpf bpf {MOUNT_POINT}`"
    )]
    NotMounted {
        /// The directory.
        path: PathBuf,
        /// The reason.
        cause: String,
    },
    /// Another user could change the directory.
    #[error("{path} {fault}: remove it, or name another directory with --bpffs DIR")]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// The fault.
        fault: String,
    },
    /// Another process has locked the directory.
    #[error(
        "another daemon keeps its state in {path}: stop it first, or name another directory with --bpffs DIR"
    )]
    Taken {
        /// The directory.
        path: PathBuf,
    },
    /// A call failed.
    #[error("failed to {action} {path}")]
    Io {
        /// The action.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// The directory, locked by this process until this is dropped.
#[derive(Debug)]
pub struct PinDirectory {
    path: PathBuf,
    _lock: Flock<File>,
}

impl PinDirectory {
    /// Creates the directory if it is missing, mounts the file system if it is not mounted, and takes the lock.
    ///
    /// # Errors
    /// Returns an error if there is no BPF file system, if others could change the directory, or if another process has
    /// locked it.
    pub fn take(path: &Path) -> Result<Self, PinError> {
        let path = &absolute(path)?;
        mount_where_missing(path)?;
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed("make", path)(error));
            }
            Ok(()) | Err(_) => {}
        }
        Self::open(path)
    }

    /// Locks the directory if it exists.
    ///
    /// # Errors
    /// Returns the errors of [`PinDirectory::take`].
    pub fn find(path: &Path) -> Result<Option<Self>, PinError> {
        let path = &absolute(path)?;
        match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("examine", path)(error)),
            Ok(_) => Self::open(path).map(Some),
        }
    }

    fn open(path: &Path) -> Result<Self, PinError> {
        let directory = checked(path)?;
        let lock = Flock::lock(directory, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| {
            if error == Errno::EWOULDBLOCK {
                PinError::Taken {
                    path: path.to_owned(),
                }
            } else {
                failed("lock", path)(error.into())
            }
        })?;
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the set of this program's version, if there is one.
    ///
    /// # Errors
    /// Returns an error if others could change it.
    pub(super) fn current(&self) -> Result<Option<PinnedSet>, PinError> {
        current(&self.path)
    }

    /// Pins a complete set, then removes all others, which remain in force until the new one is complete.
    ///
    /// # Errors
    /// Returns an error if something cannot be pinned; the earlier sets remain then.
    pub(super) fn replace_all<'o>(
        &self,
        maps: impl IntoIterator<Item = (&'o str, BorrowedFd<'o>)>,
        links: impl IntoIterator<Item = (&'o str, BorrowedFd<'o>)>,
    ) -> Result<PinnedSet, PinError> {
        let next = self.path.join(NEXT_SET);
        remove_set(&next)?;
        DirBuilder::new()
            .mode(0o700)
            .create(&next)
            .map_err(failed("make", &next))?;
        let links = links.into_iter().map(|(name, link)| (link_name(name), link));
        let maps = maps.into_iter().map(|(name, map)| (name.to_owned(), map));
        for (name, object) in maps.chain(links) {
            let path = next.join(name);
            sys::pin(object, &path).map_err(failed("pin", &path))?;
        }
        let current = self.path.join(version_name());
        let last = self.path.join(LAST_SET);
        if current.symlink_metadata().is_ok() {
            remove_set(&last)?;
            fs::rename(&current, &last).map_err(failed("rename", &current))?;
        }
        fs::rename(&next, &current).map_err(failed("rename", &next))?;
        self.remove_others()?;
        Ok(PinnedSet { path: current })
    }

    /// Returns every set, of any version.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read.
    pub(super) fn sets(&self) -> Result<Vec<PinnedSet>, PinError> {
        let set = |name| PinnedSet {
            path: self.path.join(name),
        };
        Ok(sets(&self.path)?.into_iter().map(set).collect())
    }

    /// Removes every set except that of this version.
    ///
    /// # Errors
    /// Returns an error if one cannot be removed.
    pub(super) fn remove_others(&self) -> Result<(), PinError> {
        let own = version_name();
        let mut others = sets(&self.path)?.into_iter().filter(|name| *name != own);
        others.try_for_each(|name| remove_set(&self.path.join(name)))
    }

    /// Removes every set, and the directory: pinned objects end unless another process holds them.
    ///
    /// # Errors
    /// Returns an error if something cannot be removed.
    pub fn remove(self) -> Result<(), PinError> {
        for name in sets(&self.path)? {
            remove_set(&self.path.join(name))?;
        }
        match fs::remove_dir(&self.path) {
            // The directory may be the mount point itself.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(()),
            removed => removed.map_err(failed("remove", &self.path)),
        }
    }
}

/// The content of a pin directory, read without taking it.
#[derive(Clone, Debug)]
pub struct View {
    /// Names of the sets.
    pub sets: Vec<String>,
    /// The set of this program's version.
    pub current: Option<PinnedSet>,
}

impl View {
    /// Reads a directory. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, or others could change it.
    pub fn of(path: &Path) -> Result<Option<Self>, PinError> {
        let path = absolute(path)?;
        match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("examine", &path)(error)),
            Ok(_) => drop(checked(&path)?),
        }
        Ok(Some(Self {
            sets: sets(&path)?,
            current: current(&path)?,
        }))
    }
}

/// Returns the set of this program's version below a directory.
fn current(directory: &Path) -> Result<Option<PinnedSet>, PinError> {
    let path = directory.join(version_name());
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("examine", &path)(error)),
        Ok(_) => checked(&path).map(|_| Some(PinnedSet { path })),
    }
}

/// Returns the names of the entries of a directory.
fn sets(directory: &Path) -> Result<Vec<String>, PinError> {
    let entries = fs::read_dir(directory).map_err(failed("read", directory))?;
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}

/// The pinned maps and links of one version.
#[derive(Clone, Debug)]
pub struct PinnedSet {
    path: PathBuf,
}

impl PinnedSet {
    /// Returns the path of a map.
    pub(super) fn map(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens the link of a program, if it is pinned.
    pub(super) fn link(&self, program: &str) -> io::Result<Option<OwnedFd>> {
        match sys::open_pinned(&self.path.join(link_name(program))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Returns whether the link of a program is pinned.
    pub(super) fn has_link(&self, program: &str) -> bool {
        self.path.join(link_name(program)).symlink_metadata().is_ok()
    }

    /// Returns whether both are the same set.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.path == other.path
    }

    /// Returns whether the set has this name.
    pub fn is_named(&self, name: &str) -> bool {
        self.path.file_name().is_some_and(|own| own == name)
    }

    /// Returns the programs whose links are pinned.
    pub fn programs(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).into_iter().flatten();
        let mut programs: Vec<String> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_prefix(LINK)?.to_owned()))
            .filter(|name| !name.ends_with(NEW))
            .collect();
        programs.sort();
        programs
    }

    /// Pins a link in place of the program's earlier one, which ends unless another process holds it.
    pub(super) fn replace_link(&self, program: &str, link: BorrowedFd<'_>) -> Result<(), PinError> {
        let path = self.path.join(link_name(program));
        let new = self.path.join(format!("{}{NEW}", link_name(program)));
        if new.symlink_metadata().is_ok() {
            fs::remove_file(&new).map_err(failed("remove", &new))?;
        }
        sys::pin(link, &new).map_err(failed("pin", &new))?;
        fs::rename(&new, &path).map_err(failed("rename", &new))
    }

    /// Removes the link of a program, which ends unless a process holds it.
    pub(super) fn remove_link(&self, program: &str) -> Result<(), PinError> {
        let path = self.path.join(link_name(program));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &path)(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

fn version_name() -> String {
    format!("v{ABI_VERSION}")
}

fn link_name(program: &str) -> String {
    format!("{LINK}{program}")
}

/// Opens a directory, and checks that only this user can change its content.
fn checked(path: &Path) -> Result<File, PinError> {
    let unsafe_ = |fault: String| PinError::Unsafe {
        path: path.to_owned(),
        fault,
    };
    let directory = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_DIRECTORY | nix::libc::O_NOFOLLOW)
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(nix::libc::ELOOP | nix::libc::ENOTDIR) => {
                unsafe_("is no directory, or a link to one".to_owned())
            }
            _ => failed("open", path)(error),
        })?;
    let kind = fstatfs(&directory).map_err(|error| failed("examine", path)(error.into()))?;
    if kind.filesystem_type() != BPF_FS_MAGIC {
        return Err(unsafe_("is not in a BPF file system".to_owned()));
    }
    let metadata = directory.metadata().map_err(failed("examine", path))?;
    let user = geteuid().as_raw();
    if metadata.uid() != user {
        return Err(unsafe_(format!(
            "belongs to user {}, not to {user}",
            metadata.uid()
        )));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(unsafe_("can be changed by other users".to_owned()));
    }
    Ok(directory)
}

/// Returns the absolute path, with the links in its parent resolved; the last component may not be a link. A user who
/// could replace a directory on the path could replace everything below it.
fn absolute(path: &Path) -> Result<PathBuf, PinError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(PinError::Unsafe {
            path: path.to_owned(),
            fault: "is no path of a directory".to_owned(),
        });
    };
    let parent = if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    };
    let parent = fs::canonicalize(parent).map_err(failed("find", parent))?;
    for above in parent.ancestors() {
        let metadata = above.symlink_metadata().map_err(failed("examine", above))?;
        let is_own = [0, geteuid().as_raw()].contains(&metadata.uid());
        let is_open = metadata.mode() & 0o022 != 0 && metadata.mode() & 0o1000 == 0;
        if !is_own || is_open {
            return Err(PinError::Unsafe {
                path: above.to_owned(),
                fault: "can be changed by other users".to_owned(),
            });
        }
    }
    Ok(parent.join(name))
}

/// Mounts the host's BPF file system if it is not mounted.
fn mount_where_missing(path: &Path) -> Result<(), PinError> {
    let place = if path.symlink_metadata().is_ok() {
        path
    } else {
        path.parent().unwrap_or(path)
    };
    let kind = statfs(place).map_err(|error| failed("examine", place)(error.into()))?;
    if kind.filesystem_type() == BPF_FS_MAGIC {
        return Ok(());
    }
    let not_mounted = |cause: String| PinError::NotMounted {
        path: path.to_owned(),
        cause,
    };
    if !path.starts_with(MOUNT_POINT) {
        return Err(not_mounted(format!("it is not below {MOUNT_POINT}")));
    }
    // A mount in this process's own namespace would end with the process.
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt"));
    if let (Ok(own), Ok(first)) = (namespace("self"), namespace("1"))
        && own != first
    {
        return Err(not_mounted("this process has mounts of its own".to_owned()));
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("bpf"), MOUNT_POINT, Some("bpf"), flags, Some("mode=0700"))
        .map_err(|error| not_mounted(error.desc().to_owned()))
}

/// Removes a set, or a file in its place.
fn remove_set(path: &Path) -> Result<(), PinError> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("examine", path)(error)),
        Ok(metadata) if !metadata.is_dir() => return fs::remove_file(path).map_err(failed("remove", path)),
        Ok(_) => {}
    }
    fs::remove_dir_all(path).map_err(failed("remove", path))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PinError {
    let path = path.to_owned();
    move |source| PinError::Io { action, path, source }
}
