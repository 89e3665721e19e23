//! Rules of a sandbox: the files and ports that a server's processes may use, and nothing else.

use std::{collections::BTreeSet, path::PathBuf};

/// The rules that a server is started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxRules {
    /// The files it may use; `None` if files are not restricted.
    pub files: Option<Vec<FileGrant>>,
    /// The TCP ports it may connect to; `None` if connections are not restricted.
    pub connect: Option<BTreeSet<u16>>,
    /// True if it may listen on no TCP port, and use no UDP.
    pub is_offline: bool,
}

/// A file or directory that a server may use, with everything below it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileGrant {
    /// The absolute path, without symbolic links.
    pub path: PathBuf,
    /// The right that it has there.
    pub right: FileRight,
}

/// A right on a file or on all that lies in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileRight {
    /// Names are listed.
    List,
    /// Files are read and executed, names are listed.
    Read,
    /// Devices are read, written and controlled.
    Device,
    /// Files are also written, made, moved and removed.
    Write,
}

impl SandboxRules {
    /// Returns whether nothing is restricted.
    pub const fn is_open(&self) -> bool {
        self.files.is_none() && self.connect.is_none() && !self.is_offline
    }
}
