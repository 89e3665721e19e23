//! One daemon per store: two daemons would take each other's pins, sessions and servers for their own.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, Flock, FlockArg, OFlag, fcntl},
    libc,
};

use super::{Access, AccessError};

/// The byte of a store's file that its daemon locks: far beyond those of SQLite, and beyond the largest store.
const LOCKED_BYTE: i64 = 1 << 62;

/// The exclusive use of a store by this daemon, until this is dropped. It must live longer than all other descriptors
/// of the store in this process, because closing a file releases the locks that SQLite has on it.
#[derive(Debug)]
pub struct Sole {
    /// The lock that another daemon finds at the same path.
    _mark: Flock<File>,
    /// The lock that another daemon finds at another path of the same file: a hard link, or another mount.
    _store: File,
}

/// The reason why a daemon cannot use a store exclusively.
#[derive(Debug, thiserror::Error)]
pub enum SoleError {
    /// Another daemon uses it.
    #[error(
        "another daemon{} has the store {path}: stop it, or choose another store with --db",
        .pid.as_ref().map_or_else(String::new, |pid| format!(" (pid {pid})")), path = path.display()
    )]
    Taken {
        /// The store.
        path: PathBuf,
        /// The other daemon's process id, if known.
        pid: Option<String>,
    },
    /// The path is unsafe or not accessible.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The lock cannot be taken.
    #[error("cannot lock {path}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl Sole {
    /// Takes the store at `path`, which need not exist yet.
    ///
    /// # Errors
    /// Returns an error if another daemon uses it, or the lock file cannot be created.
    pub fn take(path: &Path, access: Access) -> Result<Self, SoleError> {
        let store = access.place(path)?;
        let mark = mark(&store)?;
        Ok(Self {
            _mark: mark,
            _store: hold(&access.prepare(&store)?)?,
        })
    }
}

/// Locks the file next to the store at this path. The file contains the daemon's process id.
fn mark(store: &Path) -> Result<Flock<File>, SoleError> {
    let mut name: OsString = store.as_os_str().to_owned();
    name.push(".daemon");
    let path = PathBuf::from(name);
    let failed = |source| SoleError::Io {
        path: path.clone(),
        source,
    };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(&path)
        .map_err(failed)?;
    let mut pid = String::new();
    // The process id is only for the message, so a failed read is no error.
    let _length = (&mut file).take(16).read_to_string(&mut pid);
    let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(file) => file,
        Err((_, Errno::EWOULDBLOCK)) => {
            let pid = Some(pid.trim().to_owned()).filter(|pid| !pid.is_empty());
            let path = store.to_owned();
            return Err(SoleError::Taken { path, pid });
        }
        Err((_, errno)) => return Err(failed(errno.into())),
    };
    let told = file.set_len(0).and_then(|()| {
        io::Seek::rewind(&mut *file)?;
        writeln!(file, "{}", std::process::id())
    });
    if let Err(error) = told {
        tracing::debug!(%error, "the lock does not say whose it is");
    }
    Ok(file)
}

/// Opens the store at this path and locks it, so that no other daemon uses it through another path.
fn hold(store: &Path) -> Result<File, SoleError> {
    let failed = |source| SoleError::Io {
        path: store.to_owned(),
        source,
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(store)
        .map_err(failed)?;
    #[expect(clippy::cast_possible_truncation, reason = "both are small")]
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: LOCKED_BYTE,
        l_len: 1,
        l_pid: 0,
    };
    match fcntl(&file, FcntlArg::F_OFD_SETLK(&lock)) {
        Ok(_) => Ok(file),
        Err(Errno::EAGAIN | Errno::EACCES) => Err(SoleError::Taken {
            path: store.to_owned(),
            pid: None,
        }),
        Err(errno) => Err(failed(errno.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_refused_by_the_first_ones_number_until_that_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/mcpmon.db");
        let first = Sole::take(&path, Access::default()).unwrap();
        let error = Sole::take(&path, Access::default()).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!(
                "another daemon (pid {}) has the store ",
                std::process::id()
            )),
            "{error}"
        );
        drop(Sole::take(&directory.path().join("other.db"), Access::default()).unwrap());
        drop(first);
        drop(Sole::take(&path, Access::default()).unwrap());
    }

    #[test]
    fn a_second_one_is_refused_by_whatever_path_it_comes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mcpmon.db");
        let first = Sole::take(&path, Access::default()).unwrap();
        let store = crate::Store::open(&path, Access::default()).unwrap();
        let link = directory.path().join("other.db");
        std::fs::hard_link(&path, &link).unwrap();
        let error = Sole::take(&link, Access::default()).unwrap_err();
        assert!(matches!(error, SoleError::Taken { .. }), "{error}");
        drop((store, first));
        drop(Sole::take(&link, Access::default()).unwrap());
    }
}
