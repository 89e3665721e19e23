//! The thread that writes: one transaction per batch, tries again while the store cannot be written, and
//! keeps it within its limits.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use mcpmon_core::model::{Event, EventKind, Layer, ProcessRef, Severity, Timestamp};

use super::{
    Destination, Entry, Limits, Progress, Settings, StoredEvent,
    journal::{self, Journal},
    outlets::Outlets,
    queue::{Batch, Message, Outcome, Queue, Unworded},
};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long nothing is recorded until the destination rests.
const REST: Duration = Duration::from_millis(500);

/// Retention runs after this long, or after so many events, whichever is first.
const RETENTION_INTERVAL: Duration = Duration::from_secs(60);
const RETENTION_EVENTS: u64 = 20_000;
/// Bytes of bodies that bring it as much forward as an event.
const BODY_BYTES: u64 = 1 << 10;

pub(super) struct Writer {
    destination: Box<dyn Destination>,
    queue: Arc<Queue>,
    journal: Arc<Journal>,
    outlets: Outlets,
    host: String,
    /// Beside which journals are.
    store: PathBuf,
    limits: Limits,
    /// When retention is next due by time, and how many events bring it forward.
    next_retention: Instant,
    events_until_retention: u64,
}

impl Writer {
    pub(super) fn new(
        destination: Box<dyn Destination>,
        queue: Arc<Queue>,
        journal: Arc<Journal>,
        settings: &Settings,
    ) -> Self {
        Self {
            destination,
            queue,
            journal,
            outlets: Outlets::open(&settings.outlets),
            host: settings.host.clone(),
            store: settings.path.clone(),
            limits: settings.limits(),
            next_retention: Instant::now(),
            events_until_retention: RETENTION_EVENTS,
        }
    }

    pub(super) fn run(mut self) {
        self.rescue();
        self.queue.first_is_done();
        let mut busy = None;
        while let Some(batch) = self.queue.take() {
            if !batch.messages.is_empty() {
                busy = Some(Instant::now());
            }
            self.write(batch);
            self.retain();
            if busy.take_if(|since| since.elapsed() >= REST).is_some() {
                self.destination.rest();
                self.queue.rest();
            }
        }
    }

    /// Takes the journals of processes that were killed over. What cannot be kept now stays for the next one.
    fn rescue(&mut self) {
        for orphan in journal::orphans(&self.store) {
            let entries: Vec<Entry> = orphan.events.iter().cloned().map(Entry::Rescued).collect();
            match self.destination.keep(&entries) {
                Ok(()) => orphan.remove(),
                Err(error) => self
                    .queue
                    .note_error(format!("a journal was not taken over: {error}")),
            }
        }
    }

    fn write(&mut self, mut batch: Batch) {
        let kept = batch
            .messages
            .iter()
            .filter(|message| matches!(message, Message::Kept(_)))
            .count() as u64;
        let mut entries: Vec<Entry> = overflow_events(batch.overflow)
            .chain(self.outlets.losses(now()))
            .map(|event| self.identify(event))
            .collect();
        entries.reserve(batch.ahead + batch.count);
        for message in batch.messages.drain(..) {
            entries.push(match message {
                Message::Event(event, process) => self.identify(of_process(event, process)),
                Message::Retold(retold, process) => {
                    let events = retold.events();
                    entries.extend(events.map(|event| self.identify(of_process(event, process.clone()))));
                    continue;
                }
                Message::Unworded(unworded) => {
                    let Unworded {
                        mut event,
                        process,
                        word,
                    } = *unworded;
                    word(&mut event);
                    self.identify(of_process(event, process))
                }
                Message::Kept(event) => Entry::Event(*event),
                Message::Entry(entry) => *entry,
            });
        }
        if entries.is_empty() {
            return;
        }
        // Emptied it is needed again; where nothing was in it, nothing was taken either.
        if batch.count > 0 {
            self.queue.give_back(batch.messages);
        }
        let events = entries
            .iter()
            .filter(|entry| matches!(entry, Entry::Event(_) | Entry::Rescued(_)))
            .count() as u64;
        let entries = self.destination.prepare(entries);
        let outcome = self.carry_out(&entries, events);
        if let Outcome::Written { .. } = outcome {
            self.journal.settle(kept);
        }
        self.queue.settle(batch.count, batch.ahead, outcome);
        self.outlets.tell(&entries);
        self.events_until_retention = self
            .events_until_retention
            .saturating_sub(events + body_bytes(&entries) / BODY_BYTES);
    }

    fn carry_out(&mut self, entries: &[Entry], events: u64) -> Outcome {
        let mut pause = FIRST_PAUSE;
        loop {
            let Err(error) = self.destination.keep(entries) else {
                return Outcome::Written { events };
            };
            let text = describe(&error);
            tracing::warn!(error = text, "the record cannot be written");
            if !error.is_transient() || !self.queue.pause(pause) {
                return Outcome::Dropped { events, error: text };
            }
            self.queue.note_error(text);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn retain(&mut self) {
        if self.events_until_retention > 0 && Instant::now() < self.next_retention {
            return;
        }
        match self.destination.prune(self.limits, now()) {
            // There is more to remove, but events wait: the next batch first.
            Ok(Progress::More) => return,
            Ok(Progress::Done) => {}
            Err(error) => self.queue.note_error(describe(&error)),
        }
        self.next_retention = Instant::now() + RETENTION_INTERVAL;
        self.events_until_retention = RETENTION_EVENTS;
    }

    fn identify(&self, event: Event) -> Entry {
        Entry::Event(StoredEvent::identified(&self.host, event))
    }
}

/// An event of `process`, unless it says itself of which it is.
fn of_process(mut event: Event, process: Option<Arc<ProcessRef>>) -> Event {
    let of = || process.map(Arc::unwrap_or_clone);
    event.process = event.process.take().or_else(of);
    event
}

fn body_bytes(entries: &[Entry]) -> u64 {
    let bodies = entries.iter().map(|entry| {
        if let Entry::Body(body) = entry {
            body.size()
        } else {
            0
        }
    });
    bodies.sum()
}

/// One event for each kind that did not fit.
fn overflow_events(overflow: BTreeMap<&'static str, u64>) -> impl Iterator<Item = Event> {
    overflow.into_iter().map(|(kind, count)| {
        let place = format!("record queue: {kind}");
        let mut event = Event::new(now(), Layer::Agent, EventKind::EventsLost { place, count });
        event.severity = Severity::Medium;
        event
    })
}

/// The error with what is beneath it, in one line.
fn describe(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

pub(super) fn now() -> Timestamp {
    let nanoseconds = jiff::Timestamp::now().as_nanosecond();
    Timestamp(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
}
