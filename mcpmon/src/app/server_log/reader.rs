//! Reading of logs: by their user, by a wrapper that removes old ones, and by root, who must not trust a user's files.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufRead as _, BufReader, Read as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use mcpmon_model::{ServerId, Timestamp};
use nix::libc;

use super::{CURRENT, LINKED, LogEntry, MAX_FILE_BYTES, NEXT, PREVIOUS, ServerRun};

/// Most runs of a directory that are read, newest first.
const MAX_READ_RUNS: usize = 1000;
/// Longest first line of a file, bytes.
const MAX_HEADER_BYTES: u64 = 4 << 10;
/// Most runs of one server that are kept after their end.
const MAX_RUNS_OF_SERVER: usize = 8;
/// Most runs of one user that are kept after their end.
const MAX_RUNS: usize = 64;
/// The time for which a run is kept after its start.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The logs of one user.
#[derive(Clone, Debug)]
pub struct LogDirectory {
    path: PathBuf,
    /// The owner of its files; files of other owners are not read.
    owner: u32,
}

/// A failed attempt to read logs.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the logs in {path}", path = .path.display())]
pub struct ReadError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl LogDirectory {
    /// Makes the directory for this process's user.
    pub fn own(path: PathBuf) -> Self {
        Self::of(path, nix::unistd::geteuid().as_raw())
    }

    /// Makes the directory for the user `owner`.
    pub const fn of(path: PathBuf, owner: u32) -> Self {
        Self { path, owner }
    }

    /// Returns whether the directory belongs to this process's user.
    pub fn is_own(&self) -> bool {
        self.owner == nix::unistd::geteuid().as_raw()
    }

    /// Returns its runs, oldest first.
    ///
    /// # Errors
    /// Returns an error if the directory exists and cannot be read.
    pub fn runs(&self) -> Result<Vec<LogTail>, ReadError> {
        let failed = |source| ReadError {
            path: self.path.clone(),
            source,
        };
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut names = BTreeMap::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if let Some(key) = run_key(&path) {
                names.insert(key, path);
                if names.len() > MAX_READ_RUNS {
                    names.pop_first();
                }
            }
        }
        Ok(names
            .into_values()
            .filter_map(|path| LogTail::open(path, self.owner))
            .collect())
    }

    /// Removes the runs that ended and are too old, or too many.
    pub(super) fn prune(&self, now: Timestamp) {
        let Ok(runs) = self.runs() else {
            return;
        };
        let oldest = i64::try_from(MAX_AGE.as_nanos()).map_or(i64::MIN, |age| now.0.saturating_sub(age));
        let mut of_server: BTreeMap<&ServerId, usize> = BTreeMap::new();
        let ended = runs.iter().rev().filter(|run| !run.is_live());
        for (after, run) in ended.enumerate() {
            let of_server = of_server.entry(&run.run.server).or_default();
            let is_kept = run.run.started.0 >= oldest && after < MAX_RUNS && *of_server < MAX_RUNS_OF_SERVER;
            *of_server += 1;
            if !is_kept {
                // Another wrapper may have removed it.
                let _removed = fs::remove_file(&run.path);
                for rest in [PREVIOUS, NEXT, LINKED] {
                    let _removed = fs::remove_file(run.path.with_extension(rest));
                }
            }
        }
    }
}

/// Returns the start and the process id of a run, from the name of its current file.
fn run_key(path: &Path) -> Option<(i64, u32)> {
    if path.extension()? != CURRENT {
        return None;
    }
    let (started, pid) = path.file_stem()?.to_str()?.split_once('-')?;
    Some((started.parse().ok()?, pid.parse().ok()?))
}

/// The log of one run, and the position up to which it was read.
#[derive(Debug)]
pub struct LogTail {
    /// The run that wrote the log.
    pub run: ServerRun,
    path: PathBuf,
    owner: u32,
    /// The inode of the file that was read last, and the number of its bytes that were read, which are whole lines.
    place: Option<(u64, u64)>,
}

impl LogTail {
    fn open(path: PathBuf, owner: u32) -> Option<Self> {
        let file = open(&path, owner).ok()?;
        let mut header = String::new();
        BufReader::new(file.take(MAX_HEADER_BYTES))
            .read_line(&mut header)
            .ok()?;
        Some(Self {
            run: serde_json::from_str(&header).ok()?,
            path,
            owner,
            place: None,
        })
    }

    /// Returns the owner of its files.
    pub const fn owner(&self) -> u32 {
        self.owner
    }

    /// Returns whether its wrapper is running.
    pub fn is_live(&self) -> bool {
        let locked = open(&self.path, self.owner).map(|file| file.try_lock_shared());
        matches!(locked, Ok(Err(TryLockError::WouldBlock)))
    }

    /// Returns whether both are the same run.
    pub fn is_same(&self, other: &Self) -> bool {
        self.path == other.path
    }

    /// Returns the entries since the last call. Lines that cannot be parsed are left out, because other programs can
    /// write to the file.
    ///
    /// # Errors
    /// Returns an error if its file cannot be read.
    pub fn next_entries(&mut self) -> Result<Vec<LogEntry>, ReadError> {
        let failed = |source| ReadError {
            path: self.path.clone(),
            source,
        };
        let current = match open(&self.path, self.owner) {
            Ok(file) => file,
            // The file was removed, so the run is over.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let inode = current.metadata().map_err(failed)?.ino();
        let mut entries = Vec::new();
        let from = match self.place {
            Some((last, read)) if last == inode => read,
            place => {
                if let Ok(previous) = open(&self.path.with_extension(PREVIOUS), self.owner) {
                    let its = previous.metadata().map_err(failed)?.ino();
                    let read = place.filter(|(last, _)| *last == its).map_or(0, |(_, read)| read);
                    if its != inode {
                        read_from(previous, read, &mut entries).map_err(failed)?;
                    }
                }
                0
            }
        };
        let read = read_from(current, from, &mut entries).map_err(failed)?;
        self.place = Some((inode, read));
        Ok(entries)
    }
}

/// Opens a regular file of this user, without blocking.
fn open(path: &Path, owner: u32) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let metadata = file.metadata()?;
    match metadata.is_file() && metadata.uid() == owner {
        true => Ok(file),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Reads the whole lines from this position on. Returns the position of the next line.
fn read_from(mut file: File, from: u64, entries: &mut Vec<LogEntry>) -> io::Result<u64> {
    use std::io::{Seek as _, SeekFrom};
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES.saturating_sub(from))
        .read_to_end(&mut bytes)?;
    let whole = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    let lines = bytes[..whole].split(|byte| *byte == b'\n');
    entries.extend(lines.filter_map(|line| serde_json::from_slice(line).ok()));
    Ok(from + whole as u64)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::{super::RunLog, *};

    fn run(server: &str, pid: u32, started: i64) -> ServerRun {
        ServerRun {
            server: ServerId::new(server).unwrap(),
            session: None,
            pid,
            started: Timestamp(started * 1_000_000),
        }
    }

    fn line(text: &str) -> LogEntry {
        LogEntry::Line {
            at: Timestamp(5),
            text: text.to_owned(),
            is_cut: false,
        }
    }

    fn texts(entries: Vec<LogEntry>) -> Vec<String> {
        let texts = entries.into_iter().map(|entry| match entry {
            LogEntry::Line { text, .. } => text,
            LogEntry::Skipped { bytes, .. } => format!("{bytes} skipped"),
        });
        texts.collect()
    }

    #[test]
    fn a_log_is_followed_over_the_change_of_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = RunLog::create(directory.path(), &run("notes", 7, 1)).unwrap();
        let logs = LogDirectory::own(directory.path().to_owned());
        log.add(&line("first")).unwrap();
        let mut tail = logs.runs().unwrap().remove(0);
        assert!(tail.is_live());
        assert_eq!(texts(tail.next_entries().unwrap()), ["first"]);
        assert!(tail.next_entries().unwrap().is_empty());
        let mut expected = Vec::new();
        for number in 0..100 {
            let text = format!("{number}{}", "x".repeat(4000));
            log.add(&line(&text)).unwrap();
            expected.push(text);
        }
        assert_eq!(texts(tail.next_entries().unwrap()), expected);
        drop(log);
        assert!(!tail.is_live(), "its wrapper is gone");
        let mut anew = logs.runs().unwrap().remove(0);
        assert_eq!(texts(anew.next_entries().unwrap()).last(), expected.last());
    }

    #[test]
    fn what_is_no_entry_and_what_is_not_whole_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = RunLog::create(directory.path(), &run("notes", 7, 1)).unwrap();
        let path = directory.path().join("1-7.log");
        let mut other = OpenOptions::new().append(true).open(&path).unwrap();
        other.write_all(b"\xff nonsense\n[1]\n").unwrap();
        log.add(&line("first")).unwrap();
        other.write_all(br#"{"line":{"at":5,"te"#).unwrap();
        let mut tail = LogDirectory::own(directory.path().to_owned())
            .runs()
            .unwrap()
            .remove(0);
        assert_eq!(texts(tail.next_entries().unwrap()), ["first"]);
        other.write_all(b"xt\":\"second\"}}\n").unwrap();
        assert_eq!(texts(tail.next_entries().unwrap()), ["second"]);
    }

    #[test]
    fn links_pipes_and_files_of_others_are_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let _log = RunLog::create(directory.path(), &run("notes", 7, 1)).unwrap();
        let path = |name| directory.path().join(name);
        std::os::unix::fs::symlink(path("1-7.log"), path("2-7.log")).unwrap();
        nix::unistd::mkfifo(&path("3-7.log"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::create_dir(path("4-7.log")).unwrap();
        assert_eq!(
            LogDirectory::own(directory.path().to_owned())
                .runs()
                .unwrap()
                .len(),
            1
        );
        let of_other = LogDirectory::of(directory.path().to_owned(), nix::unistd::geteuid().as_raw() + 1);
        assert!(of_other.runs().unwrap().is_empty());
    }

    #[test]
    fn old_runs_and_those_beyond_the_bounds_are_removed_and_live_ones_stay() {
        let directory = tempfile::tempdir().unwrap();
        let logs = LogDirectory::own(directory.path().to_owned());
        let create = |server: &str, pid, started| {
            RunLog::create(directory.path(), &run(server, pid, started)).unwrap()
        };
        let day = 24 * 3600 * 1000;
        let live = create("live", 1, 0);
        drop(create("old", 2, day));
        for number in 0..10 {
            drop(create("often", number, 9 * day));
        }
        drop(create("once", 3, 8 * day));
        logs.prune(Timestamp(10 * day * 1_000_000));
        let left = logs.runs().unwrap();
        let count = |server: &str| {
            left.iter()
                .filter(|run| run.run.server.as_str() == server)
                .count()
        };
        assert_eq!(
            ["live", "old", "often", "once"].map(count),
            [1, 0, MAX_RUNS_OF_SERVER, 1]
        );
        drop(live);
        for number in 0..70 {
            drop(create(&format!("server-{number}"), number, 10 * day));
        }
        logs.prune(Timestamp(10 * day * 1_000_000));
        assert_eq!(logs.runs().unwrap().len(), MAX_RUNS);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), MAX_RUNS);
    }
}
