//! Live processes of the host: their ancestors, signals to them, and whether a process id still means the same process.

use std::{
    fs,
    io::{self, Read as _},
    sync::LazyLock,
};

use mcpmon_common::event::ProcessKey;
use mcpmon_detect::starter::{Ancestor, Terminal};
use mcpmon_model::ProcessId;
use nix::{
    sys::signal::{Signal, kill},
    time::{ClockId, clock_gettime},
    unistd::{Pid, SysconfVar, sysconf},
};

/// Usual length of a file in `/proc/PID`, and a length that no such file reaches; bytes.
const USUAL: usize = 2048;
const MAX_BYTES: u64 = 1 << 20;
/// Longest chain of ancestors that is climbed.
const MAX_ANCESTORS: usize = 64;

/// The content of `/proc/PID/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Command name.
    pub(crate) comm: String,
    /// Parent.
    pub(crate) parent: u32,
    /// The process's role in the session of a terminal.
    pub(crate) terminal: Terminal,
    /// Processor time of all its threads, in user and kernel mode, in clock ticks.
    pub(crate) processor_ticks: u64,
    /// Start time since boot in clock ticks.
    pub(crate) start_ticks: u64,
    /// Pages in memory, shared ones included.
    pub(crate) resident_pages: u64,
}

/// Reads `/proc/PID/stat`. Returns `None` if there is no such process.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&read_text(pid, "stat").ok()?)
}

/// Reads a file of `/proc/PID`. A process can give itself a name that is not UTF-8, and must not become invisible by
/// that.
fn read_text(pid: u32, name: &str) -> io::Result<String> {
    let mut bytes = Vec::with_capacity(USUAL);
    // These files report a length of 0.
    let file = fs::File::open(format!("/proc/{pid}/{name}"))?;
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns whether no process has `pid`. If this cannot be found out, the process counts as alive, because what is kept
/// for a live process must not be removed.
pub(crate) fn is_gone(pid: u32) -> bool {
    match read_text(pid, "stat") {
        Ok(_) => false,
        Err(error) => {
            error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ESRCH)
        }
    }
}

/// Parses the content of `/proc/PID/stat`. The command name is in parentheses, and may itself contain any character.
fn parse_stat(text: &str) -> Option<Stat> {
    let (before, after) = (text.find('(')?, text.rfind(')')?);
    let fields: Vec<&str> = text.get(after + 1..)?.split_ascii_whitespace().collect();
    let number = before.checked_sub(1).and_then(|end| text.get(..end))?;
    let leads = fields.get(3)? == &number && fields.get(4)? != &"0";
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Stat {
        terminal: match leads {
            true => Terminal::Leader,
            false => Terminal::Other,
        },
        comm: text.get(before + 1..after)?.to_owned(),
        parent: fields.get(1)?.parse().ok()?,
        processor_ticks: number(11)?.saturating_add(number(12)?),
        start_ticks: number(19)?,
        resident_pages: number(21)?,
    })
}

static TICKS_PER_SECOND: LazyLock<u64> = LazyLock::new(|| {
    sysconf(SysconfVar::CLK_TCK)
        .ok()
        .flatten()
        .and_then(|ticks| ticks.try_into().ok())
        .unwrap_or(100)
});

/// Returns the nanoseconds of a clock tick.
pub(crate) fn tick() -> u64 {
    1_000_000_000 / *TICKS_PER_SECOND
}

/// Returns the id of the process in a kernel record. Its start is rounded down to a clock tick, as in `/proc`, so that
/// both sources give the same id.
pub(crate) fn process_id(key: ProcessKey) -> ProcessId {
    ProcessId {
        pid: key.pid,
        start: key.start - key.start % tick(),
    }
}

/// Returns the id of the process that has `pid` now.
pub(crate) fn identify(pid: u32) -> Option<ProcessId> {
    Some(ProcessId {
        pid,
        start: stat(pid)?.start_ticks * tick(),
    })
}

/// Returns the parent of this process and its ancestors, nearest first.
pub(crate) fn above() -> Vec<Ancestor> {
    chain(nix::unistd::getppid().as_raw().cast_unsigned())
}

/// Returns the id of this boot of the host.
pub(crate) fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.unwrap_or_default().trim_end().to_owned()
}

/// Returns whether `process` still runs, and its number was not given to another process.
pub(crate) fn is_alive(process: ProcessId) -> bool {
    identify(process.pid) == Some(process)
}

/// Returns `process` and its ancestors, nearest first.
pub(crate) fn ancestors(process: ProcessId) -> Vec<Ancestor> {
    chain(process.pid)
}

fn chain(mut pid: u32) -> Vec<Ancestor> {
    let mut chain = Vec::new();
    while pid != 0 && chain.len() < MAX_ANCESTORS {
        let Some(stat) = stat(pid) else {
            break;
        };
        let process = ProcessId {
            pid,
            start: stat.start_ticks * tick(),
        };
        pid = stat.parent;
        chain.push(Ancestor {
            process,
            comm: stat.comm,
            terminal: stat.terminal,
        });
    }
    chain
}

/// Signals a process, unless its number belongs to another process now.
pub(crate) fn signal(process: ProcessId, signal: Signal) -> io::Result<()> {
    if !is_alive(process) {
        return Err(io::Error::from_raw_os_error(nix::libc::ESRCH));
    }
    let pid = i32::try_from(process.pid).map_err(io::Error::other)?;
    kill(Pid::from_raw(pid), signal).map_err(io::Error::from)
}

/// Returns all processes, in the order of their start.
pub(crate) fn all() -> Vec<ProcessId> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut processes: Vec<ProcessId> = pids.filter_map(identify).collect();
    processes.sort_by_key(|process| (process.start, process.pid));
    processes
}

/// Returns the offset from a time since boot to wall-clock time, nanoseconds.
pub(crate) fn boot_to_wall() -> i64 {
    nanoseconds(ClockId::CLOCK_REALTIME) - nanoseconds(ClockId::CLOCK_BOOTTIME)
}

/// Returns the nanoseconds since boot, by the clock of the kernel's records. Returns the maximum if the clock cannot be
/// read, so that no record seems to be later.
pub(crate) fn since_boot() -> u64 {
    match nanoseconds(ClockId::CLOCK_BOOTTIME) {
        0 => u64::MAX,
        now => now.unsigned_abs(),
    }
}

fn nanoseconds(clock: ClockId) -> i64 {
    clock_gettime(clock).map_or(0, |time| {
        time.tv_sec().saturating_mul(1_000_000_000) + time.tv_nsec()
    })
}

/// Returns the arguments of a running process, from at most `limit` bytes. A process that writes a title over its
/// arguments often leaves hundreds of empty ones: empty arguments at the end are left out.
pub(crate) fn arguments(pid: u32, limit: u64) -> Vec<String> {
    let mut bytes = Vec::new();
    let Ok(file) = fs::File::open(format!("/proc/{pid}/cmdline")) else {
        return Vec::new();
    };
    if file.take(limit).read_to_end(&mut bytes).is_err() {
        return Vec::new();
    }
    split_arguments(&bytes)
}

fn split_arguments(bytes: &[u8]) -> Vec<String> {
    let Some(end) = bytes.iter().rposition(|byte| *byte != 0) else {
        return Vec::new();
    };
    bytes[..=end]
        .split(|byte| *byte == 0)
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect()
}

/// Returns the real user id of a running process.
pub(crate) fn uid(pid: u32) -> Option<u32> {
    let status = read_text(pid, "status").ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    ids.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(b"npx\0-y\0\0x\0" => vec!["npx", "-y", "", "x"]; "an empty one in between")]
    #[test_case(b"npm i mcp\0\0\0\0\0" => vec!["npm i mcp"]; "a title")]
    #[test_case(b"cut" => vec!["cut"]; "cut off")]
    #[test_case(b"\0\0" => Vec::<&str>::new(); "nothing but empty ones")]
    #[test_case(b"" => Vec::<&str>::new(); "nothing")]
    fn arguments_of_a_process(bytes: &[u8]) -> Vec<&'static str> {
        let told = split_arguments(bytes);
        told.into_iter().map(|argument| &*argument.leak()).collect()
    }

    #[test]
    fn a_command_name_may_hold_anything() {
        let text = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 0 0 0 30 4 0 0 20 0 1 0 12345 0 256";
        let stat = Stat {
            comm: "a) b (c".to_owned(),
            parent: 7,
            terminal: Terminal::Other,
            processor_ticks: 34,
            start_ticks: 12345,
            resident_pages: 256,
        };
        assert_eq!(parse_stat(text), Some(stat.clone()));
        let shell = Stat {
            terminal: Terminal::Leader,
            ..stat
        };
        let text = text.replacen("42 42 0", "42 42 34816", 1);
        assert_eq!(parse_stat(&text), Some(shell));
        assert_eq!(parse_stat("42 (cut"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn this_process_is_alive_and_another_start_time_is_not_it() {
        let own = identify(std::process::id()).expect("own stat");
        assert!(is_alive(own));
        assert!(!is_alive(ProcessId {
            start: own.start + 60_000_000_000,
            ..own
        }));
        assert_eq!(ancestors(own).first().map(|ancestor| ancestor.process), Some(own));
        assert!(!arguments(own.pid, 1 << 16).is_empty());
    }

    #[test]
    fn a_process_whose_name_is_no_text_is_seen() {
        use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
        let directory = tempfile::tempdir().expect("directory");
        let program = directory.path().join(OsStr::from_bytes(b"\xff\xfe"));
        std::os::unix::fs::symlink("/bin/cat", &program).expect("link");
        let mut child = std::process::Command::new(&program)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cat");
        let found = identify(child.id()).expect("it lives");
        assert_eq!(
            stat(child.id()).map(|stat| stat.comm),
            Some("\u{fffd}\u{fffd}".to_owned())
        );
        assert!(is_alive(found) && !is_gone(child.id()));
        assert_eq!(uid(child.id()), Some(nix::unistd::getuid().as_raw()));
        signal(found, Signal::SIGKILL).expect("it can be signalled");
        child.wait().expect("wait");
        assert!(is_gone(child.id()));
    }
}
