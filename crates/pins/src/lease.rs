//! Proof that nothing writes to a file while it is read: a read lease, which the kernel grants only while no descriptor
//! and no mapping can write to the file.

#![expect(unsafe_code, reason = "no safe wrapper of leases exists")]

use std::{
    fs::File,
    os::{fd::AsRawFd as _, unix::fs::MetadataExt as _},
};

use nix::{
    errno::Errno,
    libc::{self, c_int},
    sys::statfs::{FsType, fstatfs},
};

/// From `asm-generic/fcntl.h`; libc does not define it for Linux.
const F_SETSIG: c_int = 10;

/// The result of the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    /// The file is not open for writing; a process that opens it for writing waits until the lease ends.
    Excluded,
    /// The file is open or mapped for writing.
    Possible,
    /// The file system has no leases, or this process may not take one.
    Unknown,
}

/// A lease of a file that is open for reading. The lease ends when this is dropped.
#[derive(Debug)]
pub(super) struct ReadLease<'f> {
    file: &'f File,
    granted: Result<(), Errno>,
}

impl<'f> ReadLease<'f> {
    /// Requests a lease.
    pub(super) fn of(file: &'f File) -> Self {
        // SIGURG announces a writer, because it is ignored by default; the kernel's default signal would end this
        // process.
        let granted = control(file, F_SETSIG, libc::SIGURG)
            .and_then(|_| control(file, libc::F_SETLEASE, libc::F_RDLCK))
            .map(drop);
        Self { file, granted }
    }

    /// Returns whether the file may have been written since the lease was requested.
    pub(super) fn writing(&self) -> Writing {
        match self.granted {
            Ok(()) => match control(self.file, libc::F_GETLEASE, 0) {
                Ok(libc::F_RDLCK) => Writing::Excluded,
                // A writer is waiting, or has waited so long that the kernel broke the lease.
                _ => Writing::Possible,
            },
            // These file systems ask their server, whose leases may not be visible here.
            Err(Errno::EAGAIN)
                if fstatfs(self.file).is_ok_and(|system| is_remote(system.filesystem_type())) =>
            {
                Writing::Unknown
            }
            Err(Errno::EAGAIN) => Writing::Possible,
            // Only the file's owner, or a process with CAP_LEASE, gets a lease.
            Err(Errno::EACCES) if is_roots_alone(self.file) => Writing::Excluded,
            Err(_) => Writing::Unknown,
        }
    }
}

impl Drop for ReadLease<'_> {
    fn drop(&mut self) {
        // Without a lease there is nothing to release.
        control(self.file, libc::F_SETLEASE, libc::F_UNLCK).unwrap_or_default();
    }
}

/// Returns whether another host grants the leases of this file system: NFS, SMB or CIFS.
const fn is_remote(kind: FsType) -> bool {
    matches!(kind.0, 0x6969 | 0xfe53_4d42 | 0xff53_4d42)
}

/// Returns whether only root can write to the file.
fn is_roots_alone(file: &File) -> bool {
    file.metadata()
        .is_ok_and(|metadata| metadata.uid() == 0 && metadata.mode() & 0o022 == 0)
}

fn control(file: &File, command: c_int, argument: c_int) -> Result<c_int, Errno> {
    // SAFETY: each of these commands takes a number, and the descriptor is open.
    Errno::result(unsafe { libc::fcntl(file.as_raw_fd(), command, argument) })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    /// A directory on a disk, and one in memory.
    const PLACES: [&str; 2] = ["/var/tmp", "/dev/shm"];

    #[test]
    fn who_can_write_is_in_the_way_of_a_lease() -> Outcome {
        for place in PLACES {
            let directory = tempfile::tempdir_in(place)?;
            let path = directory.path().join("file");
            fs::write(&path, "content")?;
            let reader = File::open(&path)?;
            assert_eq!(ReadLease::of(&reader).writing(), Writing::Excluded, "{place}");
            let writer = File::options().write(true).open(&path)?;
            assert_eq!(ReadLease::of(&reader).writing(), Writing::Possible, "{place}");
            drop(writer);
            assert_eq!(ReadLease::of(&reader).writing(), Writing::Excluded, "{place}");
        }
        Ok(())
    }

    #[test]
    fn a_refusal_says_nothing_where_another_host_gives_leases() -> Outcome {
        use nix::sys::statfs::{NFS_SUPER_MAGIC, TMPFS_MAGIC};
        assert!(is_remote(NFS_SUPER_MAGIC));
        assert!(!is_remote(TMPFS_MAGIC));
        assert!(!is_remote(fstatfs(&File::open("/proc")?)?.filesystem_type()));
        Ok(())
    }

    #[test]
    fn who_wants_to_write_later_ends_the_proof() -> Outcome {
        use std::os::unix::fs::OpenOptionsExt as _;
        for place in PLACES {
            let directory = tempfile::tempdir_in(place)?;
            let path = directory.path().join("file");
            fs::write(&path, "content")?;
            let reader = File::open(&path)?;
            let lease = ReadLease::of(&reader);
            let refused = File::options()
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(&path);
            assert_eq!(
                refused.map_err(|error| error.kind()).err(),
                Some(std::io::ErrorKind::WouldBlock),
                "{place}"
            );
            assert_eq!(lease.writing(), Writing::Possible, "{place}");
        }
        Ok(())
    }
}
