//! The bounded queue between recording threads and the writer thread.
//!
//! A push holds a lock for as long as one move takes and wakes nobody, unless what it brings is urgent or fills
//! a batch: the writer looks by itself every flush interval, and after each batch once more a little later. The room
//! that it emptied is filled next, so that pushing asks nobody for memory. What does not fit is counted by kind.
//!
//! Entries that other members of the session must see at once are urgent: they wake the writer and are written first,
//! while earlier entries wait for their own time.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use mcpmon_model::{Action, Event, EventPriority, EventType, ProcessRef, RepeatedEvents, Severity};

use super::{RecorderStatus, StoreEntry, StoredEvent};

/// The time after a batch at which the writer looks again, so that entries due soon need not wake it.
pub(super) const SOON: Duration = Duration::from_millis(5);

/// Messages for which there is room while nothing happens.
const SMALL: usize = 16;

/// Returns the number of entries up to which the queue takes in events of that priority.
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
    /// An event that gets its identity when it is written, and the process it is of unless it says so itself.
    Event(Event, Option<Arc<ProcessRef>>),
    /// The same, still to be completed.
    Unworded(Box<DeferredEvent>),
    /// Events that were told before, and of which process they are unless they say so themselves.
    RepeatedEvents(RepeatedEvents, Option<Arc<ProcessRef>>),
    /// An event that has it, and is in the journal.
    Kept(Box<StoredEvent>),
    /// Anything else.
    Entry(Box<StoreEntry>),
}

impl QueueMessage {
    /// Returns the number of entries it counts for.
    fn count(&self) -> usize {
        match self {
            Self::RepeatedEvents(retold, _) => retold.count(),
            Self::Event(..) | Self::Unworded(_) | Self::Kept(_) | Self::Entry(_) => 1,
        }
    }
}

/// An event to which the writer adds what takes time to find.
pub(super) struct DeferredEvent {
    pub(super) event: Event,
    pub(super) process: Option<Arc<ProcessRef>>,
    pub(super) word: Box<dyn FnOnce(&mut Event) + Send>,
}

impl std::fmt::Debug for DeferredEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unworded")
            .field("event", &self.event)
            .finish_non_exhaustive()
    }
}

/// The queue is full or closed; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record's queue is full or closed; the store is not written, see `mcpmon status`")]
pub struct QueueRefusal;

/// The batch that the writer takes at once.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// At most one batch of messages, in the order they came, events that are told once more all at once; empty when
    /// the interval passed without any.
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
pub(super) enum Outcome {
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
    /// Those who flush wait on it.
    progress: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    filling: Heap,
    full: VecDeque<Heap>,
    /// The urgent messages.
    ahead: Vec<QueueMessage>,
    /// Room that was emptied.
    spare: Option<Vec<QueueMessage>>,
    queued: usize,
    /// Messages ever taken in, and those of them that were written or given up.
    accepted: u64,
    settled: u64,
    /// The same of what went ahead.
    ahead_accepted: u64,
    ahead_settled: u64,
    /// The number of entries settled when a batch was last given up.
    given_up: u64,
    overflow: BTreeMap<&'static str, u64>,
    urgent: bool,
    closed: bool,
    writer_sleeps: bool,
    /// True if the writer looks again soon, for there was something the last time.
    is_brisk: bool,
    /// The time by which the writer must look, for entries due soon.
    soon: Option<Instant>,
    /// Since when it waits for more than what goes ahead.
    waits_since: Option<Instant>,
    written: u64,
    lost: u64,
    last_error: Option<String>,
}

/// Messages and how many they count for.
#[derive(Debug, Default)]
struct Heap {
    messages: Vec<QueueMessage>,
    count: usize,
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

    /// Takes `event` in, or counts it as lost.
    pub(super) fn push_event(&self, event: Event, process: Option<Arc<ProcessRef>>) {
        let urgent = event.action == Action::Block || event.severity >= Severity::High;
        let kind = event.kind.event_type();
        self.take_in(QueueMessage::Event(event, process), kind, urgent);
    }

    /// Takes in an event that the writer completes, or counts it as lost.
    pub(super) fn push_unworded(&self, unworded: DeferredEvent) {
        let event = &unworded.event;
        let urgent = event.severity >= Severity::High;
        let kind = event.kind.event_type();
        self.take_in(QueueMessage::Unworded(Box::new(unworded)), kind, urgent);
    }

    /// Takes in all of `retold`, or where there is no room for all as many as there is room for.
    pub(super) fn push_retold(&self, retold: RepeatedEvents, process: Option<Arc<ProcessRef>>) {
        let state = self.lock();
        let needed = retold.count().saturating_sub(1);
        if state.has_room(limit(EventPriority::Bulk, self.capacity).saturating_sub(needed)) {
            let urgent = retold.severity() >= Severity::High;
            return self.add(state, QueueMessage::RepeatedEvents(retold, process), urgent);
        }
        drop(state);
        for event in retold.events() {
            self.push_event(event, process.clone());
        }
    }

    /// Takes in an event that is in the journal, or counts it as lost: then it is found there one day.
    pub(super) fn push_kept(&self, event: StoredEvent, kind: EventType) {
        self.take_in(QueueMessage::Kept(Box::new(event)), kind, true);
    }

    /// Takes in an event that has its identity, or counts it as lost.
    pub(super) fn push_stored(&self, event: StoredEvent, kind: EventType) {
        self.take_in(
            QueueMessage::Entry(Box::new(StoreEntry::Event(event))),
            kind,
            true,
        );
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

    /// Takes in what must not be lost unnoticed; it is written at once.
    pub(super) fn push(&self, entry: StoreEntry) -> Result<(), QueueRefusal> {
        let state = self.room_for_all()?;
        self.add(state, QueueMessage::Entry(Box::new(entry)), true);
        Ok(())
    }

    /// The same, but written within [`SOON`], and hardly before: whoever records it has something else to do, for which
    /// the writer would be in the way. It is told only where it would look later than that.
    pub(super) fn push_soon(&self, entry: StoreEntry) -> Result<(), QueueRefusal> {
        let mut state = self.room_for_all()?;
        let is_late = !state.is_brisk && state.soon.is_none() && SOON < self.interval;
        if is_late {
            state.soon = Some(Instant::now() + SOON);
        }
        let sleeps = state.writer_sleeps;
        self.add(state, QueueMessage::Entry(Box::new(entry)), false);
        if is_late && sleeps {
            self.wake.notify_one();
        }
        Ok(())
    }

    fn room_for_all(&self) -> Result<MutexGuard<'_, QueueState>, QueueRefusal> {
        let state = self.lock();
        match state.has_room(self.capacity) {
            true => Ok(state),
            false => Err(QueueRefusal),
        }
    }

    /// Takes in what others have to know at once: it goes ahead of what was taken in before.
    pub(super) fn push_ahead(&self, entry: StoreEntry) -> Result<(), QueueRefusal> {
        let mut state = self.room_for_all()?;
        state.ahead.push(QueueMessage::Entry(Box::new(entry)));
        state.queued += 1;
        state.ahead_accepted += 1;
        self.wake_writer(state);
        Ok(())
    }

    /// Returns the number of urgent messages that wait.
    pub(super) fn ahead(&self) -> usize {
        self.lock().ahead.len()
    }

    /// Waits for the next batch, at most one interval; `None` once the queue is closed and empty.
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
        let Heap {
            messages: rest,
            count,
        } = match state.full.pop_front() {
            Some(batch) => batch,
            // Its room is for what comes next: whoever records makes none.
            None if state.filling.messages.is_empty() => Heap::default(),
            None => {
                let size = self.batch.min(state.filling.messages.len().next_power_of_two());
                state.begin_another(size)
            }
        };
        if rest.is_empty() && ahead == 0 && state.closed && state.overflow.is_empty() {
            return None;
        }
        state.queued -= count;
        state.is_brisk = !rest.is_empty();
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

    /// Gives back the room of a batch, to be filled again.
    pub(super) fn give_back(&self, room: Vec<QueueMessage>) {
        debug_assert!(room.is_empty(), "{room:?}");
        let unneeded = self.lock().spare.replace(room);
        drop(unneeded);
    }

    /// Keeps no more room than what happens now and then needs.
    pub(super) fn rest(&self) {
        let mut state = self.lock();
        let spare = state.spare.take();
        let is_idle = state.filling.messages.is_empty() && state.filling.messages.capacity() > SMALL;
        let filled = is_idle.then(|| state.begin_another(SMALL.min(self.batch)));
        drop(state);
        drop((spare, filled));
    }

    /// Says what became of a batch that counts for so many messages, beside those that went ahead.
    pub(super) fn settle(&self, count: usize, ahead: usize, outcome: Outcome) {
        let mut state = self.lock();
        state.settled += count as u64;
        state.ahead_settled += ahead as u64;
        match outcome {
            Outcome::Written { events } => {
                state.written += events;
                state.last_error = None;
            }
            Outcome::Dropped { events, error } => {
                state.lost += events;
                // What went ahead is nobody's who waits for a batch.
                if count > 0 {
                    state.given_up = state.settled;
                }
                state.last_error = Some(error);
            }
        }
        drop(state);
        self.progress.notify_all();
    }

    /// The writer has something to do first, which those who flush wait for, too.
    pub(super) fn await_first(&self) {
        self.lock().accepted += 1;
    }

    /// The writer has done it.
    pub(super) fn first_is_done(&self) {
        self.lock().settled += 1;
        self.progress.notify_all();
    }

    /// Notes an error that will be tried again, or that concerns no message.
    pub(super) fn note_error(&self, error: String) {
        self.lock().last_error = Some(error);
    }

    /// Waits before another try; `false` when the queue is closed and there is no time to wait.
    pub(super) fn pause(&self, duration: Duration) -> bool {
        let (state, _) = self
            .wake
            .wait_timeout_while(self.lock(), duration, |state| !state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        !state.closed
    }

    /// Waits until all that was taken in before is settled; otherwise how much is not.
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

    /// Refuses all that comes from now on; what is queued is still written.
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
        let count = message.count();
        state.filling.messages.push(message);
        state.filling.count += count;
        state.queued += count;
        state.accepted += count as u64;
        state.urgent |= urgent;
        if state.filling.count >= self.batch {
            let size = self.batch.min(state.filling.messages.len().max(SMALL));
            let batch = state.begin_another(size);
            state.full.push_back(batch);
        }
        self.wake_writer(state);
    }

    /// One wake-up for each time the writer sleeps, however many urgent events there are.
    fn wake_writer(&self, mut state: MutexGuard<'_, QueueState>) {
        if state.writer_sleeps && state.is_due() {
            state.writer_sleeps = false;
            drop(state);
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // No step of ours leaves the state half changed.
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

    /// Returns whether what does not go ahead is due before its time.
    fn is_rest_due(&self) -> bool {
        !self.full.is_empty() || self.closed || self.urgent && !self.filling.messages.is_empty()
    }

    /// Takes the filled heap; the next one reuses the capacity that was emptied, or gets capacity for `size`.
    fn begin_another(&mut self, size: usize) -> Heap {
        let room = self.spare.take().unwrap_or_else(|| Vec::with_capacity(size));
        let empty = Heap {
            messages: room,
            count: 0,
        };
        std::mem::replace(&mut self.filling, empty)
    }
}

#[cfg(test)]
mod tests;
