//! Processes by number and start, as the daemon names them.

use mcpmon_core::model::ProcessId;
use procfs::process::Process;

/// Identity of the process that has `pid` now; `None` where there is none.
pub(super) fn identify(pid: u32) -> Option<ProcessId> {
    let stat = Process::new(i32::try_from(pid).ok()?)
        .and_then(|process| process.stat())
        .ok()?;
    Some(ProcessId {
        pid,
        start: stat.starttime * (1_000_000_000 / procfs::ticks_per_second()),
    })
}

/// Whether `process` still runs, and its number means no other one.
pub(super) fn lives(process: ProcessId) -> bool {
    identify(process.pid) == Some(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_one_of_another_start_does_not() {
        let own = identify(std::process::id()).expect("own stat");
        assert!(lives(own));
        assert!(!lives(ProcessId {
            start: own.start + 60_000_000_000,
            ..own
        }));
        assert_eq!(identify(u32::MAX), None);
    }
}
