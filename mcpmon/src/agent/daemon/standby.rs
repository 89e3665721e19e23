//! The store that a daemon works with: the one it is meant to have or, where that cannot be used, another one that stands
//! in, so that rules hold all the same and what happens is recorded.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use mcpmon_core::{decide::pins::PinBook, model::Kills};

use super::DaemonError;
use crate::{
    judge::pins,
    record::{Access, AccessError, Reader, SchemaError, Sole, SoleError, Store, StoreError},
};

/// Its name beside the control socket.
const NAME: &str = "standby.db";
/// Bytes that it may take: it is in memory on most hosts.
pub(super) const MAX_SIZE: u64 = 64 << 20;
/// How long a store is waited for that another process has locked.
const MAX_LOCKED: Duration = Duration::from_secs(20);

/// A store that can be written, what it decides by, and what is wrong where it stands in for another.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) writer: Store,
    pub(super) kills: Kills,
    pub(super) pins: PinBook,
    pub(super) trouble: Option<String>,
    /// Nobody else has it.
    pub(super) sole: Sole,
}

/// Opens the store at `path`, or one in `directory` where it is full, cannot be written, or is damaged.
pub(super) fn open(path: &Path, access: Access, directory: &Path) -> Result<Opened, DaemonError> {
    let standby = directory.join(NAME);
    let error = match unlocked(MAX_LOCKED, || usable(path, access)) {
        Ok(mut opened) => {
            opened.take_over(&standby);
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
    let mut trouble = format!(
        "the store cannot be used ({cause}): events are kept in {}, and taken over when the daemon is started with a store that works",
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
    opened.trouble = Some(trouble);
    Ok(opened)
}

/// Tries to open a store again while another process has it locked, until `patience` is over.
fn unlocked<T>(
    patience: Duration,
    mut open: impl FnMut() -> Result<T, DaemonError>,
) -> Result<T, DaemonError> {
    let started = Instant::now();
    loop {
        match open() {
            // Each try waits for the lock, too.
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

fn usable(path: &Path, access: Access) -> Result<Opened, DaemonError> {
    let sole = Sole::take(path, access)?;
    let mut opened = Opened {
        path: path.to_owned(),
        writer: Store::open(path, access)?,
        kills: Kills::default(),
        pins: PinBook::default(),
        trouble: None,
        sole,
    };
    opened.read()?;
    // One that can be opened may have no room left, or be on a disk that takes nothing any more.
    opened.writer.probe()?;
    Ok(opened)
}

/// Whether another store may stand in: not where another daemon has it, where others could write to it, or where it is
/// another program's.
fn may_stand_in(error: &DaemonError) -> bool {
    let is_of_disk = |error: &AccessError| matches!(error, AccessError::Io { .. });
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
        | DaemonError::Install(_)
        | DaemonError::Listen(_)
        | DaemonError::Start(_)
        | DaemonError::EngineEnded
        | DaemonError::EngineStuck => false,
    }
}

impl Opened {
    /// Reads what it decides by.
    fn read(&mut self) -> Result<(), DaemonError> {
        self.kills = self.writer.kills()?;
        self.pins = pins::from_rows(Reader::open(&self.path)?.pins()?);
        Ok(())
    }

    /// Takes over what a store has that stood in for this one. What cannot be taken over stays for the next start.
    fn take_over(&mut self, standby: &Path) {
        if !standby.exists() {
            return;
        }
        match self.writer.adopt_all(standby) {
            Ok(events) => {
                tracing::info!(events, "taken over from the store that stood in");
                for suffix in ["", "-wal", "-shm", ".generation", ".daemon"] {
                    let mut file = standby.as_os_str().to_owned();
                    file.push(suffix);
                    match fs::remove_file(&file) {
                        Err(error) if error.kind() != io::ErrorKind::NotFound => {
                            tracing::warn!(%error, "the store that stood in cannot be removed");
                        }
                        Ok(()) | Err(_) => {}
                    }
                }
                if let Err(error) = self.read() {
                    tracing::error!(%error, "what was decided meanwhile does not hold yet");
                }
            }
            Err(error) => tracing::error!(%error, "what the store has that stood in is not taken over"),
        }
    }
}

/// The error with what is beneath it, in one line.
fn describe(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Filter, sample};

    fn events(path: &Path) -> usize {
        let reader = Reader::open(path).unwrap();
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
        let trouble = opened.trouble.take().unwrap();
        assert!(
            trouble.contains("not a database") && trouble.contains("standby.db"),
            "{trouble}"
        );
        assert_eq!(opened.path, run.join(NAME));
        opened.writer.record(vec![sample::started("a", 2)]).unwrap();
        drop(opened);
        fs::remove_file(&path).unwrap();
        let opened = open(&path, Access::default(), &run).unwrap();
        assert_eq!(opened.trouble, None);
        assert_eq!((events(&path), run.join(NAME).exists()), (1, false));
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
        assert_eq!((opened.unwrap().trouble, tries), (None, 2));
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
                DaemonError::Store(StoreError::Access(AccessError::NotRegular(_)))
            ),
            "{error}"
        );
    }
}
