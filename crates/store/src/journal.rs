//! The journal: blocks are written to a file next to the store with one `write(2)`, so that they are safe before the
//! writer has stored them.
//!
//! The page cache survives the process, so a kill loses nothing. The next process that opens the store takes over the
//! journals of processes that have ended, which it recognises by their missing locks.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use nix::fcntl::{Flock, FlockArg, OFlag};

use super::{Access, StoreLocation, StoredEvent, json};

/// Most bytes of a process's journal; further blocks wait for the writer like other events.
const MAX_SIZE: u64 = 1 << 20;
/// Most journals that are taken over at a time.
const MAX_ORPHANS: usize = 256;
/// The suffix of journal files.
const SUFFIX: &str = ".blocks";

/// The journal of this process.
#[derive(Debug)]
pub(super) struct Journal {
    store: StoreLocation,
    /// The end of its name; the beginning is the name of the store.
    suffix: String,
    access: Access,
    state: Mutex<JournalState>,
}

#[derive(Debug, Default)]
struct JournalState {
    /// The file and its path, once it was created for the first record.
    file: Option<(PathBuf, Flock<File>)>,
    size: u64,
    /// Number of records that the writer has not settled.
    pending: u64,
}

impl Journal {
    /// A journal next to `store`. It is created when it is needed, next to the new location if the store moves.
    pub(super) fn beside(store: StoreLocation, access: Access) -> Self {
        let suffix = format!(
            ".{}-{}{SUFFIX}",
            std::process::id(),
            uuid::Uuid::now_v7().simple()
        );
        Self {
            store,
            suffix,
            access,
            state: Mutex::default(),
        }
    }

    /// Keeps `event` until it is settled. Returns `false` if there is no room.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created or written.
    pub(super) fn keep(&self, event: &StoredEvent) -> io::Result<bool> {
        let mut line = serde_json::to_vec(&json::to_json(event))?;
        line.push(b'\n');
        let mut state = self.lock();
        if state.size + line.len() as u64 > MAX_SIZE {
            return Ok(false);
        }
        if state.file.is_none() {
            state.file = Some(self.make()?);
        }
        if let Some((_, file)) = &mut state.file {
            file.write_all(&line)?;
        }
        state.size += line.len() as u64;
        state.pending += 1;
        Ok(true)
    }

    /// Settles this number of records, which are stored now. After the last one the file is emptied, or removed if the
    /// store has moved.
    pub(super) fn settle(&self, records: u64) {
        let mut state = self.lock();
        state.pending = state.pending.saturating_sub(records);
        if state.pending > 0 {
            return;
        }
        let path = self.path();
        if let Some((left, _file)) = state.file.take_if(|(made, _)| *made != path) {
            state.size = 0;
            remove(&left);
        }
        if let Some((_, file)) = &state.file
            && state.size > 0
        {
            match file.set_len(0) {
                Ok(()) => state.size = 0,
                Err(error) => tracing::warn!(%error, "a journal cannot be emptied"),
            }
        }
    }

    fn path(&self) -> PathBuf {
        let mut path = self.store.path().into_os_string();
        path.push(&self.suffix);
        path.into()
    }

    fn make(&self) -> io::Result<(PathBuf, Flock<File>)> {
        let path = self.path();
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        self.access.apply_to(&path).map_err(io::Error::other)?;
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno)?;
        Ok((path, file))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, JournalState> {
        // A poisoned lock is used anyway: no code that holds it can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.pending == 0
            && let Some((path, _)) = &state.file
        {
            remove(path);
        }
    }
}

/// A journal of a process that has ended, locked against other processes that look for it.
#[derive(Debug)]
pub(super) struct Orphan {
    path: PathBuf,
    _file: Flock<File>,
    /// The events, as far as they can be read.
    pub(super) events: Vec<StoredEvent>,
}

impl Orphan {
    /// Removes the journal, whose records are stored now.
    pub(super) fn remove(self) {
        remove(&self.path);
    }
}

/// Returns the journals next to `store` whose processes have ended.
pub(super) fn orphans(store: &Path) -> Vec<Orphan> {
    let (Some(directory), Some(name)) = (store.parent(), store.file_name()) else {
        return Vec::new();
    };
    let mut prefix: OsString = name.to_owned();
    prefix.push(".");
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let is_journal = |name: &OsString| {
        let bytes = name.as_encoded_bytes();
        bytes.starts_with(prefix.as_encoded_bytes()) && bytes.ends_with(SUFFIX.as_bytes())
    };
    let mut names: Vec<OsString> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name())
        .filter(is_journal)
        .take(MAX_ORPHANS)
        .collect();
    names.sort();
    names
        .iter()
        .filter_map(|name| take_over(&directory.join(name)))
        .collect()
}

fn take_over(path: &Path) -> Option<Orphan> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)
        .ok()?;
    let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).ok()?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return None;
    }
    let mut bytes = Vec::new();
    (&*file).take(MAX_SIZE).read_to_end(&mut bytes).ok()?;
    // The last line may be incomplete if the disk was full.
    let events = bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| json::from_json(serde_json::from_slice(line).ok()?))
        .collect();
    Some(Orphan {
        path: path.to_owned(),
        _file: file,
        events,
    })
}

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, path = %path.display(), "a journal cannot be removed");
        }
        Ok(()) | Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::sample;

    fn event(number: u128) -> StoredEvent {
        StoredEvent::new(Uuid::from_u128(number), "laptop", sample::denied("files"))
    }

    fn beside(store: &Path) -> Journal {
        Journal::beside(StoreLocation::new(store), Access::default())
    }

    fn journals(store: &Path) -> usize {
        let files = fs::read_dir(store.parent().unwrap()).unwrap();
        files
            .filter(|entry| {
                entry
                    .as_ref()
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .ends_with(SUFFIX)
            })
            .count()
    }

    #[test]
    fn what_was_kept_is_found_once_its_process_is_gone_and_not_before() {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("mcpmon.db");
        let journal = beside(&store);
        assert_eq!(journals(&store), 0, "nothing was stopped yet");
        for number in 1..=2 {
            assert!(journal.keep(&event(number)).unwrap());
        }
        assert!(orphans(&store).is_empty(), "it is locked");
        // As after a kill: the lock is released with the descriptor, and the file remains.
        drop(journal);
        let found = orphans(&store);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].events, [event(1), event(2)]);
        found.into_iter().for_each(Orphan::remove);
        assert_eq!(journals(&store), 0);
    }

    #[test]
    fn what_is_settled_is_kept_no_longer() {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("mcpmon.db");
        let journal = beside(&store);
        for number in 1..=3 {
            journal.keep(&event(number)).unwrap();
        }
        journal.settle(2);
        assert_ne!(fs::metadata(journal.path()).unwrap().len(), 0);
        journal.settle(1);
        assert_eq!(fs::metadata(journal.path()).unwrap().len(), 0);
        drop(journal);
        assert_eq!(journals(&store), 0);
    }

    #[test]
    fn a_journal_goes_where_its_store_goes_once_nothing_waits_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let [standby, own] = ["run", "state"].map(|name| directory.path().join(name).join("mcpmon.db"));
        for store in [&standby, &own] {
            fs::create_dir(store.parent().unwrap()).unwrap();
        }
        let location = StoreLocation::new(&standby);
        let journal = Journal::beside(location.clone(), Access::default());
        journal.keep(&event(1)).unwrap();
        location.move_to(&own, || Ok::<_, io::Error>(())).unwrap();
        journal.keep(&event(2)).unwrap();
        journal.settle(1);
        assert_eq!((journals(&standby), journals(&own)), (1, 0), "one record waits");
        journal.settle(1);
        assert_eq!((journals(&standby), journals(&own)), (0, 0));
        journal.keep(&event(3)).unwrap();
        assert_eq!((journals(&standby), journals(&own)), (0, 1));
        journal.settle(1);
        location.move_to(&standby, || Ok::<_, io::Error>(())).unwrap();
        journal.settle(0);
        assert_eq!(
            (journals(&standby), journals(&own)),
            (0, 0),
            "an empty one goes too"
        );
    }

    #[test]
    fn a_journal_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let journal = beside(&directory.path().join("mcpmon.db"));
        let mut large = event(1);
        large.reason = Some("x".repeat(600 << 10));
        assert!(journal.keep(&large).unwrap());
        assert!(!journal.keep(&large).unwrap());
        assert!(journal.keep(&event(2)).unwrap());
    }

    #[test]
    fn a_damaged_journal_gives_what_can_be_read_and_a_link_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("mcpmon.db");
        let line = serde_json::to_string(&json::to_json(&event(7))).unwrap();
        fs::write(
            directory.path().join("mcpmon.db.1-a.blocks"),
            format!("{line}\n{{}}\nnonsense\n{}", &line[..line.len() / 2]),
        )
        .unwrap();
        let elsewhere = directory.path().join("elsewhere");
        fs::write(&elsewhere, format!("{line}\n")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, directory.path().join("mcpmon.db.2-b.blocks")).unwrap();
        fs::write(directory.path().join("other.db.1-a.blocks"), format!("{line}\n")).unwrap();
        let found = orphans(&store);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].events, [event(7)]);
    }
}
