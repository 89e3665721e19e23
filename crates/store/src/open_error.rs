//! Errors of opening a store for reading.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::SchemaError;

/// The reason why a store cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file does not exist.
    #[error("there is no store at {path}", path = .0.display())]
    Missing(PathBuf),
    /// The file, or its directory, may not be read.
    #[error("no permission to read the store {path}", path = .0.display())]
    Denied(PathBuf),
    /// The file is not a store, or has another version.
    #[error("cannot read {path} as a store", path = path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// The defect of the schema.
        #[source]
        source: SchemaError,
    },
    /// The file cannot be opened.
    #[error("cannot open the store {path}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl OpenError {
    pub(super) fn of(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        if source.kind() == io::ErrorKind::NotFound {
            return Self::Missing(path);
        }
        if source.kind() == io::ErrorKind::PermissionDenied {
            return Self::Denied(path);
        }
        Self::Io { path, source }
    }
}
