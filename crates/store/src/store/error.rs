//! Errors of opening and writing a store.

use std::{io, path::PathBuf};

use crate::{AccessError, schema::SchemaError};

/// The reason why a store cannot be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The path is unsafe or not accessible.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The file is not a store.
    #[error("{path} cannot be used as a store", path = path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// The defect of the schema.
        #[source]
        source: SchemaError,
    },
    /// The process with the store has ended, or does not answer.
    #[error("cannot reach {who}")]
    Unreachable {
        /// The process.
        who: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The writer thread could not be started.
    #[error("cannot start the thread that writes the store")]
    Thread(#[source] io::Error),
    /// SQLite failed.
    #[error("cannot write to the store {path}", path = path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: rusqlite::Error,
    },
}

impl StoreError {
    /// Returns whether another process has the file locked.
    pub fn is_locked(&self) -> bool {
        use rusqlite::ErrorCode;
        let source = match self {
            Self::Sqlite { source, .. }
            | Self::Schema {
                source: SchemaError::Sqlite(source),
                ..
            } => source,
            Self::Schema { .. } | Self::Access(_) | Self::Unreachable { .. } | Self::Thread(_) => {
                return false;
            }
        };
        matches!(
            source.sqlite_error_code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        )
    }

    /// Returns whether the same write may succeed later, because the disk is full or the file is locked.
    pub fn is_transient(&self) -> bool {
        use rusqlite::ErrorCode;
        let source = match self {
            Self::Sqlite { source, .. } => source,
            Self::Unreachable { .. } => return true,
            Self::Access(_) | Self::Schema { .. } | Self::Thread(_) => return false,
        };
        matches!(
            source.sqlite_error_code(),
            Some(
                ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::DiskFull
                    | ErrorCode::SystemIoFailure
                    | ErrorCode::CannotOpen
                    | ErrorCode::ReadOnly
                    | ErrorCode::OutOfMemory
            )
        )
    }
}
