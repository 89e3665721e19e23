//! Which process has a socket open.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    time::{Duration, Instant},
};

use mcpmon_core::model::ProcessId;
use procfs::process::Process;

/// Open files that are looked at, of one process.
const MOST_FILES: usize = 65_536;
/// Longest search.
const PATIENCE: Duration = Duration::from_millis(500);

/// The process that has the socket `inode` of `uid` open: one of `recent`, else the first that is found. Only those
/// can be found whose files may be looked at: all of them by root, else those of the own user.
pub(super) fn of(inode: u32, uid: u32, recent: &[u32]) -> Option<ProcessId> {
    let link = format!("socket:[{inode}]");
    let begun = Instant::now();
    let pids = recent.iter().copied().chain(all());
    let mut candidates = pids
        .take_while(|_| begun.elapsed() < PATIENCE)
        .filter(|pid| may_be_of(*pid, uid));
    // A number that another process was given in between names one that has not got the socket.
    candidates.find_map(|pid| {
        let process = identify(pid)?;
        has_open(pid, &link, begun).then_some(process)
    })
}

/// Identity of the process that has `pid` now.
pub(super) fn identify(pid: u32) -> Option<ProcessId> {
    let stat = Process::new(i32::try_from(pid).ok()?)
        .and_then(|process| process.stat())
        .ok()?;
    Some(ProcessId {
        pid,
        start: stat.starttime * (1_000_000_000 / procfs::ticks_per_second()),
    })
}

/// Numbers of all processes.
fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The files of a process that may not be looked into belong to root.
fn may_be_of(pid: u32, uid: u32) -> bool {
    fs::metadata(format!("/proc/{pid}")).is_ok_and(|metadata| [uid, 0].contains(&metadata.uid()))
}

fn has_open(pid: u32, link: &str, begun: Instant) -> bool {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    let mut files = entries.take(MOST_FILES).enumerate();
    files.any(|(number, entry)| {
        let is_late = number % 1024 == 1023 && begun.elapsed() >= PATIENCE;
        !is_late
            && entry
                .and_then(|entry| fs::read_link(entry.path()))
                .is_ok_and(|target| target.as_os_str() == link)
    })
}
