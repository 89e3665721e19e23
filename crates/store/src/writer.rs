//! The writer thread: it writes one transaction per batch, tries again while the store cannot be written, and keeps the
//! store within its limits.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use mcpmon_model::{Event, EventKind, Layer, Severity, Timestamp};

use super::{
    Destination, PruneCount, PruneProgress, RecorderSettings, StoreEntry, StoredEvent,
    journal::{self, Journal},
    queue::{Batch, BatchOutcome, Queue, QueueMessage},
    sinks::{self, EventSinks, Origin},
};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// The time without recording after which the destination rests.
const REST: Duration = Duration::from_millis(500);

/// Retention runs after this time, or after this number of events, whichever comes first.
const RETENTION_INTERVAL: Duration = Duration::from_secs(60);
const RETENTION_EVENTS: u64 = 20_000;
/// The interval at which a process renews the claims on its posts, and looks for unclaimed ones.
const CLAIM_INTERVAL: Duration = Duration::from_secs(60);
/// Bytes of bodies that count as one event towards the next retention.
const BODY_BYTES: u64 = 1 << 10;

pub(super) struct StoreWriter {
    destination: Box<dyn Destination>,
    queue: Arc<Queue>,
    journal: Arc<Journal>,
    sinks: EventSinks,
    /// The store next to which the journals are.
    store: PathBuf,
    settings: RecorderSettings,
    /// The time at which retention is due, and the number of events after which it is due earlier.
    next_retention: Instant,
    events_until_retention: u64,
    removed: UnreportedRemovals,
    /// The time of the next claim of events for posting.
    next_claim: Instant,
    /// The error that was logged and has not ended since.
    logged: Option<String>,
}

/// The interval at which removals by `record.retention` are reported.
const AGED_INTERVAL: Duration = Duration::from_secs(3600);

/// The removals that are not reported yet.
#[derive(Debug)]
struct UnreportedRemovals {
    aged: u64,
    /// The time at which removals are reported next.
    aged_due: Instant,
    oversize: u64,
    jump: Option<Duration>,
}

impl UnreportedRemovals {
    fn new() -> Self {
        Self {
            aged: 0,
            aged_due: Instant::now() + AGED_INTERVAL,
            oversize: 0,
            jump: None,
        }
    }

    fn add(&mut self, pruned: PruneCount) {
        self.aged += pruned.aged;
        self.oversize += pruned.oversize;
        self.jump = pruned.jump.or(self.jump);
    }

    /// Returns the events that are to be recorded now; `is_last` returns all that remain.
    fn take_events(&mut self, is_last: bool) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(jump) = self.jump.take() {
            let component = "retention".to_owned();
            let hours = jump.as_secs() / 3600;
            let cause = format!(
                "the clock went {hours} hours ahead of the time that passed: nothing is removed for its age until it has been right for a day"
            );
            let kind = EventKind::EnforcementDegraded { component, cause };
            let mut event = Event::new(now(), Layer::Agent, kind);
            event.severity = Severity::High;
            events.push(event);
        }
        if self.oversize > 0 {
            let count = std::mem::take(&mut self.oversize);
            let reason = "the store reached `record.max_size`, and the oldest events made room; raise it, or keep events in a file too with `record.jsonl`";
            events.push(removed("record.max_size", count, Severity::Medium, reason));
        }
        if self.aged > 0 && (is_last || Instant::now() >= self.aged_due) {
            let count = std::mem::take(&mut self.aged);
            self.aged_due = Instant::now() + AGED_INTERVAL;
            let reason = "they were older than `record.retention`";
            events.push(removed("record.retention", count, Severity::Info, reason));
        }
        events
    }
}

fn removed(place: &str, count: u64, severity: Severity, reason: &str) -> Event {
    let place = place.to_owned();
    let mut event = Event::new(now(), Layer::Agent, EventKind::EventsLost { place, count });
    event.severity = severity;
    event.reason = Some(reason.to_owned());
    event
}

impl StoreWriter {
    pub(super) fn new(
        destination: Box<dyn Destination>,
        queue: Arc<Queue>,
        journal: Arc<Journal>,
        settings: &RecorderSettings,
    ) -> Self {
        let origin = destination.keeps_unposted().then(|| Origin {
            location: settings.location.clone(),
            access: settings.access,
            host: settings.host.clone(),
        });
        Self {
            destination,
            queue,
            journal,
            sinks: EventSinks::open(&settings.sinks, origin),
            store: settings.location.path(),
            settings: settings.clone(),
            next_retention: Instant::now(),
            events_until_retention: RETENTION_EVENTS,
            removed: UnreportedRemovals::new(),
            next_claim: Instant::now(),
            logged: None,
        }
    }

    pub(super) fn run(mut self) {
        self.rescue();
        self.claim_posts();
        self.queue.first_is_done();
        let mut busy = None;
        while let Some(batch) = self.queue.take() {
            if !batch.messages.is_empty() {
                busy = Some(Instant::now());
            }
            self.write(batch, false);
            self.claim_posts();
            self.retain();
            if busy.take_if(|since| since.elapsed() >= REST).is_some() {
                self.destination.rest();
                self.queue.rest();
            }
        }
        self.sinks.finish(self.destination.keeps_unposted());
        self.write(Batch::default(), true);
    }

    /// Takes over the journals of killed processes. Events that cannot be stored now are left for the next one.
    fn rescue(&mut self) {
        for orphan in journal::orphans(&self.store) {
            let mut entries: Vec<StoreEntry> =
                orphan.events.iter().cloned().map(StoreEntry::Rescued).collect();
            if self.destination.keeps_unposted() {
                let backlog = self.sinks.backlog(&entries, Timestamp(0));
                entries.extend(backlog);
            }
            match self.destination.keep(&entries) {
                Ok(()) => orphan.remove(),
                Err(error) => self
                    .queue
                    .note_error(format!("a journal was not taken over: {error}")),
            }
        }
    }

    /// Renews the claims on waiting posts, and posts events that no living process is posting.
    fn claim_posts(&mut self) {
        if Instant::now() < self.next_claim || !self.destination.keeps_unposted() {
            return;
        }
        self.next_claim = Instant::now() + CLAIM_INTERVAL;
        if let Err(error) = self.sinks.claim_posts(&mut *self.destination, now()) {
            self.queue
                .note_error(format!("what was not posted cannot be read: {error}"));
        }
    }

    fn write(&mut self, mut batch: Batch, is_last: bool) {
        let kept = batch
            .messages
            .iter()
            .filter(|message| matches!(message, QueueMessage::Kept(_)))
            .count() as u64;
        let mut entries: Vec<StoreEntry> = overflow_events(batch.overflow)
            .chain(self.sinks.losses(now(), is_last))
            .chain(self.removed.take_events(is_last))
            .map(|event| self.identify(event))
            .collect();
        entries.reserve(batch.ahead + batch.count);
        for message in batch.messages.drain(..) {
            entries.push(match message {
                QueueMessage::Event(pending) => self.identify(pending.complete()),
                QueueMessage::Kept(event) => StoreEntry::Event(*event),
                QueueMessage::Entry(entry) => *entry,
            });
        }
        let mut is_stored = self.destination.keeps_unposted();
        if is_stored {
            let claimed_until = match is_last {
                true => Timestamp(0),
                false => sinks::claim_end(now()),
            };
            let backlog = self.sinks.backlog(&entries, claimed_until);
            entries.extend(backlog);
        }
        if entries.is_empty() {
            return;
        }
        // The buffer is reused; without an entry, none was taken.
        if batch.count > 0 {
            self.queue.give_back(batch.messages);
        }
        let events = entries
            .iter()
            .filter(|entry| matches!(entry, StoreEntry::Event(_) | StoreEntry::Rescued(_)))
            .count() as u64;
        let entries = self.destination.prepare(entries);
        // Nearly all results hold nothing that is stored, and a transaction would keep others from the store.
        let outcome = match entries.is_empty() {
            true => BatchOutcome::Written { events },
            false => self.carry_out(&entries, events),
        };
        match outcome {
            BatchOutcome::Written { .. } => self.journal.settle(kept),
            BatchOutcome::Dropped { .. } => is_stored = false,
        }
        self.queue.settle(batch.count, batch.ahead, outcome);
        self.sinks.tell(&entries, is_stored);
        self.events_until_retention = self
            .events_until_retention
            .saturating_sub(events + body_bytes(&entries) / BODY_BYTES);
    }

    fn carry_out(&mut self, entries: &[StoreEntry], events: u64) -> BatchOutcome {
        let mut pause = FIRST_PAUSE;
        loop {
            let Err(error) = self.destination.keep(entries) else {
                self.logged = None;
                return BatchOutcome::Written { events };
            };
            let text = describe(&error);
            // It is tried again every few seconds.
            if self.logged.as_ref() != Some(&text) {
                tracing::warn!(error = text, "the record cannot be written");
                self.logged = Some(text.clone());
            }
            if !error.is_transient() || !self.queue.pause(pause) {
                return BatchOutcome::Dropped { events, error: text };
            }
            self.queue.note_error(text);
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    fn retain(&mut self) {
        if self.events_until_retention > 0 && Instant::now() < self.next_retention {
            return;
        }
        match self.destination.prune(self.settings.limits(), now()) {
            Ok(pruned) => {
                self.removed.add(pruned);
                // There is more to remove, but events are waiting: they come first.
                if pruned.progress == PruneProgress::More {
                    return;
                }
            }
            Err(error) => self.queue.note_error(describe(&error)),
        }
        self.next_retention = Instant::now() + RETENTION_INTERVAL;
        self.events_until_retention = RETENTION_EVENTS;
    }

    fn identify(&self, event: Event) -> StoreEntry {
        StoreEntry::Event(StoredEvent::identified(&self.settings.host, event))
    }
}

fn body_bytes(entries: &[StoreEntry]) -> u64 {
    let bodies = entries.iter().map(|entry| {
        if let StoreEntry::Body(body) = entry {
            body.size()
        } else {
            0
        }
    });
    bodies.sum()
}

/// Returns one event for each kind of events that did not fit.
fn overflow_events(overflow: BTreeMap<&'static str, u64>) -> impl Iterator<Item = Event> {
    overflow.into_iter().map(|(kind, count)| {
        let place = format!("record queue: {kind}");
        let mut event = Event::new(now(), Layer::Agent, EventKind::EventsLost { place, count });
        event.severity = Severity::Medium;
        event
    })
}

/// Returns the error with its causes, in one line.
fn describe(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

pub(super) fn now() -> Timestamp {
    let nanoseconds = jiff::Timestamp::now().as_nanosecond();
    Timestamp(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
}
