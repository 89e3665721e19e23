//! A disk that can be full: a small file system in memory, visible only to one thread and the processes that it starts.

use std::{
    fs::File,
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
    thread,
};

use anyhow::{Context as _, Result, anyhow};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};

/// The mounted disk.
#[derive(Debug)]
pub struct Disk {
    at: PathBuf,
    filler: PathBuf,
}

/// Does `work` with a disk of `size` (as `mount` has it) at the directory `at`. Needs root.
///
/// # Errors
/// Returns an error if the disk cannot be mounted, and the errors of `work`.
///
/// # Panics
/// Panics if `work` does.
pub fn with<T: Send>(at: &Path, size: &str, work: impl FnOnce(&Disk) -> Result<T> + Send) -> Result<T> {
    let filler = at.join("filler");
    thread::scope(|scope| {
        // The mount ends with this thread and the processes that it started.
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).context("no mounts of its own")?;
            let none = None::<&str>;
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(none, "/", none, private, none).context("mounts stay shared")?;
            let options = format!("size={size},mode=0755");
            mount(
                Some("tmpfs"),
                at,
                Some("tmpfs"),
                MsFlags::empty(),
                Some(options.as_str()),
            )
            .with_context(|| format!("cannot mount a disk at {}", at.display()))?;
            work(&Disk {
                at: at.to_owned(),
                filler,
            })
        });
        match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

impl Disk {
    /// Fills the disk completely.
    ///
    /// # Errors
    /// Returns an error if a write fails for another reason than lack of room.
    pub fn fill(&self) -> Result<()> {
        let mut file = File::options().create(true).append(true).open(&self.filler)?;
        loop {
            match file.write_all(&[0; 4096]) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
                Err(error) => return Err(anyhow!(error).context("cannot fill the disk")),
            }
        }
    }

    /// Makes the disk read-only, or writable again.
    ///
    /// # Errors
    /// Returns an error if the disk cannot be remounted.
    pub fn set_read_only(&self, is_read_only: bool) -> Result<()> {
        let flags = match is_read_only {
            true => MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY,
            false => MsFlags::MS_REMOUNT,
        };
        let none = None::<&str>;
        mount(none, &self.at, none, flags, none).context("cannot mount it so")
    }

    /// Makes room again.
    ///
    /// # Errors
    /// Returns an error if the filling file cannot be removed.
    pub fn clear(&self) -> Result<()> {
        std::fs::remove_file(&self.filler).context("cannot make room")
    }
}
