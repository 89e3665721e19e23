//! A file of JSON lines that other programs follow, such as log shippers. Several processes may write to it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use nix::fcntl::{Flock, FlockArg, OFlag};

use super::{Outlet, StoreEntry, StoredEvent, events, line};

/// Size in bytes at which the file is put aside as `FILE.1`, over the one before.
const MAX_SIZE: u64 = 256 << 20;

/// The file, opened for each batch: whoever rotates it finds nobody holding on to the old one.
#[derive(Debug)]
pub(super) struct JsonLines {
    path: PathBuf,
    max_size: u64,
    lost: u64,
    cause: Option<String>,
}

impl JsonLines {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self {
            path,
            max_size: MAX_SIZE,
            lost: 0,
            cause: None,
        }
    }

    /// Appends one line for each event, all of them in one write. What cannot be written is counted.
    fn append<'a>(&mut self, events: impl Iterator<Item = &'a StoredEvent>) {
        let (mut lines, mut count) = (Vec::new(), 0);
        for event in events {
            lines.extend(line(event));
            count += 1;
        }
        if count == 0 {
            return;
        }
        if let Err(error) = self.write(&lines) {
            tracing::warn!(%error, path = %self.path.display(), "events cannot be appended");
            self.lost += count;
            self.cause = Some(format!("{}: {error}", self.path.display()));
        }
    }

    fn write(&self, lines: &[u8]) -> io::Result<()> {
        let mut file = self.open()?;
        if file.metadata()?.size() >= self.max_size {
            fs::rename(&self.path, aside(&self.path))?;
            file = self.open()?;
        }
        file.write_all(lines)
    }

    /// Opens and locks the file. Another process may have put it aside in between: then the new one is taken.
    fn open(&self) -> io::Result<Flock<File>> {
        loop {
            let file = OpenOptions::new()
                .append(true)
                .create(true)
                .mode(0o640)
                .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
                .open(&self.path)?;
            let file =
                Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| io::Error::from(errno))?;
            let metadata = file.metadata()?;
            if !metadata.is_file() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "no regular file"));
            }
            let is_current = fs::metadata(&self.path)
                .is_ok_and(|named| (named.dev(), named.ino()) == (metadata.dev(), metadata.ino()));
            if is_current {
                return Ok(file);
            }
        }
    }
}

impl Outlet for JsonLines {
    fn name(&self) -> &'static str {
        "jsonl file"
    }

    fn tell(&mut self, entries: &[StoreEntry], _is_stored: bool) {
        self.append(events(entries));
    }

    fn take_lost(&mut self) -> Option<(u64, String)> {
        let cause = self.cause.take()?;
        Some((std::mem::take(&mut self.lost), cause))
    }
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use uuid::Uuid;

    use super::*;
    use crate::{json, sample};

    fn event(number: u128) -> StoredEvent {
        StoredEvent::new(Uuid::from_u128(number), "laptop", sample::started("files", 2))
    }

    fn read(path: &Path) -> Vec<StoredEvent> {
        let text = fs::read_to_string(path).unwrap();
        text.lines()
            .map(|line| json::from_json(serde_json::from_str(line).unwrap()).unwrap())
            .collect()
    }

    #[test]
    fn events_are_appended_as_lines_that_nobody_else_reads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let mut jsonl = JsonLines::new(path.clone());
        jsonl.append([event(1), event(2)].iter());
        jsonl.append([].iter());
        jsonl.append([event(3)].iter());
        assert_eq!(read(&path), [event(1), event(2), event(3)]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(jsonl.take_lost(), None);
    }

    #[test]
    fn a_full_file_is_put_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let mut jsonl = JsonLines {
            max_size: 1,
            ..JsonLines::new(path.clone())
        };
        for number in 1..=3 {
            jsonl.append([event(number)].iter());
        }
        assert_eq!(read(&path), [event(3)]);
        assert_eq!(read(&aside(&path)), [event(2)]);
    }

    #[test]
    fn lines_of_several_writers_do_not_mix() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        std::thread::scope(|scope| {
            for writer in 0..4_u128 {
                let path = path.clone();
                scope.spawn(move || {
                    let mut jsonl = JsonLines::new(path);
                    for number in 0..25 {
                        jsonl.append([event(writer * 100 + number)].iter());
                    }
                });
            }
        });
        assert_eq!(read(&path).len(), 100);
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_told_once() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        fs::write(&target, "").unwrap();
        let path = directory.path().join("link");
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let mut jsonl = JsonLines::new(path.clone());
        jsonl.append([event(1), event(2)].iter());
        let (lost, cause) = jsonl.take_lost().unwrap();
        assert_eq!(lost, 2);
        assert!(cause.contains("link"), "{cause}");
        assert_eq!(jsonl.take_lost(), None);
        assert_eq!(fs::read(&target).unwrap(), b"");
    }
}
