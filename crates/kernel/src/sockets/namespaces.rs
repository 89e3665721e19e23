//! Network namespaces of processes. A thread that enters one does nothing else, and ends.

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

/// Most namespaces that are examined.
pub(super) const MAX_NAMESPACES: usize = 4096;

/// A network namespace, kept alive as long as this value.
#[derive(Debug)]
pub(super) struct NetworkNamespace {
    /// Its number: the inode of its file.
    pub(super) number: u64,
    /// True for the namespace of this program.
    is_own: bool,
    file: File,
}

impl NetworkNamespace {
    /// Returns the namespaces of all processes: first that of the calling thread, which has entered no other, and those
    /// of the processes `first`. Also returns whether there are more than are examined.
    ///
    /// # Errors
    /// Returns an error if `/proc` cannot be read.
    pub(super) fn all(first: &BTreeSet<u32>) -> io::Result<(Vec<Arc<Self>>, bool)> {
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        let processes = fs::read_dir("/proc")?.filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            name.bytes().all(|byte| byte.is_ascii_digit()).then_some(name)
        });
        let own = std::iter::once("thread-self".to_owned());
        for process in own.chain(first.iter().map(u32::to_string)).chain(processes) {
            // A process that has ended meanwhile has no namespace.
            let Ok(file) = File::open(format!("/proc/{process}/ns/net")) else {
                continue;
            };
            let number = file.metadata()?.ino();
            if !seen.insert(number) {
                continue;
            }
            if found.len() == MAX_NAMESPACES {
                return Ok((found, true));
            }
            let is_own = found.is_empty();
            found.push(Arc::new(Self { number, is_own, file }));
        }
        Ok((found, false))
    }

    /// Moves the calling thread into the namespace.
    ///
    /// # Errors
    /// Returns an error without `CAP_SYS_ADMIN`.
    pub(super) fn enter(&self) -> io::Result<()> {
        match setns(&self.file, CloneFlags::CLONE_NEWNET) {
            Ok(()) => Ok(()),
            // Without the privilege, the thread is still in its own namespace.
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
