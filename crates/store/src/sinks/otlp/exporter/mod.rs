//! The exporting thread: batches from the store are sent until the collector accepts or refuses them.

use std::{
    collections::VecDeque,
    fs::File,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use mcpmon_model::{EventType, Timestamp};
use nix::fcntl::Flock;
use prost::Message;

use super::{
    ExportShared, OtlpSettings,
    calls::Calls,
    logs,
    messages::{
        KeyValue, LogRecord, Logs, MetricsRequest, Resource, ResourceLogs, ResourceMetrics, ResourceSpans,
        Scope, ScopeLogs, ScopeMetrics, ScopeSpans, Span, Traces,
    },
    names, points, position,
    sender::{Sender, Sent, Signal},
};
use crate::{
    Access, Filter, Store, StoreError, StoreLocation, StoredEvent,
    metrics::Metrics,
    query::{self, EventRange},
    writer::now,
};

/// Most events that are read at once.
const MAX_BATCH: u32 = 512;
/// The time for which events are collected before they are sent.
const GATHER: Duration = Duration::from_secs(1);
/// The longest time between two reads of the store: other processes write to it too.
const LOOK: Duration = Duration::from_secs(5);
/// The pause after the first failure; each later pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these pauses.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The interval at which metrics are sent.
const METRICS_INTERVAL: Duration = Duration::from_secs(15);

/// The store whose events are exported.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) location: StoreLocation,
    pub(crate) access: Access,
    pub(crate) host: String,
}

/// The state of the thread.
pub(super) struct Exporter {
    sender: Sender,
    settings: OtlpSettings,
    metrics: Option<Metrics>,
    origin: Origin,
    shared: Arc<ExportShared>,
    /// The store, and the lock with which this process exports it.
    store: Option<(Store, Flock<File>)>,
    /// The start of this process.
    since: Timestamp,
    calls: Calls,
    /// The policy in force, according to the latest event: attributes of the resource.
    policy: Vec<KeyValue>,
    batch: Option<ExportBatch>,
    /// Most records in one request: what the collector accepts.
    chunk: usize,
    next_metrics: Instant,
}

/// Events that were read and are not acknowledged yet.
#[derive(Debug, Default)]
struct ExportBatch {
    /// The positions before and after the batch.
    from: i64,
    to: i64,
    logs: VecDeque<LogRecord>,
    spans: VecDeque<Span>,
}

/// The outcome of one round.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    /// Everything is exported.
    Done,
    /// There may be more.
    More,
    /// The collector accepts nothing now; it may request this pause.
    Later(Option<Duration>),
}

#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot lock the store for its export")]
    Lock(#[from] io::Error),
}

impl Exporter {
    pub(super) fn new(
        settings: &OtlpSettings,
        sender: Sender,
        metrics: Option<Metrics>,
        origin: Origin,
        shared: Arc<ExportShared>,
    ) -> Self {
        Self {
            sender,
            settings: settings.clone(),
            metrics,
            origin,
            shared,
            store: None,
            since: now(),
            calls: Calls::default(),
            policy: Vec::new(),
            batch: None,
            chunk: MAX_BATCH as usize,
            next_metrics: Instant::now() + LOOK,
        }
    }

    pub(super) fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        // Opened before anything is recorded, so that the position is that of the start.
        drop(self.open());
        loop {
            let is_ending = self.shared.is_ending();
            let look = self.look().unwrap_or_else(|error| {
                tracing::warn!(%error, "nothing can be exported now");
                Look::Later(None)
            });
            self.send_metrics(is_ending);
            match look {
                // A process that ends leaves the rest to the next one.
                Look::Done | Look::Later(_) if is_ending => break,
                Look::More => {}
                Look::Done => {
                    pause = FIRST_PAUSE;
                    self.shared.wait(LOOK);
                    self.shared.pause(GATHER);
                }
                Look::Later(asked) => {
                    self.shared.pause(asked.unwrap_or(pause));
                    pause = (pause * 2).min(MAX_PAUSE);
                }
            }
        }
        // From here on, another process may export.
        self.store = None;
        self.shared.end();
    }

    /// Exports one batch.
    fn look(&mut self) -> Result<Look, ExportError> {
        if self.batch.is_none() && !self.read()? {
            return Ok(Look::Done);
        }
        let Some(mut batch) = self.batch.take() else {
            return Ok(Look::Done);
        };
        if let Some(later) = self.send(&mut batch) {
            self.batch = Some(batch);
            return Ok(later);
        }
        if let Some((store, _)) = &mut self.store {
            store.write_outside(|connection| position::advance(connection, batch.from, batch.to))?;
        }
        Ok(Look::More)
    }

    /// Opens the store if it is not open; returns whether this process exports it.
    fn open(&mut self) -> Result<bool, ExportError> {
        if self.store.is_some() {
            return Ok(true);
        }
        let Some(lock) = position::lock(&self.origin.location.path())? else {
            return Ok(false);
        };
        let mut store = Store::open_at(&self.origin.location, self.origin.access)?;
        let since = self.since;
        store.write_outside(|connection| position::read(connection, since))?;
        self.store = Some((store, lock));
        Ok(true)
    }

    /// Reads the next batch; returns whether there is one.
    fn read(&mut self) -> Result<bool, ExportError> {
        if !self.open()? {
            return Ok(false);
        }
        let Some((store, _)) = &mut self.store else {
            return Ok(false);
        };
        let since = self.since;
        let (from, events) = store.write_outside(|connection| {
            let from = position::read(connection, since)?;
            let window = EventRange::After {
                seq: from,
                limit: MAX_BATCH,
            };
            Ok((from, query::events(connection, &Filter::default(), window)?))
        })?;
        let Some(last) = events.last() else {
            return Ok(false);
        };
        let to = last.seq;
        let missing = u64::try_from(to - from).unwrap_or_default();
        self.shared.lose(
            missing.saturating_sub(events.len() as u64),
            "retention removed them before the collector took them".to_owned(),
        );
        let mut batch = ExportBatch {
            from,
            to,
            ..ExportBatch::default()
        };
        for event in &events {
            self.add(&mut batch, event);
        }
        self.batch = Some(batch);
        Ok(true)
    }

    fn add(&mut self, batch: &mut ExportBatch, event: &StoredEvent) {
        if event.kind == EventType::PolicyLoaded.as_str() {
            self.policy = policy(event);
        }
        let (ids, span) = self.calls.take(event);
        if self.settings.signals.logs {
            let observed = nanoseconds(now());
            let record = logs::record(event, ids.as_ref(), self.settings.with_content, observed);
            batch.logs.push_back(record);
        }
        if self.settings.signals.traces {
            batch.spans.extend(span);
        }
    }

    /// Sends a batch; returns the reason if not all of it was sent.
    fn send(&mut self, batch: &mut ExportBatch) -> Option<Look> {
        let resource = self.resource();
        let logs = |records: Vec<LogRecord>| Logs {
            resource_logs: vec![ResourceLogs {
                resource: Some(resource.clone()),
                scope_logs: vec![ScopeLogs {
                    scope: Some(scope()),
                    log_records: records,
                }],
            }],
        };
        let spans = |spans: Vec<Span>| Traces {
            resource_spans: vec![ResourceSpans {
                resource: Some(resource.clone()),
                scope_spans: vec![ScopeSpans {
                    scope: Some(scope()),
                    spans,
                }],
            }],
        };
        let later = self.send_all(Signal::Logs, &mut batch.logs, logs);
        later.or_else(|| self.send_all(Signal::Traces, &mut batch.spans, spans))
    }

    fn send_all<T: Clone, R: Message>(
        &mut self,
        signal: Signal,
        waiting: &mut VecDeque<T>,
        request: impl Fn(Vec<T>) -> R,
    ) -> Option<Look> {
        while !waiting.is_empty() {
            let chunk: Vec<T> = waiting.iter().take(self.chunk).cloned().collect();
            let count = chunk.len();
            match self.sender.send(signal, &request(chunk)) {
                Sent::Taken(rejected, cause) => {
                    self.shared
                        .lose(rejected, format!("the collector rejected them: {cause}"));
                }
                Sent::Refused(cause) => {
                    tracing::warn!(cause, ?signal, "the collector refuses a request");
                    self.shared
                        .lose(count as u64, format!("the collector refuses them: {cause}"));
                }
                Sent::TooLarge if count > 1 => {
                    self.chunk = count / 2;
                    continue;
                }
                Sent::TooLarge => {
                    self.shared.lose(1, "too large for the collector".to_owned());
                }
                Sent::Later(cause, pause) => {
                    tracing::warn!(cause, ?signal, "the collector takes nothing now");
                    return Some(Look::Later(pause));
                }
            }
            waiting.drain(..count);
        }
        None
    }

    /// Sends metrics if they are due. They are cumulative: a lost request is made up for by the next one.
    fn send_metrics(&mut self, is_last: bool) {
        let Some(metrics) = self.metrics.as_ref().filter(|_| self.settings.signals.metrics) else {
            return;
        };
        if Instant::now() < self.next_metrics && !is_last {
            return;
        }
        self.next_metrics = Instant::now() + METRICS_INTERVAL;
        let (started, now) = (nanoseconds(self.since), nanoseconds(now()));
        let families = metrics.families();
        let present = families.iter().filter(|family| !family.samples.is_empty());
        let request = MetricsRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(self.resource()),
                scope_metrics: vec![ScopeMetrics {
                    scope: Some(scope()),
                    metrics: present
                        .map(|family| points::message(family, started, now))
                        .collect(),
                }],
            }],
        };
        match self.sender.send(Signal::Metrics, &request) {
            Sent::Taken(..) => {}
            Sent::TooLarge => tracing::warn!("metrics are too large for the collector"),
            Sent::Refused(cause) | Sent::Later(cause, _) => {
                tracing::warn!(cause, "the collector did not take metrics");
            }
        }
    }

    fn resource(&self) -> Resource {
        let mut attributes = vec![
            KeyValue::text(names::SERVICE, "mcpmon"),
            KeyValue::text(names::SERVICE_VERSION, env!("CARGO_PKG_VERSION")),
            KeyValue::text(names::SERVICE_INSTANCE, self.origin.host.clone()),
            KeyValue::text(names::HOST, self.origin.host.clone()),
            KeyValue::text(names::OS, "linux"),
        ];
        attributes.extend(self.policy.iter().cloned());
        let effective = self.metrics.as_ref().and_then(Metrics::is_enforcement_effective);
        attributes.extend(
            effective.map(|effective| {
                KeyValue::text(names::ENFORCEMENT, if effective { "true" } else { "false" })
            }),
        );
        Resource { attributes }
    }
}

/// Returns the attributes of a policy that took effect.
fn policy(event: &StoredEvent) -> Vec<KeyValue> {
    let text = |field: &str| {
        let value = event.data.get(field)?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let named = [
        (names::POLICY_DIGEST, "hash"),
        (names::BUNDLE_DIGEST, "bundle_digest"),
        (names::BUNDLE_SERIAL, "bundle_serial"),
    ];
    let known = named
        .into_iter()
        .filter_map(|(name, field)| Some(KeyValue::text(name, text(field)?)));
    known.collect()
}

fn scope() -> Scope {
    Scope {
        name: "mcpmon".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn nanoseconds(time: Timestamp) -> u64 {
    u64::try_from(time.0).unwrap_or_default()
}

#[cfg(test)]
mod tests;
