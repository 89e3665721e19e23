//! The bounded queue between whoever records and the writer thread.
//!
//! A push holds a lock for as long as one move takes and wakes nobody, unless what it brings is urgent or fills
//! a batch: the writer looks by itself every flush interval, and after each batch once more a little later. What does
//! not fit is counted by kind.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use mcpmon_core::model::{Action, Event, EventKind, ProcessRef, Severity};

use super::{Entry, RecorderStatus, StoredEvent};

/// How long after a batch the writer looks again: what is to be written soon then waits no longer, and wakes nobody.
pub(super) const SOON: Duration = Duration::from_millis(5);

/// Whose room in the queue an event takes.
///
/// What any process can cause by the thousand must not push out a pin, or the news that something was refused or
/// does not work.
#[derive(Clone, Copy)]
pub(super) enum Room {
    /// All but an eighth: connections.
    Bulk,
    /// All but a sixteenth: what else comes of ordinary activity.
    Ordinary,
    /// All of it.
    Critical,
}

impl Room {
    pub(super) const fn of(kind: &EventKind) -> Self {
        match kind {
            EventKind::NetworkConnection { .. }
            | EventKind::ToolCalled { .. }
            | EventKind::ToolReturned { .. }
            | EventKind::ToolSeen { .. } => Self::Bulk,
            EventKind::ServerStarted { .. }
            | EventKind::ServerExited { .. }
            | EventKind::PolicyLoaded { .. }
            | EventKind::PolicyRejected { .. }
            | EventKind::EnforcementRestored { .. }
            | EventKind::ServerUnwrapped { .. }
            | EventKind::NameSimilarity { .. }
            | EventKind::Detection { .. }
            | EventKind::ResourceRead { .. }
            | EventKind::RequestJudged { .. }
            | EventKind::DlpRedaction { .. }
            | EventKind::DiscoveryFailed { .. }
            | EventKind::EventsLost { .. } => Self::Ordinary,
            EventKind::BinaryMismatch { .. }
            | EventKind::ToolChanged { .. }
            | EventKind::ToolCallIntercepted { .. }
            | EventKind::OutputInspection { .. }
            | EventKind::ProxyBypass { .. }
            | EventKind::TlsMismatch { .. }
            | EventKind::Approval { .. }
            | EventKind::Kill { .. }
            | EventKind::CrossServerBlocked { .. }
            | EventKind::ServerDenied { .. }
            | EventKind::EnforcementDegraded { .. } => Self::Critical,
        }
    }

    const fn limit(self, capacity: usize) -> usize {
        match self {
            Self::Bulk => capacity - capacity / 8,
            Self::Ordinary => capacity - capacity / 16,
            Self::Critical => capacity,
        }
    }
}

/// Something to write.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are events, and a box for each would cost more than the move"
)]
pub(super) enum Message {
    /// An event that gets its identity when it is written, and the process it is of unless it says so itself.
    Event(Event, Option<Arc<ProcessRef>>),
    /// The same, still to be completed.
    Unworded(Box<Unworded>),
    /// An event that has it, and is in the journal.
    Kept(Box<StoredEvent>),
    /// Anything else.
    Entry(Box<Entry>),
}

/// An event to which the writer adds what takes time to find.
pub(super) struct Unworded {
    pub(super) event: Event,
    pub(super) process: Option<Arc<ProcessRef>>,
    pub(super) word: Box<dyn FnOnce(&mut Event) + Send>,
}

impl std::fmt::Debug for Unworded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unworded")
            .field("event", &self.event)
            .finish_non_exhaustive()
    }
}

/// The queue is full or closed; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record's queue is full or closed; the store is not written, see `mcpmon status`")]
pub struct Refused;

/// What the writer takes at once.
#[derive(Debug)]
pub(super) struct Batch {
    /// At most one batch of messages, in the order they came; empty when the interval passed without any.
    pub(super) messages: Vec<Message>,
    /// What did not fit since the last time, by kind.
    pub(super) overflow: BTreeMap<&'static str, u64>,
}

/// How a batch ended.
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
    state: Mutex<State>,
    /// The writer waits on it.
    wake: Condvar,
    /// Those who flush wait on it.
    progress: Condvar,
}

#[derive(Debug, Default)]
struct State {
    filling: Vec<Message>,
    full: VecDeque<Vec<Message>>,
    queued: usize,
    /// Messages ever taken in, and those of them that were written or given up.
    accepted: u64,
    settled: u64,
    /// How many were settled when a batch was given up last.
    given_up: u64,
    overflow: BTreeMap<&'static str, u64>,
    urgent: bool,
    closed: bool,
    writer_sleeps: bool,
    /// Whether the writer looks again soon, for there was something the last time.
    is_brisk: bool,
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

    /// Takes `event` in, or counts it as lost.
    pub(super) fn push_event(&self, event: Event, process: Option<Arc<ProcessRef>>) {
        let urgent = event.action == Action::Block || event.severity >= Severity::High;
        let (kind, room) = (event.kind.name(), Room::of(&event.kind));
        self.take_in(Message::Event(event, process), kind, room, urgent);
    }

    /// Takes in an event that the writer completes, or counts it as lost.
    pub(super) fn push_unworded(&self, unworded: Unworded) {
        let event = &unworded.event;
        let urgent = event.severity >= Severity::High;
        let (kind, room) = (event.kind.name(), Room::of(&event.kind));
        self.take_in(Message::Unworded(Box::new(unworded)), kind, room, urgent);
    }

    /// Takes in an event that is in the journal, or counts it as lost: then it is found there one day.
    pub(super) fn push_kept(&self, event: StoredEvent, kind: &'static str, room: Room) {
        self.take_in(Message::Kept(Box::new(event)), kind, room, true);
    }

    /// Takes in an event that has its identity, or counts it as lost.
    pub(super) fn push_stored(&self, event: StoredEvent, kind: &'static str, room: Room) {
        self.take_in(Message::Entry(Box::new(Entry::Event(event))), kind, room, true);
    }

    fn take_in(&self, message: Message, kind: &'static str, room: Room, urgent: bool) {
        let mut state = self.lock();
        if !state.has_room(room.limit(self.capacity)) {
            *state.overflow.entry(kind).or_default() += 1;
            state.lost += 1;
            return;
        }
        self.add(state, message, urgent);
    }

    /// Takes in what must not be lost unnoticed; it is written at once.
    pub(super) fn push(&self, entry: Entry) -> Result<(), Refused> {
        self.take_entry(entry, |_| true)
    }

    /// The same, but written within [`SOON`]: the writer is woken only where it would look later than that.
    pub(super) fn push_soon(&self, entry: Entry) -> Result<(), Refused> {
        self.take_entry(entry, |state| !state.is_brisk)
    }

    fn take_entry(&self, entry: Entry, is_urgent: fn(&State) -> bool) -> Result<(), Refused> {
        let message = Message::Entry(Box::new(entry));
        let state = self.lock();
        if !state.has_room(self.capacity) {
            return Err(Refused);
        }
        let urgent = is_urgent(&state);
        self.add(state, message, urgent);
        Ok(())
    }

    /// Waits for the next batch, at most one interval; `None` once the queue is closed and empty.
    pub(super) fn take(&self) -> Option<Batch> {
        let mut state = self.lock();
        if !state.is_due() {
            state.writer_sleeps = true;
            let patience = match state.is_brisk {
                true => SOON.min(self.interval),
                false => self.interval,
            };
            (state, _) = self
                .wake
                .wait_timeout_while(state, patience, |state| !state.is_due())
                .unwrap_or_else(PoisonError::into_inner);
            state.writer_sleeps = false;
        }
        let messages = match state.full.pop_front() {
            Some(batch) => batch,
            // Its room is for what comes next: whoever records makes none.
            None if state.filling.is_empty() => Vec::new(),
            None => {
                let room = Vec::with_capacity(self.batch.min(state.filling.len().next_power_of_two()));
                std::mem::replace(&mut state.filling, room)
            }
        };
        if messages.is_empty() && state.closed && state.overflow.is_empty() {
            return None;
        }
        state.queued -= messages.len();
        state.is_brisk = !messages.is_empty();
        state.urgent &= state.queued > 0;
        Some(Batch {
            messages,
            overflow: std::mem::take(&mut state.overflow),
        })
    }

    /// Says what became of a batch of `messages`.
    pub(super) fn settle(&self, messages: usize, outcome: Outcome) {
        let mut state = self.lock();
        state.settled += messages as u64;
        match outcome {
            Outcome::Written { events } => {
                state.written += events;
                state.last_error = None;
            }
            Outcome::Dropped { events, error } => {
                state.lost += events;
                state.given_up = state.settled;
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
        let target = state.accepted;
        while state.settled < target {
            state.urgent = true;
            self.wake.notify_one();
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Err(target - state.settled);
            }
            (state, _) = self
                .progress
                .wait_timeout(state, remaining)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// How many messages were ever taken in.
    pub(super) fn accepted(&self) -> u64 {
        self.lock().accepted
    }

    /// Why something was given up that was taken in when there were more than `accepted`; `None` where nothing was.
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

    fn add(&self, mut state: MutexGuard<'_, State>, message: Message, urgent: bool) {
        state.filling.push(message);
        state.queued += 1;
        state.accepted += 1;
        state.urgent |= urgent;
        if state.filling.len() >= self.batch {
            let batch = std::mem::replace(&mut state.filling, Vec::with_capacity(self.batch));
            state.full.push_back(batch);
        }
        // One wake-up for each time the writer sleeps, however many urgent events there are.
        if state.writer_sleeps && state.is_due() {
            state.writer_sleeps = false;
            drop(state);
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No step of ours leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    const fn has_room(&self, limit: usize) -> bool {
        !self.closed && self.queued < limit
    }

    fn is_due(&self) -> bool {
        !self.full.is_empty() || self.closed || self.urgent && !self.filling.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;

    const LONG: Duration = Duration::from_secs(60);

    fn sizes(queue: &Queue) -> Vec<usize> {
        queue.close();
        std::iter::from_fn(|| queue.take())
            .map(|batch| batch.messages.len())
            .collect()
    }

    #[test]
    fn a_full_batch_is_due_at_once_and_the_rest_at_the_end() {
        let queue = Queue::new(100, 2, LONG);
        for pid in 2..7 {
            queue.push_event(sample::started("a", pid), None);
        }
        assert_eq!(queue.take().unwrap().messages.len(), 2);
        assert_eq!(sizes(&queue), [2, 1]);
    }

    #[test]
    fn an_urgent_event_is_due_at_once_with_what_came_before() {
        let queue = Queue::new(100, 100, LONG);
        queue.push_event(sample::started("a", 2), None);
        queue.push_event(sample::blocked_connection(), None);
        assert_eq!(queue.take().unwrap().messages.len(), 2);
    }

    #[test]
    fn what_is_to_be_written_soon_waits_for_a_look_that_comes_soon_and_for_no_other() {
        let queue = Queue::new(100, 100, LONG);
        assert_eq!(queue.push_soon(Entry::ForgetRunning), Ok(()));
        assert_eq!(queue.take().unwrap().messages.len(), 1);
        assert_eq!(queue.push_soon(Entry::ForgetRunning), Ok(()));
        assert!(!queue.lock().is_due(), "the writer looks again soon");
        assert_eq!(queue.take().unwrap().messages.len(), 1);
        assert!(queue.take().unwrap().messages.is_empty());
        assert_eq!(queue.push_soon(Entry::ForgetRunning), Ok(()));
        assert!(queue.lock().is_due(), "the next look is far away");
    }

    #[test]
    fn without_an_urgent_event_the_interval_passes() {
        let queue = Queue::new(100, 100, Duration::from_millis(1));
        queue.push_event(sample::started("a", 2), None);
        assert_eq!(queue.take().unwrap().messages.len(), 1);
        assert!(queue.take().unwrap().messages.is_empty());
    }

    #[test]
    fn a_look_at_nothing_leaves_the_room_for_what_comes_next() {
        let queue = Queue::new(100, 100, Duration::from_millis(1));
        for pid in 2..9 {
            queue.push_event(sample::started("a", pid), None);
        }
        assert_eq!(queue.take().unwrap().messages.len(), 7);
        assert!(queue.take().unwrap().messages.is_empty());
        assert!(queue.lock().filling.capacity() >= 7);
    }

    #[test]
    fn what_does_not_fit_is_counted_by_kind_and_told_once() {
        let queue = Queue::new(2, 2, LONG);
        for pid in 2..7 {
            queue.push_event(sample::started("a", pid), None);
        }
        queue.push_event(sample::exited("a", 2, 0), None);
        assert_eq!((queue.status().queued, queue.status().lost), (2, 4));
        let batch = queue.take().unwrap();
        assert_eq!(
            batch.overflow,
            BTreeMap::from([("mcp_server_started", 3), ("mcp_server_exited", 1)])
        );
        queue.push_event(sample::blocked_connection(), None);
        assert!(queue.take().unwrap().overflow.is_empty());
    }

    #[test]
    fn a_flood_of_connections_leaves_room_for_the_rest() {
        let queue = Queue::new(16, 100, LONG);
        for _ in 0..100 {
            queue.push_event(sample::blocked_connection(), None);
        }
        assert_eq!(queue.status().queued, 14);
        queue.push_event(sample::denied("a"), None);
        assert_eq!(queue.push(Entry::ForgetRunning), Ok(()));
        assert_eq!(queue.push(Entry::ForgetRunning), Err(Refused));
        let overflow = queue.take().unwrap().overflow;
        assert_eq!(overflow, BTreeMap::from([("mcp_network_connection", 86)]));
    }

    #[test]
    fn what_is_critical_finds_room_behind_any_flood() {
        let queue = Queue::new(16, 100, LONG);
        for pid in 2..100 {
            queue.push_event(sample::blocked_connection(), None);
            queue.push_event(sample::started("a", pid), None);
        }
        assert_eq!(queue.status().queued, 15);
        let lost = queue.status().lost;
        queue.push_event(sample::denied("a"), None);
        assert_eq!((queue.status().queued, queue.status().lost), (16, lost));
        queue.push_event(sample::mismatch("a", 2), None);
        assert_eq!(queue.status().lost, lost + 1);
    }

    #[test]
    fn a_message_that_does_not_fit_is_refused() {
        let queue = Queue::new(1, 10, LONG);
        assert_eq!(queue.push(Entry::ForgetRunning), Ok(()));
        assert_eq!(queue.push(Entry::ForgetRunning), Err(Refused));
    }

    #[test]
    fn a_closed_queue_takes_nothing_and_ends() {
        let queue = Queue::new(10, 10, LONG);
        queue.close();
        assert_eq!(queue.push(Entry::ForgetRunning), Err(Refused));
        assert!(queue.take().is_none());
    }

    #[test]
    fn a_flush_without_a_writer_says_what_is_left() {
        let queue = Queue::new(10, 10, LONG);
        assert_eq!(queue.flush(Duration::ZERO), Ok(()));
        queue.push_event(sample::started("a", 2), None);
        assert_eq!(queue.flush(Duration::ZERO), Err(1));
    }
}
