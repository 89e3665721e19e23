//! The recorder: the handle through which everything is recorded.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use mcpmon_model::Action;

use super::{
    Access, Destination, RetentionLimits, SinkSettings, Store, StoreEntry, StoreError, StoreLocation,
    StoredEvent,
    journal::Journal,
    queue::{PendingEvent, Queue, QueueRefusal, Urgency},
    writer::StoreWriter,
};

/// The settings of a recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecorderSettings {
    /// The location of the SQLite file.
    pub location: StoreLocation,
    /// The users who may read the file.
    pub access: Access,
    /// The `host` field of every event.
    pub host: String,
    /// Most events that wait; further ones are counted and dropped.
    pub capacity: usize,
    /// Most events in one transaction.
    pub batch: usize,
    /// Longest time for which an ordinary event waits.
    pub flush_interval: Duration,
    /// Age at which events are removed.
    pub retention: Duration,
    /// Size in bytes at which the oldest events are removed.
    pub max_size: u64,
    /// The sinks besides the store.
    pub sinks: SinkSettings,
}

impl RecorderSettings {
    /// The defaults for a store at `path`: 65,536 waiting events, batches of 1,000, 50 ms, 30 days, 1 GiB.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            location: StoreLocation::new(path),
            access: Access::default(),
            host: host_name(),
            capacity: 65_536,
            batch: 1000,
            flush_interval: Duration::from_millis(50),
            retention: Duration::from_hours(30 * 24),
            max_size: 1 << 30,
            sinks: SinkSettings::default(),
        }
    }

    pub(super) fn limits(&self) -> RetentionLimits {
        RetentionLimits {
            retention: self.retention,
            max_size: self.location.max_size(self.max_size),
        }
    }
}

/// The state of the writer, with the cause of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecorderStatus {
    /// Events written.
    pub written: u64,
    /// Events that did not fit or could not be written.
    pub lost: u64,
    /// The number of queued messages.
    pub queued: usize,
    /// The cause of the latest failed write; `None` after a write has succeeded again.
    pub last_error: Option<String>,
}

impl RecorderStatus {
    /// Returns the cause for entries missing in the store.
    pub fn cause(&self) -> &str {
        let too_much = "more was to be recorded than could be written in time";
        self.last_error.as_deref().unwrap_or(too_much)
    }
}

/// The error that some entries are not in the store yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{remaining} records could not be written in time: {}", .cause.as_deref().unwrap_or("the writer is behind"))]
pub struct UnstoredRest {
    /// The number of entries that remain.
    pub remaining: u64,
    /// The cause of the latest failed write.
    pub cause: Option<String>,
}

/// The reason why an entry may not be stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryNotStored {
    /// The queue did not accept it.
    #[error(transparent)]
    Refused(#[from] QueueRefusal),
    /// The entry is not written yet.
    #[error(transparent)]
    Unsettled(#[from] UnstoredRest),
    /// The entry was given up.
    #[error("the store could not be written: {0}")]
    GivenUp(String),
}

/// Records events and pins without delaying the caller. Clones share one writer thread, which ends with the last of
/// them.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<RecorderState>);

#[derive(Debug)]
struct RecorderState {
    queue: Arc<Queue>,
    journal: Arc<Journal>,
    settings: RecorderSettings,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Recorder {
    /// Opens the store and starts its writer.
    ///
    /// # Errors
    /// Returns an error if the store cannot be opened or created, or the thread cannot be started.
    pub fn start(settings: RecorderSettings) -> Result<Self, StoreError> {
        let store = Store::open_at(&settings.location, settings.access)?;
        Self::with(Box::new(store), settings)
    }

    /// Starts a writer that writes to `destination`. Blocks are kept in a journal next to the store until they are
    /// written there; journals of killed processes are taken over.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn with(destination: Box<dyn Destination>, settings: RecorderSettings) -> Result<Self, StoreError> {
        let recorder = Self::new(settings);
        recorder.begin(destination)?;
        Ok(recorder)
    }

    /// Creates a recorder whose entries wait until the writer [begins](Self::begin).
    pub fn new(settings: RecorderSettings) -> Self {
        Self(Arc::new(RecorderState {
            queue: Arc::new(Queue::new(
                settings.capacity,
                settings.batch,
                settings.flush_interval,
            )),
            journal: Arc::new(Journal::beside(settings.location.clone(), settings.access)),
            settings,
            thread: Mutex::default(),
        }))
    }

    /// Starts the writer, which writes to `destination`, and takes over the journals of killed processes.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn begin(&self, destination: Box<dyn Destination>) -> Result<(), StoreError> {
        let RecorderState {
            queue,
            journal,
            settings,
            thread,
        } = &*self.0;
        let writer = StoreWriter::new(destination, Arc::clone(queue), Arc::clone(journal), settings);
        queue.await_first();
        let started = std::thread::Builder::new()
            .name("record".to_owned())
            .spawn(move || writer.run())
            .map_err(StoreError::Thread)
            .inspect_err(|error| queue.note_error(error.to_string()))?;
        *thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
        Ok(())
    }

    /// Returns the path of the store, which may not exist yet.
    pub fn path(&self) -> PathBuf {
        self.0.settings.location.path()
    }

    /// Returns the location of the store, which can change.
    pub fn location(&self) -> &StoreLocation {
        &self.0.settings.location
    }

    /// Records `event`. If the queue is full, the event is counted, and the loss is reported as `mcp_events_lost`
    /// later. A block survives a kill of this process.
    pub fn push(&self, event: impl Into<PendingEvent>) {
        let pending = event.into();
        if pending.event.action != Action::Block {
            return self.0.queue.push_event(pending);
        }
        let event = pending.complete();
        let kind = event.kind.event_type();
        let stored = StoredEvent::identified(&self.0.settings.host, event);
        let is_in_journal = self.0.journal.keep(&stored).unwrap_or_else(|error| {
            let cause = format!("the journal cannot be written: {error}");
            self.0.queue.note_error(cause);
            false
        });
        self.0.queue.push_stored(stored, kind, is_in_journal);
    }

    /// Stores `entry`.
    ///
    /// # Errors
    /// Returns an error if the queue is full or closed.
    pub fn put(&self, entry: StoreEntry, urgency: Urgency) -> Result<(), QueueRefusal> {
        self.0.queue.put(entry, urgency)
    }

    /// Returns the number of entries that go ahead and wait.
    pub fn waits_ahead(&self) -> usize {
        self.0.queue.ahead()
    }

    /// Stores all of `entries`, and waits at most `timeout` until they are in the store.
    ///
    /// # Errors
    /// Returns an error if some are not; they may still be written later.
    pub fn put_all(&self, entries: Vec<StoreEntry>, timeout: Duration) -> Result<(), EntryNotStored> {
        let accepted = self.0.queue.accepted();
        for entry in entries {
            self.put(entry, Urgency::InOrder)?;
        }
        self.flush(timeout)?;
        match self.0.queue.given_up_since(accepted) {
            Some(cause) => Err(EntryNotStored::GivenUp(cause)),
            None => Ok(()),
        }
    }

    /// Returns the bytes that the store takes on the disk, including what is not merged into it yet.
    pub fn size(&self) -> u64 {
        let path = self.path();
        let sizes = ["", "-wal", "-shm"].map(|suffix| {
            let mut file = path.clone().into_os_string();
            file.push(suffix);
            fs::metadata(file).map_or(0, |metadata| metadata.len())
        });
        sizes.iter().sum()
    }

    /// Returns the state of the writer.
    pub fn status(&self) -> RecorderStatus {
        self.0.queue.status()
    }

    /// Waits at most `timeout` until everything that was recorded before is in the store.
    ///
    /// # Errors
    /// Returns an error if some of it is not.
    pub fn flush(&self, timeout: Duration) -> Result<(), UnstoredRest> {
        self.0.queue.flush(timeout).map_err(|remaining| UnstoredRest {
            remaining,
            cause: self.status().last_error,
        })
    }

    /// Writes what waits, accepts nothing more, and waits for the writer to end. If the store cannot be written, one
    /// more attempt is made; the losses are in the returned status.
    pub fn close(self) -> RecorderStatus {
        self.0.finish();
        self.status()
    }
}

impl RecorderState {
    fn finish(&self) {
        self.queue.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            self.queue.note_error("the writer thread panicked".to_owned());
        }
    }
}

impl Drop for RecorderState {
    fn drop(&mut self) {
        self.finish();
    }
}

pub(super) fn host_name() -> String {
    match fs::read_to_string("/proc/sys/kernel/hostname") {
        Ok(name) if !name.trim().is_empty() => name.trim().to_owned(),
        Ok(_) | Err(_) => "localhost".to_owned(),
    }
}

#[cfg(test)]
mod tests;
