//! Finds the process that has a socket open.

use std::{
    fs::{self, File},
    io::Read as _,
    iter,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    time::{Duration, Instant},
};

use mcpmon_model::ProcessId;
use nix::{
    fcntl::{OFlag, open, openat, readlinkat},
    sys::stat::{Mode, fstat},
};

/// Most open files of one process that are examined.
const MAX_FILES: usize = 65_536;
/// Longest `/proc/PID/stat`: a name and some fifty numbers.
const MAX_STAT: usize = 2048;
/// The index of the start time, counted after the name (`proc(5)`: field 22, and the name is field 2).
const START: usize = 22 - 3;
/// Time limit of a search.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Most open files of a process that are examined on a thread that serves others: more of them take about as long as
/// handing the search to another thread. The newest descriptors are examined first.
const NEAR_FILES: usize = 32;
const NEAR_NUMBERS: usize = 512;

/// Returns the process that has the socket `inode` of `uid` open: one of `recent`, or else the first that is found.
/// Root finds any process; other users find only their own.
pub(super) fn of(inode: u32, uid: u32, recent: &[u32]) -> Option<ProcessId> {
    let link = link(inode);
    let begun = Instant::now();
    // `all` is lazy: other processes are listed only if none of `recent` has the socket.
    let pids = recent.iter().copied().chain(iter::once_with(all).flatten());
    let mut candidates = pids
        .take_while(|_| begun.elapsed() < TIMEOUT)
        .filter(|pid| may_be_of(*pid, uid));
    // The process with this number may have changed meanwhile, so the identity is read before the socket is looked for.
    candidates.find_map(|pid| {
        let process = identify(pid)?;
        open_as(&format!("/proc/{pid}/fd"), &link, [MAX_FILES; 2], begun).map(|_| process)
    })
}

/// Returns the target of the link of a descriptor that is this socket.
fn link(inode: u32) -> String {
    format!("socket:[{inode}]")
}

/// A process whose files are examined again and again. While its directory is open, nothing that is read there belongs
/// to another process, even if the number was reused.
#[derive(Debug)]
pub(super) struct HeldProcess {
    directory: OwnedFd,
    process: ProcessId,
    /// Number of the descriptor that was found last.
    number: u32,
}

impl HeldProcess {
    /// Opens the process that has `pid` now.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let directory = open(format!("/proc/{pid}").as_str(), flags, Mode::empty()).ok()?;
        let stat = openat(
            &directory,
            "stat",
            OFlag::O_RDONLY | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
        .ok()?;
        Some(Self {
            process: identity(pid, stat.into())?,
            directory,
            number: 0,
        })
    }

    pub(super) const fn pid(&self) -> u32 {
        self.process.pid
    }

    /// Returns the process if it has the socket `inode` of `uid` open, and few open files.
    pub(super) fn having(&mut self, inode: u32, uid: u32) -> Option<ProcessId> {
        let owner = fstat(&self.directory).ok()?.st_uid;
        let link = link(inode);
        if !may_be(owner, uid) {
            return None;
        }
        // A process that closes a connection and opens another one gets the same descriptor number.
        let again = readlinkat(&self.directory, format!("fd/{}", self.number).as_str());
        if again.is_ok_and(|target| target.as_os_str() == link.as_str()) {
            return Some(self.process);
        }
        let place = format!("/proc/self/fd/{}/fd", self.directory.as_raw_fd());
        self.number = open_as(&place, &link, [NEAR_NUMBERS, NEAR_FILES], Instant::now())?;
        Some(self.process)
    }
}

/// Returns the identity of the process that has `pid` now.
pub(super) fn identify(pid: u32) -> Option<ProcessId> {
    identity(pid, File::open(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns the identity from an open `stat`.
fn identity(pid: u32, mut file: File) -> Option<ProcessId> {
    // One read: the kernel generates the text anew for each read.
    let mut text = [0; MAX_STAT];
    let length = file.read(&mut text).ok()?;
    Some(ProcessId {
        pid,
        start: start_in(&text[..length])? * (1_000_000_000 / procfs::ticks_per_second()),
    })
}

/// Returns the start time of a process in ticks, from its `stat`. Its name can contain anything, parentheses
/// too.
fn start_in(stat: &[u8]) -> Option<u64> {
    let behind_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = str::from_utf8(&stat[behind_name..]).ok()?;
    rest.split_ascii_whitespace().nth(START)?.parse().ok()
}

/// Returns the numbers of all processes.
fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn may_be_of(pid: u32, uid: u32) -> bool {
    fs::metadata(format!("/proc/{pid}")).is_ok_and(|metadata| may_be(metadata.uid(), uid))
}

/// Returns whether a directory of `owner` may belong to a process of `uid`: the kernel gives the directories of
/// processes that may not be inspected to root.
fn may_be(owner: u32, uid: u32) -> bool {
    [uid, 0].contains(&owner)
}

/// Returns the descriptor in `place` that is the socket. The numbers of descriptors counted and examined are
/// limited.
fn open_as(place: &str, link: &str, [counted, most]: [usize; 2], begun: Instant) -> Option<u32> {
    let in_time = |count: usize| count % 1024 != 1023 || begun.elapsed() < TIMEOUT;
    let entries = fs::read_dir(place)
        .into_iter()
        .flatten()
        .take(counted)
        .enumerate();
    let numbers: Vec<u32> = entries
        .take_while(|(count, _)| in_time(*count))
        .filter_map(|(_, entry)| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    // Descriptors are listed in ascending order, and a new file mostly has the last one.
    let files = numbers.iter().rev().take(most).enumerate();
    let mut files = files.take_while(|(count, _)| in_time(*count));
    let found = files.find(|(_, number)| {
        fs::read_link(format!("{place}/{number}")).is_ok_and(|target| target.as_os_str() == link)
    });
    found.map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use procfs::process::Process;

    use super::*;

    #[test]
    fn a_process_is_identified_as_elsewhere() {
        let own = Process::myself()
            .and_then(|process| process.stat())
            .expect("a process");
        let start = own.starttime * (1_000_000_000 / procfs::ticks_per_second());
        let pid = std::process::id();
        assert_eq!(identify(pid), Some(ProcessId { pid, start }));
    }

    #[test]
    fn a_name_may_have_parentheses_and_spaces_in_it() {
        let fields: Vec<String> = (3..53).map(|field| field.to_string()).collect();
        let stat = format!("7 (a) 1 2 (b)) {}", fields.join(" "));
        assert_eq!(start_in(stat.as_bytes()), Some(22));
        assert_eq!(start_in(b"7 (a) S 1"), None);
        assert_eq!(start_in(b""), None);
    }
}
