//! Network namespaces in which processes live. A thread that enters one does nothing else, and ends.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    sync::Arc,
};

use nix::{
    errno::Errno,
    sched::{CloneFlags, setns},
};

/// Namespaces that are looked into at most.
const MAX_NAMESPACES: usize = 4096;

/// A network namespace, kept alive while this is.
#[derive(Debug)]
pub(super) struct NetworkNamespace {
    /// Inode of its file, which is its number.
    pub(super) number: u64,
    /// It is that in which this program runs.
    is_own: bool,
    file: File,
}

impl NetworkNamespace {
    /// Every one in which a process lives, after that of the calling thread, which has entered none.
    ///
    /// # Errors
    /// Returns an error if `/proc` cannot be read, or there are too many.
    pub(super) fn all() -> io::Result<Vec<Arc<Self>>> {
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        let processes = fs::read_dir("/proc")?.filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            name.bytes().all(|byte| byte.is_ascii_digit()).then_some(name)
        });
        for process in std::iter::once("thread-self".to_owned()).chain(processes) {
            // One that has ended meanwhile is in none.
            let Ok(file) = File::open(format!("/proc/{process}/ns/net")) else {
                continue;
            };
            let number = file.metadata()?.ino();
            if seen.insert(number) {
                let is_own = found.is_empty();
                found.push(Arc::new(Self { number, is_own, file }));
            }
            if found.len() > MAX_NAMESPACES {
                return Err(io::Error::other(format!(
                    "there are more than {MAX_NAMESPACES} network namespaces"
                )));
            }
        }
        Ok(found)
    }

    /// Moves the calling thread into it.
    ///
    /// # Errors
    /// Returns an error without `CAP_SYS_ADMIN`.
    pub(super) fn enter(&self) -> io::Result<()> {
        match setns(&self.file, CloneFlags::CLONE_NEWNET) {
            Ok(()) => Ok(()),
            // Who may enter none has not left it.
            Err(Errno::EPERM) if self.is_own => Ok(()),
            Err(error) => {
                let number = self.number;
                Err(io::Error::other(format!(
                    "network namespace {number} cannot be entered: {}; the daemon needs CAP_SYS_ADMIN",
                    error.desc()
                )))
            }
        }
    }
}
