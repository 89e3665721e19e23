//! Proof that nobody writes to a file while it is read: a read lease, which the kernel grants only while no descriptor and no
//! mapping can write to the file.

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

/// Of `asm-generic/fcntl.h`; libc does not name it for Linux.
const F_SETSIG: c_int = 10;

/// The proof, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    /// Nobody has it open for writing; who wants to waits until the lease ends.
    Excluded,
    /// Somebody has it open for writing, or mapped so.
    Possible,
    /// The file system has no leases, or this process may have none of it.
    Unknown,
}

/// A lease of a file that is open for reading. It ends with the value.
#[derive(Debug)]
pub(super) struct ReadLease<'f> {
    file: &'f File,
    granted: Result<(), Errno>,
}

impl<'f> ReadLease<'f> {
    /// Asks for a lease.
    pub(super) fn of(file: &'f File) -> Self {
        // The signal that tells of a writer is one that nobody heeds: the kernel's own choice would end this process.
        let granted = control(file, F_SETSIG, libc::SIGURG)
            .and_then(|_| control(file, libc::F_SETLEASE, libc::F_RDLCK))
            .map(drop);
        Self { file, granted }
    }

    /// Returns whether somebody can have written since it was asked for.
    pub(super) fn writing(&self) -> Writing {
        match self.granted {
            Ok(()) => match control(self.file, libc::F_GETLEASE, 0) {
                Ok(libc::F_RDLCK) => Writing::Excluded,
                // A writer waits, or has waited so long that the kernel let it in.
                _ => Writing::Possible,
            },
            // These ask their server first, which may keep its promise to itself.
            Err(Errno::EAGAIN)
                if fstatfs(self.file).is_ok_and(|system| is_remote(system.filesystem_type())) =>
            {
                Writing::Unknown
            }
            Err(Errno::EAGAIN) => Writing::Possible,
            // Only the file's owner, or who has CAP_LEASE, gets one.
            Err(Errno::EACCES) if is_roots_alone(self.file) => Writing::Excluded,
            Err(_) => Writing::Unknown,
        }
    }
}

impl Drop for ReadLease<'_> {
    fn drop(&mut self) {
        // Without one there is nothing to end.
        control(self.file, libc::F_SETLEASE, libc::F_UNLCK).unwrap_or_default();
    }
}

/// Returns whether leases of files of this file system are another host's to grant: of NFS, SMB or CIFS.
const fn is_remote(kind: FsType) -> bool {
    matches!(kind.0, 0x6969 | 0xfe53_4d42 | 0xff53_4d42)
}

/// Returns whether only root can write to it.
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

    /// On a disk, and in memory.
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
