//! One daemon a store: two would take each other's pins, sessions and servers for their own.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use nix::fcntl::{Flock, FlockArg, OFlag};

use super::{Access, AccessError};

/// A store that no other daemon has, for as long as this lives.
#[derive(Debug)]
pub struct Sole {
    _file: Flock<File>,
}

/// The reason why a daemon cannot have a store for itself.
#[derive(Debug, thiserror::Error)]
pub enum SoleError {
    /// Another one has it.
    #[error(
        "another daemon{} has the store {path}: stop it, or choose another store with --db",
        .pid.as_ref().map_or_else(String::new, |pid| format!(" (pid {pid})")), path = path.display()
    )]
    Taken {
        /// The store.
        path: PathBuf,
        /// Its process id, where it says so.
        pid: Option<String>,
    },
    /// The path is unsafe or not accessible.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The system refused.
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
    /// Takes the store at `path`, which need not be there yet.
    ///
    /// # Errors
    /// Returns an error if another daemon has it, or the file that tells so cannot be made.
    pub fn take(path: &Path, access: Access) -> Result<Self, SoleError> {
        let store = access.place(path)?;
        let mut name: OsString = store.clone().into_os_string();
        name.push(".daemon");
        let path = PathBuf::from(name);
        let failed = |source| SoleError::Io {
            path: path.clone(),
            source,
        };
        // Another file than the store itself: to close that would drop the locks that SQLite has on it.
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
        // Whose it is helps; that it is not told is no error.
        let _length = (&mut file).take(16).read_to_string(&mut pid);
        let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => file,
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => {
                let pid = Some(pid.trim().to_owned()).filter(|pid| !pid.is_empty());
                return Err(SoleError::Taken { path: store, pid });
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
        Ok(Self { _file: file })
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
}
