//! The location of a store. A daemon that began with a standby store moves to its own store while other threads write.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use super::Generation;

/// The location of a store, and the size it may reach there. Clones share it.
#[derive(Clone, Debug)]
pub struct StoreLocation(Arc<SharedLocation>);

#[derive(Debug)]
struct SharedLocation {
    place: RwLock<LocationState>,
    /// The file stays where it was at the start, because other processes have mapped it.
    generation: PathBuf,
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
