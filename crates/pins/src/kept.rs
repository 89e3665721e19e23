//! Digests that outlive a process: a file of fixed slots, one read for each look-up.
//!
//! Whoever can write to it can also write to the pins that the digests are compared with, which lie beside it.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use mcpmon_model::Digest;
use nix::fcntl::OFlag;

use super::file::FileStamp;

/// Slots: a file takes the place of another one that falls into the same. The file is sparse, at most 1.5 MiB.
const SLOTS: u64 = 1 << 14;
/// Key, digest, and a part of the digest of both: a slot that was written in part is none.
const SLOT: usize = FileStamp::BYTES + 32 + 8;

/// Tells digests that were made under a lease from those of versions that asked for none.
const LEASED: &[u8] = b"leased";

/// Digests by what must stand still for them to hold.
#[derive(Debug)]
pub(super) struct DigestCache(File);

impl DigestCache {
    /// The digests in the file at `path`, which is made where it is not there.
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

    /// The digest kept for `key`.
    pub(super) fn get(&self, key: &FileStamp) -> Option<Digest> {
        let mut slot = [0; SLOT];
        self.0.read_exact_at(&mut slot, place(key)).ok()?;
        let digest = Digest::from_bytes(slot[FileStamp::BYTES..FileStamp::BYTES + 32].try_into().ok()?);
        (slot == encode(key, &digest)).then_some(digest)
    }

    /// Keeps a digest. One that cannot be kept is made again the next time.
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
