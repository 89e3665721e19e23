//! Outlets: destinations of events besides the store, such as a file of JSON lines and a webhook. None can hold up
//! the store.

mod counts;
mod jsonl;
mod ocsf;
mod otlp;
mod signature;
mod unposted;
mod webhook;

use std::{fmt, path::PathBuf};

use mcpmon_model::{Event, EventKind, Layer, Severity, Timestamp};
use uuid::Uuid;

pub(crate) use self::otlp::Origin;
pub(super) use self::unposted::{claim as claim_unposted, claim_end, keep as keep_unposted};
use self::{jsonl::JsonLines, otlp::Otlp, webhook::Webhook};
pub use self::{
    otlp::{OtlpSettings, OtlpSignals},
    signature::SigningKey,
};
use super::{ClaimedPosts, StoreEntry, StoredEvent, metrics::Metrics};

/// The settings of the outlets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutletSettings {
    /// The file that every event is appended to.
    pub jsonl: Option<JsonlSettings>,
    /// The webhook to which events are posted.
    pub webhook: Option<WebhookSettings>,
    /// The collector that events and metrics are exported to, by the process that has the store.
    pub otlp: Option<OtlpSettings>,
    /// The metrics that count every event.
    pub metrics: Option<Metrics>,
}

/// A file of JSON lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonlSettings {
    /// The path.
    pub path: PathBuf,
    /// The form of a line.
    pub format: EventFormat,
    /// Size in bytes at which the file is put aside as `FILE.1`.
    pub max_size: u64,
    /// Files that are kept so, at least 1.
    pub keep: u32,
}

/// The form of an event in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventFormat {
    /// As docs/events.md has it.
    #[default]
    Mcpmon,
    /// The Open Cybersecurity Schema Framework.
    Ocsf,
}

/// A URL that events are posted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSettings {
    /// `http` or `https`.
    pub url: String,
    /// File with the key that they are signed with.
    pub key_file: Option<PathBuf>,
    /// Severity from which on they are.
    pub min_severity: Severity,
}

/// A destination of events besides the store. A new one is a file beside this one and a line in [`Outlets::open`].
trait Outlet: fmt::Debug + Send {
    /// Returns its name in reports of losses.
    fn name(&self) -> &'static str;

    /// Takes what was recorded; `is_stored`, where the store has it and what this outlet asked to keep. It must not wait.
    fn tell(&mut self, entries: &[StoreEntry], is_stored: bool);

    /// Returns the entries to keep in the store together with `entries`. What is kept for later can be claimed by others
    /// from `claimed_until` on.
    fn backlog(&mut self, _entries: &[StoreEntry], _claimed_until: Timestamp) -> Option<StoreEntry> {
        None
    }

    /// Returns the number of events missing since the last time, and the cause.
    fn take_lost(&mut self) -> Option<(u64, String)> {
        None
    }

    /// Waits a moment for the last events. Those that were not taken are the next process's where `is_stored`, and lost
    /// otherwise.
    fn finish(&mut self, _is_stored: bool) {}
}

/// The outlets of one writer.
#[derive(Debug)]
pub(super) struct Outlets {
    list: Vec<Box<dyn Outlet>>,
    /// Beside the others, since the store keeps a backlog for it.
    webhook: Option<Webhook>,
    /// The time losses were last reported.
    told_at: Option<Timestamp>,
}

/// Nanoseconds between two reports of losses.
const LOSSES_APART: i64 = 60 * 1_000_000_000;

impl Outlets {
    /// Opens the outlets of a writer; `origin` is its store, where it has one.
    pub(super) fn open(settings: &OutletSettings, origin: Option<Origin>) -> Self {
        let otlp = settings.otlp.as_ref().zip(origin);
        let otlp = otlp.map(|(otlp, origin)| Otlp::start(otlp, settings.metrics.clone(), origin));
        let list = [
            boxed(settings.metrics.clone()),
            boxed(settings.jsonl.clone().map(JsonLines::new)),
            boxed(otlp),
        ];
        let webhook = settings.webhook.as_ref().map(Webhook::start).transpose();
        Self {
            list: list.into_iter().flatten().collect(),
            webhook: webhook.unwrap_or_else(|error| {
                tracing::error!(%error, "nothing is posted to the webhook");
                None
            }),
            told_at: None,
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut dyn Outlet> {
        let list = self
            .list
            .iter_mut()
            .map(|outlet| &mut **outlet as &mut dyn Outlet);
        list.chain(self.webhook.as_mut().map(|webhook| webhook as &mut dyn Outlet))
    }

    /// Tells every outlet what was recorded; `is_stored`, where the store has what they have to export later.
    pub(super) fn tell(&mut self, entries: &[StoreEntry], is_stored: bool) {
        self.all().for_each(|outlet| outlet.tell(entries, is_stored));
    }

    /// Returns what the store is to keep for the outlets, together with `entries`.
    pub(super) fn backlog(&mut self, entries: &[StoreEntry], claimed_until: Timestamp) -> Vec<StoreEntry> {
        let kept = self
            .all()
            .filter_map(|outlet| outlet.backlog(entries, claimed_until));
        kept.collect()
    }

    /// Returns the events that wait to be posted and are in the store.
    pub(super) fn waiting(&self) -> Vec<(Uuid, Timestamp)> {
        self.webhook.as_ref().map_or_else(Vec::new, Webhook::waiting)
    }

    /// Returns the webhook's free capacity in events; `None` without a webhook.
    pub(super) fn webhook_room(&self) -> Option<usize> {
        self.webhook.as_ref().map(Webhook::room)
    }

    /// Posts what was not acknowledged before.
    pub(super) fn post_again(&mut self, claimed: &ClaimedPosts) {
        if let Some(webhook) = &mut self.webhook {
            webhook.count_lost(claimed.lost);
            webhook.post(claimed.events.iter(), true);
        }
    }

    /// Waits a moment for the outlets to take the last events.
    pub(super) fn finish(&mut self, is_stored: bool) {
        self.all().for_each(|outlet| outlet.finish(is_stored));
    }

    /// Returns the losses of the outlets since the last time, at most once a minute: a loss is an event
    /// itself, which the outlet loses as well.
    pub(super) fn losses(&mut self, now: Timestamp, is_last: bool) -> Vec<Event> {
        let is_soon = self
            .told_at
            .is_some_and(|told| now.0.saturating_sub(told.0) < LOSSES_APART);
        if is_soon && !is_last {
            return Vec::new();
        }
        let losses: Vec<Event> = self
            .all()
            .filter_map(|outlet| {
                let (count, cause) = outlet.take_lost()?;
                Some(lost_at(outlet.name(), count, cause, now))
            })
            .collect();
        if !losses.is_empty() {
            self.told_at = Some(now);
        }
        losses
    }
}

fn boxed(outlet: Option<impl Outlet + 'static>) -> Option<Box<dyn Outlet>> {
    outlet.map(|outlet| Box::new(outlet) as _)
}

fn lost_at(place: &str, count: u64, cause: String, now: Timestamp) -> Event {
    let kind = EventKind::EventsLost {
        place: place.to_owned(),
        count,
    };
    let mut event = Event::new(now, Layer::Agent, kind);
    event.severity = Severity::Medium;
    event.reason = Some(cause);
    event
}

/// The events among `entries`.
fn events(entries: &[StoreEntry]) -> impl Iterator<Item = &StoredEvent> {
    entries.iter().filter_map(StoreEntry::any_event)
}

/// One event as a line.
fn line(event: &StoredEvent, format: EventFormat) -> Vec<u8> {
    let fields = match format {
        EventFormat::Mcpmon => super::json::to_json(event),
        EventFormat::Ocsf => ocsf::to_ocsf(event),
    };
    let mut line = serde_json::to_vec(&fields).expect("a map of JSON values serialises");
    line.push(b'\n');
    line
}
