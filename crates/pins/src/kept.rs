//! Digests that are shared between processes: a file of fixed slots, with one read for each look-up.
//!
//! A process that can write to this file can also write to the pins, with which the digests are compared: they are in
//! the same directory.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use mcpmon_model::Digest;
use nix::fcntl::OFlag;

use super::file::FileStamp;

/// Number of slots: a file replaces another one with the same slot. The file is sparse, at most 1.5 MiB.
const SLOTS: u64 = 1 << 14;
/// Bytes of a slot: key, digest, and a part of the digest of both, so that a partly written slot is invalid.
const SLOT: usize = FileStamp::BYTES + 32 + 8;

/// Distinguishes digests that were made under a lease from those of versions without leases.
const LEASED: &[u8] = b"leased";

/// Digests by the metadata for which they are valid.
#[derive(Debug)]
pub(super) struct DigestCache(File);

impl DigestCache {
    /// Opens the file at `path`, and creates it if it is missing.
    ///
    /// # Errors
    /// Returns an error if it cannot be opened, or others may read or write it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
            .open(path)?;
        let metadata = file.metadata()?;
        let is_own = metadata.uid() == nix::unistd::geteuid().as_raw();
        if !metadata.is_file() || !is_own || metadata.mode() & 0o077 != 0 {
            let message = "not a regular file that only this user can read and write";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        Ok(Self(file))
    }

    /// Returns the digest for `key`.
    pub(super) fn get(&self, key: &FileStamp) -> Option<Digest> {
        let mut slot = [0; SLOT];
        self.0.read_exact_at(&mut slot, place(key)).ok()?;
        let digest = Digest::from_bytes(slot[FileStamp::BYTES..FileStamp::BYTES + 32].try_into().ok()?);
        (slot == encode(key, &digest)).then_some(digest)
    }

    /// Stores a digest. If that fails, the digest is computed again the next time.
    pub(super) fn put(&self, key: &FileStamp, digest: &Digest) {
        if let Err(error) = self.0.write_all_at(&encode(key, digest), place(key)) {
            tracing::debug!(%error, "a digest is not kept");
        }
    }
}

fn place(key: &FileStamp) -> u64 {
    key.spread() % SLOTS * SLOT as u64
}

fn encode(key: &FileStamp, digest: &Digest) -> [u8; SLOT] {
    let mut slot = [0; SLOT];
    slot[..FileStamp::BYTES].copy_from_slice(&key.bytes());
    slot[FileStamp::BYTES..FileStamp::BYTES + 32].copy_from_slice(digest.as_bytes());
    let check = Digest::of(&[LEASED, &slot[..FileStamp::BYTES + 32]].concat());
    slot[FileStamp::BYTES + 32..].copy_from_slice(&check.as_bytes()[..8]);
    slot
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn key(inode: u64) -> FileStamp {
        FileStamp::sample(inode)
    }

    #[test]
    fn a_digest_is_there_for_the_next_process_and_for_its_key_only() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("state/hashes");
        let digest = Digest::of(b"content");
        DigestCache::open(&path)?.put(&key(1), &digest);
        let kept = DigestCache::open(&path)?;
        assert_eq!(kept.get(&key(1)), Some(digest));
        assert_eq!(kept.get(&key(2)), None);
        let another = (2..).map(key).find(|other| place(other) == place(&key(1)));
        let another = another.expect("there are fewer slots than keys");
        assert_eq!(kept.get(&another), None, "of the same slot");
        kept.put(&another, &Digest::of(b"other"));
        assert_eq!(kept.get(&key(1)), None, "its slot was taken");
        Ok(())
    }

    #[test]
    fn a_slot_written_in_part_is_none() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("hashes");
        let kept = DigestCache::open(&path)?;
        kept.put(&key(1), &Digest::of(b"content"));
        kept.0
            .write_all_at(&[0xff], place(&key(1)) + FileStamp::BYTES as u64)?;
        assert_eq!(kept.get(&key(1)), None);
        Ok(())
    }

    #[test]
    fn what_others_could_have_written_is_not_believed() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("hashes");
        fs::write(&path, "")?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
        let refused = DigestCache::open(&path).map_err(|error| error.kind()).err();
        assert_eq!(refused, Some(io::ErrorKind::PermissionDenied));
        Ok(())
    }
}
