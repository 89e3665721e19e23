//! A file of JSON lines for other programs that read it continuously, such as log shippers. Several processes may write
//! to it.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown},
    path::{Path, PathBuf},
};

use mcpmon_policy::{
    section_keys,
    written::{Size, Text},
};
use nix::fcntl::{Flock, FlockArg, OFlag};

use super::{
    EventFormat, EventSink, SectionFaults, SinkKeys, SinkSurroundings, StoreEntry, StoredEvent, events, line,
};

/// Most rotated files that are kept.
const MAX_KEPT_FILES: u32 = 999;

/// Smallest size at which a file is rotated, bytes.
const MIN_FILE_BYTES: u64 = 64 << 10;

/// The permissions of the first file.
const NEW_FILE_MODE: u32 = 0o640;

section_keys! {
    /// `record.jsonl` and what belongs to it.
    pub(super) struct JsonlKeys {
        /// File that every event is appended to as a line of JSON; empty for none.
        jsonl: String = String::new(),
        /// The form of such a line.
        format: EventFormat = EventFormat::Mcpmon,
        /// The size limit of that file, beyond which it is put aside as `FILE.1`.
        jsonl_max_size: Text<Size> = Text(Size(256 << 20)),
        /// The number of files that are kept so, of which the oldest goes first.
        jsonl_keep: u32 = 5,
    }
}

/// A file of JSON lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonlSettings {
    /// The path, absolute.
    pub path: PathBuf,
    /// The form of a line.
    pub format: EventFormat,
    /// Size in bytes at which the file is renamed to `FILE.1`.
    pub max_size: u64,
    /// Number of rotated files that are kept, at least 1.
    pub keep: u32,
}

impl SinkKeys for JsonlKeys {
    type Settings = JsonlSettings;

    fn check(&self, faults: &mut SectionFaults) -> Option<JsonlSettings> {
        let path = faults.file("jsonl", &self.jsonl);
        if path.is_none() && self.format != EventFormat::Mcpmon {
            faults.push(
                "format",
                "no file is written that would have this form: set `jsonl` too",
            );
        }
        let max_size = self.jsonl_max_size.0.0;
        if max_size < MIN_FILE_BYTES {
            faults.push(
                "jsonl_max_size",
                "a file would hold a few events only: expected at least `64KiB`",
            );
        }
        if !(1..=MAX_KEPT_FILES).contains(&self.jsonl_keep) {
            faults.push(
                "jsonl_keep",
                "expected a number of files from 1 to 999, which are kept beside the one that is written to",
            );
        }
        Some(JsonlSettings {
            path: path?,
            format: self.format,
            max_size,
            keep: self.jsonl_keep,
        })
    }

    fn start(settings: &JsonlSettings, _: &SinkSurroundings<'_>) -> Option<Box<dyn EventSink>> {
        Some(Box::new(JsonLines::new(settings.clone())))
    }
}

/// The file, opened for each batch, so that another program can rotate it at any time.
#[derive(Debug)]
pub(super) struct JsonLines {
    path: PathBuf,
    format: EventFormat,
    max_size: u64,
    keep: u32,
    lost: u64,
    cause: Option<String>,
}

impl JsonLines {
    pub(super) fn new(settings: JsonlSettings) -> Self {
        Self {
            path: settings.path,
            format: settings.format,
            max_size: settings.max_size,
            keep: settings.keep.clamp(1, MAX_KEPT_FILES),
            lost: 0,
            cause: None,
        }
    }

    /// Appends one line for each event, all of them in one write. Events that cannot be written are counted.
    fn append<'a>(&mut self, events: impl Iterator<Item = &'a StoredEvent>) {
        let (mut lines, mut count) = (Vec::new(), 0);
        for event in events {
            lines.extend(line(event, self.format));
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
        let mut file = self.open(NEW_FILE_MODE)?;
        let size = file.metadata()?.size();
        let mut end = size;
        if size > 0 && size.saturating_add(lines.len() as u64) > self.max_size {
            match self.rotate(&file) {
                Ok(next) => file = next,
                // No event is lost if the file grows too long.
                Err(error) => {
                    tracing::warn!(%error, path = %self.path.display(), "a full file cannot be put aside")
                }
            }
            end = file.metadata()?.size();
        }
        file.write_all(lines).inspect_err(|_| {
            // A partial line would make the next one unreadable too.
            if let Err(error) = file.set_len(end) {
                tracing::warn!(%error, path = %self.path.display(), "a line was written in part");
            }
        })
    }

    /// Rotates the full file, which is locked: `FILE.1` becomes `FILE.2` and so on, and the oldest one is removed. The
    /// file itself is renamed last: until then, other processes wait for its lock, and readers keep reading it under
    /// its new name. Returns the new file, with the owner and the permissions of the full one.
    fn rotate(&self, full: &File) -> io::Result<Flock<File>> {
        let kept = full.metadata()?;
        // If files cannot be renamed here, rotate nothing: otherwise the old files would be shifted away one by one.
        let probe = self.beside("rotating");
        drop(fs::remove_file(&probe));
        fs::hard_link(&self.path, &probe)?;
        fs::remove_file(&probe)?;
        for number in (1..self.keep).rev() {
            rename_if_there(&self.aside(number), &self.aside(number + 1))?;
        }
        rename_if_there(&self.path, &self.aside(1))?;
        let file = self.open(kept.mode() & 0o777)?;
        give(&file, &kept);
        Ok(file)
    }

    /// Opens and locks the file. If another process has rotated it in between, the new file is opened.
    fn open(&self, mode: u32) -> io::Result<Flock<File>> {
        loop {
            let file = OpenOptions::new()
                .append(true)
                .create(true)
                .mode(mode)
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

    /// Returns the path of a rotated file; 1 is the latest.
    fn aside(&self, number: u32) -> PathBuf {
        self.beside(&number.to_string())
    }

    fn beside(&self, end: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{end}"));
        name.into()
    }
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

/// Gives the new file the owner and mode that an administrator gave the previous one, as far as this process may: a
/// shipper reads both.
fn give(file: &File, kept: &Metadata) {
    let given = file.metadata().and_then(|new| {
        if (new.uid(), new.gid()) != (kept.uid(), kept.gid()) {
            fchown(file, Some(kept.uid()), Some(kept.gid()))?;
        }
        if new.mode() != kept.mode() {
            file.set_permissions(kept.permissions())?;
        }
        Ok(())
    });
    if let Err(error) = given {
        tracing::warn!(%error, "the new file has not the owner and permissions of the one before");
    }
}

impl EventSink for JsonLines {
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

#[cfg(test)]
mod tests {
    use std::{
        io::Read as _,
        os::unix::fs::PermissionsExt as _,
        sync::atomic::{AtomicU32, Ordering},
        thread,
    };

    use uuid::Uuid;

    use super::*;
    use crate::{json, sample};

    const fn settings(path: PathBuf) -> JsonlSettings {
        JsonlSettings {
            path,
            format: EventFormat::Mcpmon,
            max_size: 256 << 20,
            keep: 5,
        }
    }

    fn event(number: u128) -> StoredEvent {
        StoredEvent::new(Uuid::from_u128(number), "laptop", sample::started("files", 2))
    }

    fn event_in(line: &str) -> StoredEvent {
        json::from_json(serde_json::from_str(line).unwrap()).unwrap()
    }

    fn read(path: &Path) -> Vec<StoredEvent> {
        fs::read_to_string(path).unwrap().lines().map(event_in).collect()
    }

    #[test]
    fn events_are_appended_as_lines_that_nobody_else_reads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let mut jsonl = JsonLines::new(settings(path.clone()));
        jsonl.append([event(1), event(2)].iter());
        jsonl.append([].iter());
        jsonl.append([event(3)].iter());
        assert_eq!(read(&path), [event(1), event(2), event(3)]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(jsonl.take_lost(), None);
    }

    #[test]
    fn full_files_are_put_aside_and_the_oldest_one_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let mut jsonl = JsonLines::new(JsonlSettings {
            max_size: 1,
            keep: 3,
            ..settings(path.clone())
        });
        for number in 1..=6 {
            jsonl.append([event(number)].iter());
        }
        assert_eq!(read(&path), [event(6)]);
        for (number, kept) in [(1, 5), (2, 4), (3, 3)] {
            assert_eq!(read(&jsonl.aside(number)), [event(kept)]);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4);
    }

    #[test]
    fn files_of_larger_numbers_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        for keep in [4, 2] {
            let mut jsonl = JsonLines::new(JsonlSettings {
                max_size: 1,
                keep,
                ..settings(path.clone())
            });
            for number in 1..=8 {
                jsonl.append([event(number)].iter());
            }
        }
        // These may be the files of another program that rotates.
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 5);
    }

    #[test]
    fn a_file_that_cannot_be_put_aside_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let mut jsonl = JsonLines::new(JsonlSettings {
            max_size: 1,
            keep: 1,
            ..settings(path.clone())
        });
        fs::create_dir(jsonl.aside(1)).unwrap();
        for number in 1..=3 {
            jsonl.append([event(number)].iter());
        }
        assert_eq!(read(&path), [event(1), event(2), event(3)]);
        assert_eq!(jsonl.take_lost(), None);
    }

    #[test]
    fn a_new_file_has_the_permissions_of_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let mut jsonl = JsonLines::new(JsonlSettings {
            max_size: 1,
            ..settings(path.clone())
        });
        jsonl.append([event(1)].iter());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        jsonl.append([event(2)].iter());
        assert_eq!(read(&path), [event(2)]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o664);
    }

    /// Reads like a shipper: it reads the open file to its end, whatever its name is then, and continues with the next
    /// one.
    fn follow(files: &JsonLines, mut file: File, is_over: impl Fn() -> bool) -> Vec<StoredEvent> {
        let (mut events, mut text) = (Vec::new(), String::new());
        loop {
            let was_over = is_over();
            let next = next_of(files, &file);
            file.read_to_string(&mut text).unwrap();
            // The last line may be incomplete while it is being written.
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            events.extend(text.drain(..whole).as_str().lines().map(event_in));
            match next {
                Some(next) => {
                    assert_eq!(text, "", "a file ends with a whole line");
                    file = next;
                }
                None if was_over => return events,
                None => thread::yield_now(),
            }
        }
    }

    /// Returns the file that follows `file`. Returns `None` if `file` is the latest, or is being renamed.
    fn next_of(files: &JsonLines, file: &File) -> Option<File> {
        let inode = file.metadata().unwrap().ino();
        let is_it = |path: &Path| fs::metadata(path).is_ok_and(|named| named.ino() == inode);
        if is_it(&files.path) {
            return None;
        }
        let number = (1..MAX_KEPT_FILES).find(|number| is_it(&files.aside(*number)))?;
        let next = match number {
            1 => files.path.clone(),
            _ => files.aside(number - 1),
        };
        let next = File::open(next).ok()?;
        // The oldest file is renamed first: if this one still has its name, so has the next one.
        is_it(&files.aside(number)).then_some(next)
    }

    #[test]
    fn several_writers_rotate_one_file_and_who_follows_it_misses_nothing() {
        const WRITERS: u128 = 4;
        const EACH: u128 = 50;
        let directory = tempfile::tempdir().unwrap();
        let files = || {
            JsonLines::new(JsonlSettings {
                max_size: 2000,
                keep: MAX_KEPT_FILES,
                ..settings(directory.path().join("events.jsonl"))
            })
        };
        // The reader has to be there first, so that it reads the first file.
        File::create(&files().path).unwrap();
        let first = File::open(&files().path).unwrap();
        let done = AtomicU32::new(0);
        let mut followed = thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (mut jsonl, done) = (files(), &done);
                scope.spawn(move || {
                    for number in 0..EACH {
                        jsonl.append([event(writer * 1000 + number)].iter());
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
            follow(&files(), first, || {
                u128::from(done.load(Ordering::SeqCst)) == WRITERS
            })
        });
        assert!(files().aside(10).exists());
        followed.sort_by_key(|event| event.id);
        let all = (0..WRITERS).flat_map(|writer| (0..EACH).map(move |number| event(writer * 1000 + number)));
        assert_eq!(followed, all.collect::<Vec<_>>());
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_told_once() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        fs::write(&target, "").unwrap();
        let path = directory.path().join("link");
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let mut jsonl = JsonLines::new(settings(path.clone()));
        jsonl.append([event(1), event(2)].iter());
        let (lost, cause) = jsonl.take_lost().unwrap();
        assert_eq!(lost, 2);
        assert!(cause.contains("link"), "{cause}");
        assert_eq!(jsonl.take_lost(), None);
        assert_eq!(fs::read(&target).unwrap(), b"");
    }
}
