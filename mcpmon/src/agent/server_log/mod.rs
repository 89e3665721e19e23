//! Logs of servers: the latest part of what each run of a wrapped server wrote to its standard error, in files of its user.
//!
//! A wrapper's `LogKeeper` splits it into lines and replaces secrets, and a `RunLog` keeps the latest lines on disk;
//! [`LogDirectory`] and [`LogTail`] read them, also while they grow and as root.

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

pub(in crate::agent) use self::keeper::LogKeeper;
pub use self::reader::{LogDirectory, LogTail, ReadError};
#[cfg(test)]
use self::ring::RunLog;
use super::scan::homes;

/// Name of the directory, beside the store.
const DIRECTORY: &str = "server-logs";
/// End of the name of the file that a run writes to.
const CURRENT: &str = "log";
/// End of the name of the file before it.
const PREVIOUS: &str = "old";
/// Ends of the names of files that are not in their place yet.
const NEXT: &str = "next";
const LINKED: &str = "linked";
/// Bytes of one of the two files of a run.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// The place of the logs of those who use this store.
pub fn beside(store: &Path) -> PathBuf {
    store.with_file_name(DIRECTORY)
}

/// The directories to read: the one beside this process's own store; for root those of all users as well. Where a user's
/// `XDG_STATE_HOME` is elsewhere, theirs is not found.
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

/// One run of a server: the first line of each of its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerRun {
    /// The server.
    pub server: ServerId,
    /// Its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Its first process.
    pub pid: u32,
    /// Its start.
    pub started: Timestamp,
}

/// One line of a log, or what is missing there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogEntry {
    /// A line that the server wrote, without secrets.
    Line {
        /// The time at which it was complete.
        at: Timestamp,
        /// Its text, which may contain anything.
        text: String,
        /// Whether its end is missing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_cut: bool,
    },
    /// Bytes that are not kept.
    Skipped {
        /// The time at which they were missed.
        at: Timestamp,
        /// Their number.
        bytes: u64,
    },
}

impl LogEntry {
    /// Its time.
    pub const fn at(&self) -> Timestamp {
        match self {
            Self::Line { at, .. } | Self::Skipped { at, .. } => *at,
        }
    }
}
