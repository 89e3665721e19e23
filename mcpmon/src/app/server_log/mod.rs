//! Logs of servers: the latest part of what each run of a wrapped server wrote to standard error, in files of its user.
//!
//! A wrapper's `LogKeeper` splits the output into lines and replaces secrets, and a `RunLog` keeps the latest lines on
//! disk. [`LogDirectory`] and [`LogTail`] read them, also while they grow, and also as root.

mod keeper;
mod lines;
mod reader;
mod ring;

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use mcpmon_model::{ServerId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

pub(in crate::app) use self::keeper::LogKeeper;
pub use self::reader::{LogDirectory, LogTail, ReadError};
#[cfg(test)]
use self::ring::RunLog;
use super::scan::homes;

/// Name of the directory, beside the store.
const DIRECTORY: &str = "server-logs";
/// Extension of the file that a run writes to.
const CURRENT: &str = "log";
/// Extension of the file before that one.
const PREVIOUS: &str = "old";
/// Extensions of files that are not renamed to their final names yet.
const NEXT: &str = "next";
const LINKED: &str = "linked";
/// Largest size of each of the two files of a run, bytes.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// Returns the directory of logs for this store.
pub fn beside(store: &Path) -> PathBuf {
    store.with_file_name(DIRECTORY)
}

/// Returns the directories to read: the one beside this process's own store, and for root those of all users as well. A
/// directory below another `XDG_STATE_HOME` is not found.
pub fn directories() -> Vec<LogDirectory> {
    let own = mcpmon_store::own_store();
    let own = own.iter().map(|store| LogDirectory::own(beside(store)));
    let homes = match nix::unistd::geteuid().is_root() {
        true => homes::homes(Path::new("/")),
        false => Vec::new(),
    };
    own.chain(homes.iter().filter_map(|home| in_home(home))).collect()
}

fn in_home(home: &Path) -> Option<LogDirectory> {
    let store = mcpmon_store::users_store(|name| (name == "HOME").then(|| home.to_owned()))?;
    let owner = fs::metadata(home).ok()?.uid();
    Some(LogDirectory::of(beside(&store), owner))
}

/// A run of a server; it is the first line of each of its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerRun {
    /// The server.
    pub server: ServerId,
    /// The server's session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The first process of the run.
    pub pid: u32,
    /// The time at which the run started.
    pub started: Timestamp,
}

/// One entry of a log: a line, or a gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogEntry {
    /// A line that the server wrote, without secrets.
    Line {
        /// The time at which the line was complete.
        at: Timestamp,
        /// Its text; it may contain any characters.
        text: String,
        /// True if its end is missing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_cut: bool,
    },
    /// Bytes that were not kept.
    Skipped {
        /// The time at which they were lost.
        at: Timestamp,
        /// Their number.
        bytes: u64,
    },
}

impl LogEntry {
    /// Returns the time of the entry.
    pub const fn at(&self) -> Timestamp {
        match self {
            Self::Line { at, .. } | Self::Skipped { at, .. } => *at,
        }
    }
}
