//! Processes, identified by number and start time as in the daemon.

use mcpmon_model::ProcessId;
use nix::unistd::{SysconfVar, sysconf};
use procfs::{FromRead as _, process::Stat};

/// Returns the identity of the process that has `pid` now. Returns `None` if there is none.
pub(super) fn identify(pid: u32) -> Option<ProcessId> {
    let stat = Stat::from_file(format!("/proc/{pid}/stat")).ok()?;
    let ticks = u64::try_from(sysconf(SysconfVar::CLK_TCK).ok()??).ok()?;
    Some(ProcessId {
        pid,
        start: stat.starttime * (1_000_000_000 / ticks),
    })
}

/// Returns whether `process` still runs, and its number was not reused.
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
