//! The bounded queue between recording threads and the writer thread.
//!
//! A push holds the lock for the time of a move, and does not wake the writer unless the entry is urgent or fills a
//! batch: the writer looks once in every flush interval, and again shortly after each batch. The buffer of a written
//! batch is reused, so that pushing does not allocate. Entries that do not fit are counted by kind.
//!
//! Entries that other members of the session need at once go ahead: they wake the writer and are written first, while
//! earlier entries wait for their time.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use mcpmon_model::{Action, Event, EventPriority, EventType, ProcessRef, Severity};

use super::{RecorderStatus, StoreEntry, StoredEvent};

/// The time after a batch at which the writer looks again, so that entries that are due soon need not wake it.
pub(super) const SOON: Duration = Duration::from_millis(5);

/// Messages for which memory is kept while nothing is recorded.
const SMALL: usize = 16;

/// Returns the number of entries up to which the queue accepts events of this priority.
const fn limit(priority: EventPriority, capacity: usize) -> usize {
    match priority {
        EventPriority::Bulk => capacity - capacity / 8,
        EventPriority::Ordinary => capacity - capacity / 16,
        EventPriority::Critical => capacity,
    }
}

/// Something to write.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are events, and a box for each would cost more than the move"
)]
pub(super) enum QueueMessage {
    /// An event that gets its id when it is written.
    Event(PendingEvent),
    /// An event that has its id, and is in the journal.
    Kept(Box<StoredEvent>),
    /// Any other entry.
    Entry(Box<StoreEntry>),
}

/// An event to be recorded. The writer adds its slow parts, so that the caller does not wait for them.
pub struct PendingEvent {
    /// The event, as far as it is known.
    pub event: Event,
    process: Option<Arc<ProcessRef>>,
    complete: Option<CompleteEvent>,
}

type CompleteEvent = Box<dyn FnOnce(&mut Event) + Send>;

impl From<Event> for PendingEvent {
    fn from(event: Event) -> Self {
        Self {
            event,
            process: None,
            complete: None,
        }
    }
}

impl PendingEvent {
    /// Assigns the event to `process`, unless it names a process itself.
    #[must_use]
    pub fn with_process(self, process: Option<&Arc<ProcessRef>>) -> Self {
        Self {
            process: process.cloned(),
            ..self
        }
    }

    /// Has the writer call `complete` with the event.
    #[must_use]
    pub fn completed_by(self, complete: impl FnOnce(&mut Event) + Send + 'static) -> Self {
        Self {
            complete: Some(Box::new(complete)),
            ..self
        }
    }

    /// Returns the complete event.
    pub(super) fn complete(self) -> Event {
        let mut event = self.event;
        if let Some(complete) = self.complete {
            complete(&mut event);
        }
        let process = self.process.map(Arc::unwrap_or_clone);
        event.process = event.process.or(process);
        event
    }
}

impl std::fmt::Debug for PendingEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingEvent")
            .field("event", &self.event)
            .finish_non_exhaustive()
    }
}

/// The urgency of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Written at once, in order with the events.
    InOrder,
    /// As [`InOrder`](Self::InOrder), but some milliseconds later rather than wake the writer: the caller has other work,
    /// which the writer would slow down.
    Soon,
    /// Written as soon as no batch is being written, ahead of everything that was recorded before, because others in the
    /// session need it.
    Ahead,
}

/// The queue is full or closed; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record's queue is full or closed; the store is not written, see `mcpmon status`")]
pub struct QueueRefusal;

/// The batch that the writer takes at once.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// At most one batch of messages, in the order in which they came. Empty if the
    /// interval passed without any.
    pub(super) messages: Vec<QueueMessage>,
    /// The number of entries, without the urgent ones.
    pub(super) count: usize,
    /// The number of urgent entries, which come first.
    pub(super) ahead: usize,
    /// The events that did not fit since the last time, by kind.
    pub(super) overflow: BTreeMap<&'static str, u64>,
}

/// The outcome of a batch.
#[derive(Debug)]
pub(super) enum BatchOutcome {
    Written { events: u64 },
    Dropped { events: u64, error: String },
}

#[derive(Debug)]
pub(super) struct Queue {
    capacity: usize,
    batch: usize,
    interval: Duration,
    state: Mutex<QueueState>,
    /// The writer waits on it.
    wake: Condvar,
    /// Threads that flush wait on it.
    progress: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    filling: Vec<QueueMessage>,
    full: VecDeque<Vec<QueueMessage>>,
    /// The messages that go ahead.
    ahead: Vec<QueueMessage>,
    /// An empty buffer for reuse.
    spare: Option<Vec<QueueMessage>>,
    queued: usize,
    /// Number of messages accepted so far, and number of those that were written or given up.
    accepted: u64,
    settled: u64,
    /// The same numbers for messages that went ahead.
    ahead_accepted: u64,
    ahead_settled: u64,
    /// The number of settled messages when a batch was last given up.
    given_up: u64,
    overflow: BTreeMap<&'static str, u64>,
    urgent: bool,
    closed: bool,
    writer_sleeps: bool,
    /// True if the writer looks again soon, because the last batch was not empty.
    is_brisk: bool,
    /// The time by which the writer has to look, for entries that are due soon.
    soon: Option<Instant>,
    /// The time since which the writer waits for messages that do not go ahead.
    waits_since: Option<Instant>,
    written: u64,
    lost: u64,
    last_error: Option<String>,
}

impl Queue {
    pub(super) fn new(capacity: usize, batch: usize, interval: Duration) -> Self {
        Self {
            capacity,
            batch: batch.max(1),
            interval,
            state: Mutex::default(),
            wake: Condvar::new(),
            progress: Condvar::new(),
        }
    }

    /// Queues `event`, or counts it as lost.
    pub(super) fn push_event(&self, event: impl Into<PendingEvent>) {
        let pending = event.into();
        let event = &pending.event;
        let urgent = event.action == Action::Block || event.severity >= Severity::High;
        let kind = event.kind.event_type();
        self.take_in(QueueMessage::Event(pending), kind, urgent);
    }

    /// Queues an event that has its id, or counts it as lost; if it is in the journal, it is found there later.
    pub(super) fn push_stored(&self, event: StoredEvent, kind: EventType, is_in_journal: bool) {
        let message = if is_in_journal {
            QueueMessage::Kept(Box::new(event))
        } else {
            QueueMessage::Entry(Box::new(StoreEntry::Event(event)))
        };
        self.take_in(message, kind, true);
    }

    fn take_in(&self, message: QueueMessage, kind: EventType, urgent: bool) {
        let mut state = self.lock();
        if !state.has_room(limit(kind.priority(), self.capacity)) {
            *state.overflow.entry(kind.as_str()).or_default() += 1;
            state.lost += 1;
            return;
        }
        self.add(state, message, urgent);
    }

    /// Queues an entry that must not be lost unnoticed.
    pub(super) fn put(&self, entry: StoreEntry, urgency: Urgency) -> Result<(), QueueRefusal> {
        let mut state = self.lock();
        if !state.has_room(self.capacity) {
            return Err(QueueRefusal);
        }
        let message = QueueMessage::Entry(Box::new(entry));
        match urgency {
            Urgency::InOrder => self.add(state, message, true),
            Urgency::Soon => {
                // The writer is woken only if it would look later than that.
                let is_late = !state.is_brisk && state.soon.is_none() && SOON < self.interval;
                if is_late {
                    state.soon = Some(Instant::now() + SOON);
                }
                let sleeps = state.writer_sleeps;
                self.add(state, message, false);
                if is_late && sleeps {
                    self.wake.notify_one();
                }
            }
            Urgency::Ahead => {
                state.ahead.push(message);
                state.queued += 1;
                state.ahead_accepted += 1;
                self.wake_writer(state);
            }
        }
        Ok(())
    }

    /// Returns the number of messages that go ahead and wait.
    pub(super) fn ahead(&self) -> usize {
        self.lock().ahead.len()
    }

    /// Waits for the next batch, at most one interval. Returns `None` once the queue is closed and empty.
    pub(super) fn take(&self) -> Option<Batch> {
        let mut state = self.lock();
        let patience = match state.is_brisk {
            true => SOON.min(self.interval),
            false => self.interval,
        };
        let latest = *state.waits_since.get_or_insert_with(Instant::now) + patience;
        let until = loop {
            let until = state.soon.map_or(latest, |soon| soon.min(latest));
            let patience = until.saturating_duration_since(Instant::now());
            if state.is_due() || patience.is_zero() {
                break until;
            }
            state.writer_sleeps = true;
            (state, _) = self
                .wake
                .wait_timeout(state, patience)
                .unwrap_or_else(PoisonError::into_inner);
            state.writer_sleeps = false;
        };
        let mut messages = std::mem::take(&mut state.ahead);
        if messages.len() > self.batch {
            state.ahead = messages.split_off(self.batch);
        }
        let ahead = messages.len();
        state.queued -= ahead;
        if ahead > 0 && !state.is_rest_due() && Instant::now() < until {
            return Some(Batch {
                messages,
                count: 0,
                ahead,
                overflow: BTreeMap::new(),
            });
        }
        state.waits_since = None;
        state.soon = None;
        let rest = match state.full.pop_front() {
            Some(batch) => batch,
            // A buffer is provided for the next messages, so that pushing does not allocate.
            None if state.filling.is_empty() => Vec::new(),
            None => {
                let size = self.batch.min(state.filling.len().next_power_of_two());
                state.begin_another(size)
            }
        };
        let count = rest.len();
        if count == 0 && ahead == 0 && state.closed && state.overflow.is_empty() {
            return None;
        }
        state.queued -= count;
        state.is_brisk = count > 0;
        state.urgent &= state.queued > 0;
        match ahead {
            0 => messages = rest,
            _ => messages.extend(rest),
        }
        Some(Batch {
            messages,
            count,
            ahead,
            overflow: std::mem::take(&mut state.overflow),
        })
    }

    /// Takes back the empty buffer of a batch, for reuse.
    pub(super) fn give_back(&self, room: Vec<QueueMessage>) {
        debug_assert!(room.is_empty(), "{room:?}");
        let unneeded = self.lock().spare.replace(room);
        drop(unneeded);
    }

    /// Frees the memory that occasional entries do not need.
    pub(super) fn rest(&self) {
        let mut state = self.lock();
        let spare = state.spare.take();
        let is_idle = state.filling.is_empty() && state.filling.capacity() > SMALL;
        let filled = is_idle.then(|| state.begin_another(SMALL.min(self.batch)));
        drop(state);
        drop((spare, filled));
    }

    /// Records the outcome of a batch with `count` entries, besides those that went ahead.
    pub(super) fn settle(&self, count: usize, ahead: usize, outcome: BatchOutcome) {
        let mut state = self.lock();
        state.settled += count as u64;
        state.ahead_settled += ahead as u64;
        match outcome {
            BatchOutcome::Written { events } => {
                state.written += events;
                state.last_error = None;
            }
            BatchOutcome::Dropped { events, error } => {
                state.lost += events;
                // No caller waits for the outcome of entries that went ahead.
                if count > 0 {
                    state.given_up = state.settled;
                }
                state.last_error = Some(error);
            }
        }
        drop(state);
        self.progress.notify_all();
    }

    /// Announces work that the writer has to do first; threads that flush wait for it too.
    pub(super) fn await_first(&self) {
        self.lock().accepted += 1;
    }

    /// Records that this work is done.
    pub(super) fn first_is_done(&self) {
        self.lock().settled += 1;
        self.progress.notify_all();
    }

    /// Notes an error that will be tried again, or that concerns no message.
    pub(super) fn note_error(&self, error: String) {
        self.lock().last_error = Some(error);
    }

    /// Waits before another attempt. Returns `false` if the queue is closed, so that there is no time to wait.
    pub(super) fn pause(&self, duration: Duration) -> bool {
        let (state, _) = self
            .wake
            .wait_timeout_while(self.lock(), duration, |state| !state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        !state.closed
    }

    /// Waits until everything that was queued before is settled. Otherwise returns how many entries are not.
    pub(super) fn flush(&self, timeout: Duration) -> Result<(), u64> {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        let (target, ahead) = (state.accepted, state.ahead_accepted);
        loop {
            let unsettled = target.saturating_sub(state.settled) + ahead.saturating_sub(state.ahead_settled);
            if unsettled == 0 {
                return Ok(());
            }
            state.urgent = true;
            self.wake.notify_one();
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Err(unsettled);
            }
            (state, _) = self
                .progress
                .wait_timeout(state, remaining)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the number of messages ever accepted.
    pub(super) fn accepted(&self) -> u64 {
        self.lock().accepted
    }

    /// Returns the cause if a message accepted after the first `accepted` ones was given up.
    pub(super) fn given_up_since(&self, accepted: u64) -> Option<String> {
        let state = self.lock();
        let cause = || state.last_error.clone().unwrap_or_default();
        (state.given_up > accepted).then(cause)
    }

    /// Refuses all later entries; those that are queued are still written.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_all();
    }

    pub(super) fn status(&self) -> RecorderStatus {
        let state = self.lock();
        RecorderStatus {
            written: state.written,
            lost: state.lost,
            queued: state.queued,
            last_error: state.last_error.clone(),
        }
    }

    fn add(&self, mut state: MutexGuard<'_, QueueState>, message: QueueMessage, urgent: bool) {
        state.filling.push(message);
        state.queued += 1;
        state.accepted += 1;
        state.urgent |= urgent;
        if state.filling.len() >= self.batch {
            let size = self.batch.min(state.filling.len().max(SMALL));
            let batch = state.begin_another(size);
            state.full.push_back(batch);
        }
        self.wake_writer(state);
    }

    /// Wakes the writer if it sleeps and is due: at most once for each time that it sleeps.
    fn wake_writer(&self, mut state: MutexGuard<'_, QueueState>) {
        if state.writer_sleeps && state.is_due() {
            state.writer_sleeps = false;
            drop(state);
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // A poisoned lock is used anyway: no code that holds it can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    const fn has_room(&self, limit: usize) -> bool {
        !self.closed && self.queued < limit
    }

    fn is_due(&self) -> bool {
        !self.ahead.is_empty() || self.is_rest_due()
    }

    /// Returns whether the messages that do not go ahead are due before their time.
    fn is_rest_due(&self) -> bool {
        !self.full.is_empty() || self.closed || self.urgent && !self.filling.is_empty()
    }

    /// Takes the filled messages. The next ones get the spare buffer, or a new one for `size` messages.
    fn begin_another(&mut self, size: usize) -> Vec<QueueMessage> {
        let room = self.spare.take().unwrap_or_else(|| Vec::with_capacity(size));
        std::mem::replace(&mut self.filling, room)
    }
}

#[cfg(test)]
mod tests;
