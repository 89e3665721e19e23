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
pub(super) const MAX_NAMESPACES: usize = 4096;

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
    /// Every one in which a process lives, after that of the calling thread, which has entered none, and those of the processes
    /// `first`; and whether there are more than are looked into.
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
            // One that has ended meanwhile is in none.
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
