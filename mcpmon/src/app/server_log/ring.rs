//! The two files of a run: the one that is written to, and the one before it, which is replaced when the first is full.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use nix::libc;

use super::{CURRENT, LINKED, LogEntry, MAX_FILE_BYTES, NEXT, PREVIOUS, ServerRun};

/// The log of one run, which only this process writes to. A lock on the current file shows that it does.
#[derive(Debug)]
pub(super) struct RunLog {
    path: PathBuf,
    header: Vec<u8>,
    file: File,
    bytes: u64,
}

impl RunLog {
    /// Creates the log in this directory, which is made with mode 0700 if it does not exist.
    pub(super) fn create(directory: &Path, run: &ServerRun) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        // A process id is used again, but not within a millisecond.
        let name = format!("{}-{}", run.started.0 / 1_000_000, run.pid);
        let path = directory.join(name).with_extension(CURRENT);
        let mut header = serde_json::to_vec(run)?;
        header.push(b'\n');
        let file = begin(&path, &header)?;
        Ok(Self {
            path,
            bytes: header.len() as u64,
            header,
            file,
        })
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// Returns an error if it cannot be written; no part of it is in the file then.
    pub(super) fn add(&mut self, entry: &LogEntry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        if self.bytes + line.len() as u64 > MAX_FILE_BYTES {
            self.turn()?;
        }
        if let Err(error) = self.file.write_all(&line) {
            self.file.set_len(self.bytes)?;
            return Err(error);
        }
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Begins the next file. There is a current file at every moment.
    fn turn(&mut self) -> io::Result<()> {
        let linked = self.path.with_extension(LINKED);
        remove(&linked)?;
        fs::hard_link(&self.path, &linked)?;
        fs::rename(&linked, self.path.with_extension(PREVIOUS))?;
        self.file = begin(&self.path, &self.header)?;
        self.bytes = self.header.len() as u64;
        Ok(())
    }
}

/// Puts a new file with this header in the place of `path`. It is locked before any process can find it there.
fn begin(path: &Path, header: &[u8]) -> io::Result<File> {
    let next = path.with_extension(NEXT);
    remove(&next)?;
    let mut file = OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&next)?;
    file.try_lock()?;
    file.write_all(header)?;
    fs::rename(&next, path)?;
    Ok(file)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use mcpmon_model::{ServerId, Timestamp};

    use super::*;

    fn run() -> ServerRun {
        ServerRun {
            server: ServerId::new("notes").unwrap(),
            session: None,
            pid: 7,
            started: Timestamp(1_000_000),
        }
    }

    #[test]
    fn it_is_its_owners_alone_and_takes_no_more_than_two_files() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("a/server-logs");
        let mut log = RunLog::create(&directory, &run()).unwrap();
        let text = "x".repeat(4000);
        let line = LogEntry::Line {
            at: Timestamp(1),
            text,
            is_cut: false,
        };
        for _ in 0..300 {
            log.add(&line).unwrap();
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory), 0o700);
        let files: Vec<_> = fs::read_dir(&directory)
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        assert_eq!(files.len(), 2, "{files:?}");
        for file in files {
            assert_eq!(mode(&file), 0o600);
            let text = fs::read_to_string(&file).unwrap();
            assert!(text.len() as u64 <= MAX_FILE_BYTES);
            assert_eq!(
                serde_json::from_str::<ServerRun>(text.lines().next().unwrap()).unwrap(),
                run()
            );
        }
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let home = tempfile::tempdir().unwrap();
        let target = home.path().join("target");
        fs::write(&target, "before").unwrap();
        for name in ["1-7.log", "1-7.next", "1-7.old", "1-7.linked"] {
            std::os::unix::fs::symlink(&target, home.path().join(name)).unwrap();
        }
        let mut log = RunLog::create(home.path(), &run()).unwrap();
        log.add(&LogEntry::Skipped {
            at: Timestamp(1),
            bytes: 1,
        })
        .unwrap();
        log.turn().unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "before");
    }
}
