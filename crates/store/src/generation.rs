//! The number of changes: a file next to the store with a number that rises when shared state changes, such as pins,
//! approvals, members of sessions, and the policy. Reading it is one `pread`.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use nix::fcntl::{Flock, FlockArg, OFlag};

use super::{Access, AccessError};

/// The number of changes, opened for reading.
#[derive(Debug)]
pub struct Generation(File);

impl Generation {
    /// Returns the path of the change counter of `store`.
    pub fn path(store: &Path) -> PathBuf {
        let mut name = store.as_os_str().to_owned();
        name.push(".generation");
        name.into()
    }

    /// Opens the file at `path`.
    ///
    /// # Errors
    /// Returns an error if the file does not exist, or may not be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
        OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)
            .map(Self)
    }

    /// Returns the current number.
    pub fn now(&self) -> u64 {
        read(&self.0)
    }
}

/// The number of changes, opened for writing.
#[derive(Debug)]
struct GenerationCounter(File);

impl GenerationCounter {
    /// Opens the file, and creates it if it is missing.
    fn open(path: &Path, access: Access) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
            .open(path)?;
        access.apply_to(path).map_err(io::Error::other)?;
        Ok(Self(file))
    }

    /// Returns the current number.
    fn now(&self) -> u64 {
        read(&self.0)
    }

    /// Raises the number.
    fn raise(&self) -> io::Result<()> {
        let file = Flock::lock(self.0.try_clone()?, FlockArg::LockExclusive)
            .map_err(|(_, errno)| io::Error::from(errno))?;
        let next = read(&file).wrapping_add(1);
        file.write_all_at(&next.to_le_bytes(), 0)
    }
}

/// The numbers that are raised by a change of a store.
#[derive(Debug)]
pub(super) struct GenerationCounters {
    /// The number next to the store.
    own: GenerationCounter,
    /// The number at the store's earlier location: processes that still use it see changes too.
    before: Option<GenerationCounter>,
}

impl GenerationCounters {
    /// Opens the numbers of `store`; `before` is the number at an earlier location.
    pub(super) fn open(store: &Path, before: Option<&Path>, access: Access) -> Result<Self, AccessError> {
        let open = |path: &Path| {
            GenerationCounter::open(path, access).map_err(|source| AccessError::Io {
                what: "open",
                path: path.to_owned(),
                source,
            })
        };
        Ok(Self {
            own: open(&Generation::path(store))?,
            before: before.map(open).transpose()?,
        })
    }

    /// Returns the current number next to the store.
    pub(super) fn now(&self) -> u64 {
        self.own.now()
    }

    /// Raises all numbers, and returns the one next to the store.
    pub(super) fn raise(&self) -> io::Result<u64> {
        let before = self.before.as_ref().map_or(Ok(()), GenerationCounter::raise);
        self.own.raise().and(before)?;
        Ok(self.now())
    }
}

/// The number of changes in a file that every user may read. It is written by one process and never locked, because
/// every user could hold a lock of it.
#[derive(Debug)]
pub(super) struct PublicCounter {
    file: File,
    path: PathBuf,
}

impl PublicCounter {
    /// Creates the file anew.
    pub(super) fn create(path: &Path, changes: u64) -> io::Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(path)?;
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        let counter = Self {
            file,
            path: path.to_owned(),
        };
        counter.write(changes)?;
        Ok(counter)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn write(&self, changes: u64) -> io::Result<()> {
        self.file.write_all_at(&changes.to_le_bytes(), 0)
    }
}

/// Reads the number, which is zero in a file that is too short for one.
fn read(file: &File) -> u64 {
    let mut bytes = [0; 8];
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rises_whoever_raises_it() {
        const EACH: u64 = 50;
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("mcpmon.db");
        let counter = GenerationCounter::open(&Generation::path(&store), Access::default()).unwrap();
        let generation = Generation::open(&Generation::path(&store)).unwrap();
        assert_eq!(generation.now(), 0);
        counter.raise().unwrap();
        assert_eq!(generation.now(), 1);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let counter =
                        GenerationCounter::open(&Generation::path(&store), Access::default()).unwrap();
                    for _ in 0..EACH {
                        counter.raise().unwrap();
                    }
                });
            }
        });
        assert_eq!(generation.now(), 1 + 4 * EACH);
    }

    #[test]
    fn every_user_may_read_the_published_number() {
        let directory = tempfile::tempdir().unwrap();
        let location = crate::StoreLocation::new(directory.path().join("mcpmon.db"));
        let store = crate::Store::open_at(&location, Access::default()).unwrap();
        let path = directory.path().join("changes");
        fs::write(&path, "of an earlier daemon").unwrap();
        location.publish_changes(&path, store.changes()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(store.generation(), path);
        let mut other = crate::Store::open_at(&location, Access::default()).unwrap();
        let before = Generation::open(&path).unwrap().now();
        other
            .forget_definitions(mcpmon_model::Timestamp(7), &crate::Selection::default())
            .unwrap();
        assert_eq!(Generation::open(&path).unwrap().now(), before + 1);
        assert_eq!(store.changes(), before + 1);
    }

    #[test]
    fn a_file_too_short_for_a_number_is_zero_until_it_is_raised() {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("mcpmon.db");
        let path = Generation::path(&store);
        fs::write(&path, b"1").unwrap();
        let generation = Generation::open(&path).unwrap();
        assert_eq!(generation.now(), 0);
        let counter = GenerationCounter::open(&path, Access::default()).unwrap();
        assert_eq!(generation.now(), 0);
        counter.raise().unwrap();
        assert_eq!(generation.now(), 1);
        File::create(&path).unwrap();
        assert_eq!(
            generation.now(),
            0,
            "whoever empties it cannot end a process by that"
        );
    }
}
