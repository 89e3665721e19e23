//! Collects bodies from exchanges without delaying them, and has them sealed and stored.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use mcpmon_model::{Event, EventKind, EventType, Layer, Severity, Timestamp};
use serde::{Deserialize, Serialize};

use super::{BodyKey, BodyLabel, KeyError, SealedBody};
use crate::{Filter, Recorder, StoreEntry, StoreReader, StoredEvent, Urgency, writer::now};

/// Most bodies that wait to be sealed.
const QUEUE: usize = 256;
/// Most bytes of bodies in memory: those that are collected, and those that wait.
const MAX_BYTES: usize = 128 << 20;
/// The longest time until a body is on disk.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The interval at which losses are reported.
const INTERVAL: Duration = Duration::from_secs(1);
/// The name of this component in events.
const COMPONENT: &str = "LLM body storage";
/// Names of the events that report the state of the storage.
const DEGRADED: &str = EventType::EnforcementDegraded.as_str();
const RESTORED: &str = EventType::EnforcementRestored.as_str();
/// Most events that are searched for the latest report.
const LOOKED_AT: u32 = 200;

/// The `llm_storage` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodySettings {
    /// The file with the key, absolute.
    pub key_file: Option<PathBuf>,
    /// Bytes that are kept of one body.
    pub max_body: usize,
    /// The time for which bodies are kept.
    pub retention: Duration,
}

/// The state of body storage, as `mcpmon status` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyStorage {
    /// Bodies are stored, sealed with the key of this name.
    Kept {
        /// The name.
        key: String,
    },
    /// Bodies should be stored, and cannot be.
    NotKept {
        /// The cause.
        cause: String,
    },
}

impl fmt::Display for BodyStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept { key } => write!(f, "bodies sealed with key {key}"),
            Self::NotKept { cause } => write!(f, "no bodies kept: {cause}"),
        }
    }
}

/// Seals and stores bodies. Clones share one thread, which ends with the last of them.
#[derive(Clone, Debug)]
pub struct Keeper(Arc<KeeperState>);

#[derive(Debug)]
struct KeeperState {
    max_body: usize,
    key: String,
    room: Arc<BodyCapacity>,
    queue: Mutex<Option<SyncSender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The memory that is free, and the bodies that were lost for lack of it.
#[derive(Debug)]
struct BodyCapacity {
    free: AtomicUsize,
    lost: AtomicU64,
}

/// A body to be sealed.
type Job = (BodyLabel, HeldBytes);

/// Bytes of a body, with the memory that is reserved for them.
#[derive(Debug)]
struct HeldBytes {
    bytes: Vec<u8>,
    room: Arc<BodyCapacity>,
}

/// A body that is being collected. It is stored when this is dropped.
#[derive(Debug)]
pub struct PassingBody {
    keeper: Keeper,
    label: BodyLabel,
    held: HeldBytes,
    is_lost: bool,
}

impl Keeper {
    /// Starts the thread that seals bodies with the key in `settings`.
    ///
    /// # Errors
    /// Returns an error if the key cannot be read, or the thread cannot be started.
    pub fn start(settings: &BodySettings, recorder: Recorder) -> Result<Self, KeyError> {
        let path = settings.key_file.as_deref().ok_or(KeyError::Unnamed)?;
        let key = BodyKey::at(path)?;
        Self::with(key, settings, recorder, MAX_BYTES).map_err(KeyError::Thread)
    }

    pub(super) fn with(
        key: BodyKey,
        settings: &BodySettings,
        recorder: Recorder,
        room: usize,
    ) -> std::io::Result<Self> {
        let (sender, jobs) = sync_channel(QUEUE);
        let room = Arc::new(BodyCapacity {
            free: AtomicUsize::new(room),
            lost: AtomicU64::new(0),
        });
        let name = key.name().to_owned();
        let sealer = Sealer {
            key,
            retention: settings.retention,
            recorder,
            room: Arc::clone(&room),
        };
        let thread = std::thread::Builder::new()
            .name("bodies".to_owned())
            .spawn(move || sealer.run(&jobs))?;
        Ok(Self(Arc::new(KeeperState {
            max_body: settings.max_body,
            key: name,
            room,
            queue: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
        })))
    }

    /// Begins to collect a body. The lengths in the label are counted here.
    #[must_use]
    pub fn gather(&self, label: BodyLabel) -> PassingBody {
        PassingBody {
            keeper: self.clone(),
            label,
            held: HeldBytes {
                bytes: Vec::new(),
                room: Arc::clone(&self.0.room),
            },
            is_lost: false,
        }
    }

    /// Returns the state of the storage, with its key.
    pub fn storage(&self) -> BodyStorage {
        BodyStorage::Kept {
            key: self.0.key.clone(),
        }
    }

    /// Accepts no more bodies, and waits until those that it has are stored.
    pub fn finish(&self) {
        drop(self.0.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self
            .0
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the thread that keeps bodies panicked");
        }
    }

    /// Hands a body to the thread, or counts it as lost.
    fn put(&self, job: Job) {
        let queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let is_taken = queue.as_ref().is_some_and(|queue| queue.try_send(job).is_ok());
        if !is_taken {
            self.0.room.lose();
        }
    }
}

impl BodyStorage {
    /// Records that bodies should be stored and are not, or that they are stored again.
    pub fn tell(&self, now: Timestamp, recorder: &Recorder) {
        let Self::NotKept { cause } = self else {
            if was_told_degraded(&recorder.path()) {
                let kind = EventKind::EnforcementRestored {
                    component: COMPONENT.to_owned(),
                    cause: "bodies of requests to models are kept again".to_owned(),
                };
                recorder.push(Event::new(now, Layer::Agent, kind));
            }
            return;
        };
        let kind = EventKind::EnforcementDegraded {
            component: COMPONENT.to_owned(),
            cause: cause.clone(),
        };
        let mut event = Event::new(now, Layer::Agent, kind);
        event.severity = Severity::Medium;
        event.reason =
            Some("bodies of requests to models are not kept; calls are judged all the same".to_owned());
        recorder.push(event);
    }
}

/// Returns whether the latest report in this store says that bodies are not stored. The process that wrote it may have
/// ended since.
fn was_told_degraded(store: &Path) -> bool {
    let filter = Filter {
        types: vec![DEGRADED.to_owned(), RESTORED.to_owned()],
        ..Filter::default()
    };
    let told = StoreReader::open(store)
        .map_err(|error| error.to_string())
        .and_then(|reader| {
            let events = reader.events(&filter, LOOKED_AT);
            events.map_err(|error| error.to_string())
        });
    let told = told.unwrap_or_else(|error| {
        tracing::debug!(error, "whether bodies were kept before is not known");
        Vec::new()
    });
    let of_bodies = |event: &&StoredEvent| event.data.get("component").is_some_and(|name| name == COMPONENT);
    told.iter()
        .rev()
        .find(of_bodies)
        .is_some_and(|event| event.kind == DEGRADED)
}

impl BodyCapacity {
    fn take(&self, bytes: usize) -> bool {
        let taken = self
            .free
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| {
                free.checked_sub(bytes)
            });
        taken.is_ok()
    }

    fn lose(&self) {
        self.lost.fetch_add(1, Ordering::AcqRel);
    }
}

impl HeldBytes {
    fn add(&mut self, bytes: &[u8]) -> bool {
        let fits = self.room.take(bytes.len());
        if fits {
            self.bytes.extend_from_slice(bytes);
        }
        fits
    }

    fn clear(&mut self) {
        self.room.free.fetch_add(self.bytes.len(), Ordering::AcqRel);
        self.bytes = Vec::new();
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.clear();
    }
}

impl PassingBody {
    /// Adds bytes of the body.
    pub fn push(&mut self, bytes: &[u8]) {
        self.label.length += bytes.len() as u64;
        let left = self.keeper.0.max_body - self.held.bytes.len();
        let kept = &bytes[..bytes.len().min(left)];
        if !self.is_lost && !self.held.add(kept) {
            self.held.clear();
            self.is_lost = true;
        }
    }
}

impl Drop for PassingBody {
    fn drop(&mut self) {
        if self.is_lost {
            return self.keeper.0.room.lose();
        }
        let mut label = self.label.clone();
        label.kept = self.held.bytes.len() as u64;
        let room = Arc::clone(&self.held.room);
        let held = std::mem::replace(
            &mut self.held,
            HeldBytes {
                bytes: Vec::new(),
                room,
            },
        );
        self.keeper.put((label, held));
    }
}

/// The state of the thread.
struct Sealer {
    key: BodyKey,
    retention: Duration,
    recorder: Recorder,
    room: Arc<BodyCapacity>,
}

impl Sealer {
    fn run(self, jobs: &Receiver<Job>) {
        if self
            .recorder
            .put(StoreEntry::ShortenBodies(self.retention), Urgency::InOrder)
            .is_err()
        {
            tracing::warn!("bodies that are there may be kept longer than `llm_storage.retention`");
        }
        loop {
            match jobs.recv_timeout(INTERVAL) {
                Ok((label, held)) => self.keep(label, held),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.tell_losses(),
            }
            self.tell_losses();
        }
    }

    /// Stores a body. Its memory is freed when it is on disk: if the store is slow, later bodies find none free, and
    /// are counted as lost.
    fn keep(&self, label: BodyLabel, mut held: HeldBytes) {
        let kept = i64::try_from(self.retention.as_nanos()).unwrap_or(i64::MAX);
        let expires = Timestamp(label.at.0.saturating_add(kept));
        let size = held.bytes.len();
        let body = std::mem::take(&mut held.bytes);
        let sealed = SealedBody::seal(&self.key, label, expires, body);
        let outcome = sealed.map_err(|error| error.to_string()).and_then(|sealed| {
            let entries = vec![StoreEntry::Body(Box::new(sealed))];
            let kept = self.recorder.put_all(entries, TIMEOUT);
            kept.map_err(|error| error.to_string())
        });
        self.room.free.fetch_add(size, Ordering::AcqRel);
        if let Err(error) = outcome {
            tracing::warn!(error, "a body is not kept");
            self.room.lose();
        }
    }

    fn tell_losses(&self) {
        let count = self.room.lost.swap(0, Ordering::AcqRel);
        if count == 0 {
            return;
        }
        let place = COMPONENT.to_owned();
        let mut event = Event::new(now(), Layer::Agent, EventKind::EventsLost { place, count });
        event.severity = Severity::Medium;
        self.recorder.push(event);
    }
}
