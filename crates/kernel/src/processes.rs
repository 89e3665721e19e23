//! The kernel's process table, which the daemon writes: the server or agent of each process.

use aya::maps::{HashMap, MapData, MapError};
use mcpmon_common::{
    limits::COMM_LEN,
    process::{FileKey, ProcessEntry},
};

/// The table of tracked processes.
#[derive(Debug)]
pub struct ProcessTable {
    entries: HashMap<MapData, u32, ProcessEntry>,
}

impl ProcessTable {
    pub(super) fn new(entries: HashMap<MapData, u32, ProcessEntry>) -> Self {
        Self { entries }
    }

    /// Returns the kernel's entry for `pid`.
    pub fn get(&self, pid: u32) -> Option<ProcessEntry> {
        self.entries.get(&pid, 0).ok()
    }

    /// Sets the kernel's entry for `pid`; children inherit it from now on.
    ///
    /// # Errors
    /// Returns an error if the table is full.
    pub fn set(&mut self, pid: u32, entry: ProcessEntry) -> Result<(), MapError> {
        self.entries.insert(pid, entry, 0)
    }

    /// Removes the entry of `pid`.
    pub fn remove(&mut self, pid: u32) {
        // Absent if the kernel has removed it already.
        drop(self.entries.remove(&pid));
    }

    /// Returns every tracked process.
    pub fn iter(&self) -> impl Iterator<Item = (u32, ProcessEntry)> {
        self.entries.iter().filter_map(Result::ok)
    }
}

/// Executables that are killed at exec.
#[derive(Debug)]
pub struct RefusedFiles {
    files: HashMap<MapData, FileKey, u32>,
}

impl RefusedFiles {
    pub(super) fn new(files: HashMap<MapData, FileKey, u32>) -> Self {
        Self { files }
    }

    /// Refuses a file: from now on, a process that executes exactly this file, unchanged, is killed before its first
    /// instruction. `server` is the caller's number of the server for which it is refused.
    ///
    /// # Errors
    /// Returns an error if the list is full.
    pub fn refuse(&mut self, file: FileKey, server: u32) -> Result<(), MapError> {
        self.files.insert(file, server, 0)
    }

    /// Returns every refused file, with the number that the caller gave.
    pub fn iter(&self) -> impl Iterator<Item = (FileKey, u32)> {
        self.files.iter().filter_map(Result::ok)
    }

    /// Allows the file to run again.
    pub fn accept(&mut self, file: &FileKey) {
        // Absent if it was not refused.
        drop(self.files.remove(file));
    }
}

/// Command names of agents: a process that executes one is an agent from its first instruction.
#[derive(Debug)]
pub struct AgentNames {
    names: HashMap<MapData, [u8; COMM_LEN], u32>,
}

impl AgentNames {
    pub(super) fn new(names: HashMap<MapData, [u8; COMM_LEN], u32>) -> Self {
        Self { names }
    }

    /// Replaces the names. Running agents stay agents.
    ///
    /// # Errors
    /// Returns an error if there are more names than the table holds; those that fit are in force.
    pub fn replace(&mut self, names: &[String]) -> Result<(), MapError> {
        let wanted: Vec<_> = names.iter().map(|name| comm(name)).collect();
        let before: Vec<_> = self.names.keys().filter_map(Result::ok).collect();
        for gone in before.iter().filter(|name| !wanted.contains(name)) {
            self.names.remove(gone)?;
        }
        wanted.iter().try_for_each(|name| self.names.insert(name, 1, 0))
    }

    /// Returns whether a command name is that of an agent.
    pub fn contains(&self, name: &str) -> bool {
        self.names.get(&comm(name), 0).is_ok()
    }
}

/// Returns a command name in the kernel's form: cut to 15 bytes, padded with NUL.
fn comm(name: &str) -> [u8; COMM_LEN] {
    let mut comm = [0; COMM_LEN];
    for (slot, byte) in comm.iter_mut().take(COMM_LEN - 1).zip(name.bytes()) {
        *slot = byte;
    }
    comm
}
