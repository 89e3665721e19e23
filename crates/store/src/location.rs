//! The location of a store. A daemon that began with a standby store moves to its own store while other threads write.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard},
};

use super::{Generation, generation::PublicCounter};

/// The location of a store, and the size it may reach there. Clones share it.
#[derive(Clone, Debug)]
pub struct StoreLocation(Arc<SharedLocation>);

#[derive(Debug)]
struct SharedLocation {
    place: RwLock<LocationState>,
    /// The file stays where it was at the start, because other processes have mapped it.
    generation: PathBuf,
    /// The number of changes for users who may not look into the store's directory.
    public: OnceLock<Mutex<PublicCounter>>,
}

#[derive(Debug)]
pub(super) struct LocationState {
    pub(super) path: PathBuf,
    max_size: Option<u64>,
}

impl StoreLocation {
    /// A store at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::with(path.into(), None)
    }

    /// A store at `path` that takes at most `max_size` bytes while it is there.
    pub fn standby(path: impl Into<PathBuf>, max_size: u64) -> Self {
        Self::with(path.into(), Some(max_size))
    }

    fn with(path: PathBuf, max_size: Option<u64>) -> Self {
        Self(Arc::new(SharedLocation {
            generation: Generation::path(&path),
            place: RwLock::new(LocationState { path, max_size }),
            public: OnceLock::new(),
        }))
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        self.hold().path.clone()
    }

    /// Returns the file with a number that rises when shared state changes.
    pub fn generation(&self) -> &Path {
        &self.0.generation
    }

    /// Makes a file at `path` with the number of changes that every user may read; only this process writes it.
    ///
    /// # Errors
    /// Returns an error if the file cannot be made, or there is one already.
    pub fn publish_changes(&self, path: &Path, changes: u64) -> io::Result<()> {
        let counter = PublicCounter::create(path, changes)?;
        self.0
            .public
            .set(Mutex::new(counter))
            .map_err(|_counter| io::ErrorKind::AlreadyExists.into())
    }

    /// Writes the number of changes of the store to which this location moved.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn announce(&self, changes: u64) -> io::Result<()> {
        self.raise(|| Ok(changes))
    }

    /// Returns the file that [`publish_changes`](Self::publish_changes) made, if it did.
    pub(super) fn public(&self) -> Option<PathBuf> {
        let counter = self
            .0
            .public
            .get()?
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Some(counter.path().to_owned())
    }

    /// Raises the number of changes by `raise`, which returns the new one, and writes it for every user.
    pub(super) fn raise(&self, raise: impl FnOnce() -> io::Result<u64>) -> io::Result<()> {
        let Some(counter) = self.0.public.get() else {
            return raise().map(drop);
        };
        // Locked while the number is raised, so that the numbers are written in their order.
        let counter = counter.lock().unwrap_or_else(PoisonError::into_inner);
        counter.write(raise()?)
    }

    /// Returns the size in bytes that the store may reach, if the configuration allows `max_size`.
    pub(super) fn max_size(&self, max_size: u64) -> u64 {
        self.hold()
            .max_size
            .map_or(max_size, |standby| standby.min(max_size))
    }

    /// Returns the location, which cannot change until the guard is dropped.
    pub(super) fn hold(&self) -> RwLockReadGuard<'_, LocationState> {
        // A poisoned lock is used anyway: the location is replaced as a whole.
        self.0.place.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the location to `path`, after `finish` succeeded. No thread writes to the store meanwhile.
    ///
    /// # Errors
    /// Returns the error of `finish`; the location is unchanged then.
    pub fn move_to<T, E>(&self, path: &Path, finish: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let mut place = self.0.place.write().unwrap_or_else(PoisonError::into_inner);
        let finished = finish()?;
        *place = LocationState {
            path: path.to_owned(),
            max_size: None,
        };
        Ok(finished)
    }
}

impl PartialEq for StoreLocation {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.path() == other.path()
    }
}

impl Eq for StoreLocation {}
