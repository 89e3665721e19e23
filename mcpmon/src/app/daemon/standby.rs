//! The store that a daemon works with. If its own store cannot be used, a standby store is, so that rules are enforced
//! and events are recorded all the same.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use mcpmon_engine::pins::PinBook;
use mcpmon_model::Kills;
use mcpmon_session::pins;
use mcpmon_store::{
    Access, AccessError, Adoption, CopyError, SchemaError, Sole, SoleError, Store, StoreError, StoreLocation,
    StoreReader,
};

use super::DaemonError;

/// File name of the standby store, beside the control socket.
const NAME: &str = "standby.db";
/// File name of the number of changes, beside the control socket.
const CHANGES: &str = "changes";
/// Largest size of the standby store, bytes: it is in memory on most hosts.
const MAX_SIZE: u64 = 64 << 20;
/// The longest wait for a store that another process has locked.
const MAX_LOCKED: Duration = Duration::from_secs(20);

/// An open store, the decisions in it, and the standby state if it is not the daemon's own.
#[derive(Debug)]
pub(super) struct OpenedStore {
    pub(super) location: StoreLocation,
    pub(super) writer: Store,
    pub(super) kills: Kills,
    pub(super) pins: PinBook,
    pub(super) standby: Option<Standby>,
    /// The lock by which no other daemon uses it.
    pub(super) sole: Sole,
}

/// The state of a standby store, which is used instead of the daemon's own store.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(Default))]
pub(super) struct Standby {
    /// The problem with the own store.
    pub(super) trouble: String,
    own: PathBuf,
    access: Access,
}

/// The daemon's own store after the return to it.
#[derive(Debug)]
pub(super) struct ReturnedStore {
    pub(super) sole: Sole,
    /// Number of events that were in the standby store.
    pub(super) events: u64,
}

/// The reason why the daemon does not return to its own store yet.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReturnError {
    /// The store cannot be used.
    #[error(transparent)]
    Unusable(#[from] DaemonError),
    /// The store contains decisions that the daemon does not know.
    #[error("it has other pins, approvals or kills than the daemon, which hold once that is restarted")]
    OtherDecisions,
    /// The records of the standby store cannot be copied.
    #[error(transparent)]
    Copy(#[from] CopyError),
}

/// Opens the store at `path`. Opens one in `directory` instead if it is full, cannot be written, or is damaged. Either
/// way, the number of its changes is in a file there that every user may read.
pub(super) fn open(path: &Path, access: Access, directory: &Path) -> Result<OpenedStore, DaemonError> {
    let opened = open_one(path, access, directory)?;
    let changes = opened.writer.changes();
    let published = opened.location.publish_changes(&directory.join(CHANGES), changes);
    if let Err(error) = published {
        tracing::error!(%error, "users' wrappers do not learn of approvals, policies and the kill switch");
    }
    Ok(opened)
}

fn open_one(path: &Path, access: Access, directory: &Path) -> Result<OpenedStore, DaemonError> {
    let standby = directory.join(NAME);
    let error = match unlocked(MAX_LOCKED, || usable(path, access)) {
        Ok(mut opened) => {
            opened.take_over(path, &standby);
            return Ok(opened);
        }
        Err(error) => error,
    };
    if !may_stand_in(&error) {
        return Err(error);
    }
    let cause = describe(&error);
    tracing::error!(cause, standby = %standby.display(), "the store cannot be used");
    let mut opened = match usable(&standby, access) {
        Ok(opened) => opened,
        Err(worse) => {
            tracing::error!(error = %worse, "nor can one stand in for it");
            return Err(error);
        }
    };
    opened.location = StoreLocation::standby(&standby, MAX_SIZE);
    opened.writer = Store::open_at(&opened.location, access)?;
    let mut trouble = format!(
        "the store cannot be used ({cause}): events are kept in {} until it can be written again",
        standby.display()
    );
    match opened.writer.adopt_decisions(path) {
        Ok(()) => opened.read()?,
        Err(error) => {
            tracing::error!(%error, "pins and approvals cannot be read");
            trouble
                .push_str("; pins, approvals and the kill switch of before cannot be read and do not hold");
        }
    }
    opened.standby = Some(Standby {
        trouble,
        own: path.to_owned(),
        access,
    });
    Ok(opened)
}

impl Standby {
    /// Copies the standby store at `location` into the own store if that can be written again, and moves all writers
    /// there. If this fails, nothing changes.
    ///
    /// # Errors
    /// Returns an error if the own store still cannot be used, or has decisions that the daemon does not know.
    pub(super) fn give_back(&self, location: &StoreLocation) -> Result<ReturnedStore, ReturnError> {
        let standby = location.path();
        let OpenedStore { mut writer, sole, .. } = usable(&self.own, self.access)?;
        let mut adoption = Adoption::new(&standby);
        if !adoption.knows_decisions(&mut writer)? {
            return Err(ReturnError::OtherDecisions);
        }
        // Copies most records while others still write, so that no writer has to wait.
        adoption.copy_records(&mut writer)?;
        location.move_to(&self.own, || adoption.finish(&mut writer))?;
        if let Err(error) = location.announce(writer.changes()) {
            tracing::error!(%error, "wrappers do not learn that the store was moved");
        }
        if let Err(error) = writer.adopt_journals(&standby) {
            tracing::error!(%error, "journals beside the standby store are taken over with the next start");
        }
        remove(&standby);
        Ok(ReturnedStore {
            sole,
            events: adoption.events,
        })
    }
}

/// Removes a standby store that was copied. The file with its change counter stays, because running processes read it.
fn remove(standby: &Path) {
    for suffix in ["", "-wal", "-shm", ".daemon"] {
        let mut file = standby.as_os_str().to_owned();
        file.push(suffix);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "the standby store cannot be removed");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

/// Opens a store. While another process has it locked, tries again until `patience` is over.
fn unlocked<T>(
    patience: Duration,
    mut open: impl FnMut() -> Result<T, DaemonError>,
) -> Result<T, DaemonError> {
    let started = Instant::now();
    loop {
        match open() {
            // Each attempt waits for the lock, too.
            Err(error) if is_locked(&error) && started.elapsed() < patience => {
                tracing::warn!(%error, "another process has locked the store");
            }
            outcome => return outcome,
        }
    }
}

fn is_locked(error: &DaemonError) -> bool {
    matches!(error, DaemonError::Store(error) if error.is_locked())
}

fn usable(path: &Path, access: Access) -> Result<OpenedStore, DaemonError> {
    let sole = Sole::take(path, access)?;
    let location = StoreLocation::new(path);
    let mut opened = OpenedStore {
        writer: Store::open_at(&location, access)?,
        location,
        kills: Kills::default(),
        pins: PinBook::default(),
        standby: None,
        sole,
    };
    opened.read()?;
    // A store that can be opened may be full, or on a disk that accepts no writes.
    opened.writer.probe()?;
    Ok(opened)
}

/// Returns whether a standby store may be used. It may not if another daemon uses the store, if others could write to
/// it, or if the file belongs to another program.
fn may_stand_in(error: &DaemonError) -> bool {
    let is_of_disk =
        |error: &AccessError| matches!(error, AccessError::Io { .. } | AccessError::Directory(_));
    match error {
        DaemonError::Sole(SoleError::Taken { .. }) => false,
        DaemonError::Sole(SoleError::Access(error)) | DaemonError::Store(StoreError::Access(error)) => {
            is_of_disk(error)
        }
        DaemonError::Store(StoreError::Schema { source, .. }) => matches!(source, SchemaError::Sqlite(_)),
        DaemonError::Sole(SoleError::Io { .. })
        | DaemonError::Store(_)
        | DaemonError::Open(_)
        | DaemonError::Query(_) => true,
        DaemonError::Config(_)
        | DaemonError::Compile(_)
        | DaemonError::Sensor(_)
        | DaemonError::NoKernelLog
        | DaemonError::Install(_)
        | DaemonError::Listen(_)
        | DaemonError::Start(_)
        | DaemonError::EngineEnded
        | DaemonError::EngineStuck => false,
    }
}

impl OpenedStore {
    /// Reads the decisions in the store.
    fn read(&mut self) -> Result<(), DaemonError> {
        self.kills = self.writer.read(StoreReader::kills)?;
        self.pins = pins::from_rows(StoreReader::open(&self.location.path())?.pins()?);
        Ok(())
    }

    /// Copies a standby store and the journals beside it. What cannot be copied stays for the next start.
    fn take_over(&mut self, own: &Path, standby: &Path) {
        let adopted = match standby.exists() {
            true => self.writer.adopt_all(standby).map(Some),
            false => self
                .writer
                .adopt_journals(standby)
                .map_err(CopyError::from)
                .map(|()| None),
        };
        match adopted {
            Ok(Some(events)) => {
                tracing::info!(events, store = %own.display(), "took over the standby store");
                remove(standby);
                if let Err(error) = self.read() {
                    tracing::error!(%error, "what was decided meanwhile does not hold yet");
                }
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "the standby store is not taken over"),
        }
    }
}

/// Formats an error with its causes, in one line.
fn describe(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{Kill, Timestamp};
    use mcpmon_store::{Filter, Generation, Recorder, RecorderSettings, sample};

    use super::*;

    fn events(path: &Path) -> usize {
        let reader = StoreReader::open(path).unwrap();
        reader.events(&Filter::default(), 100).unwrap().len()
    }

    #[test]
    fn one_stands_in_for_a_damaged_store_and_what_it_has_is_taken_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/mcpmon.db");
        let run = directory.path().join("run");
        fs::create_dir(&run).unwrap();
        drop(open(&path, Access::default(), &run).unwrap());
        fs::write(&path, "no database ".repeat(1000)).unwrap();
        let mut opened = open(&path, Access::default(), &run).unwrap();
        let Standby { trouble, .. } = opened.standby.take().unwrap();
        assert!(
            trouble.contains("not a database") && trouble.contains("standby.db"),
            "{trouble}"
        );
        assert_eq!(opened.location.path(), run.join(NAME));
        opened.writer.record(vec![sample::started("a", 2)]).unwrap();
        drop(opened);
        fs::remove_file(&path).unwrap();
        let opened = open(&path, Access::default(), &run).unwrap();
        assert!(opened.standby.is_none());
        assert_eq!((events(&path), run.join(NAME).exists()), (1, false));
    }

    /// Opens a damaged store, and returns what is used instead.
    fn damaged(directory: &Path, before: &[u8]) -> (PathBuf, OpenedStore) {
        let path = directory.join("state/mcpmon.db");
        let run = directory.join("run");
        fs::create_dir(&run).unwrap();
        fs::create_dir(directory.join("state")).unwrap();
        fs::write(&path, before).unwrap();
        let opened = open(&path, Access::default(), &run).unwrap();
        (path, opened)
    }

    const NO_STORE: &[u8] =
        b"no database no database no database no database no database no database no database";

    #[test]
    fn one_stands_in_while_a_directory_has_the_place_of_the_store() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/mcpmon.db");
        let run = directory.path().join("run");
        fs::create_dir(&run).unwrap();
        fs::create_dir_all(&path).unwrap();
        let mut opened = open(&path, Access::default(), &run).unwrap();
        let standby = opened.standby.take().unwrap();
        assert!(standby.trouble.contains("is a directory"), "{}", standby.trouble);
        opened.writer.record(vec![sample::started("a", 2)]).unwrap();
        fs::remove_dir(&path).unwrap();
        standby.give_back(&opened.location).unwrap();
        assert_eq!(events(&path), 1);
    }

    #[test]
    fn whoever_writes_moves_to_the_own_store_once_that_can_be_written() {
        let directory = tempfile::tempdir().unwrap();
        let (path, mut opened) = damaged(directory.path(), NO_STORE);
        let standby = opened.standby.take().unwrap();
        let recorder = Recorder::start(RecorderSettings {
            location: opened.location.clone(),
            ..RecorderSettings::new(&path)
        })
        .unwrap();
        let generation = Generation::open(opened.location.generation()).unwrap();
        opened.writer.record(vec![sample::started("a", 2)]).unwrap();
        recorder.push(sample::denied("a"));
        recorder.flush(Duration::from_secs(60)).unwrap();
        let error = standby.give_back(&opened.location).unwrap_err();
        assert!(matches!(error, ReturnError::Unusable(_)), "{error}");
        assert_eq!(opened.location.path(), directory.path().join("run").join(NAME));

        fs::remove_file(&path).unwrap();
        let returned = standby.give_back(&opened.location).unwrap();
        assert_eq!(returned.events, 2);
        recorder.push(sample::started("b", 3));
        recorder.flush(Duration::from_secs(60)).unwrap();
        let own = Generation::open(&Generation::path(&path)).unwrap();
        let before = (generation.now(), own.now());
        let kill = Kill {
            by: "root".to_owned(),
            at: Timestamp(7),
        };
        assert!(opened.writer.kill(None, &kill).unwrap());
        assert!(
            generation.now() != before.0 && own.now() != before.1,
            "whoever looks at either number hears of changes"
        );
        assert_eq!(
            (
                events(&path),
                recorder.path(),
                directory.path().join("run").join(NAME).exists()
            ),
            (3, path.clone(), false)
        );
        let left = fs::read_dir(directory.path().join("run")).unwrap();
        let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        let number = Generation::path(Path::new(NAME));
        assert_eq!(
            left,
            [CHANGES.as_ref(), number.as_os_str()],
            "nothing else is of use"
        );
        let error = open(&path, Access::default(), &directory.path().join("run")).unwrap_err();
        assert!(
            matches!(error, DaemonError::Sole(SoleError::Taken { .. })),
            "{error}"
        );
        drop((returned, opened, recorder));
        assert!(
            Store::open(&path, Access::default())
                .unwrap()
                .read(StoreReader::kills)
                .unwrap()
                .host
                .is_some()
        );
    }

    #[test]
    fn a_store_with_decisions_that_nobody_could_read_waits_for_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let (path, mut opened) = damaged(directory.path(), NO_STORE);
        let standby = opened.standby.take().unwrap();
        fs::remove_file(&path).unwrap();
        let kill = Kill {
            by: "root".to_owned(),
            at: Timestamp(7),
        };
        let mut restored = Store::open(&path, Access::default()).unwrap();
        assert!(restored.kill(None, &kill).unwrap());
        drop(restored);
        let error = standby.give_back(&opened.location).unwrap_err();
        assert!(matches!(error, ReturnError::OtherDecisions), "{error}");
    }

    fn stopped() -> Kill {
        Kill {
            by: "root".to_owned(),
            at: Timestamp(7),
        }
    }

    /// Opens a store with a kill beside which no file can be made for a while, and returns what is used meanwhile.
    fn unwritable(directory: &Path) -> (PathBuf, OpenedStore) {
        let path = directory.join("state/mcpmon.db");
        let run = directory.join("run");
        fs::create_dir(&run).unwrap();
        let mut own = open(&path, Access::default(), &run).unwrap();
        assert!(own.writer.kill(None, &stopped()).unwrap());
        own.writer.record(vec![sample::started("a", 2)]).unwrap();
        drop(own);
        let mark = directory.join("state/mcpmon.db.daemon");
        fs::remove_file(&mark).unwrap();
        fs::create_dir(&mark).unwrap();
        let opened = open(&path, Access::default(), &run).unwrap();
        fs::remove_dir(&mark).unwrap();
        assert!(opened.standby.is_some() && opened.kills.host.is_some());
        (path, opened)
    }

    #[test]
    fn adopted_decisions_go_into_a_store_that_is_begun_anew() {
        let directory = tempfile::tempdir().unwrap();
        let (path, mut opened) = unwritable(directory.path());
        let standby = opened.standby.take().unwrap();
        fs::remove_file(&path).unwrap();
        standby.give_back(&opened.location).unwrap();
        let mut own = Store::open(&path, Access::default()).unwrap();
        assert_eq!(own.read(StoreReader::kills).unwrap().host, Some(stopped()));
    }

    #[test]
    fn a_store_with_other_decisions_than_those_adopted_waits_for_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let (path, mut opened) = unwritable(directory.path());
        let standby = opened.standby.take().unwrap();
        let mut own = Store::open(&path, Access::default()).unwrap();
        assert!(own.lift_kill(None).unwrap());
        drop(own);
        let error = standby.give_back(&opened.location).unwrap_err();
        assert!(
            matches!(error, ReturnError::OtherDecisions),
            "a person undid it there: {error}"
        );
        let session = mcpmon_model::SessionId::new("s1");
        let mut own = Store::open(&path, Access::default()).unwrap();
        assert!(own.kill(Some(&session), &stopped()).unwrap());
        drop(own);
        let error = standby.give_back(&opened.location).unwrap_err();
        assert!(matches!(error, ReturnError::OtherDecisions), "{error}");
        assert!(directory.path().join("run").join(NAME).exists());
    }

    #[test]
    fn a_store_that_is_only_locked_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mcpmon.db");
        drop(usable(&path, Access::default()).unwrap());
        let mut holder = Some(sample::locked(&path));
        let mut tries = 0;
        let opened = unlocked(Duration::MAX, || {
            tries += 1;
            let opened = usable(&path, Access::default());
            drop(holder.take());
            opened
        });
        assert_eq!((opened.unwrap().standby.is_none(), tries), (true, 2));
    }

    #[test]
    fn none_stands_in_for_one_that_another_daemon_has_or_that_is_unsafe() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mcpmon.db");
        let first = open(&path, Access::default(), directory.path()).unwrap();
        let error = open(&path, Access::default(), directory.path()).unwrap_err();
        assert!(
            matches!(error, DaemonError::Sole(SoleError::Taken { .. })),
            "{error}"
        );
        drop(first);
        let link = directory.path().join("link.db");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let error = open(&link, Access::default(), directory.path()).unwrap_err();
        assert!(
            matches!(
                error,
                DaemonError::Sole(SoleError::Access(AccessError::NotRegular(_)))
            ),
            "{error}"
        );
    }
}
