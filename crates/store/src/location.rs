//! The place of a store: a daemon that works with a standby store moves to its own while others write.

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
    /// Other processes map it: it stays where it was when they began.
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

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.hold().path.clone()
    }

    /// The file whose number rises when anything changes that other processes hold.
    pub fn generation(&self) -> &Path {
        &self.0.generation
    }

    /// The size in bytes that the store may reach where `max_size` is meant for it.
    pub(super) fn max_size(&self, max_size: u64) -> u64 {
        self.hold()
            .max_size
            .map_or(max_size, |standby| standby.min(max_size))
    }

    /// The place, which stays the same until the guard is dropped.
    pub(super) fn hold(&self) -> RwLockReadGuard<'_, LocationState> {
        // What a panic could leave behind is a whole place.
        self.0.place.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves to `path` once nobody writes, and after `finish` succeeded, during which nobody begins to.
    ///
    /// # Errors
    /// Returns the error of `finish`; then nothing moves.
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
