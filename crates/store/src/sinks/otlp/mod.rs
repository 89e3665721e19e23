//! Exports to an OpenTelemetry collector, from a thread of its own: events as logs, calls as spans, and metrics. The store
//! is the queue: the thread reads it from the position up to which the collector acknowledged everything.

mod calls;
mod exporter;
mod logs;
mod messages;
mod names;
mod points;
mod position;
mod sender;

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use mcpmon_policy::section_keys;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::exporter::Origin;
use self::{
    exporter::Exporter,
    sender::{Sender, SenderError},
};
use super::{EventSink, SectionFaults, SinkKeys, SinkSurroundings, StoreEntry, events};
use crate::metrics::Metrics;

/// The longest time for the last events when the process ends.
const LAST: Duration = Duration::from_secs(2);

section_keys! {
    /// `record.otlp_endpoint` and what belongs to it.
    pub(super) struct OtlpKeys {
        /// OpenTelemetry collector that events and metrics are exported to by OTLP over HTTP; empty for none.
        otlp_endpoint: String = String::new(),
        /// File with headers to send there, a `name: value` in each line, which only its owner may read; empty for none.
        otlp_headers_file: String = String::new(),
        /// File with the certificate authorities that the collector's certificate is to come from, in PEM; empty for the
        /// public ones.
        otlp_ca_file: String = String::new(),
        /// True if arguments of calls and texts that matched are exported too.
        otlp_content: bool = false,
        /// The signals that are exported.
        otlp_signals: Vec<OtlpSignal> = vec![OtlpSignal::Logs, OtlpSignal::Traces, OtlpSignal::Metrics],
    }
}

/// A signal of OpenTelemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OtlpSignal {
    /// Events.
    Logs,
    /// Calls, as spans.
    Traces,
    /// Counts and states.
    Metrics,
}

/// A collector of OpenTelemetry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpSettings {
    /// `http` or `https`, without the path of a signal.
    pub endpoint: String,
    /// File with headers to send, a `name: value` in each line.
    pub headers_file: Option<PathBuf>,
    /// File with the certificate authorities that the collector's certificate is to come from, in PEM; `None` for the
    /// public ones.
    pub ca_file: Option<PathBuf>,
    /// True if arguments and matched texts are exported too.
    pub with_content: bool,
    /// The signals that are exported.
    pub signals: OtlpSignals,
}

/// The signals that a collector gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtlpSignals {
    /// Events as log records.
    pub logs: bool,
    /// Calls as spans.
    pub traces: bool,
    /// Counts and states.
    pub metrics: bool,
}

impl SinkKeys for OtlpKeys {
    type Settings = OtlpSettings;

    fn check(&self, faults: &mut SectionFaults) -> Option<OtlpSettings> {
        let headers_file = faults.file("otlp_headers_file", &self.otlp_headers_file);
        let ca_file = faults.file("otlp_ca_file", &self.otlp_ca_file);
        if self.otlp_endpoint.is_empty() {
            for (key, file) in [("otlp_headers_file", &headers_file), ("otlp_ca_file", &ca_file)] {
                if file.is_some() {
                    faults.push(key, "nothing is exported that needs it: set `otlp_endpoint` too");
                }
            }
            return None;
        }
        let url = faults.url("otlp_endpoint", &self.otlp_endpoint)?;
        let endpoint = url.as_str().trim_end_matches('/').to_owned();
        if ["/v1/logs", "/v1/traces", "/v1/metrics"]
            .iter()
            .any(|path| endpoint.ends_with(path))
        {
            faults.push(
                "otlp_endpoint",
                "this is the path of one signal, and each gets its own: leave `/v1/…` out",
            );
        }
        if endpoint.contains(['?', '#']) {
            faults.push(
                "otlp_endpoint",
                "paths are appended to it, so that it cannot have a query: send a key in `otlp_headers_file`",
            );
        }
        let has = |signal| self.otlp_signals.contains(&signal);
        Some(OtlpSettings {
            endpoint,
            headers_file,
            ca_file,
            with_content: self.otlp_content,
            signals: OtlpSignals {
                logs: has(OtlpSignal::Logs),
                traces: has(OtlpSignal::Traces),
                metrics: has(OtlpSignal::Metrics),
            },
        })
    }

    fn start(settings: &OtlpSettings, surroundings: &SinkSurroundings<'_>) -> Option<Box<dyn EventSink>> {
        let origin = surroundings.origin.clone()?;
        let sink = Otlp::start(settings, surroundings.metrics.cloned(), origin);
        Some(Box::new(sink))
    }
}

/// The sink.
#[derive(Debug)]
pub(super) struct Otlp {
    shared: Arc<ExportShared>,
    /// The reason why nothing is exported, if that is so.
    trouble: Option<String>,
}

/// The state that both threads share.
#[derive(Debug, Default)]
pub(super) struct ExportShared {
    state: Mutex<ExportState>,
    /// Notified when something was recorded, or the process ends.
    news: Condvar,
    /// Notified when the thread has ended.
    over: Condvar,
}

#[derive(Debug, Default)]
struct ExportState {
    has_news: bool,
    is_ending: bool,
    is_over: bool,
    lost: u64,
    cause: Option<String>,
}

impl Otlp {
    /// Starts the thread. If that fails, events are counted as lost.
    pub(super) fn start(settings: &OtlpSettings, metrics: Option<Metrics>, origin: Origin) -> Self {
        let shared = Arc::new(ExportShared::default());
        let started = Sender::new(settings)
            .map_err(StartError::from)
            .and_then(|sender| {
                let exporter = Exporter::new(settings, sender, metrics, origin, Arc::clone(&shared));
                std::thread::Builder::new()
                    .name("otlp".to_owned())
                    .spawn(move || exporter.run())?;
                Ok(())
            });
        let trouble = started.err().map(|error| {
            tracing::error!(%error, "nothing is exported by OTLP");
            format!("nothing is exported: {error}")
        });
        Self { shared, trouble }
    }
}

#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Sender(#[from] SenderError),
    #[error(transparent)]
    Thread(#[from] io::Error),
}

impl EventSink for Otlp {
    fn name(&self) -> &'static str {
        "otlp"
    }

    fn tell(&mut self, entries: &[StoreEntry], is_stored: bool) {
        let count = events(entries).count();
        if count == 0 {
            return;
        }
        if let Some(cause) = &self.trouble {
            self.shared.lose(count as u64, cause.clone());
        } else if is_stored {
            self.shared.lock().has_news = true;
            self.shared.news.notify_one();
        } else {
            self.shared
                .lose(count as u64, "the store does not have them".to_owned());
        }
    }

    fn take_lost(&mut self) -> Option<(u64, String)> {
        let mut state = self.shared.lock();
        let cause = state.cause.take()?;
        Some((std::mem::take(&mut state.lost), cause))
    }

    /// Ends the thread. What was not exported is exported by the next process.
    fn finish(&mut self, _is_stored: bool) {
        let mut state = self.shared.lock();
        state.is_ending = true;
        self.shared.news.notify_one();
        let deadline = Instant::now() + LAST;
        while !state.is_over && self.trouble.is_none() {
            let patience = deadline.saturating_duration_since(Instant::now());
            if patience.is_zero() {
                break;
            }
            (state, _) = self
                .shared
                .over
                .wait_timeout(state, patience)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Otlp {
    fn drop(&mut self) {
        self.shared.lock().is_ending = true;
        self.shared.news.notify_one();
    }
}

impl ExportShared {
    fn lock(&self) -> MutexGuard<'_, ExportState> {
        // A poisoned lock is used anyway: no code that holds it can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts events that the collector will not get.
    fn lose(&self, count: u64, cause: String) {
        if count > 0 {
            let mut state = self.lock();
            state.lost = state.lost.saturating_add(count);
            state.cause = Some(cause);
        }
    }

    /// Waits for news, at most `longest`; returns whether the process ends.
    fn wait(&self, longest: Duration) -> bool {
        let is_quiet = |state: &mut ExportState| !state.has_news && !state.is_ending;
        let waited = self.news.wait_timeout_while(self.lock(), longest, is_quiet);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.has_news = false;
        state.is_ending
    }

    /// Waits for `pause`, even if something is recorded; returns whether the process ends.
    fn pause(&self, pause: Duration) -> bool {
        let waited = self
            .news
            .wait_timeout_while(self.lock(), pause, |state| !state.is_ending);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_ending
    }

    fn is_ending(&self) -> bool {
        self.lock().is_ending
    }

    fn end(&self) {
        self.lock().is_over = true;
        self.over.notify_one();
    }
}
