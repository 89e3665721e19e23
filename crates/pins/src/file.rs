//! Digests of regular files, cached as long as the files' metadata is unchanged.
//!
//! A digest is cached under device, inode, size, modification and change time. The owner of a file cannot set the
//! change time, so an edit that resets the modification time is still noticed. Two changes would not be: a store
//! through an existing shared mapping, and a change on a file system whose times another program sets. So a file is
//! read under a lease, which excludes writers and mappings. Code that remains open for writing has no digest; for data,
//! the digest is not cached. And digests are cached only for file systems that record the time of each write, including
//! stores through new mappings.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read as _},
    os::fd::AsFd,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use mcpmon_model::Digest;
use nix::sys::{
    stat::{FileStat, fstat},
    statfs::{BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, F2FS_SUPER_MAGIC, FsType, fstatfs},
};
use sha2::{Digest as _, Sha256};

use super::{
    Cancel,
    kept::DigestCache,
    lease::{ReadLease, Writing},
    root::{EntryKind, FoundFile},
};

/// Largest file that is hashed: 4 GiB.
pub const MAX_FILE: u64 = 4 << 30;
/// Bytes read at a time.
const BUFFER: usize = 128 * 1024;
/// Digests in each of the cache's two generations: with both full it takes about 15 MiB.
const GENERATION: usize = 64 * 1024;
/// Most attempts to read a file that changes meanwhile.
const MAX_ATTEMPTS: usize = 2;
/// Most attempts if the file is open for writing: an editor or installer closes it soon.
const MAX_ATTEMPTS_FOR_WRITERS: usize = 6;
/// The pause between these attempts.
const WRITERS_WAIT: Duration = Duration::from_millis(50);
/// A file younger than this may be written again without a new change time: two ticks of the slowest kernel clock (100
/// Hz).
const RACY: Duration = Duration::from_millis(20);
/// The same limit for a file system that seems to record whole seconds only.
const RACY_SECONDS: Duration = Duration::from_secs(2);
/// XFS; the library has no constant for it when it is built for musl.
const XFS: FsType = FsType(0x5846_5342);
/// File systems on a disk that record the time of each write, including stores through mappings. Not included: file
/// systems in memory (tmpfs), those whose times come from another host or process (NFS, FUSE), and layered ones
/// (overlayfs).
const TIMED: [FsType; 4] = [EXT4_SUPER_MAGIC, XFS, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC];

/// Code, whose digest must be that of what runs, or data, which may change at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Code,
    Data,
}

/// Hashes files and remembers what it hashed.
#[derive(Debug)]
pub struct FileHasher {
    cache: Cache,
    kept: Option<DigestCache>,
    buffer: Box<[u8]>,
    limit: u64,
}

/// The reason why a file has no digest.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is a directory, link, pipe, socket or device.
    #[error("it is no regular file")]
    NotRegular,
    /// It is larger than the limit.
    #[error("it has {size} bytes, more than the {limit} that are hashed")]
    TooLarge {
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// It was written to during each attempt to read it.
    #[error("it was changed while it was read")]
    Changed,
    /// It is open or mapped for writing, so its content can change at any moment.
    #[error("it is open for writing, so that what was read of it need not be what runs")]
    Written,
    /// The caller asked to stop.
    #[error("hashing was cancelled")]
    Cancelled,
    /// The file cannot be read.
    #[error("it cannot be read")]
    Io(#[from] io::Error),
}

impl Default for FileHasher {
    fn default() -> Self {
        Self::with_limit(MAX_FILE)
    }
}

impl FileHasher {
    /// A hasher that refuses files over `limit` bytes.
    pub fn with_limit(limit: u64) -> Self {
        Self {
            cache: Cache::new(GENERATION),
            kept: None,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            limit,
        }
    }

    /// Uses digests of other processes, too.
    pub(super) fn keep(&mut self, kept: DigestCache) {
        self.kept = Some(kept);
    }

    /// Returns the digest of a file with the metadata `stat`, if it is known.
    pub fn cached(&mut self, stat: &FileStat) -> Option<Digest> {
        let key = FileStamp::of(stat);
        if let Some(digest) = self.cache.get(&key) {
            return Some(digest);
        }
        let digest = self.kept.as_ref()?.get(&key)?;
        self.cache.insert(key, digest);
        Some(digest)
    }

    /// Returns the digest of `node`, read through one descriptor. The file counts as code: while it is open for
    /// writing, the hasher waits.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn hash(&mut self, node: &FoundFile, cancel: Cancel<'_>) -> Result<Digest, FileError> {
        self.hash_as(Content::Code, node, cancel)
    }

    /// Returns the digest of a file that is not code, even if it is open for writing.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn hash_data(&mut self, node: &FoundFile, cancel: Cancel<'_>) -> Result<Digest, FileError> {
        self.hash_as(Content::Data, node, cancel)
    }

    fn hash_as(
        &mut self,
        content: Content,
        node: &FoundFile,
        cancel: Cancel<'_>,
    ) -> Result<Digest, FileError> {
        if node.kind() != EntryKind::File {
            return Err(FileError::NotRegular);
        }
        if let Some(digest) = self.cached(node.stat()) {
            return Ok(digest);
        }
        let mut seen = FileError::Changed;
        for attempt in 0..MAX_ATTEMPTS_FOR_WRITERS {
            if attempt >= MAX_ATTEMPTS {
                if !matches!(seen, FileError::Written) {
                    break;
                }
                thread::sleep(WRITERS_WAIT);
            }
            let started = SystemTime::now();
            let file = node.open()?;
            let lease = ReadLease::of(&file);
            let before = fstat(&file).map_err(io::Error::from)?;
            let key = FileStamp::of(&before);
            if let Some(digest) = self.cache.get(&key) {
                return Ok(digest);
            }
            // While the writer is still there, the file is not read again. Only code gets here.
            if matches!(seen, FileError::Written) && lease.writing() == Writing::Possible {
                continue;
            }
            let (digest, size) = self.read(&file, cancel)?;
            let after = FileStamp::of(&fstat(&file).map_err(io::Error::from)?);
            let writing = lease.writing();
            if key != after || key.size != size {
                seen = FileError::Changed;
            } else if writing == Writing::Possible && content == Content::Code {
                seen = FileError::Written;
            } else {
                if writing == Writing::Excluded && key.settled(started) && is_timed(&file) {
                    self.cache.insert(key, digest);
                    self.kept.iter().for_each(|kept| kept.put(&key, &digest));
                }
                return Ok(digest);
            }
        }
        Err(seen)
    }

    fn read(&mut self, mut file: &File, cancel: Cancel<'_>) -> Result<(Digest, u64), FileError> {
        let mut hash = Sha256::new();
        let mut size = 0;
        loop {
            if cancel() {
                return Err(FileError::Cancelled);
            }
            let count = match file.read(&mut self.buffer) {
                Ok(0) => return Ok((Digest::from_bytes(hash.finalize().into()), size)),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            size += count as u64;
            if size > self.limit {
                return Err(FileError::TooLarge {
                    size,
                    limit: self.limit,
                });
            }
            hash.update(&self.buffer[..count]);
        }
    }
}

/// Returns whether the file system records the time of each write.
pub(super) fn is_timed(file: &impl AsFd) -> bool {
    fstatfs(file).is_ok_and(|system| TIMED.contains(&system.filesystem_type()))
}

/// The attributes that must not change while a digest is made. Times are seconds and nanoseconds since the
/// epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    /// Length of its encoded form.
    pub(super) const BYTES: usize = 7 * 8;

    /// Returns its fields, one after another.
    pub(super) fn bytes(&self) -> [u8; Self::BYTES] {
        let (modified, changed) = (self.modified, self.changed);
        let times = [modified.0, modified.1, changed.0, changed.1].map(i64::cast_unsigned);
        let mut bytes = [0; Self::BYTES];
        let fields = [self.device, self.inode, self.size].into_iter().chain(times);
        for (slot, field) in bytes.chunks_exact_mut(8).zip(fields) {
            slot.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// Returns a number that differs between neighbouring files, but not between contents of one file.
    pub(super) const fn spread(&self) -> u64 {
        self.inode ^ self.device.rotate_left(20)
    }

    #[cfg(test)]
    pub(super) const fn sample(inode: u64) -> Self {
        Self {
            device: 1,
            inode,
            size: 3,
            modified: (4, 5),
            changed: (6, 7),
        }
    }

    pub(super) fn of(stat: &FileStat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Returns whether a write after `now` is certain to give another change time.
    fn settled(&self, now: SystemTime) -> bool {
        let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(self.changed.0), u32::try_from(self.changed.1))
        else {
            return false;
        };
        let racy = if nanoseconds == 0 { RACY_SECONDS } else { RACY };
        now.duration_since(UNIX_EPOCH)
            .is_ok_and(|now| now >= Duration::new(seconds, nanoseconds) + racy)
    }
}

/// Two generations: entries that were used since the last change of generation survive the next one. Never larger than
/// twice `size`.
#[derive(Debug)]
struct Cache {
    young: HashMap<FileStamp, Digest>,
    old: HashMap<FileStamp, Digest>,
    size: usize,
}

impl Cache {
    fn new(size: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            size,
        }
    }

    fn get(&mut self, key: &FileStamp) -> Option<Digest> {
        if let Some(digest) = self.young.get(key) {
            return Some(*digest);
        }
        let digest = self.old.remove(key)?;
        self.insert(*key, digest);
        Some(digest)
    }

    fn insert(&mut self, key: FileStamp, digest: Digest) {
        if self.young.len() >= self.size {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, digest);
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, fs, os::unix::fs::FileExt as _, path::Path};

    use super::*;
    use crate::root::Root;

    fn go_on() -> bool {
        false
    }

    fn node(directory: &Path, name: &str) -> io::Result<FoundFile> {
        Root::at(directory)?.find(Path::new(name))
    }

    /// Waits until a new write is certain to change the change time.
    fn settle(path: &Path) -> io::Result<()> {
        let stat = nix::sys::stat::stat(path)?;
        while !FileStamp::of(&stat).settled(SystemTime::now()) {
            thread::yield_now();
        }
        Ok(())
    }

    #[test]
    fn on_tmpfs_nothing_is_remembered() -> Result<(), Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir_in("/dev/shm")?;
        let path = directory.path().join("f");
        fs::write(&path, "abc")?;
        settle(&path)?;
        let mut hasher = FileHasher::default();
        let file = node(directory.path(), "f")?;
        assert_eq!(hasher.hash(&file, &go_on)?, Digest::of(b"abc"));
        assert_eq!(hasher.cached(file.stat()), None);
        Ok(())
    }

    /// A file that was mapped before may be written without a new change time, also on a disk.
    #[test]
    fn code_that_somebody_can_write_to_has_no_digest_and_that_of_data_is_not_kept()
    -> Result<(), Box<dyn std::error::Error>> {
        for place in ["/dev/shm", "/var/tmp"] {
            let directory = tempfile::tempdir_in(place)?;
            let path = directory.path().join("f");
            fs::write(&path, "abc")?;
            settle(&path)?;
            let mut hasher = FileHasher::default();
            let writer = File::options().write(true).open(&path)?;
            let result = hasher.hash(&node(directory.path(), "f")?, &go_on);
            assert!(matches!(result, Err(FileError::Written)), "{place}: {result:?}");
            let data = node(directory.path(), "f")?;
            assert_eq!(hasher.hash_data(&data, &go_on)?, Digest::of(b"abc"), "{place}");
            assert_eq!(hasher.cached(data.stat()), None, "{place}");
            drop(writer);
            let file = node(directory.path(), "f")?;
            assert_eq!(hasher.hash(&file, &go_on)?, Digest::of(b"abc"));
        }
        Ok(())
    }

    #[test]
    fn a_settled_file_is_remembered_until_it_changes() -> Result<(), Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir_in("/var/tmp")?; // on no tmpfs
        let path = directory.path().join("f");
        fs::write(&path, "abc")?;
        settle(&path)?;
        let mut hasher = FileHasher::default();
        let before = node(directory.path(), "f")?;
        assert_eq!(hasher.cached(before.stat()), None);
        assert_eq!(hasher.hash(&before, &go_on)?, Digest::of(b"abc"));
        assert_eq!(hasher.cached(before.stat()), Some(Digest::of(b"abc")));

        let modified = fs::metadata(&path)?.modified()?;
        fs::write(&path, "abd")?;
        File::options().write(true).open(&path)?.set_modified(modified)?;
        let after = node(directory.path(), "f")?;
        assert_eq!(hasher.cached(after.stat()), None, "the change time gives it away");
        assert_eq!(hasher.hash(&after, &go_on)?, Digest::of(b"abd"));
        Ok(())
    }

    #[test]
    fn a_file_just_written_is_hashed_and_not_remembered() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000);
        let key = |seconds, nanoseconds| FileStamp {
            device: 1,
            inode: 2,
            size: 3,
            modified: (0, 0),
            changed: (seconds, nanoseconds),
        };
        assert!(key(999, 980_000_000).settled(now));
        assert!(!key(999, 980_000_001).settled(now), "within the tick");
        assert!(!key(999, 0).settled(now), "of a clock of seconds");
        assert!(key(998, 0).settled(now));
        assert!(!key(1_001, 0).settled(now), "from the future");
        assert!(!key(-1, 0).settled(now), "before the epoch");
    }

    #[test]
    fn a_file_that_moves_is_an_error() -> Result<(), Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("f");
        fs::write(&path, "a")?;
        let writer = File::options().write(true).open(&path)?;
        let asked = Cell::new(0);
        // `asked` is called before the block and before the end, twice: the file grows once in each attempt.
        let grow_at_every_attempt = || {
            asked.set(asked.get() + 1);
            if asked.get() % 2 == 1 {
                writer
                    .write_at(b"more", asked.get() * 4)
                    .expect("a temporary file can be written");
            }
            false
        };
        let result = FileHasher::default().hash(&node(directory.path(), "f")?, &grow_at_every_attempt);
        assert!(matches!(result, Err(FileError::Changed)), "{result:?}");
        assert_eq!(asked.get(), 4, "one more attempt and no other");
        Ok(())
    }

    #[test]
    fn limits_kinds_and_cancellation_are_named() -> Result<(), Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        fs::write(directory.path().join("f"), "abcd")?;
        let file = node(directory.path(), "f")?;
        let large = FileHasher::with_limit(3).hash(&file, &go_on);
        assert!(
            matches!(large, Err(FileError::TooLarge { size: 4, limit: 3 })),
            "{large:?}"
        );
        let not_regular = FileHasher::default().hash(&node(directory.path(), "/")?, &go_on);
        assert!(
            matches!(not_regular, Err(FileError::NotRegular)),
            "{not_regular:?}"
        );
        let cancelled = FileHasher::default().hash(&file, &|| true);
        assert!(matches!(cancelled, Err(FileError::Cancelled)), "{cancelled:?}");
        Ok(())
    }

    #[test]
    fn the_cache_is_bounded_and_keeps_what_is_used() {
        let key = |inode| FileStamp {
            device: 1,
            inode,
            size: 0,
            modified: (0, 0),
            changed: (0, 0),
        };
        let mut cache = Cache::new(4);
        cache.insert(key(0), Digest::of(b"0"));
        for inode in 1..100 {
            cache.insert(key(inode), Digest::of(b"x"));
            assert_eq!(cache.get(&key(0)), Some(Digest::of(b"0")));
            assert!(cache.young.len() + cache.old.len() <= 8);
        }
        assert_eq!(cache.get(&key(1)), None);
    }
}
