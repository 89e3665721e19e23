//! Trust in a policy file: any user who can change it can switch enforcement off.

use std::{
    fs::Metadata,
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use nix::sys::statvfs::{FsFlags, statvfs};

/// The files that are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// All files: the user of this process can change nothing that the writers of a file could not.
    Anyone,
    /// Files that only root and this user can change or replace.
    Owner(u32),
}

impl Trust {
    /// Returns the trust for a process of the user `uid`: root enforces for others, so it checks who can have written
    /// the rules.
    pub const fn for_user(uid: u32) -> Self {
        match uid {
            0 => Self::Owner(0),
            _ => Self::Anyone,
        }
    }
}

/// Mode bit of directories in which only the owner of a file can remove it.
const STICKY: u32 = 0o1000;

/// The reason why a file is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum Distrust {
    /// The file belongs to another user.
    #[error("policy is not taken from where others can change it: {path} belongs to user {owner}; run `chown root {path}`", path = .path.display())]
    Owner {
        /// The file, or a directory above it.
        path: PathBuf,
        /// The owner.
        owner: u32,
    },
    /// Others may write to it.
    #[error("policy is not taken from where others can change it: {path} can be written by {writers}; run `chmod {remedy} {path}`", path = .path.display())]
    Writable {
        /// The file, or a directory above it.
        path: PathBuf,
        /// The users who can write it.
        writers: &'static str,
        /// The mode that corrects it.
        remedy: &'static str,
    },
    /// The file cannot be examined.
    #[error("cannot tell who may change {path}", path = .path.display())]
    Unknown {
        /// The file, or a directory above it.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// Checks the open file at `path`, whose metadata is `file`, and every directory above it: above the path, and above
/// the target of its links.
pub(super) fn check(path: &Path, file: &Metadata, trust: Trust) -> Result<(), Distrust> {
    let Trust::Owner(trusted) = trust else {
        return Ok(());
    };
    check_owner(path, file, trusted)?;
    check_mode(path, file)?;
    let given = std::path::absolute(path).map_err(|source| unknown(path, source))?;
    let real = path.canonicalize().map_err(|source| unknown(path, source))?;
    for directory in given.ancestors().skip(1).chain(real.ancestors().skip(1)) {
        check_directory(directory, trusted)?;
    }
    Ok(())
}

fn check_directory(directory: &Path, trusted: u32) -> Result<(), Distrust> {
    let metadata = directory
        .metadata()
        .map_err(|source| unknown(directory, source))?;
    check_owner(directory, &metadata, trusted)?;
    // In a sticky directory only its owner and a file's owner can remove or replace the file.
    if metadata.mode() & STICKY != 0 {
        return Ok(());
    }
    match check_mode(directory, &metadata) {
        // A Kubernetes ConfigMap is a directory that everyone can write, mounted read-only.
        Err(Distrust::Writable { .. }) if is_read_only(directory)? => Ok(()),
        result => result,
    }
}

/// Checks that a file belongs to `trusted` or to root.
pub(super) fn check_owner(path: &Path, metadata: &Metadata, trusted: u32) -> Result<(), Distrust> {
    match metadata.uid() {
        owner if owner == 0 || owner == trusted => Ok(()),
        owner => Err(Distrust::Owner {
            path: path.to_owned(),
            owner,
        }),
    }
}

fn check_mode(path: &Path, metadata: &Metadata) -> Result<(), Distrust> {
    let (writers, remedy) = match (metadata.mode() & 0o020 != 0, metadata.mode() & 0o002 != 0) {
        (false, false) => return Ok(()),
        (true, false) => ("its group", "g-w"),
        (false, true) => ("everybody", "o-w"),
        (true, true) => ("its group and everybody", "go-w"),
    };
    Err(Distrust::Writable {
        path: path.to_owned(),
        writers,
        remedy,
    })
}

fn is_read_only(directory: &Path) -> Result<bool, Distrust> {
    let mount = statvfs(directory).map_err(|errno| unknown(directory, errno.into()))?;
    Ok(mount.flags().contains(FsFlags::ST_RDONLY))
}

fn unknown(path: &Path, source: io::Error) -> Distrust {
    Distrust::Unknown {
        path: path.to_owned(),
        source,
    }
}
