//! Hashing of a file that is to be trusted as an executable, under the path that servers outside containers see.

use std::{
    io,
    path::{Path, PathBuf},
};

use mcpmon_model::PinnedFile;
use mcpmon_pins::{FileError, FileHasher, Root};

/// The host's root directory, reachable from a container that shares the host's processes too.
const HOST: &str = "/proc/1/root";

/// The reason why the executable cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum ExecutableError {
    /// The host's files cannot be accessed.
    #[error("cannot look into the root directory")]
    Host(#[source] io::Error),
    /// There is no such file.
    #[error("cannot find {}", .path.display())]
    Find {
        /// The path.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The executable cannot be hashed.
    #[error("cannot hash {}", .path.display())]
    Hash {
        /// The path.
        path: PathBuf,
        /// Cause.
        #[source]
        source: FileError,
    },
}

/// Hashes the file at `path`. Follows symbolic links, because pins name the file itself.
///
/// # Errors
/// Returns an error if the file does not exist or cannot be hashed.
pub fn read(path: &Path) -> Result<PinnedFile, ExecutableError> {
    // Some hosts forbid access to their first process. Outside a container the own root is the same directory.
    let host = Root::at(Path::new(HOST)).or_else(|_denied| Root::at(Path::new("/")));
    let host = host.map_err(ExecutableError::Host)?;
    read_in(&host, path)
}

fn read_in(root: &Root, path: &Path) -> Result<PinnedFile, ExecutableError> {
    let missing = |source| ExecutableError::Find {
        path: path.to_owned(),
        source,
    };
    let canonical = root.canonical(path).map_err(missing)?;
    let node = root.find_link(&canonical).map_err(missing)?;
    match FileHasher::default().hash(&node, &|| false) {
        Ok(digest) => Ok(PinnedFile {
            path: canonical,
            digest,
        }),
        Err(source) => Err(ExecutableError::Hash {
            path: canonical,
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use mcpmon_model::Digest;

    use super::*;

    #[test]
    fn links_are_followed_and_what_is_no_file_is_an_error() {
        let directory = tempfile::tempdir().expect("directory");
        fs::write(directory.path().join("python3.12"), "content").expect("file");
        symlink("/python3.12", directory.path().join("python3")).expect("link");
        let root = Root::at(directory.path()).expect("root");
        let file = PinnedFile {
            path: PathBuf::from("/python3.12"),
            digest: Digest::of(b"content"),
        };
        assert_eq!(read_in(&root, Path::new("/python3")).expect("a file"), file);
        let gone = read_in(&root, Path::new("/node"));
        assert!(matches!(gone, Err(ExecutableError::Find { .. })), "{gone:?}");
        let directory = read_in(&root, Path::new("/"));
        assert!(
            matches!(directory, Err(ExecutableError::Hash { .. })),
            "{directory:?}"
        );
    }
}
